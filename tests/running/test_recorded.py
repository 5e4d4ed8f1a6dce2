"""Runs with a directory of their own go on where they were."""

from __future__ import annotations

import functools
import operator
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import aliquot
from aliquot.journal import Journal, RunDirectory
from aliquot.outputs import OutputError, PartialOutput, find_rule
from aliquot.running import outputs_sink
from aliquot.running.earlier import RunChangedError
from aliquot.running.outputs_sink import OutputsSink
from aliquot.running.recording import pause_after
from aliquot.workers.command_stepping import Produced
from tests.running.functions import Flaw, Times

TWO = aliquot.sites.Local(cores=2)


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 5,000 lines, in the present directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{number}\n" for number in range(5000)))
    return path


def doubled(path: Path, **told: object) -> aliquot.Outcome:
    command = aliquot.Command("awk '{{print 2*$1}}' {n} > {out}", split={"n": path}, join={"out": "doubled.txt"})
    return aliquot.run(command, on=TWO, progress=False, **told)  # type: ignore[arg-type]


def expected() -> str:
    return "".join(f"{2 * number}\n" for number in range(5000))


def test_a_command_makes_its_output(numbers: Path) -> None:
    """Byte for byte what it would have made of the whole file; nothing is left but the journal."""
    outcome = doubled(numbers)
    assert outcome.value == {"out": str(numbers.parent / "doubled.txt")}
    assert Path("doubled.txt").read_text() == expected()
    assert outcome.report.units == 5000
    run = RunDirectory(".aliquot/doubled.txt")
    with Journal.open(run.journal_path, read_only=True) as journal:
        assert journal.get("status") == "done"
        assert journal.done_units() == 5000
    assert not os.path.exists(run.spool)
    assert not os.path.exists(run.partial)


@pytest.mark.parametrize("text", ["tr 0-9 a-j < {n}", "tr 0-9 a-j < {n} > {out}", "cat {n:pipe} | tr 0-9 a-j"])
def test_a_command_that_reads_a_stream(numbers: Path, text: str) -> None:
    """The same, fed through a pipe."""
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "letters.txt"})
    assert command.mode == "stream"
    outcome = aliquot.run(command, on=TWO, progress=False)
    table = str.maketrans("0123456789", "abcdefghij")
    assert Path("letters.txt").read_text() == numbers.read_text().translate(table)
    assert outcome.report.units == 5000


def test_one_unit_at_a_time(numbers: Path) -> None:
    """In a stream too, if the user wants it so."""
    numbers.write_text("a\nb\nc\n")
    command = aliquot.Command("cat < {n}", split={"n": numbers}, join={"out": "same.txt"})
    assert aliquot.run(command, on=TWO, progress=False, target_seconds=0).report.steps == 3
    assert Path("same.txt").read_text() == "a\nb\nc\n"


