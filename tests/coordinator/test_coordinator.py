from __future__ import annotations

import math

import pytest

from aliquot.coordinator import (
    Append,
    AppendAsTheyCome,
    AppendInOrder,
    Assign,
    Command,
    Coordinator,
    Event,
    Extend,
    Finish,
    GiveUp,
    Halted,
    ImpossibleEventError,
    MergeAsTree,
    Progressed,
    Skip,
    SourceGrew,
    StepFailed,
    Ticked,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.invariants import check_invariants
from aliquot.sizing import LinearModel
from aliquot.slices import Slice


def coordinate(
    units: int = 0,
    *,
    is_complete: bool = True,
    expected_workers: int = 1,
    front_first: bool = False,
    finish_front: bool = False,
    most_failed: float = 0,
) -> Coordinator:
    return Coordinator(
        AppendAsTheyCome(),
        units=units,
        is_complete=is_complete,
        expected_workers=expected_workers,
        front_first=front_first,
        finish_front=finish_front,
        most_failed=most_failed,
    )


def tell(coordinator: Coordinator, *events: Event, now_seconds: float = 0.0) -> list[Command]:
    """The commands after the last of some events."""
    commands: list[Command] = []
    for event in events:
        commands = coordinator.handle(event, now_seconds)
    return commands


def assigned(commands: list[Command]) -> dict[int, Slice]:
    """The span of each worker that was given one."""
    return {one.worker: Slice(one.start, one.stop) for one in commands if isinstance(one, Assign)}


def span_of(commands: list[Command]) -> int:
    """The number of the span that was assigned last."""
    return [command.span for command in commands if isinstance(command, Assign)][-1]


def trim_of(commands: list[Command]) -> Trim:
    [trim] = [command for command in commands if isinstance(command, Trim)]
    return trim


def kind_name(event: Event) -> str:
    return type(event).__name__


# Handing out


def test_expected_workers_get_equal_spans() -> None:
    """Each of four expected workers gets a quarter as it joins."""
    coordinator = coordinate(100, expected_workers=4)
    spans: dict[int, Slice] = {}
    for worker in range(4):
        spans |= assigned(tell(coordinator, WorkerJoined(worker)))
    assert spans == {0: Slice(0, 25), 1: Slice(25, 50), 2: Slice(50, 75), 3: Slice(75, 100)}


def test_a_worker_alone_gets_what_others_did_not_come_for() -> None:
    """Where others were expected and never come, one worker gets everything, a span at a time."""
    coordinator = coordinate(100, expected_workers=4)
    commands = tell(coordinator, WorkerJoined(0))
    done: list[Slice] = []
    while spans := assigned(commands):
        span = spans[0]
        commands = tell(coordinator, Progressed(0, span_of(commands), span.start, span.stop, result=0))
        done.append(span)
        check_invariants(coordinator, done)
    assert coordinator.is_over
    assert commands[-1] == Finish(None)


def test_the_front_comes_first_where_asked() -> None:
    """Spans are handed out in rounds from the first unit upward: the first ones are a small part of all."""
    coordinator = coordinate(6400, expected_workers=2, front_first=True)
    first = assigned(tell(coordinator, WorkerJoined(0)))[0]
    second = assigned(tell(coordinator, WorkerJoined(1)))[1]
    assert first.start == 0
    assert second.start == first.stop
    assert second.stop <= 640


def test_what_others_still_have_counts_where_the_front_comes_first() -> None:
    """Two that begin a round together get the same, though less waits for the second one."""
    coordinator = coordinate(1_000_000, expected_workers=2, front_first=True)
    spans = [assigned(tell(coordinator, WorkerJoined(worker)))[worker] for worker in range(2)]
    next_spans = []
    for worker, span in enumerate(spans):
        seconds = 1e-7 * (span.stop - span.start)
        event = Progressed(worker, worker, span.start, span.stop, result=0, busy_seconds=seconds)
        next_spans.append(assigned(tell(coordinator, event))[worker])
    first, second = next_spans
    assert second.stop - second.start == pytest.approx(first.stop - first.start, rel=0.1)


def test_of_many_workers_some_reports_are_enough_to_learn_from() -> None:
    """Each report of a thousand workers tells much the same, and to learn from one takes longer than all else."""
    workers, reports = 1000, 20
    coordinator = Coordinator(AppendAsTheyCome(), units=10**6, expected_workers=workers)
    spans = [assigned(tell(coordinator, WorkerJoined(worker)))[worker] for worker in range(workers)]
    for number in range(reports):
        for worker, span in enumerate(spans):
            at, setup_seconds = span.start + number, None if number else 0.1
            seconds = ((1, 0.5, 1),)
            tell(coordinator, Progressed(worker, worker, at, at + 1, 0, setup_seconds=setup_seconds, seconds=seconds))
    assert workers <= coordinator.time.observations < workers * reports / 4
    assert coordinator.time.predict(1) == pytest.approx(0.5)


def test_workers_begin_with_different_sizes() -> None:
    """While nothing is known, different workers try different first steps, as multiples of the first size."""
    coordinator = Coordinator(AppendAsTheyCome(), units=10**6, expected_workers=4, first_units=10)
    sizes = []
    for worker in range(4):
        sizes += [one.first_units for one in tell(coordinator, WorkerJoined(worker)) if isinstance(one, Assign)]
    assert sizes[0] == 10
    assert len(set(sizes)) == 4
    assert all(size % 10 == 0 for size in sizes)


def test_where_memory_is_limited_first_steps_are_a_small_part_of_a_share() -> None:
    """Whatever was guessed: one that is stopped was done for nothing."""
    coordinator = Coordinator(
        AppendInOrder(10**9),
        units=512_000,
        expected_workers=2,
        first_units=10**6,
        front_first=True,
        total_bytes=10**9,
    )
    for worker in range(2):
        [command] = [one for one in tell(coordinator, WorkerJoined(worker)) if isinstance(one, Assign)]
        assert command.stop - command.start == 8_000
        assert command.first_units == 1_000


def test_what_is_known_goes_with_a_span() -> None:
    """A worker that begins is told what steps cost, from earlier runs or from others."""
    known = LinearModel()
    for units in (1, 10, 100):
        known.observe(units, 0.1 + units)
    coordinator = Coordinator(AppendAsTheyCome(), units=100, time=known)
    [command] = tell(coordinator, WorkerJoined(0))
    assert isinstance(command, Assign)
    assert command.seconds == tuple(known.summary())


def test_a_source_that_grows_feeds_those_that_wait() -> None:
    """An idle worker gets units as soon as they are known."""
    coordinator = coordinate(is_complete=False)
    assert tell(coordinator, WorkerJoined(0)) == []
    assert assigned(tell(coordinator, SourceGrew(10, is_complete=False))) == {0: Slice(0, 10)}


def test_what_a_source_tells_of_in_pieces_is_handed_out_as_one() -> None:
    """Else a program would be started for each piece."""
    coordinator = coordinate(is_complete=False, expected_workers=2)
    news = (SourceGrew(units, is_complete=units == 30) for units in (10, 20, 30))
    assert tell(coordinator, *news) == []
    assert assigned(tell(coordinator, WorkerJoined(0))) == {0: Slice(0, 15)}
    assert assigned(tell(coordinator, WorkerJoined(1))) == {1: Slice(15, 30)}


def test_a_source_may_end_where_it_was() -> None:
    """The last news may be that there is nothing more: then all is over."""
    coordinator = coordinate(is_complete=False)
    commands = tell(coordinator, WorkerJoined(0), SourceGrew(10, is_complete=False))
    tell(coordinator, Progressed(0, span_of(commands), 0, 10, result=0))
    assert not coordinator.is_over
    closed = Extend(0, span_of(commands), 10, is_open=False)
    assert tell(coordinator, SourceGrew(10, is_complete=True)) == [closed, Finish(None)]
    assert coordinator.is_over


def test_the_span_of_a_single_worker_grows_with_the_source() -> None:
    """Else it would have to begin anew with what was not known when it began."""
    coordinator = coordinate(10, is_complete=False)
    [assign] = tell(coordinator, WorkerJoined(0))
    assert isinstance(assign, Assign)
    assert assign.is_open
    assert tell(coordinator, SourceGrew(15, is_complete=False)) == [Extend(0, assign.span, 15, is_open=True)]
    assert tell(coordinator, Progressed(0, assign.span, 0, 15, result=0)) == [Append(0)]
    assert coordinator.busy_workers == 1  # it waits for more
    assert tell(coordinator, SourceGrew(20, is_complete=True)) == [Extend(0, assign.span, 20, is_open=False)]
    assert Finish(None) in tell(coordinator, Progressed(0, assign.span, 15, 20, result=1))


def test_what_an_open_span_was_extended_by_is_not_lost_with_its_worker() -> None:
    """Whether or not it had begun with it."""
    coordinator = coordinate(10, is_complete=False)
    tell(coordinator, WorkerJoined(0), Progressed(0, 0, 0, 10, result=0), SourceGrew(15, is_complete=False))
    tell(coordinator, WorkerLost(0))
    [assign] = tell(coordinator, WorkerJoined(1))
    assert isinstance(assign, Assign)
    assert (assign.start, assign.stop, assign.is_open) == (10, 15, True)


def test_several_workers_have_no_open_spans() -> None:
    """What is found later is for whoever has the time."""
    coordinator = coordinate(10, is_complete=False, expected_workers=2)
    commands = tell(coordinator, WorkerJoined(0))
    assert not any(command.is_open for command in commands if isinstance(command, Assign))


def test_who_waits_at_the_end_of_an_open_span_can_be_had_for_something_else() -> None:
    """A trim closes it, and there is no tail."""
    coordinator = coordinate(10, is_complete=False)
    tell(coordinator, WorkerJoined(0), Progressed(0, 0, 0, 10, result=0))
    assert isinstance(trim_of(tell(coordinator, Halted())), Trim)
    assert not coordinator.is_over
    assert tell(coordinator, Trimmed(0, 0, 10)) == []
    assert coordinator.is_over
    assert coordinator.steals == 0


def test_no_units_are_over_at_once() -> None:
    """A complete source without units needs no worker."""
    assert coordinate(0).is_over


def test_the_end_is_told_once() -> None:
    """Whatever happens after the end, it is not told again."""
    coordinator = coordinate(10)
    commands = tell(coordinator, WorkerJoined(0))
    assert Finish(None) in tell(coordinator, Progressed(0, span_of(commands), 0, 10, result=0))
    assert tell(coordinator, Ticked(), WorkerJoined(1), WorkerLost(0)) == []


def test_results_are_joined_as_they_are_told() -> None:
    """What waits for its turn is appended when its turn comes, and where results are merged the end has the whole."""
    coordinator = Coordinator(AppendInOrder(10**6), units=4, expected_workers=2)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1))
    assert Append(8) not in tell(coordinator, Progressed(1, 1, 2, 4, result=8))
    commands = tell(coordinator, Progressed(0, 0, 0, 2, result=7))
    assert [one for one in commands if isinstance(one, Append)] == [Append(7), Append(8)]
    merged = Coordinator(MergeAsTree(), units=1)
    commands = tell(merged, WorkerJoined(0), Progressed(0, 0, 0, 1, result=5))
    assert commands[-1] == Finish(5)


