"""Commands that run in a directory of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aliquot.errors import UsageError
from aliquot.jobs.command import Command, CommandError, run_step
from tests.virtual_file.making import write


@pytest.fixture(autouse=True)
def in_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With something to split, and something to link to."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lines.txt", "a\nb\n")
    write(tmp_path / "ref.fa", "reference\n")
    write(tmp_path / "ref.fa.idx", "index\n")
    (tmp_path / "models").mkdir()
    write(tmp_path / "models" / "one", "model\n")


def test_a_sandbox_has_the_units_the_inputs_and_the_outputs() -> None:
    """And nothing else; the command runs there."""
    text = "ls; cat ref.fa models/one; pwd; tr a-z A-Z < {x:source} > fixed-name; mv fixed-name {o}; : {units}"
    command = Command(
        text, split={"x": "lines.txt"}, join={"o": "o", "log": "log"}, sandbox=True, inputs=["ref.fa", "models/"]
    )
    outputs = run_step(command, 0, 2, "place")
    shown = ["log", "models", "ref.fa", "reference", "model", os.path.abspath("place/sandbox")]
    assert Path(outputs["log"]).read_text().splitlines() == shown
    assert Path(outputs["o"]).read_text() == "A\nB\n"
    assert not os.path.exists("fixed-name")


def test_inputs_may_be_globs() -> None:
    """A reference and its indexes."""
    command = Command("cat ref.fa* {x}", split={"x": "lines.txt"}, sandbox=True, inputs=["ref.*"])
    assert [os.path.basename(path) for path in command.inputs] == ["ref.fa", "ref.fa.idx"]
    assert Path(run_step(command, 0, 1, "place")["stdout"]).read_text() == "reference\nindex\na\n"


def test_a_sandbox_is_kept_when_the_command_fails() -> None:
    """To look at it, also where the command was executed by itself."""
    command = Command("cp {x} half; echo no >&2; exit 1", split={"x": "lines.txt"}, sandbox=True)
    with pytest.raises(CommandError) as failed:
        command.execute()
    place = failed.value.place
    assert place is not None
    assert Path(place, "sandbox", "half").read_text() == "a\nb\n"
    assert f"kept in {place}" in str(failed.value)


def test_a_command_without_a_sandbox_leaves_nothing_when_it_fails() -> None:
    """Its temporary directory is removed."""
    with pytest.raises(CommandError) as failed:
        Command("echo {x} > seen; exit 1", split={"x": "lines.txt"}).execute()
    assert failed.value.place is None
    assert not os.path.exists(os.path.dirname(Path("seen").read_text().strip()))


@pytest.mark.parametrize(
    ("inputs", "sandbox", "words"),
    [
        (["missing"], True, "missing is not there"),
        (["ref.fa", "models/../ref.fa"], True, "two files would be called 'ref.fa'"),
        (["x.txt"], True, "one of the command itself"),
        (["ref.fa"], False, "add sandbox=True"),
        ("ref.fa", True, "is a list of paths"),
    ],
)
def test_inputs_that_cannot_be_linked_are_refused(inputs: list[str], sandbox: bool, words: str) -> None:
    """Before anything runs."""
    write(Path("x.txt"), "")
    with pytest.raises(UsageError, match=words):
        Command("cat {x}", split={"x": "lines.txt"}, sandbox=sandbox, inputs=inputs)
