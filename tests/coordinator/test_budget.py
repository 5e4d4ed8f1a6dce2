from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import (
    Allow,
    AppendAsTheyCome,
    Assign,
    Command,
    Coordinator,
    Event,
    GiveUp,
    Progressed,
    StepExhausted,
    StepFailed,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.budget import Budget
from aliquot.coordinator.invariants import check_invariants
from aliquot.coordinator.worker import Worker
from aliquot.sizing import LinearModel
from aliquot.slices import Slice

TOTAL = 1000
NOTHING_KNOWN = LinearModel()


class Told:
    """A coordinator with a budget, checked after each event."""

    def __init__(self, units: int, workers: int, *, joined: int | None = None, most_failed: float = math.inf) -> None:
        self.coordinator = Coordinator(
            AppendAsTheyCome(), units=units, expected_workers=workers, total_bytes=TOTAL, most_failed=most_failed
        )
        self.spans: dict[int, Assign] = {}  # the last one of each worker
        self.done: list[Slice] = []
        for worker in range(workers if joined is None else joined):
            self.tell(WorkerJoined(worker))

    def tell(self, event: Event, now_seconds: float = 0.0) -> list[Command]:
        if isinstance(event, Progressed):
            self.done.append(Slice(event.start, event.stop))
        commands = self.coordinator.handle(event, now_seconds)
        self.spans |= {command.worker: command for command in commands if isinstance(command, Assign)}
        check_invariants(self.coordinator, self.done)
        return commands

    def finish(self, worker: int, peak_bytes: int = 10) -> list[Command]:
        known = self.coordinator._workers[worker]
        peaks = ((known.stop - known.done_to, peak_bytes, 1),)
        return self.tell(Progressed(worker, known.span, known.done_to, known.stop, result=0, peak_bytes=peaks))

    def exhaust(self, worker: int, unit: int) -> list[Command]:
        span = self.spans[worker]
        return self.tell(StepExhausted(worker, span.span, unit, unit + 1, error=7, peak_bytes=span.allowed_bytes or 0))


def trims(commands: list[Command]) -> dict[int, float]:
    return {command.worker: command.share for command in commands if isinstance(command, Trim)}


# The budget itself


def test_each_gets_an_equal_share() -> None:
    """Four workers, a quarter each; for a fifth there is nothing."""
    budget = Budget(TOTAL, 4)
    for number in range(4):
        allowed = budget.allowance(0, 0, NOTHING_KNOWN)
        assert allowed == 250
        budget.reserve(Worker(number), allowed)
    assert budget.free_bytes == 0
    assert budget.allowance(0, 0, NOTHING_KNOWN) is None


def test_less_than_a_share_is_taken_where_a_unit_fits() -> None:
    """By what is known of single units, with something to spare; where nothing is, half a share is enough."""
    budget = Budget(TOTAL, 2)
    assert budget.allowance(0, 600, NOTHING_KNOWN) == 400
    assert budget.allowance(0, 800, NOTHING_KNOWN) is None
    known = LinearModel()
    known.observe(1, 100)
    assert budget.allowance(0, 800, known) == 200
    assert budget.allowance(0, 890, known) is None


def test_what_becomes_free_goes_to_those_that_have_less() -> None:
    """Up to their share, and no more."""
    budget = Budget(TOTAL, 2)
    short, heavy = Worker(0), Worker(1)
    budget.reserve(heavy, 700)
    budget.reserve(short, 300)
    assert budget.is_heavy(heavy)
    assert not budget.is_heavy(short)
    assert budget.raise_allowances() == []
    budget.release(heavy)
    assert budget.raise_allowances() == [short]
    assert short.allowed_bytes == 500
    assert budget.free_bytes == 500
    assert budget.raise_allowances() == []


def test_the_next_rung_is_what_others_like_it_needed_and_then_all() -> None:
    """Somewhat more than the heaviest that was seen, if that is more than it had."""
    budget = Budget(TOTAL, 4)
    assert budget.next_rung(250) == TOTAL
    heavy = Worker(0)
    budget.reserve(heavy, TOTAL)
    budget.note_done(heavy, 400)
    assert budget.next_rung(250) == 500
    assert budget.next_rung(500) == TOTAL
    assert budget.next_rung(TOTAL) is None


def done_by(budget: Budget, allowed_bytes: int, peak_bytes: int) -> None:
    worker = Worker(0)
    budget.reserve(worker, allowed_bytes)
    budget.note_done(worker, peak_bytes)
    budget.release(worker)


def test_where_no_unit_fits_into_a_share_shares_become_larger() -> None:
    """For as many workers as there is room for, of those that need what was seen, with something to spare."""
    budget = Budget(TOTAL, 4)
    done_by(budget, TOTAL, 320)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 250, "one unit may be an exception"
    done_by(budget, TOTAL, 390)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 500
    done_by(budget, 500, 490)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 500
    done_by(budget, 500, 240)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 250, "there are units that fit"
    for _ in range(7):
        done_by(budget, TOTAL, 390)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 250


def test_who_has_a_share_from_when_they_were_larger_is_not_heavy() -> None:
    """What it has too much is asked for when shares become smaller."""
    budget = Budget(TOTAL, 4)
    done_by(budget, TOTAL, 900)
    done_by(budget, TOTAL, 900)
    worker = Worker(1)
    budget.reserve(worker, TOTAL)
    assert not budget.is_heavy(worker)
    assert not budget.has_too_much(worker)
    assert budget.note_done(worker, 30)
    assert not budget.is_heavy(worker)
    assert budget.has_too_much(worker)


def test_where_some_units_fit_into_a_share_it_stays() -> None:
    """The others get more, one at a time."""
    budget = Budget(TOTAL, 4)
    for _ in range(5):
        done_by(budget, 250, 100)
        for _ in range(7):
            done_by(budget, TOTAL, 390)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 250


def test_where_no_unit_fits_any_more_shares_become_larger_again() -> None:
    """A single light one, as of an empty file, says nothing of the others."""
    budget = Budget(TOTAL, 4)
    done_by(budget, 250, 100)
    for _ in range(8):
        done_by(budget, TOTAL, 390)
    assert budget.allowance(0, 0, NOTHING_KNOWN) == 500


def test_without_a_limit_there_is_no_rung() -> None:
    """And nobody is told what to hold."""
    budget = Budget(None, 4)
    assert budget.next_rung(None) is None
    assert not budget.is_heavy(Worker(0))


ACTIONS = ["take", "heavy", "done", "release", "raise"]


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, TOTAL)), max_size=60))
def test_what_is_free_and_what_is_allowed_are_all(actions: list[tuple[str, int]]) -> None:
    """Whatever is reserved, raised and released, in any order, while shares grow and shrink."""
    budget = Budget(TOTAL, 3)
    holding: list[Worker] = []
    for number, (action, amount) in enumerate(actions):
        if action == "release" and holding:
            budget.release(holding.pop(amount % len(holding)))
        elif action == "done" and holding:
            budget.note_done(holding[amount % len(holding)], amount)
        elif action == "raise":
            budget.raise_allowances()
        else:
            allowed = budget.allowance(amount if action == "heavy" else 0, 0, NOTHING_KNOWN)
            if allowed is not None:
                holding.append(Worker(number))
                budget.reserve(holding[-1], allowed)
        assert budget.free_bytes + sum(worker.allowed_bytes or 0 for worker in holding) == TOTAL
        assert budget.free_bytes >= 0