# Failures and losses


def test_a_failed_step_is_tried_elsewhere() -> None:
    """The worker that failed gets other units, and another worker the failed ones, as they were."""
    coordinator = coordinate(100, expected_workers=2)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1))
    assert assigned(tell(coordinator, StepFailed(0, 0, 0, 10, error=3))) == {0: Slice(10, 50)}
    assert assigned(tell(coordinator, WorkerJoined(2))) == {2: Slice(0, 10)}
    assert coordinator.failures == []


def test_a_worker_that_is_alone_tries_again_itself() -> None:
    """With nobody else there, the worker at which a step failed gets it again."""
    coordinator = coordinate(10)
    tell(coordinator, WorkerJoined(0))
    assert assigned(tell(coordinator, StepFailed(0, 0, 0, 10, error=3))) == {0: Slice(0, 10)}


def test_a_step_that_fails_twice_is_tried_in_halves() -> None:
    """A single unit that fails is told with its error and how often it was tried, and skipped; the others are done."""
    coordinator = coordinate(10, most_failed=math.inf)
    tell(coordinator, WorkerJoined(0), StepFailed(0, 0, 2, 4, error=3))
    tell(coordinator, Progressed(0, 1, 0, 2, result=0))
    commands = tell(coordinator, StepFailed(0, 2, 2, 4, error=4))
    assert assigned(commands) == {0: Slice(2, 3)}
    commands = tell(coordinator, StepFailed(0, 3, 2, 3, error=5))
    given_up = GiveUp(2, 3, error=5, attempts=3, worker=0)
    assert given_up in commands
    assert Skip(2, 3) in commands
    assert coordinator.failures == [given_up]
    assert coordinator.failed_units == 1
    done = [Slice(0, 2)]
    check_invariants(coordinator, done)
    while spans := assigned(commands):
        span = spans[0]
        commands = tell(coordinator, Progressed(0, span_of(commands), span.start, span.stop, result=0))
        done.append(span)
    assert sorted(done) == [Slice(0, 2), Slice(3, 4), Slice(4, 10)]
    assert coordinator.is_over
    assert commands[-1] == Finish(None)


