from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.workers.cell import EXHAUSTED, HUNG, NONE, Cell


@pytest.fixture
def cell() -> Iterator[Cell]:
    cell = Cell.create()
    yield cell
    cell.close()


def test_steps_are_claimed_one_after_the_other(cell: Cell) -> None:
    """Up to the end of the span, and no further."""
    cell.begin(7, 100, 110)
    assert [cell.claim(7, 4) for _ in range(4)] == [(100, 104), (104, 108), (108, 110), (110, 110)]


def test_a_new_cell_belongs_to_no_span(cell: Cell) -> None:
    """Nothing can be claimed or given before a span has begun."""
    assert cell.claim(0, 5) == (0, 0)
    assert cell.give(0, 0.5) is None


def test_a_span_that_is_over_gives_nothing(cell: Cell) -> None:
    """A worker that still asks for the last span gets nothing of the next one."""
    cell.begin(1, 0, 10)
    cell.begin(2, 50, 60)
    assert cell.claim(1, 5) == (0, 0)
    assert cell.give(1, 0.5) is None
    assert cell.claim(2, 5) == (50, 55)


def test_half_of_what_is_not_started_can_be_given(cell: Cell) -> None:
    """The step that is running counts half, as half of it is still to be done."""
    cell.begin(1, 0, 100)
    cell.claim(1, 20)
    assert cell.give(1, 0.5) == 55  # of 80 units that are free, half of 80 + 10
    assert cell.claim(1, 1000) == (20, 55)


def test_an_open_span_can_be_extended_until_it_is_closed(cell: Cell) -> None:
    """By its last extension."""
    cell.begin(1, 0, 10, is_open=True)
    assert cell.claim(1, 100) == (0, 10)
    assert cell.is_open(1)
    cell.extend(1, 20, is_open=True)
    assert cell.claim(1, 5) == (10, 15)
    cell.extend(1, 30, is_open=False)
    assert not cell.is_open(1)
    assert cell.claim(1, 100) == (15, 30)


def test_what_is_asked_for_closes_an_open_span(cell: Cell) -> None:
    """Also where there is nothing to give: its worker is wanted for something else."""
    cell.begin(1, 0, 10, is_open=True)
    cell.claim(1, 10)
    assert cell.give(1, 1.0) == 10
    assert not cell.is_open(1)


def test_another_span_is_neither_open_nor_extended(cell: Cell) -> None:
    """The parent may have begun the next one."""
    cell.begin(1, 0, 10, is_open=True)
    cell.begin(2, 10, 20)
    assert not cell.is_open(1)
    assert not cell.is_open(2)
    cell.extend(1, 100, is_open=True)
    assert cell.claim(2, 100) == (10, 20)


def test_a_step_that_is_running_is_never_given(cell: Cell) -> None:
    """Even if all is asked for."""
    cell.begin(1, 0, 100)
    cell.claim(1, 30)
    assert cell.give(1, 1.0) == 30
    assert cell.running() == (0, 30)
    assert cell.unstarted_units() == 0
    assert cell.claim(1, 5) == (30, 30)


def test_a_worker_that_has_not_begun_keeps_its_first_unit(cell: Cell) -> None:
    """A span that was assigned is never taken back whole: its owner would report nothing."""
    cell.begin(1, 10, 100)
    assert cell.give(1, 1.0) == 11
    assert cell.claim(1, 50) == (10, 11)


def test_one_unit_that_is_left_is_given_whole(cell: Cell) -> None:
    """However small the share: the worker may be stuck in the one before it."""
    cell.begin(1, 0, 2)
    assert cell.claim(1, 1) == (0, 1)
    assert cell.give(1, 0.0) == 2
    assert cell.give(1, 0.2) == 1


@pytest.mark.parametrize("share", [0.0, 0.0001])
def test_a_small_share_may_be_nothing(cell: Cell, share: float) -> None:
    """The end stays where it was, and that is the answer."""
    cell.begin(1, 0, 100)
    assert cell.give(1, share) == 100
    assert cell.stop(1) == 100