def test_a_run_that_is_done_is_not_done_again(numbers: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same call again finds it; with fresh, it is done again, over its own output."""
    first = doubled(numbers)
    made = os.stat("doubled.txt")
    again = doubled(numbers)
    assert (again.value, again.report.steps) == (first.value, first.report.steps)
    assert os.stat("doubled.txt").st_mtime_ns == made.st_mtime_ns
    doubled(numbers, fresh=True)
    assert os.stat("doubled.txt").st_mtime_ns != made.st_mtime_ns
    Path("doubled.txt").unlink()
    doubled(numbers)
    assert Path("doubled.txt").read_text() == expected()


def test_a_changed_input_is_noticed(numbers: Path) -> None:
    """It says what has changed, and what to say."""
    doubled(numbers)
    numbers.write_text("7\n" * 5000)
    with pytest.raises(RunChangedError, match=r"(?s)numbers\.txt.*--fresh.*--resume-anyway") as caught:
        doubled(numbers)
    assert caught.value.changes
    numbers.write_text("1\n2\n3\n")
    with pytest.raises(RunChangedError, match=r"(?s)numbers\.txt.*--fresh") as caught:
        doubled(numbers, resume_anyway=True)
    assert "--resume-anyway" not in str(caught.value)
    doubled(numbers, fresh=True)
    assert Path("doubled.txt").read_text() == "2\n4\n6\n"


def test_a_changed_command_is_noticed(numbers: Path) -> None:
    """Another command for the same output is another run."""
    doubled(numbers)
    command = aliquot.Command("awk '{{print 3*$1}}' {n} > {out}", split={"n": numbers}, join={"out": "doubled.txt"})
    with pytest.raises(RunChangedError, match=r"the command was .*2\*.* and is .*3\*"):
        aliquot.run(command, progress=False)


def test_a_file_that_somebody_else_has_made_is_not_replaced(numbers: Path) -> None:
    """Unless told so."""
    Path("doubled.txt").write_text("precious")
    with pytest.raises(aliquot.UsageError, match="--force"):
        doubled(numbers)
    assert Path("doubled.txt").read_text() == "precious"
    doubled(numbers, force=True)
    assert Path("doubled.txt").read_text() == expected()


def test_bad_units_of_a_command_are_found(numbers: Path) -> None:
    """They alone are missing, with what the program said, and where that is kept."""
    text = 'awk \'$1==17||$1==4000{{print "no" > "/dev/stderr"; exit 3}}{{print}}\' {n} > {out}'
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "good.txt"})
    outcome = aliquot.run(command, on=TWO, progress=False, max_failures=5, set_aside="bad.txt")
    assert [failure.start for failure in outcome.failures] == [17, 4000]
    assert all("exit" in failure.error and "no" in failure.error for failure in outcome.failures)
    assert Path("bad.txt").read_text() == "17\n4000\n"
    good = [line for line in numbers.read_text().split() if line not in ("17", "4000")]
    assert Path("good.txt").read_text().split() == good
    assert sorted(os.listdir(".aliquot/good.txt/failed")) == ["unit-17", "unit-4000"]


def test_a_run_that_failed_is_gone_on_with(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed is tried again, and only that and what was not begun."""
    text = 'test "$MENDED" || ! grep -qx 100 {n} && cat {n} > {out}'
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "copy.txt"})
    first = aliquot.run(command, on=TWO, progress=False)
    assert not first.is_complete
    assert not os.path.exists("copy.txt")
    monkeypatch.setenv("MENDED", "yes")
    second = aliquot.run(command, on=TWO, progress=False)
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()
    assert second.is_complete
    assert not second.failures


