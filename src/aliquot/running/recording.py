"""What becomes of a run is recorded as it happens, so that another process can go on with it.

    event -> journal -> coordinator -> commands

A piece is recorded when its result has arrived. Now and then what the outcome consists of by then is made certain,
recorded too, and its pieces are let go.
"""

from __future__ import annotations

import time
from _pickle import dumps, loads
from typing import TYPE_CHECKING, Any, Protocol

from aliquot.coordinator import (
    Assign,
    Command,
    Event,
    Extend,
    Progressed,
    Restored,
    SourceGrew,
    StepExhausted,
    StepFailed,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.running.outcome import Failure
from aliquot.workers.packing import Packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from aliquot.journal import Journal
    from aliquot.running.results import Results

# Results of this sitting have smaller numbers.
_FIRST_RESTORED_RESULT = 1 << 40
# A checkpoint waits for the disk: there is one as often as that takes a twentieth of the time, within these bounds, and
# half of it where the disk is very slow. What comes after the last one is made certain and let go at the end of the
# run, for which somebody waits.
_CHECKPOINT_PART = 20
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
# Commits cost some 50 microseconds, and what is not committed is lost with this process.
_COMMIT_SECONDS = 0.02
# Of a run that is killed amid long steps, it is not known for how long it had gone on by more than this.
_LONGEST_UNKNOWN_SECONDS = 1.0


class DurableSink(Protocol):
    """A sink whose outcome outlives this process, as files do."""

    @property
    def is_certain(self) -> bool:
        """Whether no units were appended since the last checkpoint."""

    def checkpoint(self) -> tuple[list[int], dict[str, Any]]:
        """Which pieces were appended since the last time, by their first units, and the state that contains them."""

    def forget_appended(self) -> None:
        """The state is recorded: what was appended is not needed in pieces any more."""


class JournalRecorder:
    """Records in a journal. ``began_seconds`` is when it all would have begun, with no pause between the sittings."""

    def __init__(self, journal: Journal, sink: DurableSink | None, began_seconds: float) -> None:
        self._journal = journal
        self._sink = sink
        self._began_seconds = began_seconds
        self._commit_seconds = 0.0
        self._next_checkpoint_seconds = 0.0
        self._is_dirty = False
        self._allowed: dict[int, int | None] = {}  # worker -> what its span may hold

    @property
    def run_seconds(self) -> float:
        """How long the run has been going on, without the time between its sittings."""
        return time.monotonic() - self._began_seconds

    def arrived(self, start: int, stop: int, packed: Packed) -> None:
        """Record the piece with its result."""
        self._journal.record_piece(start, stop, _to_bytes(packed))
        self._is_dirty = True

    def failed(self, failure: Failure) -> None:
        """Record all that is known of it but the exception itself."""
        about = failure._replace(exception=None)._asdict()
        self._journal.record_failure(failure.start, failure.stop, about)
        told = {"start": failure.start, "stop": failure.stop, "error": failure.error}
        self._record(self.run_seconds, "set aside", told)

    def note(self, event: Event, commands: list[Command], now_seconds: float) -> None:
        """Record what a report tells of."""
        seconds = now_seconds - self._began_seconds
        if isinstance(event, SourceGrew) and event.is_complete:
            self._journal.set("units", event.units)
            self._is_dirty = True
        about = self._tell(event)
        if about is not None:
            self._record(seconds, *about)
        for command in commands:
            if isinstance(command, Assign):
                self._allowed[command.worker] = command.allowed_bytes
                names = ("worker", "span", "start", "stop", "allowed_bytes", "is_open")
                told = {name: getattr(command, name) for name in names}
                self._record(seconds, "span", {**told, "is_steal": isinstance(event, Trimmed)})
            elif isinstance(command, Extend):
                self._record(seconds, "extend", command._asdict())

    def _record(self, seconds: float, kind: str, about: dict[str, Any]) -> None:
        self._journal.record_event(seconds, kind, about)
        self._is_dirty = True

    def _tell(self, event: Event) -> tuple[str, dict[str, Any]] | None:
        match event:
            case Progressed():
                return "report", {
                    "worker": event.worker,
                    "span": event.span,
                    "start": event.start,
                    "stop": event.stop,
                    "steps": event.steps,
                    "busy_seconds": event.busy_seconds,
                    "peak_bytes": int(max((peak for _, peak, _ in event.peak_bytes), default=0)),
                    "allowed_bytes": self._allowed.get(event.worker),
                    "stopped_steps": event.stopped_steps,
                    "stopped_seconds": event.stopped_seconds,
                    "waited_seconds": event.waited_seconds,
                    "result_bytes": event.result_bytes,
                }
            case Trimmed():
                return "trim", {"worker": event.worker, "span": event.span, "stop": event.stop}
            case WorkerJoined():
                return "worker", {"worker": event.worker, "state": "joined", "reason": ""}
            case WorkerLost():
                return "worker", {"worker": event.worker, "state": "lost", "reason": event.reason}
            case StepFailed() | StepExhausted():
                kind = "failed" if isinstance(event, StepFailed) else "exhausted"
                peak_bytes = event.peak_bytes if isinstance(event, StepExhausted) else 0
                about = {"worker": event.worker, "start": event.start, "stop": event.stop}
                return kind, {**about, "error": "", "peak_bytes": peak_bytes}
        return None

    @property
    def due_seconds(self) -> float | None:
        """When to keep up, whether anything happens until then or not; None if all is certain."""
        if self._is_dirty:
            return self._commit_seconds + _COMMIT_SECONDS
        return None if self._is_sink_certain else self._next_checkpoint_seconds

    def keep_up(self, now_seconds: float) -> None:
        """Commit soon, let pieces go now and then, and note that the run goes on, where nothing else happens."""
        most_seconds = self._commit_seconds + _LONGEST_UNKNOWN_SECONDS
        due_seconds = self.due_seconds
        if now_seconds < (most_seconds if due_seconds is None else min(due_seconds, most_seconds)):
            return
        if now_seconds >= self._next_checkpoint_seconds and not self._is_sink_certain:
            began = time.perf_counter()
            self.checkpoint()
            took_seconds = time.perf_counter() - began
            self._next_checkpoint_seconds = now_seconds + took_seconds + pause_after(took_seconds)
        else:
            self._journal.set("run_seconds", self.run_seconds)
            self._journal.commit()
        self._commit_seconds = now_seconds
        self._is_dirty = False

    @property
    def _is_sink_certain(self) -> bool:
        return self._sink is None or self._sink.is_certain

    def checkpoint(self) -> None:
        """Make certain all that is known now."""
        self._journal.set("run_seconds", self.run_seconds)
        if self._sink is None:
            self._journal.commit()
            return
        starts, state = self._sink.checkpoint()
        self._journal.record_appended(starts, state)
        self._journal.commit()
        self._sink.forget_appended()


def restore(journal: Journal, results: Results, is_there: Callable[[Any], bool] = lambda value: True) -> Restored:
    """Hand all that earlier sittings have recorded to ``results``; a piece that is not there any more is forgotten."""
    restored = journal.restore()
    done: list[tuple[int, int, int | None, int]] = []
    lost: list[int] = []
    for start, stop, value, _ in restored.pieces:
        if value is None:
            done.append((start, stop, None, 0))
            continue
        packed = _from_bytes(value)
        if not is_there(packed):
            packed.close()
            lost.append(start)
            continue
        number = _FIRST_RESTORED_RESULT + len(done)
        results.arrived(number, start, stop, packed)
        done.append((start, stop, number, packed.total_bytes))
    given_up = []
    for start, stop, about in restored.failures:
        failure = results.failed(failure_of(about))
        given_up.append((start, stop, failure.attempts))
    journal.forget_pieces(lost)
    journal.commit()
    return Restored(tuple(done), tuple(given_up))


def failure_of(about: dict[str, Any]) -> Failure:
    """The failure that was recorded, but for its exception."""
    from aliquot.virtual_file import RowRange  # most runs have no failures to restore

    known = {name: value for name, value in about.items() if name in Failure._fields}
    places = tuple((path, start, stop) for path, start, stop in about.get("places", ()))
    rows = tuple(RowRange(*told) for told in about.get("rows", ()))
    spoiled = None if about.get("spoiled") is None else tuple(about["spoiled"])
    return Failure(**{**known, "places": places, "rows": rows, "spoiled": spoiled})


def _to_bytes(packed: Packed) -> bytes:
    return dumps((packed.sizes, packed.descriptor is None, bytes(packed.content())), protocol=5)


def _from_bytes(recorded: bytes) -> Packed:
    sizes, was_inline, content = loads(recorded)
    return Packed.from_content(lambda offset, size: content[offset : offset + size], sizes, was_inline=was_inline)


def pause_after(checkpoint_seconds: float) -> float:
    """How long to wait after a checkpoint that took so long."""
    most_seconds = max(_LONGEST_PAUSE_SECONDS, checkpoint_seconds)
    return min(max(_CHECKPOINT_PART * checkpoint_seconds, _SHORTEST_PAUSE_SECONDS), most_seconds)