def test_numbers_beyond_four_gigabytes_fit(cell: Cell) -> None:
    """A source may have any number of units."""
    far = 10**15
    cell.begin(1, far, far + 100)
    assert cell.claim(1, 10) == (far, far + 10)
    assert cell.stop(1) == far + 100


Moves = list[tuple[str, float]]


@given(
    st.integers(0, 50),
    st.integers(1, 200),
    st.lists(st.tuples(st.sampled_from(["claim", "give"]), st.floats(0, 1)), max_size=60),
)
def test_claimed_and_given_units_are_all_units_once(start: int, units: int, moves: Moves) -> None:
    """However claims and cuts follow each other, no unit is lost and none is in two places."""
    cell = Cell.create()
    stop = start + units
    cell.begin(1, start, stop)
    claimed: list[int] = []
    given: list[int] = []
    end = stop
    for move, amount in moves:
        if move == "claim":
            claimed += range(*cell.claim(1, 1 + int(20 * amount)))
        else:
            cut = cell.give(1, amount)
            assert cut is not None
            given = [*range(cut, end), *given]
            end = cut
    while (step := cell.claim(1, 7))[0] < step[1]:
        claimed += range(*step)
    cell.close()
    assert claimed == list(range(start, end))
    assert claimed + given == list(range(start, stop))


@pytest.mark.parametrize("seed", range(5))
def test_two_processes_never_lose_or_double_a_unit(seed: int) -> None:
    """A worker claims while its parent cuts, as fast as both can: the union is exact."""
    random = Random(seed)
    cell = Cell.create()
    cell.begin(1, 0, 20_000)
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        _claim_all(writing, cell.descriptor, seed)
    os.close(writing)
    given: list[tuple[int, int]] = []
    end = 20_000
    for _ in range(400):
        cut = cell.give(1, random.random() * 0.02)
        assert cut is not None
        assert cut <= end
        given.append((cut, end))
        end = cut
    with open(reading, "rb") as pipe:
        claimed: list[tuple[int, int]] = pickle.loads(pipe.read())
    assert os.waitpid(worker, 0)[1] == 0
    cell.close()
    assert [unit for step in claimed for unit in range(*step)] == list(range(end))
    assert [unit for cut in reversed(given) for unit in range(*cut)] == list(range(end, 20_000))


def _claim_all(writing: int, descriptor: int, seed: int) -> None:
    """The worker of the test above: claims until nothing is left, and tells what it got."""
    status = 1
    try:
        random = Random(-seed)
        cell = Cell(os.dup(descriptor))
        claimed = []
        while True:
            step = cell.claim(1, random.randint(1, 12))
            if step[0] == step[1]:
                break
            claimed.append(step)
        content = pickle.dumps(claimed)
        while content:
            content = content[os.write(writing, content) :]
        status = 0
    finally:
        os._exit(status)


def test_a_process_that_dies_with_the_lock_does_not_keep_it(cell: Cell) -> None:
    """The kernel releases it, whatever the worker died of."""
    import fcntl

    cell.begin(1, 0, 10)
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        fcntl.lockf(cell.descriptor, fcntl.LOCK_EX)
        os.write(writing, b".")
        os.kill(os.getpid(), 9)
    assert os.read(reading, 1) == b"."
    os.waitpid(worker, 0)
    assert cell.claim(1, 3) == (0, 3)
    os.close(reading)
    os.close(writing)


def test_a_new_cell_limits_and_judges_nothing(cell: Cell) -> None:
    """All numbers of what a step may hold and take mean that there is no limit."""
    assert cell.allowed_bytes == 0
    assert cell.overdue_nanoseconds(10**18) is None
    assert (cell.verdict, cell.held_bytes, cell.take_programs_peak()) == (NONE, 0, 0)
    assert not cell.programs_started


