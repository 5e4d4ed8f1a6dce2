"""Large files are worked on while they are still being counted; here small ones too, four megabytes at a time."""

from __future__ import annotations

import hashlib
import operator
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.coordinator import SourceGrew
from aliquot.journal import Journal, RunDirectory
from aliquot.journal.runs import summarise
from aliquot.running import growing
from aliquot.running.earlier import RunChangedError
from aliquot.running.growing import Growing, count_units
from aliquot.running.recording import JournalRecorder
from aliquot.virtual_file import VirtualFile
from aliquot.virtual_file.scanning import ScannedUnits
from aliquot.workers.packing import Packed

# As few as there may be, as each of them takes time: 12 MB are counted in three pieces.
_LINES, _LINE_BYTES = 120_000, 100
_LONG = b"ACGT" * 25


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(growing, "_LEAST_BYTES", 1)
    monkeypatch.setattr(growing, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(growing, "_FIRST_TELL_SECONDS", 0.0)
    monkeypatch.setattr(growing, "_TELL_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def numbers() -> Path:
    path = Path("numbers.txt")
    path.write_bytes(b"".join(b"%099d\n" % number for number in range(_LINES)))
    return path


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[SourceGrew]:
    """What a run was told about how many units there are."""
    heard: list[SourceGrew] = []
    tell: Callable[[Growing], SourceGrew] = Growing._tell

    def hear(counting: Growing) -> SourceGrew:
        heard.append(tell(counting))
        return heard[-1]

    monkeypatch.setattr(Growing, "_tell", hear)
    return heard


@pytest.fixture
def interrupted() -> Iterator[pytest.MonkeyPatch]:
    """Nothing more is counted after the first pieces, and Ctrl-C comes when something is done, and certain."""
    recorders: list[JournalRecorder] = []
    arrived = JournalRecorder.arrived

    def note(recorder: JournalRecorder, start: int, stop: int, packed: Packed) -> None:
        recorders.append(recorder)
        arrived(recorder, start, stop, packed)

    def look(counting: Growing) -> None:
        if recorders and not recorders[0]._is_dirty:
            raise KeyboardInterrupt
        time.sleep(0.001)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JournalRecorder, "arrived", note)
        patch.setattr(Growing, "look", look)
        yield patch


def digits(line: str) -> int:
    return int(line)


def total(lines: list[str]) -> int:
    return sum(map(int, lines))


def copy(numbers: Path, **options: Any) -> aliquot.Outcome:
    command = aliquot.Command("cat {n} > {out}", split={"n": numbers}, join={"out": "copy.txt"})
    return aliquot.run(command, progress=False, **options)


def test_a_function_gets_all_units_once(numbers: Path, told: list[SourceGrew]) -> None:
    """Whether each by itself, in batches or as they come."""
    assert aliquot.map_batches(total, numbers, progress=False) == sum(range(_LINES))
    assert [grown.is_complete for grown in told][-1:] == [True]
    assert told[0].units < told[-1].units == _LINES
    assert all(abs(grown.expected_units - _LINES) < 0.01 * _LINES for grown in told)
    aliquot.open(numbers).source.forget_index()
    assert aliquot.map_batches(total, numbers, ordered=False, progress=False) == sum(range(_LINES))
    aliquot.open(numbers).source.forget_index()
    values = aliquot.imap(digits, aliquot.open(numbers)[100_000:], progress=False)
    assert list(values) == list(range(100_000, _LINES))


def test_what_was_counted_before_is_not_counted_again(numbers: Path, told: list[SourceGrew]) -> None:
    """All is known from the start."""
    aliquot.open(numbers).index()
    assert aliquot.map_batches(total, numbers, progress=False) == sum(range(_LINES))
    assert not told


def test_workers_find_what_was_counted_so_far(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have opened the file when less was known of it, and need not count by themselves."""
    view = aliquot.open(numbers)
    units, counting = count_units(view)
    assert counting is not None
    assert units < _LINES
    theirs = VirtualFile.from_desc(view.to_desc())
    assert theirs.count(wait=False) == units
    counting.reach(2 * units)
    scanned: list[int | None] = []
    scan = ScannedUnits._scan

    def note(units: ScannedUnits, wanted: int | None, stop: threading.Event | None) -> None:
        scanned.append(wanted)
        scan(units, wanted, stop)

    monkeypatch.setattr(ScannedUnits, "_scan", note)
    assert theirs.source.records_of(2 * units - 1, 2 * units) == [f"{2 * units - 1:099d}"]
    assert not scanned
    assert len(theirs) == _LINES
    assert scanned == [None]


@pytest.mark.parametrize("how", ["{n}", "{n:pipe}"])
def test_a_program_gets_all_units_once(numbers: Path, told: list[SourceGrew], how: str) -> None:
    """What it writes is what it would have written over the whole file; the journal knows the number in the end."""
    command = aliquot.Command(f"cat {how} > {{out}}", split={"n": numbers}, join={"out": "copy.txt"})
    outcome = aliquot.run(command, progress=False)
    assert outcome.report.units == _LINES
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()
    assert told[-1] == SourceGrew(_LINES, is_complete=True, expected_units=_LINES)
    assert summarise(RunDirectory(".aliquot/copy.txt")).units == _LINES


def test_several_files_are_counted_one_after_the_other(told: list[SourceGrew]) -> None:
    """A last line without its end gets one, wherever the files are cut."""
    for name in "abc":
        Path(f"{name}.txt").write_bytes(b"".join(b"%s%098d\n" % (name.encode(), n) for n in range(60_000))[:-1])
    command = aliquot.Command(
        "cat {n} > {out}", split={"n": aliquot.open(["a.txt", "b.txt", "c.txt"])}, join={"out": "o"}
    )
    aliquot.run(command, progress=False)
    assert len(told) > 1
    expected = b"\n".join(Path(f"{name}.txt").read_bytes() for name in "abc")
    assert hashlib.md5(Path("o").read_bytes()).hexdigest() == hashlib.md5(expected).hexdigest()


def test_paired_files_are_counted_together(told: list[SourceGrew]) -> None:
    """One that ends before the other is refused when that is seen, with its name."""
    for mate, reads in ((1, 50_000), (2, 50_000), (3, 49_999)):
        Path(f"r{mate}.fastq").write_bytes(b"".join(b"@r%d\n%s\n+\n%s\n" % (n, _LONG, _LONG) for n in range(reads)))

    def pasted(second: str) -> aliquot.Outcome:
        command = aliquot.Command(
            "paste {a} {b} > {out}", split={"a": "r1.fastq", "b": second}, join={"out": f"{second}.txt"}
        )
        return aliquot.run(command, progress=False)

    assert pasted("r2.fastq").report.units == 50_000
    assert len(told) > 1
    lines = Path("r2.fastq.txt").read_text().splitlines()
    assert (len(lines), lines[0], lines[-4]) == (200_000, "@r0\t@r0", "@r49999\t@r49999")
    aliquot.open("r1.fastq").source.forget_index()
    with pytest.raises(aliquot.DataError, match=r"r3\.fastq.*ends after 49999 units") as caught:
        pasted("r3.fastq")
    assert not Path("r3.fastq.txt").exists()
    assert ".aliquot/r3.fastq.txt" in caught.value.__notes__[0]


def test_a_file_that_is_cut_off_is_told_when_its_end_is_seen(numbers: Path) -> None:
    """What is done by then is recorded; the file is mended, and the run goes on if the user says so."""
    reads = b"".join(b"@r%d\n%s\n+\n%s\n" % (n, _LONG, _LONG) for n in range(40_000))
    Path("reads.fastq").write_bytes(reads + b"@last\nACGT\n")
    command = aliquot.Command("cat {r} > {out}", split={"r": "reads.fastq"}, join={"out": "copy.fastq"})
    with pytest.raises(aliquot.DataError, match=r"reads\.fastq.*unit 40000"):
        aliquot.run(command, progress=False)
    Path("reads.fastq").write_bytes(reads)
    command = aliquot.Command("cat {r} > {out}", split={"r": "reads.fastq"}, join={"out": "copy.fastq"})
    aliquot.run(command, progress=False, resume_anyway=True)
    assert Path("copy.fastq").read_bytes() == reads


def test_what_others_expect_of_the_end_is_not_expected_here(tmp_path: Path) -> None:
    """They may have counted to it first."""
    path = tmp_path / "reads.fastq"
    path.write_bytes(b"@r\nACGTACGT\n+\nIIIIIIII\n" * 300_000 + b"@last\nACGT\n")
    counting = Growing(aliquot.open(path))
    assert counting.units < 300_000
    other = aliquot.open(path).source
    other.expect_bad_units()
    other.advance(None)
    assert other.known_units == 300_001
    with pytest.raises(aliquot.DataError, match="unit 300000, byte"):
        counting.look()


def test_a_run_goes_on_that_was_interrupted_before_all_was_counted(
    numbers: Path, interrupted: pytest.MonkeyPatch
) -> None:
    """Nobody knows yet how many there are, and what was done is not done again."""
    with pytest.raises(KeyboardInterrupt):
        copy(numbers)
    run = summarise(RunDirectory(".aliquot/copy.txt"))
    assert run.units is None
    assert run.done_units > 0
    interrupted.undo()
    outcome = copy(numbers)
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()
    assert outcome.report.units == _LINES
    assert summarise(RunDirectory(".aliquot/copy.txt")).units == _LINES


def test_what_was_done_of_more_units_than_there_are_is_of_no_use(
    numbers: Path, interrupted: pytest.MonkeyPatch
) -> None:
    """Whatever the user says."""
    with pytest.raises(KeyboardInterrupt):
        copy(numbers)
    interrupted.undo()
    with Journal.open(RunDirectory(".aliquot/copy.txt").journal_path, read_only=True) as journal:
        reached = max(piece.stop for piece in journal.restore().pieces)
    os.truncate(numbers, _LINE_BYTES * (reached - 1))
    with pytest.raises(RunChangedError, match=r"units now") as caught:
        copy(numbers, resume_anyway=True)
    assert "--resume-anyway" not in str(caught.value)
    copy(numbers, fresh=True)
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()


def test_part_of_the_units_may_fail_however_few_are_known(numbers: Path, told: list[SourceGrew]) -> None:
    """A part of all: not of those that happen to be known."""
    command = aliquot.Command(
        "awk '$1 < 300 && $1 % 100 == 0 {{exit 1}} {{print}}' {n} > {out}",
        split={"n": numbers},
        join={"out": "good.txt"},
    )
    outcome = aliquot.run(command, progress=False, max_failures=5 / _LINES)
    assert sorted(failure.start for failure in outcome.failures) == [0, 100, 200]
    assert told[0].units < _LINES
    command = aliquot.Command(
        "awk '$1 < 300 && $1 % 100 == 0 {{exit 1}} {{print}}' {n} > {out}",
        split={"n": numbers},
        join={"out": "bad.txt"},
    )
    aliquot.open(numbers).source.forget_index()
    assert not aliquot.run(command, progress=False, max_failures=2 / _LINES).is_complete


def fail_early(line: str) -> int:
    if int(line) == 100:
        raise ValueError("a bad one")
    return int(line)


def test_the_first_failure_stops_a_run_that_allows_none(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few units are known by then: nothing comes after what failed."""
    monkeypatch.setattr(Growing, "look", lambda _: time.sleep(0.001))  # all else is never counted
    with pytest.raises(ValueError, match="a bad one"):
        aliquot.map(fail_early, numbers, progress=False)
    values = aliquot.imap(fail_early, numbers, progress=False)
    taken: list[int] = []
    with pytest.raises(ValueError, match="a bad one"):
        taken.extend(values)
    assert taken == list(range(100))


def test_what_failed_is_done_when_it_was_mended(numbers: Path) -> None:
    """Nothing was written behind it."""

    def run(script: str) -> aliquot.Outcome:
        Path("work.sh").write_text(script)
        command = aliquot.Command("sh work.sh {n} > {out}", split={"n": numbers}, join={"out": "copy.txt"})
        return aliquot.run(command, progress=False, resume_anyway=True)

    assert not run("if grep -q '000000100$' $1; then exit 3; fi; cat $1").is_complete
    assert run("cat $1").is_complete
    assert Path("copy.txt").read_bytes() == numbers.read_bytes()


def test_all_cores_work_though_few_units_are_known() -> None:
    """The first piece of a file may hold but one long unit."""
    Path("long.fasta").write_bytes(b"".join(b">r%d\n%s\n" % (n, b"ACGT" * 1_300_000) for n in range(4)))
    assert count_units(aliquot.open("long.fasta"))[0] == 1
    aliquot.open("long.fasta").source.forget_index()
    command = aliquot.Command("grep -c '>' {f} > {out}", split={"f": "long.fasta"}, join={"out": "n.txt:sum"})
    outcome = aliquot.run(command, on=aliquot.sites.Local(cores=2), progress=False)
    assert outcome.report.cores == 2
    assert Path("n.txt").read_text() == "4\n"


def test_a_file_that_nobody_has_begun_to_count_is_expected_to_be_like_the_others() -> None:
    """Whichever end a look happens to be at."""
    for name in "ab":
        Path(f"{name}.txt").write_bytes(b"123456789\n" * 900_000)
    aliquot.open("a.txt").index()
    source = aliquot.open(["a.txt", "b.txt"]).source
    assert source.expected_units() == 1_800_000


def test_one_that_counts_does_not_replace_what_another_has_counted(numbers: Path) -> None:
    """It goes on from there."""
    _, counting = count_units(aliquot.open(numbers))
    assert counting is not None
    aliquot.open(numbers).index()
    counting._source.share_index()
    assert aliquot.open(numbers).source.complete
    assert counting.look() == SourceGrew(_LINES, is_complete=True, expected_units=_LINES)


def test_views_that_end_somewhere_and_compressed_files_are_counted_at_once(numbers: Path) -> None:
    """A program that decompresses is quicker on all cores."""
    import gzip

    assert count_units(aliquot.open(numbers)[:1000]) == (1000, None)
    Path("numbers.txt.gz").write_bytes(gzip.compress(numbers.read_bytes()[: _LINE_BYTES * 50_000], 1))
    assert count_units(aliquot.open("numbers.txt.gz")) == (50_000, None)


def test_a_program_that_runs_alone_is_not_started_twice(numbers: Path, told: list[SourceGrew]) -> None:
    """It begins with what is known then, and is fed what is counted meanwhile."""
    command = aliquot.Command(
        "echo {cores} >> programs.txt; cat {numbers:pipe} > {out}",
        split={"numbers": numbers},
        join={"out": "out.txt"},
    )
    aliquot.run(command, on=aliquot.sites.Local(cores=2), progress=False)
    assert Path("programs.txt").read_text() == "2\n"
    assert Path("out.txt").read_bytes() == numbers.read_bytes()
    assert len(told) > 1


@pytest.fixture
def counted_later(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], bool]]]:
    """After the first piece, the next one is counted when all of these say so."""
    conditions: list[Callable[[], bool]] = []
    look: Callable[[Growing], SourceGrew | None] = Growing.look

    def wait(counting: Growing) -> SourceGrew | None:
        time.sleep(0.001)
        return look(counting) if all(is_time() for is_time in conditions) else None

    monkeypatch.setattr(Growing, "look", wait)
    yield conditions
    assert conditions


