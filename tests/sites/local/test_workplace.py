"""The workers of one run, spoken with as the coordinator does."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.coordinator import Advise, Assign, Event, Progressed, StepFailed, Trim, Trimmed, WorkerJoined, WorkerLost
from aliquot.sites import Local, Work
from aliquot.sites.local import Workplace
from aliquot.sizing import Observation
from aliquot.workers.cell import Cell
from aliquot.workers.nursery import Nursery, take_nursery
from aliquot.workers.packing import MOST_INLINE_BYTES, pack
from aliquot.workers.stepping import EachStepper, RangeItems, SentItems
from tests.real.processes import is_running, wait_until, wait_until_gone
from tests.running.functions import double, exit_at, process_of, scald, tell_and_block, tell_and_block_at
from tests.sites.local.test_output import Kept


def open_workplace(
    function: Callable[[Any], Any], units: int, *, cores: int = 1, items: Any = None, target_seconds: float = 1.0
) -> Workplace:
    stepper = EachStepper(function, RangeItems(range(units)) if items is None else SentItems())
    return Local(cores=cores).start(Work(stepper, units, items, target_seconds), Kept())


def events_until(workplace: Workplace, is_last: Callable[[Event], bool]) -> list[Event]:
    events: list[Event] = []
    while not events or not is_last(events[-1]):
        events += workplace.wait(workplace.now_seconds() + 20) or pytest.fail(f"nothing more came after {events}")
    return events


def values_of(workplace: Workplace, events: list[Event]) -> list[Any]:
    values: list[Any] = []
    for event in events:
        if isinstance(event, Progressed):
            packed = workplace.take_result(event.result)
            values += packed.load()
            packed.close()
    return values


def test_a_nursery_that_has_just_been_killed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is seen only when it is asked for a worker."""
    killed: list[int] = []

    def take_and_kill(worker_bytes: int | None) -> Nursery:
        nursery = take_nursery(worker_bytes)
        if not killed:
            killed.append(nursery._process)
            os.kill(nursery._process, signal.SIGKILL)
            wait_until(lambda: not is_running(nursery._process), "it is gone")
        return nursery

    monkeypatch.setattr("aliquot.sites.local.workplace.take_nursery", take_and_kill)
    assert aliquot.map(double, range(20), on=Local(cores=2)) == list(range(0, 40, 2))
    assert killed


def test_workers_join_at_once() -> None:
    """One for each core, but no more than there are units."""
    workplace = open_workplace(double, 3, cores=8)
    assert workplace.wait(None) == [WorkerJoined(0), WorkerJoined(1), WorkerJoined(2)]
    assert workplace.expected_workers == workplace.cores == 3
    workplace.close()


def test_a_span_is_reported_from_its_start_to_its_end() -> None:
    """Each report continues the last one, and the values are those of its units."""
    workplace = open_workplace(double, 100)
    workplace.perform(Assign(0, 5, 20, 70))
    _, *events = events_until(workplace, lambda event: getattr(event, "stop", 0) == 70)
    at = 20
    for event in events:
        assert isinstance(event, Progressed)
        assert (event.worker, event.span, event.start) == (0, 5, at)
        at = event.stop
    assert values_of(workplace, events) == list(range(40, 140, 2))
    workplace.close()


@pytest.mark.parametrize("joins_reports", [False, True])
def test_reports_that_have_come_together_may_be_one(joins_reports: bool) -> None:
    """With all that they tell, and all values in order."""
    stepper = EachStepper(double, RangeItems(range(100)))
    work = Work(stepper, 100, target_seconds=0, joins_reports=joins_reports)
    workplace = Local(cores=1).start(work, Kept())
    workplace.wait(None)
    workplace.perform(Assign(0, 0, 0, 100, 1))
    worker = workplace._workers[0]
    wait_until(lambda: worker.cell.unstarted_units() == 0, "the last unit is begun")  # and nobody has looked
    events = events_until(workplace, lambda event: isinstance(event, Progressed) and event.stop == 100)
    reports = [event for event in events if isinstance(event, Progressed)]
    assert (len(reports) < 50) == joins_reports
    assert [report.start for report in reports] == [0, *(report.stop for report in reports[:-1])]
    assert sum(report.steps for report in reports) == 100
    assert sum(count for report in reports for _, _, count in report.seconds) == 100
    assert sum(report.setup_seconds is not None for report in reports) == 1
    assert values_of(workplace, events) == list(range(0, 200, 2))
    workplace.close()