def test_pieces_are_not_trusted_after_a_restart_of_the_machine(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has waited for the disk to have them: their units are done again."""
    text = 'test "$MENDED" || ! grep -qx 1 {n} && cat {n} > {out}'
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "copy.txt"})
    assert not aliquot.run(command, on=TWO, progress=False).is_complete
    run = RunDirectory(".aliquot/copy.txt")
    waiting = [path for path in Path(run.spool).iterdir() if path.is_file()]  # a worker may have left its place
    assert waiting
    for path in waiting:
        path.write_bytes(bytes(path.stat().st_size))  # as large as before, as after a power cut
    with Journal.open(run.journal_path) as journal:
        assert journal.get("boot")
        journal.set("boot", "another")
        journal.commit()
    monkeypatch.setenv("MENDED", "yes")
    assert aliquot.run(command, on=TWO, progress=False).is_complete
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()


def test_several_outputs_of_one_command(numbers: Path) -> None:
    """Each is joined by its own rule, and standard output is one of them."""
    command = aliquot.Command(
        "grep -c . {n} > {count}; grep 7 {n} > {sevens} || true; cat {n}",
        split={"n": numbers},
        join={"count": "count.txt:sum", "sevens": "sevens.txt", "all": "all.txt"},
    )
    aliquot.run(command, on=TWO, progress=False)
    assert Path("count.txt").read_text() == "5000\n"
    assert Path("sevens.txt").read_text().split() == [str(n) for n in range(5000) if "7" in str(n)]
    assert Path("all.txt").read_bytes() == numbers.read_bytes()


def test_unordered_output(numbers: Path) -> None:
    """Every line is there once."""
    command = aliquot.Command("cat {n}", split={"n": numbers}, join={"out": "any.txt"}, unordered=True)
    aliquot.run(command, on=TWO, progress=False)
    assert sorted(Path("any.txt").read_text().split(), key=int) == numbers.read_text().split()


def test_directories_as_outputs(numbers: Path) -> None:
    """Files of the same name are put together, others collected."""
    command = aliquot.Command(
        "cp {n} {out}/part-{unit_start}; cat {n} > {out}/all", split={"n": numbers}, join={"out": "parts/"}
    )
    aliquot.run(command, on=TWO, progress=False)
    assert Path("parts/all").read_bytes() == numbers.read_bytes()
    parts = sorted(Path("parts").glob("part-*"), key=lambda path: int(path.name[5:]))
    assert b"".join(path.read_bytes() for path in parts) == numbers.read_bytes()


def test_a_function_that_is_recorded(tmp_path: Path) -> None:
    """What was done is not done again, whatever becomes of the rest."""
    flaw = Flaw(tmp_path)
    with pytest.raises(ValueError, match="not yet"):
        aliquot.map(flaw, range(200), on=TWO, progress=False, run_dir=tmp_path / "run")
    before = flaw.calls()
    assert before
    flaw.mend()
    assert aliquot.map(flaw, range(200), on=TWO, progress=False, run_dir=tmp_path / "run") == list(range(200))
    again = flaw.calls()[len(before) :]
    assert 199 in again
    assert len(again) < 200
    # And a run that is done gives its value again.
    calls = len(flaw.calls())
    assert aliquot.map(flaw, range(200), on=TWO, progress=False, run_dir=tmp_path / "run") == list(range(200))
    assert len(flaw.calls()) == calls
    with pytest.raises(RunChangedError):
        aliquot.map(flaw, range(201), on=TWO, progress=False, run_dir=tmp_path / "run")


def test_fresh_and_resume_anyway_contradict_each_other(tmp_path: Path) -> None:
    """Nothing is run."""
    with pytest.raises(aliquot.UsageError, match="both"):
        aliquot.map(abs, [1], run_dir=tmp_path / "run", fresh=True, resume_anyway=True)


def test_a_piece_is_in_all_outputs_or_in_none(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one output refuses a piece that another has got already, going on does not add it twice."""
    text = (
        'cat {n} > {all}; if test -z "$MENDED" && grep -qx 3000 {n}; then echo other; else echo number; fi > {table}; '
        "cat {n} >> {table}"
    )
    command = aliquot.Command(text, split={"n": numbers}, join={"all": "all.txt", "table": "table.csv:csv"})
    with pytest.raises(aliquot.AliquotError, match="header"):
        aliquot.run(command, on=TWO, progress=False)
    monkeypatch.setenv("MENDED", "yes")
    try:
        aliquot.run(command, on=TWO, progress=False)
    except aliquot.AliquotError:
        # What the bad step has written had to wait for others, and so is recorded, and not done again by itself.
        aliquot.run(command, on=TWO, progress=False, fresh=True)
    assert Path("all.txt").read_bytes() == numbers.read_bytes()
    assert Path("table.csv").read_text() == "number\n" + numbers.read_text()


def test_an_interruption_amid_a_checkpoint_doubles_nothing(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second Ctrl-C may come at any instant."""
    from aliquot.outputs import PartialOutput

    sync = PartialOutput.sync

    def interrupted(self: PartialOutput) -> object:
        sync(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PartialOutput, "sync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            doubled(numbers)
    doubled(numbers)
    assert Path("doubled.txt").read_text() == expected()


def failing_at(numbers: Path, units: str) -> aliquot.Command:
    text = f"test \"$MENDED\" || ! grep -Eqx '{units}' {{n}} && cat {{n}} > {{out}}"
    return aliquot.Command(text, split={"n": numbers}, join={"out": "copy.txt"})


def test_units_behind_which_something_is_written_stay_set_aside(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """There is no place for them any more in an output that is in order."""
    command = failing_at(numbers, "3|4000|4500")
    assert not aliquot.run(command, on=TWO, progress=False, max_failures=1).is_complete
    monkeypatch.setenv("MENDED", "yes")
    outcome = aliquot.run(command, on=TWO, max_failures=1)
    lines = Path("copy.txt").read_text().split()
    assert lines == sorted(lines, key=int)
    assert sorted({*map(str, range(5000))} - {*lines}, key=int) == [str(one.start) for one in outcome.failures]
    if outcome.failures:
        assert "stay set aside" in capfd.readouterr().err


def test_a_kill_while_it_stops_is_not_success(numbers: Path) -> None:
    """What has failed is recorded at once, that the run has failed only at its end: nobody takes it for done."""
    command = failing_at(numbers, "3")
    assert not aliquot.run(command, on=TWO, progress=False).is_complete
    with Journal.open(".aliquot/copy.txt/journal.sqlite") as journal:
        journal.set("status", "running")  # as a kill would have left it
        journal.commit()
    outcome = aliquot.run(command, on=TWO, progress=False)
    assert not outcome.is_complete
    assert [failure.start for failure in outcome.failures] == [3]
    assert not os.path.exists("copy.txt")


def test_other_outputs_are_another_run(numbers: Path) -> None:
    """Going on would leave out of them what was done before."""
    assert not aliquot.run(failing_at(numbers, "4000"), on=TWO, progress=False).is_complete
    command = aliquot.Command(
        "cat {n} > {out}; cat {n} > {more}", split={"n": numbers}, join={"out": "copy.txt", "more": "more.txt"}
    )
    with pytest.raises(RunChangedError, match="--fresh") as caught:
        aliquot.run(command, on=TWO, progress=False, resume_anyway=True)
    assert "resume_anyway" not in str(caught.value)


def test_resuming_though_the_command_has_changed(numbers: Path) -> None:
    """What was done stays as it is."""
    assert not aliquot.run(failing_at(numbers, "4999"), on=TWO, progress=False).is_complete
    command = aliquot.Command("cat {n} > {out} # now", split={"n": numbers}, join={"out": "copy.txt"})
    aliquot.run(command, on=TWO, progress=False, resume_anyway=True)
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()


def test_a_file_that_came_while_the_run_was_interrupted_is_not_replaced(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless told so."""
    command = failing_at(numbers, "4999")
    assert not aliquot.run(command, on=TWO, progress=False).is_complete
    Path("copy.txt").write_text("precious")
    monkeypatch.setenv("MENDED", "yes")
    with pytest.raises(aliquot.UsageError, match="--force"):
        aliquot.run(command, on=TWO, progress=False)
    assert Path("copy.txt").read_text() == "precious"
    aliquot.run(command, on=TWO, progress=False, force=True)
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()


def test_a_log_that_the_command_writes_is_no_input(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes with every step."""
    text = 'test "$MENDED" || ! grep -qx 4999 {n} && cat {n} > {out}; s=$?; echo done 2>/dev/null >> log.txt; exit $s'
    Path("log.txt").touch()
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "copy.txt"})
    assert not aliquot.run(command, on=TWO, progress=False).is_complete
    monkeypatch.setenv("MENDED", "yes")
    assert aliquot.run(command, on=TWO, progress=False).is_complete


def test_a_reference_that_has_changed_is_noticed(numbers: Path) -> None:
    """Though nobody has said that it is an input."""
    Path("words.txt").write_text("4999\n")
    command = aliquot.Command("grep -vf words.txt {n} > {out}", split={"n": numbers}, join={"out": "copy.txt"})
    aliquot.run(command, on=TWO, progress=False)
    Path("words.txt").write_text("x\n")
    with pytest.raises(RunChangedError, match=r"words\.txt"):
        aliquot.run(command, on=TWO, progress=False)


@pytest.mark.parametrize("kind", ["partial", "closure", "default", "object"])
def test_another_function_in_the_same_directory_is_noticed(tmp_path: Path, kind: str) -> None:
    """Also where only what it carries with it differs."""

    def make(factor: int) -> Callable[[int], int]:
        made: dict[str, Callable[[int], int]] = {
            "partial": functools.partial(operator.mul, factor),
            "closure": lambda number: number * factor,
            "default": lambda number, times=factor: number * times,  # type: ignore[misc]
            "object": Times(factor),
        }
        return made[kind]

    assert aliquot.map(make(2), [1, 2], progress=False, run_dir=tmp_path / "run") == [2, 4]
    assert aliquot.map(make(2), [1, 2], progress=False, run_dir=tmp_path / "run") == [2, 4]
    with pytest.raises(RunChangedError) as caught:
        aliquot.map(make(3), [1, 2], progress=False, run_dir=tmp_path / "run")
    assert [change.startswith("the function ") for change in caught.value.changes] == [True]
    assert caught.value.changes[0].endswith(" has changed")


def test_what_has_changed_of_a_function_and_its_items_is_told_in_words(tmp_path: Path) -> None:
    """And not by checksums."""
    assert aliquot.map_batches(sum, [1, 2], progress=False, run_dir=tmp_path / "run") == 3
    for function, items, join, changes in (
        (max, [1, 2], operator.add, ("the function max has changed",)),
        (sum, [1, 3], aliquot.merge, ("the items have changed",)),
        (sum, [1, 2], max, ("the function sum is the same, but its join, or what else goes with it, has changed",)),
    ):
        with pytest.raises(RunChangedError) as caught:
            aliquot.map_batches(function, items, join=join, progress=False, run_dir=tmp_path / "run")
        assert caught.value.changes == changes


def test_another_reading_of_the_same_file_is_told_in_words(numbers: Path) -> None:
    """Which units are read, and how, is part of what a run is."""
    assert aliquot.map_batches(len, numbers, progress=False, run_dir="run") == 5000
    for source, changes in (
        (aliquot.open(numbers)[10:], ("the first unit is 10 now", "there are 4,990 units now, and there were 5,000")),
        (aliquot.open(numbers)[:40], ("the units before 40 are divided now, and all units", "there are 40 units now")),
        (aliquot.open(numbers, "csv", header=False), ("the format was lines and is csv",)),
        (aliquot.open(numbers, encoding="latin-1"), ("the option encoding of the format lines was 'utf-8' and is",)),
    ):
        with pytest.raises(RunChangedError) as caught:
            aliquot.map_batches(len, source, progress=False, run_dir="run")
        told = zip(caught.value.changes, changes, strict=True)
        assert all(sentence.startswith(change) for sentence, change in told)


def test_a_run_that_is_done_tells_the_same_again(numbers: Path) -> None:
    """Its failures and its report are those of the first time."""
    command = failing_at(numbers, "3")
    first = aliquot.run(command, on=TWO, progress=False, max_failures=1)
    again = aliquot.run(command, on=TWO, progress=False, max_failures=1)
    assert [failure._replace(exception=None) for failure in first.failures] == list(again.failures)
    assert first.report._replace(costs=()) == again.report


def test_a_command_over_nothing(numbers: Path) -> None:
    """It makes what it makes of an empty file."""
    numbers.write_text("")
    doubled(numbers)
    assert Path("doubled.txt").read_bytes() == b""
    command = aliquot.Command("wc -l < {n} > {count}", split={"n": numbers}, join={"count": "count.txt:sum"})
    outcome = aliquot.run(command, progress=False)
    assert Path("count.txt").read_text().split() == ["0"]
    assert outcome.report.units == 0
    assert outcome.is_complete


def test_a_program_that_is_not_there_ends_the_run_at_once(numbers: Path) -> None:
    """It would fail at every unit."""
    command = aliquot.Command("no-such-program {n} > {out}", split={"n": numbers}, join={"out": "out.txt"})
    with pytest.raises(aliquot.CommandError, match="the program no-such-program was not found"):
        aliquot.run(command, on=TWO, progress=False, max_failures=1.0)


def test_a_unit_that_ends_as_if_a_program_were_missing_is_set_aside(numbers: Path) -> None:
    """Other units have nothing to do with it."""
    script = numbers.parent / "script"
    script.write_text('#!/bin/sh\ngrep -q ^150$ "$1" && echo helper: not found >&2 && exit 127\ncat "$1"\n')
    script.chmod(0o755)
    command = aliquot.Command("./script {n} > {out}", split={"n": numbers}, join={"out": "out.txt"})
    outcome = aliquot.run(command, on=TWO, progress=False, max_failures=1)
    assert outcome.is_complete
    assert [failure.start for failure in outcome.failures] == [numbers.read_text().split().index("150")]


def status_in(directory: str) -> str:
    with Journal.open(RunDirectory(directory).journal_path, read_only=True) as journal:
        return str(journal.get("status"))


@pytest.mark.parametrize("text", ["our-program {n} > {out}", "our-program /dev/stdin < {n}", "our-program {n} | cat"])
def test_a_run_without_its_program_has_failed_and_goes_on_when_it_is_there(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Nobody has interrupted it."""
    program = numbers.parent / "bin" / "our-program"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "out.txt"})
    with pytest.raises(aliquot.CommandError, match="the program our-program was not found") as caught:
        aliquot.run(command, on=TWO, progress=False)
    assert "once this is mended, the same again goes on" in caught.value.__notes__[-1]
    assert status_in(".aliquot/out.txt") == "failed"
    program.write_text('#!/bin/sh\ncat "$1"\n')
    program.chmod(0o755)
    assert aliquot.run(command, on=TWO, progress=False).is_complete
    assert Path("out.txt").read_bytes() == numbers.read_bytes()
    assert status_in(".aliquot/out.txt") == "done"


def test_a_program_that_goes_away_while_it_is_run(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has failed, and goes on when it is back."""
    program = numbers.parent / "bin" / "our-program"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    program.write_text('#!/bin/sh\ngrep -q ^50$ "$1" && mkdir once 2> /dev/null && mv "$0" "$0.away"\ncat "$1"\n')
    program.chmod(0o755)
    command = aliquot.Command("our-program {n} > {out}", split={"n": numbers}, join={"out": "out.txt"})
    one = aliquot.sites.Local(cores=1)
    with pytest.raises(aliquot.CommandError, match="the program our-program was not found"):
        aliquot.run(command, on=one, progress=False, size=100, target_seconds=0.01)
    assert status_in(".aliquot/out.txt") == "failed"
    os.rename(f"{program}.away", program)
    assert aliquot.run(command, on=one, progress=False).is_complete
    assert Path("out.txt").read_bytes() == numbers.read_bytes()


def test_a_full_disk_is_no_fault_of_what_is_run(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is interrupted, and has not failed."""

    def full(*_: object) -> None:
        raise OutputError("no room", path="out.txt", is_out_of_room=True)

    with monkeypatch.context() as patch:
        patch.setattr(OutputsSink, "append", full)
        with pytest.raises(OutputError, match="no room"):
            doubled(numbers)
    assert status_in(".aliquot/doubled.txt") == "interrupted"


def test_a_command_that_fails_at_everything_is_at_fault_itself(numbers: Path) -> None:
    """However many units may fail."""
    command = aliquot.Command("cat nothing {n} > {out}", split={"n": numbers}, join={"out": "out.txt"})
    outcome = aliquot.run(command, on=TWO, progress=False, max_failures=1.0)
    assert not outcome.is_complete
    assert 50 < len(outcome.failures) < 200
    assert "nothing" in outcome.failures[0].error.split("\n")[0]


def test_a_corrected_command_needs_no_word_where_nothing_was_done(numbers: Path) -> None:
    """There is nothing that could be lost."""
    command = aliquot.Command("cat nothing {n} > {out}", split={"n": numbers}, join={"out": "out.txt"})
    assert not aliquot.run(command, on=TWO, progress=False).is_complete
    command = aliquot.Command("cat {n} > {out}", split={"n": numbers}, join={"out": "out.txt"})
    assert aliquot.run(command, on=TWO, progress=False).is_complete


def test_a_program_that_says_it_has_no_memory_is_divided(numbers: Path) -> None:
    """What is refused is never held, and so cannot be seen."""
    text = "if [ $(wc -l < $(echo {n})) -gt 7 ]; then echo MemoryError >&2; exit 1; fi; cat {n} > {out}"
    numbers.write_text("".join(f"{number}\n" for number in range(60)))
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "out.txt"})
    outcome = aliquot.run(command, on=TWO, progress=False, memory="2GB")
    assert outcome.is_complete
    assert Path("out.txt").read_bytes() == numbers.read_bytes()