def test_what_a_step_may_hold_can_be_changed_amid_a_span(cell: Cell) -> None:
    """And None means anything; the span is not touched."""
    cell.begin(1, 0, 10)
    cell.allow(5 << 30)
    assert cell.allowed_bytes == 5 << 30
    cell.allow(None)
    assert cell.allowed_bytes == 0
    assert cell.claim(1, 3) == (0, 3)


def test_the_running_unit_is_told_where_it_is_known(cell: Cell) -> None:
    """Else it is the whole step; what was noted for an earlier step or span does not count."""
    cell.begin(1, 0, 100)
    cell.claim(1, 10)
    assert cell.running() == (0, 10)
    cell.at_unit(4)
    assert cell.running() == (4, 5)
    cell.claim(1, 10)
    assert cell.running() == (10, 20)
    cell.at_unit(19)
    cell.begin(2, 19, 30)
    cell.claim(2, 5)
    assert cell.running() == (19, 24)


def test_a_unit_outside_of_the_step_is_not_believed(cell: Cell) -> None:
    """A function that goes on in a thread of its own may note anything."""
    cell.begin(1, 50, 100)
    cell.claim(1, 10)
    for unit in (0, 49, 60, 99):
        cell.at_unit(unit)
        assert cell.running() == (50, 60)


def test_a_step_that_was_left_early_is_given_back(cell: Cell) -> None:
    """From the first unit that was not begun; nothing if the span is another one by now."""
    cell.begin(1, 0, 100)
    cell.claim(1, 50)
    cell.unclaim(1, 20)
    assert cell.running() == (0, 20)
    assert cell.claim(1, 5) == (20, 25)
    cell.begin(2, 200, 300)
    cell.unclaim(1, 7)
    assert cell.claim(2, 5) == (200, 205)


def test_how_long_a_step_is_overdue_is_known_while_it_runs(cell: Cell) -> None:
    """Negative before its time is up; nothing between steps or without a limit."""
    cell.begin_step(1000)
    assert cell.overdue_nanoseconds(5000) is None
    cell.limit_wall(300)
    assert cell.overdue_nanoseconds(1100) == -200
    assert cell.overdue_nanoseconds(1500) == 200
    assert cell.seconds_in_step(1_000_001_000) == 1.0
    cell.end_step()
    assert cell.overdue_nanoseconds(5000) is None
    assert cell.seconds_in_step(1_000_001_000) == 0.0


def test_the_peak_of_programs_is_the_highest_since_it_was_taken(cell: Cell) -> None:
    """Each measurement begins anew."""
    for held_bytes in (5, 9 << 32, 7):
        cell.note_programs_peak(held_bytes)
    assert cell.take_programs_peak() == 9 << 32
    assert cell.take_programs_peak() == 0


def test_programs_are_remembered(cell: Cell) -> None:
    """One that has ended may have started others."""
    cell.note_program()
    cell.take_programs_peak()
    assert cell.programs_started


@pytest.mark.parametrize("verdict", [EXHAUSTED, HUNG])
def test_a_verdict_is_seen_by_another_process(cell: Cell, verdict: int) -> None:
    """The nursery writes it, and the parent reads it when the worker is gone."""
    nursery = os.fork()
    if nursery == 0:
        try:
            Cell(os.dup(cell.descriptor)).judge(verdict, 3 << 32)
        finally:
            os._exit(0)
    os.waitpid(nursery, 0)
    assert (cell.verdict, cell.held_bytes) == (verdict, 3 << 32)


def test_a_worker_can_be_told_to_be_wary() -> None:
    """It sees what its parent has written, in the memory that both share."""
    cell = Cell.create()
    assert not cell.is_wary
    same = Cell(os.dup(cell.descriptor))
    same.be_wary()
    assert cell.is_wary
    same.close()
    cell.close()