def test_what_failed_as_a_part_of_more_is_tried_by_itself() -> None:
    """One of many units that failed together has not failed by itself yet."""
    coordinator = coordinate(10)
    tell(coordinator, WorkerJoined(0), StepFailed(0, 0, 0, 10, error=3))
    tell(coordinator, StepFailed(0, 1, 2, 4, error=4))
    assert coordinator.failures == []
    check_invariants(coordinator, [])


def test_two_failures_of_one_unit_give_it_up_with_where_it_was() -> None:
    """A worker that dies of a unit that had failed before gives it up."""
    coordinator = coordinate(1)
    tell(coordinator, WorkerJoined(0), StepFailed(0, 0, 0, 1, error=3))
    commands = tell(coordinator, WorkerLost(0, "died", 0, 1, is_suspect=True, error=4))
    assert commands == [GiveUp(0, 1, error=4, attempts=2, worker=0)]


def test_a_worker_that_was_taken_away_costs_no_attempt() -> None:
    """Units under way at workers that leave are tried again as often as it takes."""
    coordinator = coordinate(10)
    for worker in range(5):
        assert assigned(tell(coordinator, WorkerJoined(worker))) == {worker: Slice(0, 10)}
        tell(coordinator, WorkerLost(worker, "taken away", 0, 10, is_suspect=False))
    assert coordinator.failures == []