def test_a_file_that_is_there_is_kept_when_units_are_set_aside(numbers: Path) -> None:
    """Under another name."""
    Path("bad.txt").write_text("precious")
    outcome = aliquot.run(failing_at(numbers, "3"), on=TWO, progress=False, max_failures=1, set_aside="bad.txt")
    assert [failure.start for failure in outcome.failures] == [3]
    assert Path("bad.txt").read_text() == "3\n"
    assert Path("bad.txt~").read_text() == "precious"


def test_lines_that_are_not_json_are_the_programs_business(numbers: Path) -> None:
    """They reach it as they are, and are set aside as they are."""
    lines = [f'{{"n": {number}}}\n' for number in range(300)]
    lines[150] = '{"n": \n'
    Path("rows.jsonl").write_text("".join(lines))
    text = """awk '/: $/ {{print "broken" > "/dev/stderr"; exit 4}} {{print}}' {rows} > {out}"""
    command = aliquot.Command(text, split={"rows": "rows.jsonl"}, join={"out": "out.jsonl"})
    outcome = aliquot.run(command, on=TWO, progress=False, max_failures=1, set_aside="bad.jsonl")
    assert [failure.start for failure in outcome.failures] == [150]
    assert "status 4" in outcome.failures[0].error
    assert "broken" in outcome.failures[0].error
    assert Path("bad.jsonl").read_text() == lines[150]


