from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from aliquot.errors import UsageError
from aliquot.journal import (
    Journal,
    JournalError,
    RunDirectory,
    RunHeldError,
    RunSummary,
    clean,
    list_runs,
    run_directory,
    runs,
)
from aliquot.journal.holder import Hold


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / ".aliquot")


def make_run(directory: str, name: str, status: str | None, *, seconds: float = 1e9) -> RunDirectory:
    run = RunDirectory(os.path.join(directory, name))
    with run.hold(), Journal.create(run.journal_path, {"command": "c"}) as journal:
        if status is not None:
            journal.set("status", status)
        journal.set("units", 100)
        journal.set("outputs", [f"{name}.sam"])
        journal.record_piece(0, 30, b"")
        journal.record_piece(40, 50, b"")
        if status != "done":
            journal.record_failure(30, 31, {})
        journal.commit()
        Path(run.spool, "piece").write_bytes(b"x" * 100_000)
    for path in (run.journal_path, run.holder_path):
        os.utime(path, (seconds, seconds))
    return run


def by_name(directory: str) -> dict[str, RunSummary]:
    return {run.name: run for run in list_runs(directory)}


def test_where_there_is_nothing_there_are_no_runs(directory: str) -> None:
    """Neither without the directory nor with an empty one."""
    assert list_runs(directory) == []
    assert clean(directory) == []
    os.mkdir(directory)
    assert list_runs(directory) == []


def test_runs_are_listed_the_last_one_first(directory: str) -> None:
    """With all that a line in a list wants; other files and directories are no runs."""
    make_run(directory, "old", "done", seconds=1e9)
    make_run(directory, "new", "failed", seconds=2e9)
    Path(directory, "notes").mkdir()
    Path(directory, "file").touch()
    new, old = list_runs(directory)
    assert (new.name, new.status, new.units, new.done_units, new.failed_units) == ("new", "failed", 100, 40, 1)
    assert (new.outputs, new.changed_seconds, new.holder, new.problem) == (["new.sam"], 2e9, None, None)
    assert new.path == os.path.join(directory, "new")
    assert 100_000 < new.size_bytes < 300_000
    assert old.status == "done"


@pytest.mark.parametrize(
    ("status", "held", "free"),
    [
        ("running", "running", "interrupted"),
        ("finishing", "finishing", "interrupted"),
        ("interrupted", "interrupted", "interrupted"),
        ("failed", "failed", "failed"),
        ("done", "done", "done"),
        (None, "running", "interrupted"),
    ],
)
def test_a_run_that_goes_on_but_that_nobody_holds_was_interrupted(
    directory: str, status: str | None, held: str, free: str
) -> None:
    """By a kill, which leaves no word."""
    run = make_run(directory, "a", status)
    assert by_name(directory)["a"].status == free
    with run.hold():
        summary = by_name(directory)["a"]
        assert summary.status == held
        assert summary.holder is not None
        assert summary.holder.pid == os.getpid()


def test_a_run_without_a_journal_was_interrupted_before_it_began(directory: str) -> None:
    """Or is about to begin."""
    run = RunDirectory(os.path.join(directory, "a"))
    run.acquire()
    assert by_name(directory)["a"].status == "running"
    run.release()
    summary = by_name(directory)["a"]
    assert (summary.status, summary.units, summary.done_units) == ("interrupted", None, 0)


def test_a_directory_in_which_nothing_was_begun_is_not_left(directory: str) -> None:
    """What was refused is no run; a directory that was there before stays."""
    there = os.path.join(directory, "there")
    os.makedirs(there)
    for name in ("made", "there"):
        with pytest.raises(ValueError, match="refused"), RunDirectory(os.path.join(directory, name)).hold():
            raise ValueError("refused")
    assert sorted(os.listdir(directory)) == [".gitignore", "there"]


def test_a_damaged_journal_does_not_hide_the_other_runs(directory: str) -> None:
    """It is listed with what is wrong with it."""
    make_run(directory, "good", "done")
    run = make_run(directory, "bad", "done")
    Path(run.journal_path).write_bytes(b"nonsense" * 1000)
    runs = by_name(directory)
    assert runs["good"].status == "done"
    assert runs["bad"].status == "damaged"
    assert "not a journal" in (runs["bad"].problem or "")


def test_cleaning_removes_what_is_done_and_nothing_else(directory: str) -> None:
    """Not what could be resumed."""
    for name in ("done", "failed", "running"):
        make_run(directory, name, name)
    assert [run.name for run in clean(directory)] == ["done"]
    assert sorted(by_name(directory)) == ["failed", "running"]
    assert sorted(os.listdir(directory)) == [".gitignore", "failed", "running"]


def test_what_is_known_of_units_that_failed_is_kept(directory: str) -> None:
    """Also of a run that is done."""
    run = make_run(directory, "a", "done")
    with Journal.open(run.journal_path) as journal:
        journal.record_failure(30, 31, {})
        journal.commit()
    assert clean(directory) == []
    assert [one.name for one in clean(directory, ["a"])] == ["a"]