def test_a_step_that_kills_twice_is_tried_in_halves() -> None:
    """The step that a worker died in is suspect; at the second death it is cut in two, and only it."""
    coordinator = coordinate(10)
    tell(coordinator, WorkerJoined(0), WorkerLost(0, "died", 4, 6, is_suspect=True))
    spans: dict[int, Slice] = {}
    for worker in (1, 2, 3):
        spans |= assigned(tell(coordinator, WorkerJoined(worker)))
    assert sorted(spans.values()) == [Slice(0, 4), Slice(4, 6), Slice(6, 10)]
    [suspect] = [worker for worker, span in spans.items() if span == Slice(4, 6)]
    tell(coordinator, WorkerLost(suspect, "died", 4, 6, is_suspect=True))
    assert assigned(tell(coordinator, WorkerJoined(4))) == {4: Slice(4, 5)}
    assert assigned(tell(coordinator, WorkerJoined(5))) == {5: Slice(5, 6)}
    [lost] = [one for one in tell(coordinator, WorkerLost(4, "died", 4, 5, is_suspect=True)) if isinstance(one, GiveUp)]
    assert (lost.start, lost.stop, lost.worker) == (4, 5, 4)


# Stopping early


def stopped(*, finish_front: bool = False) -> Coordinator:
    """Unit 50 was given up by worker 2, where none may be; workers 0 and 1 are at [0, 50) and behind it."""
    coordinator = coordinate(100, expected_workers=2, finish_front=finish_front)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1), StepFailed(1, 1, 50, 51, error=0), WorkerJoined(2))
    commands = tell(coordinator, StepFailed(2, 3, 50, 51, error=0))
    assert coordinator.is_stopping
    # Nobody is asked that has nothing.
    asked = sorted(one.worker for one in commands if isinstance(one, Trim))
    assert asked == ([1] if finish_front else [0, 1])
    return coordinator