def alone(text: str, numbers: Path, **options: Any) -> aliquot.Outcome:
    command = aliquot.Command(f"echo $$ >> programs.txt; {text}", split={"n": numbers}, join={"out": "out.txt"})
    return aliquot.run(command, on=aliquot.sites.Local(cores=1), progress=False, **options)


def has_lines(path: str, lines: int) -> Callable[[], bool]:
    return lambda: os.path.exists(path) and len(Path(path).read_text().split()) >= lines


def test_a_program_that_wants_no_more_is_not_kept_waiting(
    numbers: Path, counted_later: list[Callable[[], bool]]
) -> None:
    """It has done all units that it was fed, and the others are for the next one."""
    counted_later.append(has_lines("ended.txt", 1))
    alone("head -n 2 {n:pipe} > {out}; echo $$ >> ended.txt", numbers)
    programs = len(Path("programs.txt").read_text().split())
    assert programs > 1
    lines = Path("out.txt").read_text().split()
    assert len(lines) == 2 * programs
    assert lines[:2] == ["0" * 99, "0" * 98 + "1"]


def test_what_a_program_has_done_counts_though_more_is_to_be_counted(
    numbers: Path, counted_later: list[Callable[[], bool]]
) -> None:
    """It is given an end after a while; the next one gets what is known then. Waiting is no work."""
    counted_later.append(has_lines("ended.txt", 1))
    report = alone("cat {n:pipe} > {out}; echo $$ >> ended.txt", numbers, target_seconds=0.05).report
    assert len(Path("programs.txt").read_text().split()) > 1
    assert Path("out.txt").read_bytes() == numbers.read_bytes()
    assert report.tasks == 1
    assert report.idle_seconds > 0.05


