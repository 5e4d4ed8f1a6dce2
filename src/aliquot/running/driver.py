"""The loop of a run: event -> coordinator -> commands -> site and results."""

from __future__ import annotations

from typing import Protocol

from aliquot.coordinator import (
    Advise,
    Append,
    Assign,
    Command,
    Coordinator,
    Event,
    Finish,
    GiveUp,
    Merge,
    Progressed,
    Spill,
    StepFailed,
    Ticked,
    Trim,
    WorkerLost,
)
from aliquot.running.outcome import Failure
from aliquot.running.results import Results
from aliquot.running.tally import Tally
from aliquot.sites.site import Site, StepError
from aliquot.workers.packing import Packed

# How often a watcher looks, where nothing happens: steps may be long.
_WATCH_SECONDS = 1.0


class ResultSite(Site, Protocol):
    """A site whose workers send real results."""

    def take_result(self, result: int) -> Packed:
        """What a worker sent up; once."""

    def take_error(self, error: int) -> StepError:
        """What went wrong in a worker; once."""

    def settle_error(self, error: int, *, is_final: bool) -> None:
        """Whether somebody will ask for it, or the units are tried again."""

    def acknowledge(self, worker: int, result_bytes: int) -> None:
        """A result has been dealt with."""


class Watcher(Protocol):
    """Is told how a run goes on."""

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Called after each event."""


def drive(
    coordinator: Coordinator,
    site: ResultSite,
    results: Results,
    tally: Tally,
    watcher: Watcher,
    *,
    finish_front: bool = False,
) -> tuple[Failure, ...]:
    """Run until all units are done, or some have failed for good; those that have, the first ones first.

    With ``finish_front``, all units before the first failed one are done and appended nevertheless.
    """
    failures: list[Failure] = []
    while not coordinator.is_over:
        if failures and (not finish_front or results.appended_to >= failures[0].start):
            break
        now_seconds = site.now_seconds()
        wake_seconds = coordinator.wake_seconds(now_seconds) or now_seconds + _WATCH_SECONDS
        events = site.wait(wake_seconds) or [Ticked()]
        for event in events:
            commands = handle(coordinator, site, results, event)
            tally.note(event, commands, site.now_seconds())
            for command in commands:
                if isinstance(command, GiveUp):
                    failures.append(_failure(command, site))
        failures.sort(key=lambda failure: failure.start)
        watcher.update(coordinator, tally, site.now_seconds())
    return tuple(failures)


def handle(coordinator: Coordinator, site: ResultSite, results: Results, event: Event) -> list[Command]:
    """Pass one event through the coordinator and carry its commands out."""
    if isinstance(event, Progressed):
        results.arrived(event.result, event.start, event.stop, site.take_result(event.result))
    commands = coordinator.handle(event, site.now_seconds())
    # Workers first: they may be waiting.
    for command in commands:
        if isinstance(command, Assign | Trim | Advise):
            site.perform(command)
    for command in commands:
        if isinstance(command, Append | Merge | Spill | Finish):
            results.perform(command)
    if isinstance(event, Progressed):
        results.unpack_early(event.result)
        site.acknowledge(event.worker, event.result_bytes)
    elif isinstance(event, StepFailed | WorkerLost) and event.error is not None:
        is_final = any(isinstance(command, GiveUp) for command in commands)
        site.settle_error(event.error, is_final=is_final)
    return commands


def _failure(command: GiveUp, site: ResultSite) -> Failure:
    error = StepError("unknown") if command.error is None else site.take_error(command.error)
    return Failure(
        start=command.start,
        stop=command.stop,
        error=error.summary,
        traceback=error.traceback,
        shown=error.shown,
        attempts=command.attempts,
        exception=error.exception,
    )