def test_when_too_many_have_failed_nothing_new_is_begun() -> None:
    """What is under way is finished up to the step that is running, and then it is over, without a whole."""
    coordinator = stopped()
    tell(coordinator, Trimmed(0, 0, 10), Trimmed(1, 2, 60))
    assert assigned(tell(coordinator, WorkerJoined(3))) == {}
    tell(coordinator, Progressed(0, 0, 0, 10, result=0))
    assert not coordinator.is_over
    assert tell(coordinator, Progressed(1, 2, 51, 60, result=1)) == [Append(1)]
    assert coordinator.is_over
    assert coordinator.done_units == 19


def test_the_front_is_finished_where_asked() -> None:
    """All before the first unit that was given up is done, at whatever worker."""
    coordinator = stopped(finish_front=True)
    tell(coordinator, Trimmed(1, 2, 60), Progressed(1, 2, 51, 60, result=1))
    commands = tell(coordinator, WorkerLost(0))
    assert sorted(assigned(commands).values()) == [Slice(0, 45), Slice(45, 50)]
    for span in [one for one in commands if isinstance(one, Assign)]:
        assert not coordinator.is_over
        tell(coordinator, Progressed(span.worker, span.span, span.start, span.stop, result=2))
    assert coordinator.is_over
    assert coordinator.done_units == 59


def test_as_many_may_fail_as_was_said() -> None:
    """A number of units, or a part of all."""
    for most_failed in (1, 0.1):
        coordinator = coordinate(10, most_failed=most_failed)
        commands = tell(coordinator, WorkerJoined(0))
        for _ in range(4):
            assert not coordinator.is_stopping
            unit, span = assigned(commands)[0].start, span_of(commands)
            commands = tell(coordinator, StepFailed(0, span, unit, unit + 1, error=0))
        assert coordinator.failed_units == 2
        assert coordinator.is_stopping


def test_a_worker_that_is_silent_as_long_as_it_was_said_to_be_busy_keeps_what_it_has() -> None:
    """It may be at its last unit; who took the rest would only begin when it had been done."""
    coordinator = coordinate(1000, expected_workers=2)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1))
    tell(coordinator, Progressed(0, 0, 0, 400, result=0, busy_seconds=4.0, setup_seconds=0.1), now_seconds=5.0)
    tell(coordinator, Progressed(1, 1, 500, 1000, result=0, busy_seconds=5.0, setup_seconds=0.1), now_seconds=6.0)
    assert tell(coordinator, Ticked(), now_seconds=5.99) == []
    # Much longer than it was ever silent before: it is stuck.
    assert tell(coordinator, Ticked(), now_seconds=30.0)