def test_reports_are_not_one_if_that_looks_like_a_large_value() -> None:
    """Large values are acknowledged, and workers would take small ones off what they wait for."""
    work = Work(EachStepper(double, RangeItems(range(9))), 9, joins_reports=True)
    workplace = Local(cores=1).start(work, Kept())
    earlier = Progressed(0, 0, 0, 1, result=1, result_bytes=MOST_INLINE_BYTES - 10)
    workplace._events, workplace._results = [earlier], {1: pack([0])}
    assert workplace._report_before(Progressed(0, 0, 1, 2, result=-1, result_bytes=10)) == earlier
    assert workplace._report_before(Progressed(0, 0, 1, 2, result=-1, result_bytes=11)) is None
    assert workplace._report_before(Progressed(0, 1, 1, 2, result=-1, result_bytes=10)) is None
    workplace._results[1] = pack([np.zeros(4000)])  # in a file, which somebody must close
    assert workplace._report_before(Progressed(0, 0, 1, 2, result=-1, result_bytes=10)) is None
    workplace.close()


def test_items_are_sent_as_they_are_needed() -> None:
    """Those of the span, and of no other."""
    items = [f"item {number}" for number in range(500)]
    workplace = open_workplace(str, 500, items=items)
    workplace.perform(Assign(0, 0, 100, 400))
    events = events_until(workplace, lambda event: getattr(event, "stop", 0) == 400)
    assert values_of(workplace, events) == items[100:400]
    workplace.close()


def test_a_span_is_trimmed_at_once() -> None:
    """Without asking its worker, which may be amid a long step; together, all units are done once."""
    workplace = open_workplace(double, 1000, target_seconds=0)
    workplace.perform(Assign(0, 0, 0, 1000))
    workplace.perform(Trim(0, 0, 0.5))
    first: list[Event] = []
    while not any(isinstance(event, Trimmed) for event in first):
        first += workplace.wait(None)
    (trimmed,) = [event for event in first if isinstance(event, Trimmed)]
    assert 0 < trimmed.stop < 1000
    rest = events_until(workplace, lambda event: getattr(event, "stop", 0) == trimmed.stop and event is not trimmed)
    assert values_of(workplace, first + rest) == list(range(0, 2 * trimmed.stop, 2))
    workplace.close()


def test_advice_amid_a_span_does_not_disturb_it() -> None:
    """It is about the size of steps, and nothing else."""
    workplace = open_workplace(double, 300, target_seconds=0)
    workplace.perform(Assign(0, 0, 0, 300))
    for _ in range(5):
        workplace.perform(Advise(0, 0, (Observation(1, 0.001, 2),), (Observation(1, 1e6, 2),)))
    events = events_until(workplace, lambda event: getattr(event, "stop", 0) == 300)
    assert values_of(workplace, events) == list(range(0, 600, 2))
    workplace.close()


def test_a_failure_comes_after_what_was_done_before_it() -> None:
    """With the exception, its traceback and the unit."""
    workplace = open_workplace(scald, 20)
    workplace.perform(Assign(0, 0, 10, 20))
    events = events_until(workplace, lambda event: isinstance(event, StepFailed))
    failed = events[-1]
    assert isinstance(failed, StepFailed)
    assert (failed.start, failed.stop) == (13, 14)
    assert values_of(workplace, events) == [10, 11, 12]
    error = workplace.error(failed.error)
    assert error is not None
    assert error.summary == "TeapotError: too hot"
    assert error.shown == "13"
    assert "scald" in error.traceback
    workplace.close()


