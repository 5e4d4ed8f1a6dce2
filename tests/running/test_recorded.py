"""Runs with a directory of their own go on where they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import aliquot
from aliquot.journal import Journal, RunDirectory
from aliquot.running.recorded import RunChangedError
from tests.running.functions import Flaw

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
    numbers.write_text("1\n2\n3\n")
    with pytest.raises(RunChangedError, match=r"(?s)numbers\.txt.*--fresh.*--resume-anyway") as caught:
        doubled(numbers)
    assert caught.value.changes
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
    waiting = sorted(os.listdir(run.spool))
    assert waiting
    for name in waiting:
        path = Path(run.spool, name)
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