def test_who_waits_for_more_is_not_taken_for_hung(numbers: Path, counted_later: list[Callable[[], bool]]) -> None:
    """It is given an end before its time is up."""
    counted_later.append(has_lines("ended.txt", 1))
    outcome = alone("cat {n:pipe} > {out}; echo $$ >> ended.txt", numbers, wall_seconds=2.0, target_seconds=60.0)
    assert Path("out.txt").read_bytes() == numbers.read_bytes()
    assert outcome.report.flaky_steps == outcome.report.lost_workers == 0


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_single_worker_gets_what_is_counted_meanwhile(
    numbers: Path, counted_later: list[Callable[[], bool]], told: list[SourceGrew], seconds: float
) -> None:
    """In one span, whether or not it has to wait for it."""
    began_seconds = time.monotonic()
    counted_later.append(lambda: time.monotonic() - began_seconds >= seconds)
    on = aliquot.sites.Local(cores=1)
    outcome = aliquot.run(aliquot.FunctionJob(total, numbers, operator.add), on=on, progress=False)
    assert outcome.value == sum(range(_LINES))
    assert outcome.report.tasks == 1
    assert told


def test_who_dies_waiting_for_more_is_replaced(numbers: Path, counted_later: list[Callable[[], bool]]) -> None:
    """Nothing is lost, and no unit is to blame."""
    # It tells whom it kills before it does: what a worker has started dies with it.
    counted_later += [has_lines("killed.txt", 1), lambda: not os.path.exists(f"/proc/{Path('killed.txt').read_text()}")]
    text = "cat {n:pipe} > {out}; [ -e killed.txt ] || (sleep 0.3; printf $PPID > killed.txt; kill -9 $PPID) &"
    outcome = alone(text, numbers, target_seconds=0.05)
    assert Path("out.txt").read_bytes() == numbers.read_bytes()
    assert outcome.report.lost_workers == 1
    assert not outcome.failures


def test_inside_a_worker_all_is_counted_first(numbers: Path) -> None:
    """A run there has no workers of its own."""
    assert aliquot.map(_sum_of_all, [str(numbers.absolute())] * 2, progress=False) == [sum(range(_LINES))] * 2


def _sum_of_all(path: str) -> int:
    growing._LEAST_BYTES = 1
    found: int = aliquot.map_batches(total, path, progress=False)
    return found