def test_what_is_set_aside_comes_in_the_place_of_nothing(numbers: Path) -> None:
    """Neither of an output nor of what the command reads."""
    Path("words.txt").write_text("1\n")
    for path in ("copy.txt", "words.txt"):
        command = aliquot.Command("grep -f words.txt {n} > {out}", split={"n": numbers}, join={"out": "copy.txt"})
        with pytest.raises(aliquot.UsageError, match="name another"):
            aliquot.run(command, progress=False, max_failures=1, set_aside=path)
    assert Path("words.txt").read_text() == "1\n"


def test_a_source_that_changes_ends_the_run(numbers: Path) -> None:
    """No unit is to blame."""
    text = "echo more >> numbers.txt; cat {n} > {out}"
    command = aliquot.Command(text, split={"n": numbers}, join={"out": "copy.txt"})
    with pytest.raises(aliquot.SourceChangedError, match=r"numbers\.txt"):
        # With a first step of one unit, many steps begin after the change.
        aliquot.run(command, on=TWO, progress=False, max_failures=1.0, size=1)


def test_a_source_that_is_removed_ends_the_run_which_goes_on_when_it_is_back(numbers: Path) -> None:
    """No unit is to blame, whatever may fail: nothing is set aside, and nothing is made of a part of the file."""
    away = numbers.with_name("away.txt")
    command = aliquot.Command(
        f"mv {numbers} {away} 2> moved.txt; cat {{n}} > {{out}}", split={"n": numbers}, join={"out": "copied.txt"}
    )
    with pytest.raises(aliquot.SourceChangedError, match="Was it moved or removed"):
        aliquot.run(command, on=TWO, max_failures=1.0, size=10, progress=False)
    assert not Path("copied.txt").exists()
    away.rename(numbers)
    again = aliquot.Command("cat {n} > {out}", split={"n": numbers}, join={"out": "copied.txt"})
    aliquot.run(again, on=TWO, max_failures=1.0, resume_anyway=True, progress=False)
    assert Path("copied.txt").read_text() == numbers.read_text()