def test_what_has_failed_is_soon_tried_elsewhere_though_all_are_busy() -> None:
    """After a second, another worker gives back what it has not begun; the failed unit is the next that it gets."""
    coordinator = coordinate(1000, expected_workers=2)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1))
    tell(coordinator, StepFailed(0, 0, 0, 1, error=0))
    assert tell(coordinator, Progressed(1, 1, 500, 510, result=0, busy_seconds=0.5), now_seconds=0.5) == [Append(0)]
    commands = tell(coordinator, Progressed(1, 1, 510, 530, result=1, busy_seconds=1.0), now_seconds=1.5)
    assert trim_of(commands) == Trim(1, 1, 1.0)
    tell(coordinator, Trimmed(1, 1, 540), now_seconds=1.5)
    commands = tell(coordinator, Progressed(1, 1, 530, 540, result=2, busy_seconds=0.5), now_seconds=2.0)
    assert assigned(commands) == {1: Slice(0, 1)}


def test_every_failure_may_wait_for_a_worker_that_happens_to_be_idle() -> None:
    """The second as long as the first, which was taken by one that was."""
    coordinator = coordinate(1000, expected_workers=2)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1), StepFailed(0, 0, 0, 1, error=0))
    tell(coordinator, Progressed(1, 1, 500, 1000, result=0, busy_seconds=5.0), now_seconds=0.5)
    assert coordinator._workers[1].done_to == 0
    commands = tell(coordinator, Progressed(1, coordinator._workers[1].span, 0, 1, result=1), now_seconds=0.6)
    while trims := [one for one in commands if isinstance(one, Trim)]:
        commands = tell(coordinator, Trimmed(0, trims[0].span, 250), now_seconds=0.6)
    assert coordinator._workers[1].state == coordinator._workers[0].state == "running"
    commands = tell(coordinator, StepFailed(0, coordinator._workers[0].span, 100, 101, error=0), now_seconds=100.0)
    assert not any(isinstance(one, Trim) for one in commands)
    assert coordinator.wake_seconds(100.0) == pytest.approx(101.0)


# Suspension


def faulty() -> Coordinator:
    """Three steps have failed at worker 0 that worker 1 has finished; worker 0 has what is left."""
    coordinator = coordinate(1000, expected_workers=2, most_failed=math.inf)
    tell(coordinator, WorkerJoined(0), WorkerJoined(1))
    for unit in range(3):
        failing = coordinator._workers[0]
        tell(coordinator, StepFailed(0, failing.span, unit, unit + 1, error=0))
        other = coordinator._workers[1]
        busy_seconds = float(other.stop - other.done_to)  # a second for each: tails are worth taking
        tell(coordinator, Progressed(1, other.span, other.done_to, other.stop, result=0, busy_seconds=busy_seconds))
        other = coordinator._workers[1]
        assert (other.done_to, other.stop) == (unit, unit + 1)
        commands = tell(coordinator, Progressed(1, other.span, unit, unit + 1, result=0, busy_seconds=1.0))
        while trims := [one for one in commands if isinstance(one, Trim)]:
            [trim] = trims
            commands = tell(coordinator, Trimmed(0, trim.span, coordinator._workers[0].stop - 1))
    return coordinator


def test_a_worker_at_which_steps_fail_that_others_finish_is_suspended() -> None:
    """It is told once, and gets nothing more while there is another."""
    coordinator = faulty()
    assert coordinator.suspended_workers == 1
    assert coordinator.flaky_steps == 3
    suspended = coordinator._workers[0]
    tell(coordinator, Progressed(0, suspended.span, suspended.done_to, suspended.stop, result=0))
    assert suspended.state == "idle"
    tell(coordinator, Ticked(), now_seconds=100.0)
    assert suspended.state == "idle"


def test_a_suspended_worker_that_is_alone_works_all_the_same() -> None:
    """There is nobody else: rather there than never."""
    coordinator = faulty()
    suspended = coordinator._workers[0]
    tell(coordinator, Progressed(0, suspended.span, suspended.done_to, suspended.stop, result=0))
    assert list(assigned(tell(coordinator, WorkerLost(1)))) == [0]