# In the coordinator


def test_a_span_comes_with_a_share() -> None:
    """Each of two workers may hold half; without a limit, nothing is said."""
    told = Told(100, 2)
    assert [span.allowed_bytes for span in told.spans.values()] == [500, 500]
    unlimited = Coordinator(AppendAsTheyCome(), units=10)
    [command] = unlimited.handle(WorkerJoined(0), 0.0)
    assert isinstance(command, Assign)
    assert command.allowed_bytes is None


def test_more_workers_than_shares_wait() -> None:
    """They begin when others have nothing left, and not before."""
    told = Told(100, 2)
    assert told.tell(WorkerJoined(2)) == []
    told.finish(0)
    assert told.coordinator.wake_seconds(0.0) is not None


def test_who_is_asked_for_a_tail_while_shares_shrink_gives_back_what_it_has_too_much() -> None:
    """As soon as it has answered: others would wait for memory that it does not need, until its span ends."""
    told = Told(100, 2)
    assert [*trims(told.finish(1))] == [0]
    budget, victim = told.coordinator._budget, told.coordinator._workers[0]
    budget._share_bytes = budget._equal_share_bytes = 250  # as of four workers, two of which have not come yet
    assert budget.has_too_much(victim)
    told_to = trims(told.tell(Trimmed(0, victim.span, 25)))
    assert told_to == {0: 1.0}
    assert told.spans[1].allowed_bytes == 250


