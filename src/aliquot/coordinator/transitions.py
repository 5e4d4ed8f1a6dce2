"""The life of a worker as the coordinator sees it, as data. docs/states.md is made from this table."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["idle", "promised", "running", "trimming", "finished", "joining", "gone"]

STATES: dict[State, str] = {
    "idle": "owns nothing; takes what waits, or the tail of another's span",
    "promised": "owns nothing; the tail of a span that is being trimmed will be its own",
    "running": "owns a span; an open one, which grows with the source, may have nothing left for now",
    "trimming": "owns a span, and was asked to give its tail back",
    "finished": "has finished its span, but not yet answered that it has no tail to give",
    "joining": "owns nothing; joins two results",
    "gone": "left or died; what it had not sent up waits again",
}


class Transition(NamedTuple):
    """In a state, an event leads to one of some states, and does something."""

    state: State
    event: str
    next_states: tuple[State, ...]
    what: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition("idle", "assigned", ("running",), "the front of what waits becomes its span"),
    Transition("idle", "promised", ("promised",), "nothing waits: the span with the most time left is trimmed for it"),
    Transition("idle", "given results", ("joining",), "two large results wait to be joined"),
    Transition("idle", "WorkerLost", ("gone",), "nothing is lost"),
    Transition("promised", "released", ("idle",), "the owner has answered; if there is a tail, it is assigned"),
    Transition("promised", "WorkerLost", ("gone",), "the tail will wait for another"),
    Transition("running", "Progressed", ("running", "idle"), "results are joined; at the end of the span it is idle"),
    Transition(
        "running",
        "asked",
        ("trimming",),
        "another is idle, or needs the memory; what failed or is to be joined waits; or the run stops",
    ),
    Transition("running", "closed", ("idle",), "all units are known, and it has done all of its open span"),
    Transition("running", "StepFailed", ("idle",), "the failed step is tried again, elsewhere, then in halves"),
    Transition("running", "StepExhausted", ("idle",), "the unit waits for a larger part of the site's memory"),
    Transition("running", "WorkerLost", ("gone",), "all of its span that was not sent up waits again"),
    Transition("trimming", "Progressed", ("trimming", "finished"), "results are joined; its answer is still to come"),
    Transition("trimming", "Trimmed", ("running", "idle"), "the tail goes to the worker that was promised it"),
    Transition("trimming", "StepFailed", ("finished",), "as while running; its answer is still to come"),
    Transition("trimming", "StepExhausted", ("finished",), "as while running; its answer is still to come"),
    Transition("trimming", "WorkerLost", ("gone",), "all of its span waits again, the promised worker is idle"),
    Transition("finished", "Trimmed", ("idle",), "there is no tail; the promised worker is idle"),
    Transition("finished", "WorkerLost", ("gone",), "nothing is lost, the promised worker is idle"),
    Transition("joining", "Joined", ("idle",), "the two are one result, which may be joined again"),
    Transition("joining", "StepFailed", ("idle",), "tried once more, elsewhere if possible"),
    Transition("joining", "StepExhausted", ("idle",), "tried again with a larger part of the site's memory"),
    Transition("joining", "WorkerLost", ("gone",), "another worker joins them"),
)

_NEXT = {(row.state, row.event): row.next_states for row in TRANSITIONS}


def next_states(state: State, event: str) -> tuple[State, ...]:
    """The states that an event may lead to; none if it cannot happen in this state."""
    return _NEXT.get((state, event), ())


def states_page() -> str:
    """docs/states.md."""
    lines = [
        "# The states of a worker",
        "",
        "Made from `aliquot.coordinator.transitions` by `make states`; a test holds the two together. Events in",
        "`CamelCase` come from outside, the others are the coordinator's own decisions. Whatever is not in the table",
        "cannot happen, and is refused with the story of the worker.",
        "",
        "| state | meaning |",
        "| --- | --- |",
        *(f"| {state} | {meaning} |" for state, meaning in STATES.items()),
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> idle: WorkerJoined",
        *(f"    {row.state} --> {following}: {row.event}" for row in TRANSITIONS for following in row.next_states),
        "    gone --> [*]",
        "```",
        "",
        "| in state | on | becomes | and |",
        "| --- | --- | --- | --- |",
        *(f"| {row.state} | {row.event} | {' or '.join(row.next_states)} | {row.what} |" for row in TRANSITIONS),
    ]
    return "\n".join(lines) + "\n"