def test_a_worker_that_dies_is_told_of_and_replaced() -> None:
    """With what it was doing, how it ended, and a new worker."""
    workplace = open_workplace(functools.partial(exit_at, 5, 3), 20, target_seconds=0)
    workplace.perform(Assign(0, 0, 0, 20))
    events = events_until(workplace, lambda event: isinstance(event, WorkerJoined) and event.worker == 1)
    lost = events[-2]
    assert isinstance(lost, WorkerLost)
    assert (lost.worker, lost.running_start, lost.running_stop, lost.is_suspect) == (0, 5, 6, True)
    assert lost.reason == "it ended by itself with exit code 3"
    assert values_of(workplace, events) == [0, 1, 2, 3, 4]
    workplace.close()


def test_a_worker_that_dies_after_its_report_was_not_amid_what_it_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before it claims its next step, its cell still shows the last one, which must not be done again."""
    workplace = open_workplace(functools.partial(tell_and_block_at, str(tmp_path), 6), 10, target_seconds=0)
    workplace.perform(Assign(0, 0, 0, 10))
    events_until(workplace, lambda event: getattr(event, "stop", 0) == 6)
    wait_until((tmp_path / "process").exists, "the worker has begun with unit 6")
    monkeypatch.setattr(Cell, "running", lambda _: (5, 6))
    os.kill(int((tmp_path / "process").read_text()), signal.SIGKILL)
    (lost,) = [
        event
        for event in events_until(workplace, lambda event: isinstance(event, WorkerJoined))
        if isinstance(event, WorkerLost)
    ]
    workplace.close()
    assert lost.running_start >= 6 or lost.running_start == lost.running_stop


def test_commands_to_a_worker_that_is_gone_are_ignored() -> None:
    """The coordinator may not have heard of it yet."""
    workplace = open_workplace(double, 5)
    workplace.perform(Assign(77, 0, 0, 5))
    workplace.perform(Trim(77, 0, 0.5))
    workplace.close()


def test_waiting_ends_when_it_was_told_to() -> None:
    """With no events, if none came."""
    workplace = open_workplace(double, 5)
    assert workplace.wait(None) == [WorkerJoined(0)]
    assert workplace.wait(workplace.now_seconds() - 1) == []
    workplace.close()


def test_closing_ends_idle_workers() -> None:
    """Their processes are gone."""
    workplace = open_workplace(process_of, 4)
    workplace.perform(Assign(0, 0, 0, 4))
    events = events_until(workplace, lambda event: getattr(event, "stop", 0) == 4)
    processes = set(values_of(workplace, events))
    workplace.close()
    wait_until_gone(*processes)


def test_a_worker_whose_first_word_was_not_heard_is_ended_too(tmp_path: Path) -> None:
    """Also one that began a long step before anybody looked: at the end of a run it must not go on."""
    workplace = open_workplace(functools.partial(tell_and_block, str(tmp_path)), 2)
    workplace.perform(Assign(0, 0, 0, 2))
    wait_until((tmp_path / "process").exists, "the worker has begun")
    process = int((tmp_path / "process").read_text())
    workplace.close()
    try:
        wait_until(lambda: not is_running(process), "the worker is gone", seconds=5)
    finally:
        (tmp_path / "go").touch()


def test_no_descriptor_is_left_by_a_run() -> None:
    """Neither by one that went well nor by one that was abandoned, nor by one that could not begin."""
    open_workplace(double, 5).close()  # the nursery stays
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        workplace = open_workplace(double, 5, cores=3)
        workplace.perform(Assign(0, 0, 0, 5))
        workplace.close()
        workplace = open_workplace(double, 5, cores=3)
        workplace.perform(Assign(0, 0, 0, 5))
        workplace.let_workers_end()
        workplace.close()
        with pytest.raises(aliquot.UsageError):
            open_workplace((number for number in range(3)).send, 5)
    assert len(os.listdir("/proc/self/fd")) == before
