"""What is expected of workers."""

from __future__ import annotations

import pytest

from aliquot.coordinator.events import Progressed
from aliquot.coordinator.outlook import Outlook
from aliquot.coordinator.worker import Worker


def finish_after(reports: list[float]) -> float:
    """When a worker of 10,000 units is expected to have finished, after reports of 10 units that took so long."""
    worker = Worker(0)
    worker.stop = 10_000
    outlook = Outlook({0: worker}, None, None)
    now = 0.0
    for number, seconds in enumerate(reports):
        now += seconds
        start, stop = 10 * number, 10 * number + 10
        outlook.learn(worker, Progressed(0, 0, start, stop, 0, 0, 1, seconds), now)
        worker.done_to = stop
        outlook.expect(worker, now)
    return worker.finish_seconds


def test_units_that_take_the_same_are_expected_to_go_on_so() -> None:
    """To a thousandth."""
    assert finish_after([0.1] * 100) == pytest.approx(100.0, rel=1e-3)


def test_where_units_differ_a_worker_is_expected_to_be_late() -> None:
    """As some will be by chance, and nobody knows who: by a part of the deviation of all that it has left."""
    late_seconds = finish_after([0.02, 0.18] * 50) - 100.0
    assert late_seconds == pytest.approx(0.7 * 2.4, rel=0.25)