def test_something_that_writes_on_after_its_step_is_noticed(tmp_path: Path) -> None:
    """Its bytes would be in the midst of others."""
    partial = PartialOutput(find_rule("concat"), str(tmp_path / "partial"))
    sink = OutputsSink({"out": partial}, {"out": "out.txt"}, str(tmp_path), is_same_boot=True)
    (tmp_path / "piece").write_text("more than there was")
    with pytest.raises(OutputError, match="was 4 bytes when its step ended"):
        sink.append(0, 1, Produced({"out": ("piece", 4)}))
    sink.close()


class _NoThread(threading.Thread):
    """As where a user may have no more of them."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("thread", [threading.Thread, _NoThread])
def test_pieces_that_are_in_the_outputs_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: type[threading.Thread]
) -> None:
    """When the sink is closed they are gone, with a thread for it or without."""
    monkeypatch.setattr(outputs_sink, "Thread", thread)
    partial = PartialOutput(find_rule("concat"), str(tmp_path / "partial"))
    sink = OutputsSink({"out": partial}, {"out": "out.txt"}, str(tmp_path), is_same_boot=True)
    for number in range(6):
        (tmp_path / f"piece-{number}").write_text("abcd")
        sink.append(number, number + 1, Produced({"out": (f"piece-{number}", 4)}))
        if number % 2:
            sink.checkpoint()
            sink.forget_appended()
    sink.close()
    assert not list(tmp_path.glob("piece-*"))
    assert (tmp_path / "partial").read_text() == "abcd" * 6


@pytest.mark.parametrize(("took_seconds", "pause_seconds"), [(0.001, 0.1), (0.05, 1.0), (2.0, 5.0), (60.0, 60.0)])
def test_checkpoints_wait_for_the_disk_for_a_part_of_the_time(took_seconds: float, pause_seconds: float) -> None:
    """A twentieth where it is quick, half where it is very slow."""
    assert pause_after(took_seconds) == pytest.approx(pause_seconds)