def test_cleaning_removes_what_is_named_whatever_its_status(directory: str) -> None:
    """Others stay, also those that are done; a name given twice is one."""
    for name in ("a", "b", "c"):
        make_run(directory, name, "running")
    Path(directory, "b", "journal.sqlite").write_bytes(b"")
    make_run(directory, "d", "done")
    assert [run.name for run in clean(directory, ["b", "a", "b"])] == ["b", "a"]
    assert sorted(by_name(directory)) == ["c", "d"]


def test_a_run_that_is_held_is_never_removed(directory: str) -> None:
    """Passed over, or refused if it was named."""
    run = make_run(directory, "a", "done")
    with run.hold():
        assert clean(directory) == []
        with pytest.raises(RunHeldError, match=f"process {os.getpid()}"):
            clean(directory, ["a"])
        assert os.path.exists(run.journal_path)
    assert [one.name for one in clean(directory)] == ["a"]


def test_two_that_clean_at_once_leave_nothing_behind(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other has removed since it was listed is not made again to be held."""
    make_run(directory, "a", "done")
    acquire = RunDirectory.acquire

    def come_second(run: RunDirectory, *command: str) -> None:
        monkeypatch.setattr(RunDirectory, "acquire", acquire)
        assert [one.name for one in clean(directory)] == ["a"]
        run.acquire(*command)

    monkeypatch.setattr(RunDirectory, "acquire", come_second)
    assert clean(directory) == []
    assert os.listdir(directory) == [".gitignore"]


def test_a_run_that_is_removed_while_it_is_taken_is_passed_over(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of its directory and the file that holds it."""
    make_run(directory, "a", "done")
    look = RunDirectory._refuse_what_is_no_run

    def come_second(run: RunDirectory) -> None:
        monkeypatch.setattr(RunDirectory, "_refuse_what_is_no_run", look)
        assert [one.name for one in clean(directory)] == ["a"]
        look(run)

    monkeypatch.setattr(RunDirectory, "_refuse_what_is_no_run", come_second)
    assert clean(directory) == []
    assert os.listdir(directory) == [".gitignore"]


def test_a_run_that_is_removed_just_before_it_is_held_is_passed_over(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file that holds it would be, there is no directory any more."""
    make_run(directory, "a", "done")

    def come_second(*arguments: str) -> Hold:
        monkeypatch.setattr(run_directory, "Hold", Hold)
        assert [one.name for one in clean(directory)] == ["a"]
        return Hold(*arguments)

    monkeypatch.setattr(run_directory, "Hold", come_second)
    assert clean(directory) == []
    assert os.listdir(directory) == [".gitignore"]


def test_everything_may_be_removed_but_what_is_held(directory: str) -> None:
    """What is not done, too; what others remove meanwhile is no mistake."""
    for name in ("a", "b"):
        make_run(directory, name, "running")
    with make_run(directory, "c", "running").hold():
        assert sorted(run.name for run in clean(directory, everything=True)) == ["a", "b"]
        assert clean(directory, everything=True) == []


def test_a_run_that_is_removed_while_it_is_listed_is_not_listed(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an interrupted one, or a damaged one."""
    make_run(directory, "a", "done")
    look = runs.summarise

    def come_second(run: RunDirectory) -> RunSummary:
        shutil.rmtree(run.path)
        return look(run)

    monkeypatch.setattr(runs, "summarise", come_second)
    assert list_runs(directory) == []


def test_a_name_that_is_not_there(directory: str) -> None:
    """Nothing is removed then, and the nearest name is offered."""
    make_run(directory, "out.sam", "done")
    with pytest.raises(UsageError, match=r"no run 'out.sma' .*did you mean 'out.sam'\?"):
        clean(directory, ["out.sam", "out.sma"])
    with pytest.raises(UsageError, match=r"no run 'zzzzzz' .*there are out.sam"):
        clean(directory, ["zzzzzz"])
    assert list(by_name(directory)) == ["out.sam"]


def test_what_a_killed_removal_left_is_removed_by_the_next(directory: str) -> None:
    """It is no run, and not listed."""
    make_run(directory, "a", "done")
    os.rename(os.path.join(directory, "a"), os.path.join(directory, ".a.removed.123"))
    assert list_runs(directory) == []
    clean(directory)
    assert os.listdir(directory) == [".gitignore"]


def test_a_directory_with_other_things_in_it_is_no_run(directory: str) -> None:
    """What is called as ours is would be lost."""
    Path(directory, "spool").mkdir(parents=True)
    Path(directory, "spool", "mail").touch()
    with pytest.raises(JournalError, match="other things"):
        RunDirectory(directory).acquire()
    assert Path(directory, "spool", "mail").exists()


def test_what_others_have_put_beside_a_run_stays(directory: str) -> None:
    """Only what is ours is removed."""
    run = make_run(directory, "a", "done")
    Path(run.path, "notes.txt").touch()
    assert [one.name for one in clean(directory)] == ["a"]
    assert os.listdir(run.path) == ["notes.txt"]
