"""Pieces that are directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aliquot.outputs import OutputError, PartialOutput, find_rule

from .joining import reopened

DIR = find_rule("dir")


def test_files_of_the_same_name_are_put_one_after_another(tmp_path: Path) -> None:
    """All others are collected; names may be anything, and empty directories stay."""
    odd = os.fsdecode(b"caf\xe9 'q'\n")
    for number in range(3):
        piece = tmp_path / str(number)
        (piece / "sub" / "empty").mkdir(parents=True)
        (piece / "sub" / odd).write_text(f"{number};")
        (piece / f"only-{number}").write_text("x")
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    for number in range(3):
        partial.append(str(tmp_path / str(number)))
    partial.finish(str(tmp_path / "out") + "/")
    assert (tmp_path / "out" / "sub" / odd).read_text() == "0;1;2;"
    assert sorted(os.listdir(tmp_path / "out")) == ["only-0", "only-1", "only-2", "sub"]
    assert os.listdir(tmp_path / "out" / "sub" / "empty") == []


def test_links_stay_links(tmp_path: Path) -> None:
    """One that leads into its piece by a full path is relative afterwards, as the piece will be gone."""
    for number in range(2):
        piece = tmp_path / str(number)
        (piece / "sub").mkdir(parents=True)
        (piece / "file").write_text("x")
        (piece / "sub" / "full").symlink_to(piece / "file")
        (piece / "sub" / "relative").symlink_to("../file")
        (piece / "away").symlink_to("/nowhere/at all")
        (piece / "folder").symlink_to("sub")
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    for number in range(2):
        partial.append(str(tmp_path / str(number)))
    state = partial.sync()
    reopened("dir", tmp_path / "partial", state).finish(str(tmp_path / "out"))
    links = {
        str(path.relative_to(tmp_path / "out")): os.readlink(path)
        for path in (tmp_path / "out").rglob("*")
        if path.is_symlink()
    }
    assert links == {"sub/full": "../file", "sub/relative": "../file", "away": "/nowhere/at all", "folder": "sub"}
    assert (tmp_path / "out" / "sub" / "full").read_text() == "xx"


def test_permissions_are_those_of_the_first_piece(tmp_path: Path) -> None:
    """A script can still be run."""
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "run.sh").write_text("true\n")
        (tmp_path / str(number) / "run.sh").chmod(0o750)
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    for number in range(2):
        partial.append(str(tmp_path / str(number)))
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o777 == 0o750


def test_what_cannot_be_joined_is_refused_before_anything_is_added(tmp_path: Path) -> None:
    """A file and a directory, links to different places, pipes."""
    first = tmp_path / "first"
    (first / "name").mkdir(parents=True)
    (first / "link").symlink_to("a")
    (first / "file").write_text("1")
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    partial.append(str(first))
    for number, (name, says) in enumerate(
        [("name", "is a file, and in an earlier piece it is a directory"), ("link", "leads to b"), ("pipe", "neither")]
    ):
        bad = tmp_path / f"bad-{number}"
        bad.mkdir()
        (bad / "file").write_text("2")
        if name == "name":
            (bad / name).write_text("x")
        elif name == "link":
            (bad / name).symlink_to("b")
        else:
            os.mkfifo(bad / name)
        with pytest.raises(OutputError, match=says) as caught:
            partial.append(str(bad))
        assert caught.value.path == str(bad / name)
    with pytest.raises(OutputError, match="is a file, and the output is joined from directories"):
        partial.append(str(first / "file"))
    with pytest.raises(OutputError, match="is not there"):
        partial.append(str(first / "nothing"))
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out" / "file").read_text() == "1"


def test_many_files_are_synced_together(tmp_path: Path) -> None:
    """More than are worth a call for each."""
    piece = tmp_path / "piece"
    piece.mkdir()
    for number in range(300):
        (piece / str(number)).write_text("x")
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    partial.append(str(piece))
    assert len(partial.sync()["files"]) == 300


def test_a_directory_with_something_in_it_is_not_replaced(tmp_path: Path) -> None:
    """An empty one is. Nothing is lost by trying."""
    (tmp_path / "piece").mkdir()
    (tmp_path / "piece" / "new").write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis").write_text("x")
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    partial.append(str(tmp_path / "piece"))
    with pytest.raises(OutputError, match=r"not empty.*Remove it, or name another"):
        partial.finish(str(tmp_path / "out"))
    (tmp_path / "out" / "thesis").unlink()
    partial.finish(str(tmp_path / "out"))
    assert os.listdir(tmp_path / "out") == ["new"]


@pytest.mark.parametrize("lost", ["a file", "all"])
def test_a_state_that_is_not_there_is_refused(tmp_path: Path, lost: str) -> None:
    """Nothing is made up."""
    (tmp_path / "piece").mkdir()
    (tmp_path / "piece" / "a").write_text("x")
    partial = PartialOutput(DIR, str(tmp_path / "partial"))
    partial.append(str(tmp_path / "piece"))
    state = partial.sync()
    (tmp_path / "partial" / "a").unlink()
    if lost == "all":
        (tmp_path / "partial").rmdir()
    with pytest.raises(OutputError, match=r"is not there.*egin the run anew"):
        reopened("dir", tmp_path / "partial", state)
