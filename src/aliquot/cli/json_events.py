"""A run as events for programs: one JSON object a line.

begin       run, command, units
progress    about each second: done_units, units, set_aside_units, workers, steps, seconds, peak_bytes
set aside   start, stop, error: for each failure, when the run is over
end         status ("done", "failed", "interrupted" or "error"), exit_code, outputs, report
"""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aliquot.coordinator import Coordinator
    from aliquot.running.outcome import Outcome
    from aliquot.running.tally import Tally
    from aliquot.sites.local.output import Stream

_PROGRESS_SECONDS = 1.0


class JsonEvents:
    """Writes events to standard output or, where an output of the run goes there, to standard error."""

    def __init__(self, *, on_stderr: bool) -> None:
        self.is_on_stderr = on_stderr
        self._began_seconds: float | None = None
        self._next_seconds = 0.0

    def emit(self, event: str, **about: Any) -> None:
        """Write one event, at once."""
        import json

        target: IO[str] = sys.stderr if self.is_on_stderr else sys.stdout
        try:
            target.write(json.dumps({"event": event, **about}) + "\n")
            target.flush()
        except BrokenPipeError:
            # Who read it has seen enough. The run goes on, and what is told from now on is for nobody.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, target.fileno())
            os.close(nowhere)

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Tell how far it is, if it is time."""
        if self._began_seconds is None:
            self._began_seconds = now_seconds
        if now_seconds < self._next_seconds:
            return
        self._next_seconds = now_seconds + _PROGRESS_SECONDS
        self.emit(
            "progress",
            done_units=coordinator.done_units,
            units=coordinator.units if coordinator.is_complete else None,
            set_aside_units=coordinator.failed_units,
            workers=tally.workers,
            steps=coordinator.steps,
            seconds=round(now_seconds - self._began_seconds, 3),
            peak_bytes=tally.peak_bytes,
        )

    def write(self, stream: Stream, text: str) -> None:
        """What workers print is an event, too: nothing else is among them."""
        self.emit("printed", stream=stream, text=text)

    def close(self) -> None:
        """The end is told by who knows what came of it."""

    def end(self, outcome: Outcome, exit_code: int) -> None:
        """Tell what came of it."""
        for failure in outcome.failures:
            self.emit("set aside", start=failure.start, stop=failure.stop, error=failure.error)
        self.emit(
            "end",
            status="done" if outcome.is_complete else "failed",
            exit_code=exit_code,
            outputs=outcome.value if outcome.is_complete else {},
            report={**outcome.report._asdict(), "costs": []},
        )