def test_what_was_sent_up_is_not_lost() -> None:
    """A dead worker costs only what it had not sent up."""
    coordinator = coordinate(10)
    tell(coordinator, WorkerJoined(0), Progressed(0, 0, 0, 7, result=0), WorkerLost(0, "died"))
    assert assigned(tell(coordinator, WorkerJoined(1))) == {1: Slice(7, 10)}


# Impossible events are refused, with what the worker went through


def running(*, is_complete: bool = True) -> Coordinator:
    """Worker 0 has done 0 to 3 of its span 0, which is 0 to 10."""
    coordinator = coordinate(10, is_complete=is_complete)
    tell(coordinator, WorkerJoined(0), Progressed(0, 0, 0, 3, result=0, busy_seconds=3.0))
    return coordinator


@pytest.mark.parametrize(
    "event",
    [
        WorkerJoined(0),
        Progressed(0, 0, 2, 5, result=1),
        Progressed(0, 0, 4, 5, result=1),
        Progressed(0, 0, 3, 11, result=1),
        Progressed(0, 0, 3, 3, result=1),
        Progressed(0, 1, 3, 5, result=1),
        Trimmed(0, 0, 5),
        StepFailed(0, 0, 2, 5, error=0),
        StepFailed(0, 0, 5, 11, error=0),
        StepFailed(0, 0, 5, 5, error=0),
        StepFailed(0, 7, 3, 5, error=0),
    ],
    ids=kind_name,
)
def test_an_impossible_event_is_refused_with_the_story(event: Event) -> None:
    """The message has the state of the worker, its span, and what happened to it."""
    with pytest.raises(ImpossibleEventError, match=r"worker 0, running, span 0 \[3, 10\): assigned -> running \| Prog"):
        tell(running(), event)


@pytest.mark.parametrize(
    "event",
    [
        WorkerLost(0, "died", 1, 4, is_suspect=True),
        WorkerLost(0, "died", 8, 12, is_suspect=True),
        WorkerLost(0, "died", 20, 30, is_suspect=True),
    ],
    ids=kind_name,
)
def test_a_worker_does_not_die_in_a_step_that_is_not_its_own(event: WorkerLost) -> None:
    """A suspect step outside the span is refused: else its units would be worked on twice."""
    with pytest.raises(ImpossibleEventError, match=r"span 0 \[3, 10\)"):
        tell(running(), event)


@pytest.mark.parametrize(
    "event",
    [WorkerLost(5), Progressed(5, 0, 3, 5, result=1), Trimmed(5, 0, 5), StepFailed(5, 0, 3, 5, error=0)],
    ids=kind_name,
)
def test_an_event_of_nobody_is_refused(event: Event) -> None:
    """There is no such worker, and the message says so."""
    with pytest.raises(ImpossibleEventError, match="there is no such worker"):
        tell(running(), event)


@pytest.mark.parametrize("event", [WorkerLost(0), Progressed(0, 0, 3, 5, result=1)], ids=kind_name)
def test_a_worker_that_is_gone_is_not_heard_of(event: Event) -> None:
    """Its loss is the last thing about it."""
    coordinator = running()
    tell(coordinator, WorkerLost(0))
    with pytest.raises(ImpossibleEventError, match="there is no such worker"):
        tell(coordinator, event)


@pytest.mark.parametrize("stop", [0, 2, 11])
def test_a_trim_cuts_within_the_span(stop: int) -> None:
    """An answer that cuts off what was sent up, or adds units, is refused."""
    coordinator = running()
    trim_of(tell(coordinator, WorkerJoined(1)))
    with pytest.raises(ImpossibleEventError, match=r"worker 0, trimming, span 0 \[3, 10\)"):
        tell(coordinator, Trimmed(0, 0, stop))


