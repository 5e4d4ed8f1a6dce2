"""The loop of a run: event -> coordinator -> commands -> site and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aliquot.coordinator import (
    Advise,
    Allow,
    Append,
    Assign,
    Command,
    Coordinator,
    Event,
    Extend,
    FailJoin,
    Finish,
    GiveUp,
    Halted,
    Join,
    Joined,
    Merge,
    Progressed,
    Skip,
    Spill,
    StepExhausted,
    StepFailed,
    Suspend,
    Ticked,
    Trim,
    WorkerLost,
)
from aliquot.errors import JobError, SourceChangedError
from aliquot.quantities import format_bytes
from aliquot.running.outcome import NOT_LOOKED_INTO, Failure, RemoteTraceback
from aliquot.running.recorder import Recorder
from aliquot.running.results import Results
from aliquot.running.tally import Tally
from aliquot.sites.site import Site, StepError
from aliquot.workers.packing import Packed
from aliquot.workers.stepping import add_note

if TYPE_CHECKING:
    from aliquot.running.growing import Growing

# How often a watcher looks, where nothing happens: steps may be long.
_WATCH_SECONDS = 1.0
# So long a run that stops waits for steps that are under way; longer ones are ended.
_STOPPING_SECONDS = 2.0


class ResultSite(Site, Protocol):
    """A site whose workers send real results."""

    def take_result(self, result: int) -> Packed:
        """What a worker sent up; once."""

    def join(self, command: Join, first: Packed, second: Packed) -> None:
        """Have a worker join two results."""

    def error(self, error: int) -> StepError | None:
        """What went wrong in a worker, if that was not forgotten."""

    def forget_error(self, error: int) -> None:
        """The units are tried again, or were given up."""

    def acknowledge(self, worker: int, result_bytes: int) -> None:
        """A result has been dealt with."""


class Stopper:
    """Whether somebody wants the run to stop; asked between events."""

    is_wanted = False
    signal_number: int | None = None  # who wants it, where that is a signal


class Watcher(Protocol):
    """Is told how a run goes on."""

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Called after each event."""


def drive(
    coordinator: Coordinator,
    site: ResultSite,
    results: Results,
    *,
    tally: Tally,
    watcher: Watcher,
    recorder: Recorder,
    stopper: Stopper,
    growing: Growing | None = None,
) -> None:
    """Run until it is over: all units are done or were set aside, or more were than may be, or nobody wants it.

    While units are still being counted, that is done in between.
    """
    stops_seconds: float | None = None
    while not coordinator.is_over:
        now_seconds = site.now_seconds()
        if stopper.is_wanted and not coordinator.is_halted:
            handle(coordinator, site, results, recorder, Halted())
            watcher.update(coordinator, tally, now_seconds)
        if coordinator.is_stopping and coordinator.is_front_done:
            stops_seconds = stops_seconds or now_seconds + _STOPPING_SECONDS
            if now_seconds >= stops_seconds:
                return
        if growing is not None and not coordinator.is_complete and not coordinator.is_stopping:
            events = site.wait(now_seconds)
            if not events or coordinator.busy_workers:  # else those who could begin would wait for it
                grown = growing.look()
                events += [] if grown is None else [grown]
            events = events or [Ticked()]
        else:
            wake_seconds = coordinator.wake_seconds(now_seconds) or now_seconds + _WATCH_SECONDS
            due_seconds = recorder.due_seconds
            events = site.wait(wake_seconds if due_seconds is None else min(wake_seconds, due_seconds)) or [Ticked()]
        for event in events:
            commands = handle(coordinator, site, results, recorder, event)
            tally.note(event, commands, site.now_seconds())
        recorder.keep_up(site.now_seconds())
        watcher.update(coordinator, tally, site.now_seconds())


def handle(
    coordinator: Coordinator, site: ResultSite, results: Results, recorder: Recorder, event: Event
) -> list[Command]:
    """Pass one event through the coordinator and carry its commands out."""
    if isinstance(event, Progressed):
        packed = site.take_result(event.result)
        recorder.arrived(event.start, event.stop, packed)
        results.arrived(event.result, event.start, event.stop, packed)
    elif isinstance(event, Joined):
        results.joined(event.result, site.take_result(event.result))
    elif isinstance(event, StepFailed):
        _raise_if_hopeless(site.error(event.error))
    now_seconds = site.now_seconds()
    commands = coordinator.handle(event, now_seconds)
    # Workers first: they may be waiting.
    for command in commands:
        if isinstance(command, Assign | Extend | Trim | Advise | Allow | Suspend):
            site.perform(command)
        elif isinstance(command, Join):
            site.join(command, *results.lend(command.first, command.second))
    recorder.note(event, commands, now_seconds)
    for command in commands:
        if isinstance(command, GiveUp):
            recorder.failed(results.failed(_failure(command, site)))
        elif isinstance(command, FailJoin):
            _raise_join_error(None if command.error is None else site.error(command.error))
        elif isinstance(command, Append | Skip | Merge | Spill | Finish):
            results.perform(command)
    if isinstance(event, Progressed):
        results.unpack_early(event.result)
        site.acknowledge(event.worker, event.result_bytes)
    elif isinstance(event, StepFailed | StepExhausted | WorkerLost) and event.error is not None:
        site.forget_error(event.error)
    return commands


def _raise_if_hopeless(error: StepError | None) -> None:
    """Where the disk is full, a program is not there or the source has changed, others would fail too: the run ends."""
    if error is None or error.exception is None:
        return
    is_for_all = any(getattr(error.exception, name, False) for name in ("is_out_of_room", "is_program_missing"))
    if is_for_all or isinstance(error.exception, SourceChangedError):
        raise error.exception


def _raise_join_error(error: StepError | None) -> None:
    """There will be no value: raise what the user's join did, with where it happened."""
    summary = "its worker died" if error is None else error.summary
    raised: Exception = JobError(f"two results cannot be joined: {summary}")
    if error is not None and isinstance(error.exception, Exception):
        raised = error.exception
        add_note(raised, "aliquot: this is from joining two results")
    raise raised from (RemoteTraceback(error.traceback) if error is not None and error.traceback else None)


def _failure(command: GiveUp, site: ResultSite) -> Failure:
    error = None if command.error is None else site.error(command.error)
    if error is None:
        error = StepError("failed as well, and was not looked into, since the run was over", kind=NOT_LOOKED_INTO)
    summary = error.summary
    if command.is_exhausted and error.kind == "exhausted" and site.total_bytes is not None:
        summary += f": it does not fit into {format_bytes(site.total_bytes)}, which is all that there is for workers"
    return Failure(
        start=command.start,
        stop=command.stop,
        error=summary,
        traceback=error.traceback,
        shown=error.shown,
        attempts=command.attempts,
        exception=error.exception,
        kind=error.kind,
        worker=command.worker,
        held_bytes=max(command.peak_bytes, error.held_bytes),
        spoiled=error.spoiled,
    )
