from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import (
    AppendAsTheyCome,
    Assign,
    Command,
    Coordinator,
    Event,
    GiveUp,
    Progressed,
    StepFailed,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.invariants import check_invariants
from aliquot.coordinator.isolating import after_exhaustion, after_failure
from aliquot.coordinator.waiting import Waiting
from aliquot.slices import Slice


class Isolation:
    """Workers that do each span in one step, which fails if it has a bad unit; one event at a time."""

    def __init__(self, units: int, bad: set[int], *, workers: int = 3, deadly: bool = False) -> None:
        self.coordinator = Coordinator(
            AppendAsTheyCome(), units=units, expected_workers=workers, most_failed=math.inf, first_units=units
        )
        self.bad = bad
        self.deadly = deadly
        self.steps: list[Slice] = []
        self.failed: list[Slice] = []
        self.done: list[Slice] = []
        self.given_up: list[int] = []
        self._spans: list[Assign] = []
        self._joined = 0
        for _ in range(workers):
            self._join()

    def run(self) -> Isolation:
        while not self.coordinator.is_over:
            self._work(self._spans.pop(0))
        return self

    def _join(self) -> None:
        self._joined += 1
        self._tell(WorkerJoined(self._joined))

    def _work(self, span: Assign) -> None:
        step = Slice(span.start, span.stop)
        self.steps.append(step)
        if self.bad.isdisjoint(range(step.start, step.stop)):
            self.done.append(step)
            self._tell(Progressed(span.worker, span.span, step.start, step.stop, result=len(self.steps)))
            return
        self.failed.append(step)
        if not self.deadly:
            self._tell(StepFailed(span.worker, span.span, step.start, step.stop, error=len(self.steps)))
            return
        self._tell(WorkerLost(span.worker, "died", step.start, step.stop, is_suspect=True))
        self._join()

    def _tell(self, event: Event) -> None:
        commands: list[Command] = self.coordinator.handle(event, 0.0)
        self._spans += [command for command in commands if isinstance(command, Assign)]
        self.given_up += [command.start for command in commands if isinstance(command, GiveUp)]
        check_invariants(self.coordinator, self.done)
        for command in commands:
            if isinstance(command, Trim):
                # All of the span is one step, which has begun.
                self._tell(Trimmed(command.worker, command.span, self.coordinator._workers[command.worker].stop))


@st.composite
def some_bad(draw: st.DrawFn) -> tuple[int, set[int]]:
    units = draw(st.integers(1, 300))
    return units, draw(st.sets(st.integers(0, units - 1), max_size=10))


@given(some_bad(), st.integers(1, 5), st.booleans())
def test_exactly_the_bad_units_are_given_up(some: tuple[int, set[int]], workers: int, deadly: bool) -> None:
    """Whether they raise or kill: all others are done, once."""
    units, bad = some
    played = Isolation(units, bad, workers=workers, deadly=deadly).run()
    assert sorted(played.given_up) == sorted(bad)
    assert sum(map(len, played.done)) == units - len(bad)


@given(some_bad(), st.integers(1, 5), st.booleans())
def test_a_bad_unit_costs_about_two_steps_for_each_time_that_its_step_is_halved(
    some: tuple[int, set[int]], workers: int, deadly: bool
) -> None:
    """Among n units, k bad ones cost at most 2 k log2(n) + k steps more, and one for each span that failed at first."""
    units, bad = some
    played = Isolation(units, bad, workers=workers, deadly=deadly).run()
    healthy = len(Isolation(units, set(), workers=workers).run().steps)
    most = sum(2 * math.ceil(math.log2(units)) + 2 for _ in bad)
    assert len(played.steps) <= healthy + most


@given(some_bad(), st.integers(1, 5))
def test_a_good_unit_runs_no_more_often_than_its_span_is_halved(some: tuple[int, set[int]], workers: int) -> None:
    """Twice with the whole span, and once for each half that it is in; each time but the last with a bad one."""
    units, bad = some
    played = Isolation(units, bad, workers=workers).run()
    most = 2 + math.ceil(math.log2(max(2, units)))
    for unit in random.Random(units).sample(range(units), min(units, 20)):
        runs = [step for step in played.steps if unit in range(step.start, step.stop)]
        assert len(runs) <= most
        for step in runs[:-1]:
            assert not bad.isdisjoint(range(step.start, step.stop))


def test_one_bad_unit_is_found_by_halving() -> None:
    """Sixteen units with a bad one: tried again as they were, then in halves, each of them once."""
    played = Isolation(16, {10}, workers=1).run()
    assert played.failed == [Slice(0, 16), Slice(0, 16), Slice(8, 16), Slice(8, 12), Slice(10, 12), Slice(10, 11)]
    assert played.done == [Slice(0, 8), Slice(8, 10), Slice(11, 12), Slice(12, 16)]


def test_a_flaky_step_is_done_again_as_it_was() -> None:
    """What fails once is not cut, and what failed is known to have been flaky."""
    played = Isolation(16, {10}, workers=1)
    played._work(played._spans.pop(0))
    played.bad.clear()
    played.run()
    assert played.steps == [Slice(0, 16), Slice(0, 16)]
    assert played.coordinator.flaky_steps == 1


# What follows a failure


def test_the_first_failure_is_tried_again_elsewhere() -> None:
    """As it was, with the worker to avoid and the error."""
    failed = Waiting(0, 8, avoid=3, error=5)
    assert after_failure(failed, attempts_before=0, is_whole=True) == [failed._replace(attempts=1)]
    assert after_failure(failed, attempts_before=0, is_whole=False) == [failed._replace(attempts=1)]


def test_the_second_failure_of_the_same_step_is_halved() -> None:
    """The first half first; whoever is free may try them."""
    failed = Waiting(0, 7, avoid=3, error=5)
    first, second = after_failure(failed, attempts_before=1, is_whole=True)
    assert (first.start, first.stop, second.start, second.stop) == (0, 3, 3, 7)
    assert {first.avoid, second.avoid} == {None}
    assert {first.error, second.error} == {5}
    assert {first.attempts, second.attempts} == {2}


def test_what_failed_as_a_part_of_more_is_first_tried_by_itself() -> None:
    """Its own failure was the first that says anything about it alone."""
    failed = Waiting(2, 4, avoid=3, error=5)
    assert after_failure(failed, attempts_before=1, is_whole=False) == [failed._replace(attempts=2)]


def test_while_halves_are_tried_each_failure_counts() -> None:
    """A part that fails is halved at once, and a single unit is given up."""
    halves = after_failure(Waiting(2, 4, avoid=3), attempts_before=2, is_whole=False)
    assert [(half.start, half.stop) for half in halves] == [(2, 3), (3, 4)]
    assert after_failure(Waiting(2, 3, avoid=3), attempts_before=2, is_whole=True) == []


@pytest.mark.parametrize("attempts", [0, 1, 5])
def test_what_needs_more_memory_is_halved_whatever_was_before(attempts: int) -> None:
    """That counts as no attempt; for a single unit there is nothing smaller."""
    halves = after_exhaustion(Waiting(0, 8, attempts))
    assert halves == [Waiting(0, 4, attempts), Waiting(4, 8, attempts)]
    assert after_exhaustion(Waiting(0, 1, attempts)) == []