def test_an_idle_worker_has_nothing_to_tell() -> None:
    """A worker that has finished its span does not progress in it."""
    coordinator = running()
    tell(coordinator, Progressed(0, 0, 3, 10, result=1))
    with pytest.raises(ImpossibleEventError, match="worker 0, idle"):
        tell(coordinator, Progressed(0, 0, 3, 10, result=1))


@pytest.mark.parametrize("event", [SourceGrew(9, True), SourceGrew(11, True), SourceGrew(11, False)], ids=kind_name)
def test_a_complete_source_stays_as_it_is(event: SourceGrew) -> None:
    """Its units do not change any more."""
    with pytest.raises(ImpossibleEventError, match="a source of 10 units has"):
        tell(running(), event)


def test_a_complete_source_stays_complete() -> None:
    """News that more may come after the last unit are refused: the end may have been told already."""
    with pytest.raises(ImpossibleEventError, match="10 units"):
        tell(running(), SourceGrew(10, is_complete=False))


def test_a_source_does_not_shrink() -> None:
    """Units that were known stay known."""
    coordinator = coordinate(10, is_complete=False)
    with pytest.raises(ImpossibleEventError, match="a source of 10 units has 9 now"):
        tell(coordinator, SourceGrew(9, is_complete=False))


# Trims


def trimming(*, is_complete: bool = True) -> Coordinator:
    """Worker 0 has done 0 to 3 of its 10 units, and was asked for the tail; it is promised to worker 1."""
    coordinator = running(is_complete=is_complete)
    assert trim_of(tell(coordinator, WorkerJoined(1))).worker == 0
    return coordinator


def test_a_tail_goes_to_the_worker_that_it_was_promised_to() -> None:
    """The units behind the cut are its span, as soon as the answer is there."""
    assert assigned(tell(trimming(), Trimmed(0, 0, 6))) == {1: Slice(6, 10)}


def test_a_tail_whose_worker_has_gone_waits_for_another() -> None:
    """It goes to the next worker that comes."""
    coordinator = trimming()
    assert tell(coordinator, WorkerLost(1), Trimmed(0, 0, 6)) == []
    assert assigned(tell(coordinator, WorkerJoined(2))) == {2: Slice(6, 10)}


def test_a_worker_that_dies_while_asked_leaves_all_to_the_other() -> None:
    """The worker that was promised a tail gets the whole of what was not sent up."""
    assert assigned(tell(trimming(), WorkerLost(0))) == {1: Slice(3, 10)}


def test_a_worker_that_has_finished_is_not_given_work_before_its_answer() -> None:
    """Else its answer would be taken for one about its next span."""
    coordinator = trimming(is_complete=False)
    tell(coordinator, Progressed(0, 0, 3, 10, result=1))
    assert assigned(tell(coordinator, SourceGrew(20, is_complete=False))) == {}
    # One of the two gets what has come, or each a part.
    after = assigned(tell(coordinator, Trimmed(0, 0, 10)))
    assert sum(map(len, after.values())) == 10


def test_nobody_is_asked_twice_at_once() -> None:
    """While an answer is under way, a third worker does not ask the same one."""
    assert not any(isinstance(one, Trim) for one in tell(trimming(), WorkerJoined(2), Ticked()))


# Ticks


def test_ticks_are_wanted_only_while_some_wait_for_others() -> None:
    """No worker, all busy or all idle: nothing would change by the passing of time."""
    coordinator = coordinate(1)
    assert coordinator.wake_seconds(5.0) is None
    tell(coordinator, WorkerJoined(0))
    assert coordinator.wake_seconds(5.0) is None
    tell(coordinator, WorkerJoined(1))
    wake_seconds = coordinator.wake_seconds(5.0)
    assert wake_seconds is not None
    assert wake_seconds > 5.0
    tell(coordinator, Progressed(0, 0, 0, 1, result=0))
    assert coordinator.wake_seconds(5.0) is None
