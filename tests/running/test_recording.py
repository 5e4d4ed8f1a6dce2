"""What is recorded is made certain soon, whether anything else happens then or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aliquot.coordinator import AppendAsTheyCome, Command, Coordinator, Event, Join, Progressed, WorkerJoined
from aliquot.journal import Journal
from aliquot.outputs import PartialOutput, find_rule
from aliquot.running.driver import Stopper, drive
from aliquot.running.outputs_sink import OutputsSink
from aliquot.running.recording import JournalRecorder
from aliquot.running.results import Results
from aliquot.running.tally import Tally
from aliquot.workers.command_stepping import Produced
from aliquot.workers.packing import Packed, pack

PROGRESSED = Progressed(0, 0, 0, 10, 0, 0, 1, 0.1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.create(str(tmp_path / "journal.sqlite"), {}) as made:
        yield made


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[OutputsSink]:
    partial = PartialOutput(find_rule("concat"), str(tmp_path / "partial"))
    made = OutputsSink({"out": partial}, {"out": "out.txt"}, str(tmp_path), is_same_boot=True)
    yield made
    made.close()


def report(recorder: JournalRecorder, sink: OutputsSink, tmp_path: Path, start: int, now_seconds: float) -> None:
    """Some units are done, and what was made of them is in the output."""
    (tmp_path / f"piece-{start}").write_text("abcd")
    produced = Produced({"out": (f"piece-{start}", 4)})
    recorder.arrived(start, start + 10, pack(produced))
    recorder.note(PROGRESSED, [], now_seconds)
    sink.append(start, start + 10, produced)


def certain(tmp_path: Path) -> tuple[int, int]:
    """What another process would find: how many units are done, and how many bytes the output has for certain."""
    with Journal.open(str(tmp_path / "journal.sqlite"), read_only=True) as found:
        state = (found.state or {}).get("out", {})
        return found.done_units(), state.get("bytes", 0)


def test_nothing_is_due_where_nothing_has_happened(journal: Journal, sink: OutputsSink) -> None:
    """Nobody wakes up for it."""
    assert JournalRecorder(journal, sink, 0.0).due_seconds is None


def test_what_comes_just_behind_a_commit_is_committed_soon(journal: Journal, sink: OutputsSink, tmp_path: Path) -> None:
    """Though nothing else happens: what is not committed is lost with this process."""
    recorder = JournalRecorder(journal, sink, 0.0)
    report(recorder, sink, tmp_path, 0, 100.0)
    recorder.keep_up(100.0)
    report(recorder, sink, tmp_path, 10, 100.001)
    recorder.keep_up(100.001)
    assert certain(tmp_path)[0] == 10
    assert recorder.due_seconds == pytest.approx(100.02)
    recorder.keep_up(100.02)
    assert certain(tmp_path)[0] == 20


def test_a_run_that_is_killed_amid_a_long_step_has_taken_that_long(journal: Journal, tmp_path: Path) -> None:
    """Not only up to its last report: what was cut off is in the report of the run that goes on."""
    recorder = JournalRecorder(journal, None, time.monotonic() - 50)
    recorder.note(PROGRESSED, [], 100.0)
    recorder.keep_up(100.0)
    recorder._began_seconds -= 25
    recorder.keep_up(100.5)
    with Journal.open(str(tmp_path / "journal.sqlite"), read_only=True) as known:
        assert known.get("run_seconds") == pytest.approx(50, abs=5)
    recorder.keep_up(101.1)
    with Journal.open(str(tmp_path / "journal.sqlite"), read_only=True) as known:
        assert known.get("run_seconds") == pytest.approx(75, abs=5)


def test_what_was_appended_is_brought_to_the_disk_soon(journal: Journal, sink: OutputsSink, tmp_path: Path) -> None:
    """Though nothing else happens: else it would be waited for at the end of the run."""
    recorder = JournalRecorder(journal, sink, 0.0)
    for start, now_seconds in ((0, 100.0), (10, 100.03)):
        report(recorder, sink, tmp_path, start, now_seconds)
        recorder.keep_up(now_seconds)
    assert not sink.is_certain
    for _ in range(3):
        if recorder.due_seconds is not None:
            assert recorder.due_seconds > 100.03
            recorder.keep_up(recorder.due_seconds)
    assert recorder.due_seconds is None
    assert sink.is_certain
    assert certain(tmp_path) == (20, 8)


def test_a_report_of_which_nothing_was_appended_costs_no_checkpoint(
    journal: Journal, sink: OutputsSink, tmp_path: Path
) -> None:
    """One that comes later, and is appended, would else have to wait for the next."""
    recorder = JournalRecorder(journal, sink, 0.0)
    recorder.note(PROGRESSED, [], 100.0)
    recorder.keep_up(100.0)
    assert recorder.due_seconds is None
    report(recorder, sink, tmp_path, 0, 100.03)
    recorder.keep_up(100.03)
    assert certain(tmp_path) == (10, 4)


class QuietSite:
    """A worker that does ten of twenty units at once, and the others only when all that is known is certain."""

    cores = 1
    total_bytes = None
    expected_workers = 1

    def __init__(self, recorder: JournalRecorder, tmp_path: Path) -> None:
        self._recorder = recorder
        self._tmp_path = tmp_path
        self._now_seconds = 100.0
        self._told = 0
        self.waits = 0

    def now_seconds(self) -> float:
        return self._now_seconds

    def wait(self, until_seconds: float | None) -> list[Event]:
        assert until_seconds is not None
        if not self._told:
            self._told = 1
            return [WorkerJoined(0)]
        if self._told == 1 or self._recorder.due_seconds is None:
            start = 10 * (self._told - 1)
            self._told += 1
            (self._tmp_path / f"piece-{start}").write_text("abcd")
            return [Progressed(0, 0, start, start + 10, start, 0, 1, 0.1)]
        self.waits += 1
        self._now_seconds = until_seconds
        return []

    def take_result(self, result: int) -> Packed:
        return pack(Produced({"out": (f"piece-{result}", 4)}))

    def perform(self, command: Command) -> None:
        """Nobody is there."""

    def join(self, command: Join, first: Packed, second: Packed) -> None:
        raise AssertionError

    def error(self, error: int) -> None:
        return None

    def forget_error(self, error: int) -> None:
        raise AssertionError

    def acknowledge(self, worker: int, result_bytes: int) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is open."""


class Nobody:
    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Looks on."""


def test_a_run_wakes_up_to_make_certain_what_it_has(journal: Journal, sink: OutputsSink, tmp_path: Path) -> None:
    """A step may take long, and whoever is killed meanwhile has lost no other."""
    recorder = JournalRecorder(journal, sink, 0.0)
    site = QuietSite(recorder, tmp_path)
    drive(
        Coordinator(AppendAsTheyCome(), units=20),
        site,
        Results(sink),
        tally=Tally(),
        watcher=Nobody(),
        recorder=recorder,
        stopper=Stopper(),
    )
    assert site.waits
    assert site.now_seconds() < 100.5
