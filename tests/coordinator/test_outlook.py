"""What is expected of workers."""

from __future__ import annotations

import pytest

from aliquot.coordinator.events import Progressed
from aliquot.coordinator.outlook import Outlook
from aliquot.coordinator.speeds import Speed
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


def test_the_first_units_of_a_tail_do_not_overthrow_what_was_expected_where_units_differ() -> None:
    """A unit that takes ten times as long as its like says little about all that follow."""
    assert finish_of_tail_after([0.02, 0.18] * 50, first_seconds=1.0) < 150.0


def test_what_is_expected_of_a_tail_counts_little_where_nobody_knows_how_fast_its_new_owner_is() -> None:
    """One that has just come may be four times slower, and is soon seen to be."""
    slow = finish_of_tail_after([0.02, 0.18] * 50, first_seconds=0.4, is_known=False)
    assert slow > 2 * finish_of_tail_after([0.02, 0.18] * 50, first_seconds=0.1, is_known=False)


def test_the_first_units_of_a_tail_tell_all_where_units_take_the_same() -> None:
    """They are dearer there, then."""
    assert finish_of_tail_after([0.1] * 100, first_seconds=1.0) == pytest.approx(1000.0, rel=0.02)


def finish_of_tail_after(reports: list[float], first_seconds: float, *, is_known: bool = True) -> float:
    """When the taker of 10,000 units is expected to have finished, after one report of 10 units.

    The owner has sent reports of 10 units, and is as fast, as far as that is known.
    """
    owner, taker = Worker(0), Worker(1)
    owner.speed = Speed(1.0, 0.1)
    taker.speed = Speed(1.0, 0.1) if is_known else Speed()
    owner.stop, taker.span_start, taker.done_to, taker.stop = 10_000, 10_000, 10_000, 20_000
    outlook = Outlook({0: owner, 1: taker}, None, None)
    for number, seconds in enumerate(reports):
        outlook.learn(owner, Progressed(0, 0, 10 * number, 10 * number + 10, 0, 0, 1, seconds), 0.0)
    assert owner.rate is not None
    taker.model, taker.model_unit_seconds = owner, owner.rate.seconds
    outlook.learn(taker, Progressed(1, 1, 10_000, 10_010, 0, 0, 1, first_seconds), 0.0)
    taker.done_to = 10_010
    outlook.expect(taker, 0.0)
    return taker.finish_seconds


@pytest.mark.parametrize(("before", "after"), [(64, 10**6), (10**6, 640)])
def test_equal_parts_are_found_anew_when_there_are_more_or_fewer(before: int, after: int) -> None:
    """Not only after as many events as it takes for many workers: the end of a file may come as a surprise."""
    workers = 64
    outlook = Outlook({number: Worker(number) for number in range(workers)}, None, None)
    for undone in (before, after):
        outlook.note_event()
        assert outlook.equal_units(undone, undone, 0, 0.0) == undone / workers


def test_equal_parts_stay_while_they_are_handed_out() -> None:
    """A look at all workers for each of them would be one too many."""
    workers = 64
    outlook = Outlook({number: Worker(number) for number in range(workers)}, None, None)
    outlook.note_event()
    parts = [outlook.equal_units(6400 - 100 * given, 6400, 0, 0.0) for given in range(workers)]
    assert parts == [100.0] * workers


def test_rare_peaks_are_learned_from_where_memory_is_limited() -> None:
    """Of many workers not every report is, but what steps hold decides what others may hold."""
    for is_limited in (False, True):
        workers = {number: Worker(number) for number in range(1000)}
        outlook = Outlook(workers, None, None, is_memory_limited=is_limited)
        for worker in workers.values():
            outlook.learn(worker, Progressed(worker.id, 0, 0, 10, 0, peak_bytes=((10, 10**6, 1),)), 1.0)
        assert (outlook.memory.observations == 1000) == is_limited


def test_a_long_report_tells_more_of_the_units_to_come_than_short_ones_before_it() -> None:
    """Ten short steps were half overhead; what is expected of a new span is what the long one took."""
    workers = {number: Worker(number) for number in range(2)}
    outlook = Outlook(workers, None, None)
    for number in range(10):
        outlook.learn(workers[0], Progressed(0, 0, number, number + 1, 0, 0, 1, 0.2), 0.0)
    outlook.learn(workers[0], Progressed(0, 0, 10, 110, 0, 0, 1, 10.1), 0.0)
    assert outlook.unit_seconds(workers[1]) == pytest.approx(0.101, rel=0.02)
