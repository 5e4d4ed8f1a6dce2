"""Several pieces become one piece, in a worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aliquot.outputs import OutputError, find_rule, join_pieces

from .joining import write_pieces


@pytest.mark.parametrize("rule", ["concat", "sam", "csv", "lines-sorted", "sum"])
def test_pieces_become_one_and_stay(tmp_path: Path, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is left, what was there is replaced, and nobody waits for the disk."""

    def refuse(descriptor: int) -> None:
        raise AssertionError("waited for the disk")

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "fdatasync", refuse)
    pieces = write_pieces(tmp_path, [b"1\n", b"1\n"])
    (tmp_path / "one").write_bytes(b"old")
    join_pieces(find_rule(rule), pieces, str(tmp_path / "one"))
    expected = {"csv": b"1\n", "sum": b"2\n"}.get(rule, b"1\n1\n")
    assert (tmp_path / "one").read_bytes() == expected
    assert sorted(os.listdir(tmp_path)) == sorted(["one", *map(os.path.basename, pieces)])


def test_a_piece_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    """Neither a result nor half of one."""
    pieces = write_pieces(tmp_path, [b"x\n1\n", b"y\n1\n"])
    with pytest.raises(OutputError, match="header row"):
        join_pieces(find_rule("csv"), pieces, str(tmp_path / "one"))
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, pieces))


def test_directories_are_joined_to_one(tmp_path: Path) -> None:
    """File by file."""
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "a").write_text(f"{number};")
    join_pieces(find_rule("dir"), [str(tmp_path / "0"), str(tmp_path / "1")], str(tmp_path / "one"))
    assert (tmp_path / "one" / "a").read_text() == "0;1;"
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "one"]