def test_for_a_heavy_unit_others_stop() -> None:
    """They give back what they have not begun; when both are still, it gets all, and after it everything goes on."""
    told = Told(100, 2)
    assert trims(told.exhaust(0, 3)) == {1: 1.0}
    told.tell(Trimmed(1, told.spans[1].span, 60))
    assert told.spans[0].allowed_bytes == 500, "worker 0 waits"
    commands = told.finish(1)
    [heavy] = [command for command in commands if isinstance(command, Assign)]
    assert (heavy.start, heavy.stop, heavy.allowed_bytes) == (3, 4, TOTAL)
    told.finish(heavy.worker, peak_bytes=800)
    assert {span.allowed_bytes for span in told.spans.values()} == {500}
    assert told.coordinator.exhausted_steps == 1


def test_the_second_heavy_unit_gets_what_the_first_needed() -> None:
    """And the other worker goes on with the rest, until it may hold its share again."""
    told = Told(100, 2)
    told.exhaust(0, 3)
    told.tell(Trimmed(1, told.spans[1].span, 60))
    told.finish(1)
    [heavy] = [number for number, span in told.spans.items() if span.allowed_bytes == TOTAL]
    told.finish(heavy, peak_bytes=520)
    first, second = told.spans[0], told.spans[1]
    commands = told.exhaust(0, first.stop - 1)
    assert trims(commands) == {1: 1.0}
    told.tell(Trimmed(1, second.span, second.start + 1))
    commands = told.finish(1)
    [heavy_span] = [one for one in commands if isinstance(one, Assign) and one.allowed_bytes == 650]
    [light] = [one for one in commands if isinstance(one, Assign) and one.allowed_bytes == 350]
    commands = told.finish(heavy_span.worker, peak_bytes=520)
    assert Allow(light.worker, light.span, 500) in commands


def test_a_unit_that_needs_more_than_all_is_given_up() -> None:
    """With what it held, and that memory was the reason."""
    told = Told(10, 1)
    commands = told.exhaust(0, 3)
    # It had all from the beginning: there is only one worker.
    assert GiveUp(3, 4, error=7, attempts=1, worker=0, is_exhausted=True, peak_bytes=TOTAL) in commands
    assert told.coordinator.failed_units == 1


def test_heavy_units_in_a_row_go_together() -> None:
    """After the first, two of those behind it are taken along, then four, where others fit into a share."""
    told = Told(100, 2, joined=1)
    first = told.spans[0]
    told.tell(Progressed(0, first.span, 0, 1, result=0, peak_bytes=((1, 10, 1),)))
    pieces = []
    unit = 1
    for _ in range(3):
        commands = told.exhaust(0, unit)
        [heavy] = [command for command in commands if isinstance(command, Assign)]
        pieces.append(heavy.stop - heavy.start)
        assert heavy.allowed_bytes == TOTAL
        unit = heavy.stop
        told.finish(0, peak_bytes=TOTAL)
    assert pieces == [1, 2, 4]


def test_a_worker_killed_for_memory_leaves_halves() -> None:
    """Where more than one unit was in its step, they are tried in smaller steps, and that is no failure."""
    told = Told(8, 1)
    told.tell(WorkerLost(0, "killed", 0, 8, is_suspect=True, is_exhausted=True, peak_bytes=1100))
    told.tell(WorkerJoined(1))
    assert (told.spans[1].start, told.spans[1].stop) == (0, 4)
    assert told.coordinator.failures == []


def test_a_heavy_unit_that_fails_still_gets_its_memory() -> None:
    """What it needs is not found anew at each attempt."""
    told = Told(100, 2, joined=1)
    told.exhaust(0, 3)
    while told.spans[0].allowed_bytes != TOTAL:
        told.finish(0)
    span = told.spans[0]
    told.tell(StepFailed(0, span.span, span.start, span.stop, error=0))
    while told.spans[0].start != span.start:
        told.finish(0)
    assert told.spans[0].allowed_bytes == TOTAL


def test_a_heavy_unit_that_is_not_begun_any_more_keeps_no_memory() -> None:
    """A run that stops early looks into what has failed, though a heavy unit waits that is never begun."""
    told = Told(90, 3, most_failed=0)

    def fail(worker: int, units: int) -> None:
        known = told.coordinator._workers[worker]
        told.tell(StepFailed(worker, known.span, known.done_to, known.done_to + units, error=0))

    fail(1, 1)
    told.finish(0)  # worker 0 has that unit now
    fail(1, 4)
    told.finish(2)  # and worker 2 those
    for worker in trims(told.exhaust(1, 40)):
        known = told.coordinator._workers[worker]
        told.tell(Trimmed(worker, known.span, known.stop))
    fail(0, 1)
    assert told.coordinator.is_stopping
    fail(2, 4)
    assert [(told.spans[worker].start, told.spans[worker].stop) for worker in (1, 0)] == [(31, 33), (33, 35)]
    for worker in (0, 1):
        told.finish(worker)
    assert told.coordinator.is_over
