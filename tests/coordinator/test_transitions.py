from __future__ import annotations

import typing
from pathlib import Path

import pytest

from aliquot.coordinator import (
    AppendAsTheyCome,
    Command,
    Coordinator,
    Event,
    FailJoin,
    Finish,
    Join,
    Joined,
    Joining,
    Merge,
    MergeAsTree,
    Progressed,
    SourceGrew,
    StepExhausted,
    StepFailed,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.invariants import check_invariants
from aliquot.coordinator.roster import Roster
from aliquot.coordinator.transitions import STATES, TRANSITIONS, State, Transition, next_states, states_page
from aliquot.coordinator.worker import Worker
from aliquot.slices import Slice

DECISIONS = {"assigned", "promised", "released", "asked", "given results", "closed"}
# Worker 0 is asked for the tail of its 20 units, of which it has done 4; it is promised to worker 1.
ASKED: tuple[Event, ...] = (WorkerJoined(0), Progressed(0, 0, 0, 4, result=0, busy_seconds=4.0), WorkerJoined(1))
HISTORIES: dict[str, tuple[Event, ...]] = {
    "a tail is given": (*ASKED, Trimmed(0, 0, 10), Progressed(0, 0, 4, 10, result=1)),
    "everything left is given": (*ASKED, Trimmed(0, 0, 4)),
    "nothing is given": (*ASKED, Trimmed(0, 0, 20)),
    "finished first": (*ASKED, Progressed(0, 0, 4, 6, result=1), Progressed(0, 0, 6, 20, result=2), Trimmed(0, 0, 20)),
    "finished and lost": (*ASKED, Progressed(0, 0, 4, 20, result=1), WorkerLost(0)),
    "failed first": (*ASKED, StepFailed(0, 0, 5, 6, error=0), Trimmed(0, 0, 20)),
    "lost instead": (*ASKED, WorkerLost(0)),
    "the other is lost": (*ASKED, WorkerLost(1), Trimmed(0, 0, 10)),
    "failed": (WorkerJoined(0), StepFailed(0, 0, 5, 6, error=0)),
    "too large": (WorkerJoined(0), StepExhausted(0, 0, 5, 6, error=0, peak_bytes=0)),
    "too large first": (*ASKED, StepExhausted(0, 0, 5, 6, error=0, peak_bytes=0), Trimmed(0, 0, 20)),
    "lost": (WorkerJoined(0), WorkerLost(0)),
    "lost while idle": (WorkerJoined(0), Progressed(0, 0, 0, 20, result=0), WorkerLost(0)),
}
# Two results that are large: the worker, whose span ends, is to join them.
LARGE: tuple[Event, ...] = (
    WorkerJoined(0),
    Progressed(0, 0, 0, 10, result=0, result_bytes=10**9),
    Progressed(0, 0, 10, 20, result=1, result_bytes=10**9),
)
HISTORIES_OF_JOINS: dict[str, tuple[Event, ...]] = {
    "joined": (*LARGE, Joined(0, 1, 0, 10**9)),
    "cannot be joined": (*LARGE, StepFailed(0, 1, 0, 0, error=0), StepFailed(0, 2, 0, 0, error=1)),
    "too large to be joined": (*LARGE, StepExhausted(0, 1, 0, 0, error=0, peak_bytes=0)),
    "lost while joining": (*LARGE, WorkerLost(0), WorkerJoined(1), Joined(1, 2, 0, 10**9)),
    "killed while joining": (*LARGE, WorkerLost(0, is_suspect=True), WorkerJoined(1), WorkerLost(1, is_suspect=True)),
    "killed for memory": (*LARGE, WorkerLost(0, is_suspect=True, is_exhausted=True), WorkerJoined(1)),
}
# All that is known is done, when it becomes known that there is nothing more.
CLOSED: tuple[Event, ...] = (WorkerJoined(0), Progressed(0, 0, 0, 20, result=0), SourceGrew(20, is_complete=True))
EVENTS = {event.__name__ for event in typing.get_args(Event)}


def test_every_state_is_reached() -> None:
    """From idle, where every worker begins, a worker can come to every state."""
    reached: set[State] = {"idle"}
    for _ in TRANSITIONS:
        reached |= {state for row in TRANSITIONS if row.state in reached for state in row.next_states}
    assert reached == set(STATES)


def test_every_state_can_be_left_for_good() -> None:
    """A worker can be lost in any state, and nothing follows that."""
    for state in STATES:
        assert next_states(state, "WorkerLost") == (() if state == "gone" else ("gone",))
    assert not [row for row in TRANSITIONS if row.state == "gone"]


def test_every_transition_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of the table is there for nothing: each is part of some history."""
    missing = {(row.state, row.event, state) for row in TRANSITIONS for state in row.next_states}
    move = Roster.move

    def note(roster: Roster, worker: Worker, event: str, state: State) -> None:
        missing.discard((worker.state, event, state))
        move(roster, worker, event, state)

    monkeypatch.setattr(Roster, "move", note)
    for history in HISTORIES.values():
        play(history)
    for history in HISTORIES_OF_JOINS.values():
        play(history, MergeAsTree())
    play(CLOSED, is_complete=False)
    assert not missing


@pytest.mark.parametrize("history", HISTORIES)
def test_the_invariants_hold_through_a_history(history: str) -> None:
    """After each event of a short life, every unit is in one place and every worker where its state says."""
    play(HISTORIES[history])


@pytest.mark.parametrize("history", HISTORIES_OF_JOINS)
@pytest.mark.parametrize("total_bytes", [None, 10**9])
def test_the_invariants_hold_while_results_are_joined(history: str, total_bytes: int | None) -> None:
    """With memory to be shared, and without."""
    play(HISTORIES_OF_JOINS[history], MergeAsTree(), total_bytes)


def test_results_that_cannot_be_joined_are_told_of() -> None:
    """After the second time."""
    assert [FailJoin(1)] == fails(play(HISTORIES_OF_JOINS["cannot be joined"], MergeAsTree()))


@pytest.mark.parametrize("total_bytes", [None, 10**9])
def test_what_is_too_large_for_workers_is_joined_here(total_bytes: int | None) -> None:
    """The memory of the user's own process is not limited."""
    commands = play(HISTORIES_OF_JOINS["too large to be joined"], MergeAsTree(), total_bytes)
    assert commands[-2:] == [Merge(0, 1), Finish(0)]


def test_results_are_joined_with_more_memory_where_there_is_more() -> None:
    """Of two workers that may hold half of it each, one joins with all of it."""
    coordinator = Coordinator(MergeAsTree(), units=20, total_bytes=10**9, expected_workers=2)
    history = (WorkerJoined(0), WorkerJoined(1), Progressed(0, 0, 0, 10, result=0, result_bytes=10**9))
    commands = [command for event in history for command in coordinator.handle(event, 4.0)]
    commands += coordinator.handle(Progressed(1, 1, 10, 20, result=1, result_bytes=10**9), 5.0)
    commands += coordinator.handle(Trimmed(1, 1, 20), 5.0)
    first = next(command for command in commands if isinstance(command, Join))
    assert first.allowed_bytes == 10**9 // 2
    commands = coordinator.handle(StepExhausted(first.worker, first.span, 0, 0, error=0, peak_bytes=1), 6.0)
    again = next(command for command in commands if isinstance(command, Join))
    assert again.allowed_bytes == 10**9
    assert coordinator.handle(Joined(again.worker, again.span, again.first, 10**9), 7.0) == [Finish(again.first)]
    assert coordinator.is_over


def fails(commands: list[Command]) -> list[Command]:
    return [command for command in commands if isinstance(command, FailJoin)]


def play(
    history: tuple[Event, ...],
    joining: Joining | None = None,
    total_bytes: int | None = None,
    *,
    is_complete: bool = True,
) -> list[Command]:
    coordinator = Coordinator(joining or AppendAsTheyCome(), units=20, is_complete=is_complete, total_bytes=total_bytes)
    commands: list[Command] = []
    done: list[Slice] = []
    for event in history:
        if isinstance(event, Progressed):
            done.append(Slice(event.start, event.stop))
        commands += coordinator.handle(event, 4.0)
        check_invariants(coordinator, done)
    return commands


def test_the_table_has_one_row_for_a_state_and_an_event() -> None:
    """No row hides another."""
    keys = [(row.state, row.event) for row in TRANSITIONS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.state}-{row.event}")
def test_a_row_names_what_exists(row: Transition) -> None:
    """Its states are states, and its event is an event or a decision of the coordinator."""
    assert {row.state, *row.next_states} <= set(STATES)
    assert row.next_states
    assert row.event in EVENTS | DECISIONS
    assert next_states(row.state, row.event) == row.next_states


def test_the_states_are_those_of_the_type() -> None:
    """Every state has a meaning, and only those."""
    assert set(STATES) == set(typing.get_args(State))


def test_what_is_not_in_the_table_leads_nowhere() -> None:
    """An idle worker does not progress, and no worker is trimmed unasked."""
    assert next_states("idle", "Progressed") == ()
    assert next_states("running", "Trimmed") == ()


def test_the_page_of_states_is_up_to_date() -> None:
    """docs/states.md is what the table says: python -m aliquot.coordinator.transitions > docs/states.md."""
    page = Path(__file__).parent.parent.parent / "docs" / "states.md"
    assert page.read_text() == states_page()


def test_a_join_that_failed_goes_to_another_worker_that_is_idle() -> None:
    """Also where the one that failed is idle for longer, and there is nothing else to do."""
    coordinator = Coordinator(MergeAsTree(), units=20, expected_workers=2)
    events = (
        WorkerJoined(0),
        WorkerJoined(1),
        Progressed(0, 0, 0, 10, result=0, result_bytes=10**9),
        Progressed(1, 1, 10, 20, result=1, result_bytes=10**9),
        Trimmed(1, 1, 20),
    )
    commands = [command for event in events for command in coordinator.handle(event, 4.0)]
    (join,) = [command for command in commands if isinstance(command, Join)]
    commands = coordinator.handle(StepFailed(join.worker, join.span, 0, 0, error=0), 5.0)
    (again,) = [command for command in commands if isinstance(command, Join)]
    assert again.worker != join.worker


def test_a_join_that_has_to_wait_does_not_hold_up_the_next() -> None:
    """The first that somebody may do is done."""
    tree = MergeAsTree(most_small_bytes=0)
    for result in range(4):
        tree.add(result, result + 1, result, 100)
    assert tree.large_joins == 2
    second = tree.take_join(lambda join: join.first == 2)
    assert second is not None
    assert (second.first, second.second) == (2, 3)
    assert tree.take_join(lambda join: join.first == 2) is None
