from __future__ import annotations

import json
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import (
    Advise,
    Allow,
    Append,
    Assign,
    Command,
    Event,
    FailJoin,
    Finish,
    GiveUp,
    Join,
    Joined,
    Merge,
    Progressed,
    Skip,
    SourceGrew,
    Spill,
    StepExhausted,
    StepFailed,
    Suspend,
    Ticked,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.commands import COMMANDS as KNOWN_COMMANDS
from aliquot.coordinator.events import EVENTS as KNOWN_EVENTS
from aliquot.coordinator.records import from_json, to_json
from aliquot.sizing import Observation

numbers = st.integers(0, 2**53)
reals = st.floats(0, 1e15)
observations = st.lists(st.builds(Observation, reals, reals, reals), max_size=4).map(tuple)
plain_observations = st.lists(st.tuples(reals, reals, reals), max_size=4).map(tuple)

EVENTS: dict[type, st.SearchStrategy[Event]] = {
    WorkerJoined: st.builds(WorkerJoined, numbers),
    WorkerLost: st.builds(
        WorkerLost,
        numbers,
        st.text(),
        numbers,
        numbers,
        is_suspect=st.booleans(),
        error=st.none() | numbers,
        is_exhausted=st.booleans(),
        peak_bytes=numbers,
        stopped_seconds=reals,
    ),
    Progressed: st.builds(
        Progressed,
        *[numbers] * 7,
        busy_seconds=reals,
        setup_seconds=st.none() | reals,
        seconds=plain_observations,
        peak_bytes=plain_observations,
        stopped_steps=numbers,
        stopped_seconds=reals,
    ),
    Trimmed: st.builds(Trimmed, numbers, numbers, numbers),
    StepFailed: st.builds(StepFailed, numbers, numbers, numbers, numbers, numbers),
    StepExhausted: st.builds(StepExhausted, *[numbers] * 6, stopped_seconds=reals),
    Joined: st.builds(Joined, *[numbers] * 5),
    SourceGrew: st.builds(SourceGrew, numbers, st.booleans()),
    Ticked: st.just(Ticked()),
}
COMMANDS: dict[type, st.SearchStrategy[Command]] = {
    Assign: st.builds(
        Assign,
        *[numbers] * 5,
        seconds=observations,
        peak_bytes=observations,
        allowed_bytes=st.none() | numbers,
        is_careful=st.booleans(),
    ),
    Trim: st.builds(Trim, numbers, numbers, st.floats(0, 1)),
    Advise: st.builds(Advise, numbers, numbers, observations, observations),
    Allow: st.builds(Allow, numbers, numbers, numbers),
    Suspend: st.builds(Suspend, numbers),
    Join: st.builds(Join, *[numbers] * 4, allowed_bytes=st.none() | numbers),
    FailJoin: st.builds(FailJoin, st.none() | numbers),
    Append: st.builds(Append, numbers),
    Skip: st.builds(Skip, numbers, numbers),
    Merge: st.builds(Merge, numbers, numbers),
    Spill: st.builds(Spill, numbers),
    GiveUp: st.builds(
        GiveUp,
        numbers,
        numbers,
        st.none() | numbers,
        numbers,
        worker=st.none() | numbers,
        is_exhausted=st.booleans(),
        peak_bytes=numbers,
    ),
    Finish: st.builds(Finish, st.none() | numbers),
}


def test_no_kind_is_forgotten() -> None:
    """Every event and every command is among those tested here."""
    assert set(EVENTS) == set(typing.get_args(Event))
    assert set(COMMANDS) == set(typing.get_args(Command))


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_event_survives_json(kind: type, data: st.DataObject) -> None:
    """An event read back from JSON, as any event, is of the same kind and equal."""
    event = data.draw(EVENTS[kind])
    again = from_json(KNOWN_EVENTS, json.loads(json.dumps(to_json(event))))
    assert type(again) is kind
    assert again == event


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_command_survives_json(kind: type, data: st.DataObject) -> None:
    """A command read back from JSON, as any command, is of the same kind and equal."""
    command = data.draw(COMMANDS[kind])
    again = from_json(KNOWN_COMMANDS, json.loads(json.dumps(to_json(command))))
    assert type(again) is kind
    assert again == command


def test_records_of_different_kinds_differ() -> None:
    """Two commands with the same content are not the same command, and no plain tuple is a command."""
    others: list[object] = [Spill(1), (1,)]
    assert Append(1) not in others
    assert Append(1) in [*others, Append(1)]
