from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator.waiting import Waiting, WaitingUnits
from aliquot.slices import Slice, find_cover_fault


def may_have(worker: int, *, only_worker: bool = False) -> Callable[[Waiting], bool]:
    return lambda waiting: only_worker or waiting.avoid != worker


def waiting_units(*slices: Waiting) -> WaitingUnits:
    waiting = WaitingUnits()
    for part in slices:
        waiting.add(part)
    return waiting


@st.composite
def disjoint(draw: st.DrawFn) -> list[Waiting]:
    """Slices next to each other, some of which have failed at a worker."""
    parts, at = [], 0
    for size in draw(st.lists(st.integers(1, 20), max_size=12)):
        attempts = draw(st.integers(0, 1))
        avoid = draw(st.sampled_from([None, 1, 2])) if attempts else None
        parts.append(Waiting(at, at + size, attempts, avoid))
        at += size
    return draw(st.permutations(parts))


@given(disjoint(), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 10)), max_size=30))
def test_units_are_taken_once_and_counted(parts: list[Waiting], takes: list[tuple[int, int]]) -> None:
    """What was taken and what still waits are all units, each once; the number that waits is always right."""
    waiting = waiting_units(*parts)
    taken: list[Slice] = []
    for worker, most_units in takes:
        found = waiting.take(most_units, may_have(worker, only_worker=False))
        if found is not None:
            taken.append(Slice(found.start, found.stop))
        left = [Slice(part.start, part.stop) for part in waiting.slices()]
        assert waiting.units == sum(map(len, left))
        assert len(waiting) == len(left)
        whole = Slice(0, sum(part.stop - part.start for part in parts))
        assert find_cover_fault(whole, sorted(left + taken)) is None


@given(disjoint())
def test_everything_can_be_taken(parts: list[Waiting]) -> None:
    """A worker that is alone gets all units, the first ones first."""
    waiting = waiting_units(*parts)
    starts = []
    while (found := waiting.take(3, may_have(1, only_worker=True))) is not None:
        starts.append(found.start)
    assert not waiting
    assert waiting.units == 0
    assert starts == sorted(starts)


@given(disjoint(), st.integers(1, 10))
def test_a_worker_gets_the_first_that_it_may_have(parts: list[Waiting], most_units: int) -> None:
    """Units that failed at the worker are passed over, and only those."""
    found = waiting_units(*parts).take(most_units, may_have(1, only_worker=False))
    allowed = sorted(part for part in parts if part.avoid != 1)
    if not allowed:
        assert found is None
    else:
        assert found is not None
        assert found.start == allowed[0].start


def test_what_has_not_failed_is_cut() -> None:
    """No more than asked for is taken, and the rest waits."""
    waiting = waiting_units(Waiting(0, 100))
    assert waiting.take(30, may_have(1, only_worker=False)) == Waiting(0, 30)
    assert waiting.slices() == [Waiting(30, 100)]


def test_what_has_failed_comes_whole() -> None:
    """A step that failed is tried again as it was, however few units were asked for."""
    failed = Waiting(0, 100, attempts=1, avoid=2, error=5)
    assert waiting_units(failed).take(30, may_have(1, only_worker=False)) == failed


def test_what_was_passed_over_still_waits() -> None:
    """Units that the worker must not have stay for others."""
    waiting = waiting_units(Waiting(0, 10, attempts=1, avoid=1))
    assert waiting.take(30, may_have(1, only_worker=False)) is None
    assert waiting.units == 10
    assert waiting.take(30, may_have(2, only_worker=False)) is not None


def test_the_only_worker_gets_what_failed_at_it() -> None:
    """There is nobody else to try."""
    failed = Waiting(0, 10, attempts=1, avoid=1)
    assert waiting_units(failed).take(30, may_have(1, only_worker=True)) == failed


def test_nothing_is_not_put_back() -> None:
    """An empty slice does not wait."""
    waiting = waiting_units(Waiting(5, 5))
    assert len(waiting) == 0
    assert waiting.take(1, may_have(1, only_worker=False)) is None


def test_what_a_source_tells_of_in_pieces_is_handed_out_as_one() -> None:
    """The pieces follow each other, and are only told of one after the other."""
    waiting = waiting_units(Waiting(0, 10))
    waiting.take(4, may_have(1))
    waiting.grow(10, 20)
    waiting.grow(20, 50)
    assert waiting.units == 46
    assert waiting.take(100, may_have(1)) == Waiting(4, 50)


def test_a_piece_that_has_failed_does_not_grow() -> None:
    """Nothing is known against what comes behind it."""
    waiting = waiting_units(Waiting(0, 10, attempts=1, avoid=2))
    waiting.grow(10, 20)
    assert sorted(waiting.slices()) == [Waiting(0, 10, attempts=1, avoid=2), Waiting(10, 20)]


def test_halves_stay_apart() -> None:
    """What was too large for a worker is not put together again because it is next to each other."""
    waiting = waiting_units(Waiting(0, 10), Waiting(10, 20))
    waiting.grow(20, 30)
    assert waiting.take(100, may_have(1)) == Waiting(0, 10)
