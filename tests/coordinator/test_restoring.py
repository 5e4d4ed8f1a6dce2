"""A run goes on where an earlier sitting of it has stopped; and it stops when nobody wants it any more."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import (
    Append,
    AppendAsTheyCome,
    AppendInOrder,
    Assign,
    Coordinator,
    Finish,
    GiveUp,
    Halted,
    ImpossibleEventError,
    Merge,
    MergeAsTree,
    Progressed,
    Restored,
    Skip,
    StepFailed,
    Trim,
    Trimmed,
    WorkerJoined,
)
from aliquot.coordinator.invariants import check_invariants
from aliquot.slices import Slice


def test_only_what_is_missing_is_handed_out() -> None:
    """Done pieces are not given to anybody, in whatever order they lie."""
    coordinator = Coordinator(AppendInOrder(1000), units=100)
    coordinator.handle(Restored(done=((0, 40, None, 0), (50, 90, 7, 10))), 0.0)
    check_invariants(coordinator, [Slice(0, 40), Slice(50, 90)])
    assert coordinator.done_units == 80
    commands = coordinator.handle(WorkerJoined(0), 0.0)
    (assigned,) = (command for command in commands if isinstance(command, Assign))
    assert (assigned.start, assigned.stop) == (40, 50)
    commands = coordinator.handle(Progressed(0, assigned.span, 40, 50, 8), 1.0)
    # What waited for it is appended with it, and what was appended before is not appended again.
    assert [command for command in commands if isinstance(command, Append)] == [Append(8), Append(7)]
    (last,) = (command for command in commands if isinstance(command, Assign))
    assert (last.start, last.stop) == (90, 100)
    assert Finish(None) in coordinator.handle(Progressed(0, last.span, 90, 100, 9), 2.0)


def test_a_run_that_was_done_is_over_at_once() -> None:
    """There is nothing left to do but to finish."""
    coordinator = Coordinator(AppendInOrder(1000), units=10)
    assert coordinator.handle(Restored(done=((0, 10, None, 0),)), 0.0) == [Finish(None)]
    assert coordinator.is_over


def test_units_that_were_given_up_stay_so() -> None:
    """They are neither tried again nor forgotten: the appended results go on behind them."""
    coordinator = Coordinator(AppendInOrder(1000), units=10, most_failed=1)
    commands = coordinator.handle(Restored(done=((0, 4, None, 0), (5, 10, 3, 1)), given_up=((4, 5, 2),)), 0.0)
    assert commands == [Skip(4, 5), Append(3), Finish(None)]
    assert coordinator.failed_units == 1
    assert [(given_up.start, given_up.attempts) for given_up in coordinator.failures] == [(4, 2)]


def test_merged_results_are_merged_again() -> None:
    """What a tree held was in memory: each piece comes with its result."""
    coordinator = Coordinator(MergeAsTree(), units=10)
    assert Merge(1, 2) in coordinator.handle(Restored(done=((0, 4, 1, 1), (6, 8, 2, 1))), 0.0)


@pytest.mark.parametrize("done", [((0, 5, None, 0), (4, 6, None, 0)), ((0, 11, None, 0),), ((3, 3, None, 0),)])
def test_pieces_that_cannot_be_are_refused(done: tuple[tuple[int, int, None, int], ...]) -> None:
    """A journal that contradicts itself must not become a result."""
    with pytest.raises(ImpossibleEventError, match="done twice"):
        Coordinator(AppendInOrder(1000), units=10).handle(Restored(done), 0.0)


def test_nothing_is_restored_amid_a_run() -> None:
    """It would be counted twice."""
    coordinator = Coordinator(AppendInOrder(1000), units=10)
    coordinator.handle(WorkerJoined(0), 0.0)
    with pytest.raises(ImpossibleEventError, match="amid"):
        coordinator.handle(Restored(()), 0.0)


@given(cuts=st.sets(st.integers(1, 99), max_size=20), chosen=st.data())
def test_any_part_may_have_been_done(cuts: set[int], chosen: st.DataObject) -> None:
    """Whatever was done, what is left is exactly what was not."""
    ends = [0, *sorted(cuts), 100]
    pieces = [(start, stop, None, 0) for start, stop in itertools.pairwise(ends)]
    done = tuple(piece for piece in pieces if chosen.draw(st.booleans()))
    coordinator = Coordinator(AppendAsTheyCome(), units=100)
    coordinator.handle(Restored(done), 0.0)
    check_invariants(coordinator, [Slice(start, stop) for start, stop, _, _ in done])


def test_a_run_that_nobody_wants_begins_nothing_more() -> None:
    """Workers end the steps that they are in; what has failed is not looked into either."""
    coordinator = Coordinator(AppendInOrder(1000), units=100, expected_workers=2)
    first = coordinator.handle(WorkerJoined(0), 0.0)[0]
    second = coordinator.handle(WorkerJoined(1), 0.0)[0]
    assert isinstance(first, Assign)
    assert isinstance(second, Assign)
    asked = coordinator.handle(Halted(), 1.0)
    assert {command.worker for command in asked if isinstance(command, Trim)} == {0, 1}
    coordinator.handle(Trimmed(0, first.span, first.start + 1), 1.0)
    coordinator.handle(Trimmed(1, second.span, second.start + 1), 1.0)
    assert not coordinator.is_over
    commands = coordinator.handle(StepFailed(0, first.span, first.start, first.start + 1, 5), 1.1)
    assert not [command for command in commands if isinstance(command, Assign | GiveUp)]
    commands = coordinator.handle(Progressed(1, second.span, second.start, second.start + 1, 6), 1.2)
    assert not [command for command in commands if isinstance(command, Assign | Finish)]
    assert coordinator.is_over
    assert coordinator.done_units == 1
