from __future__ import annotations

import pytest

from aliquot.coordinator import Assign, Progressed, WorkerJoined, WorkerLost
from aliquot.running.tally import Tally


def progressed(worker: int, start: int, stop: int, busy_seconds: float, *peaks: float) -> Progressed:
    return Progressed(
        worker, 0, start, stop, 1, busy_seconds=busy_seconds, peak_bytes=tuple((1.0, peak, 1.0) for peak in peaks)
    )


def test_workers_are_counted() -> None:
    """Those that are there, and those that were lost."""
    tally = Tally()
    for worker in range(3):
        tally.note(WorkerJoined(worker), [], 0.0)
    tally.note(WorkerLost(1), [], 1.0)
    assert (tally.workers, tally.lost_workers) == (2, 1)


def test_seconds_in_steps_are_useful() -> None:
    """Those of all workers together."""
    tally = Tally()
    tally.note(WorkerJoined(0), [Assign(0, 0, 0, 10)], 0.0)
    tally.note(WorkerJoined(1), [Assign(1, 1, 10, 20)], 0.0)
    tally.note(progressed(0, 0, 5, 2.0), [], 2.5)
    tally.note(progressed(1, 10, 15, 1.0), [], 3.0)
    assert tally.useful_seconds == pytest.approx(3.0)


def test_a_span_is_owned_from_when_it_is_assigned_to_when_its_worker_was_last_heard_of() -> None:
    """What is left of that after the steps is overhead; all other time is idle."""
    tally = Tally()
    tally.note(WorkerJoined(0), [Assign(0, 0, 0, 10)], 1.0)
    tally.note(progressed(0, 0, 5, 2.0), [], 3.5)
    assert tally.owned_seconds == pytest.approx(2.5)
    tally.note(progressed(0, 5, 10, 2.0), [Assign(0, 1, 20, 30)], 6.0)
    assert tally.owned_seconds == pytest.approx(5.0)
    tally.note(progressed(0, 20, 30, 1.0), [], 7.0)
    assert tally.owned_seconds == pytest.approx(6.0)


def test_the_peak_is_the_highest_of_all() -> None:
    """Over all steps of all workers."""
    tally = Tally()
    for worker in range(2):
        tally.note(WorkerJoined(worker), [Assign(worker, worker, 10 * worker, 10 * worker + 10)], 0.0)
    tally.note(progressed(0, 0, 5, 1.0, 100.0, 300.0), [], 1.0)
    tally.note(progressed(1, 10, 15, 1.0, 200.0), [], 1.0)
    tally.note(progressed(1, 15, 20, 1.0), [], 1.0)
    assert tally.peak_bytes == 300
