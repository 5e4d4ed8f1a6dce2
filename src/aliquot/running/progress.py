"""How far a run is: one live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Protocol

from aliquot.coordinator import Coordinator
from aliquot.quantities import format_bytes, format_count, format_seconds
from aliquot.running.tally import Tally
from aliquot.sites.local.output import Output, ParentOutput, Stream

# A run that is over by then shows nothing.
_SILENT_SECONDS = 1.0
_DISPLAY_SECONDS = 0.2
_FIRST_LINE_SECONDS = 10.0
_LINE_SECONDS = 30.0
# What is lately.
_LATELY_SECONDS = 20.0


class Progress(Output, Protocol):
    """Told how a run goes on; also takes what workers print, so that the two do not disturb each other."""

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Called after each event."""

    def close(self) -> None:
        """The run is over."""


def make_progress(wanted: bool | Progress | None, label: str) -> Progress:
    """What the user asked for; by default a display on a terminal, and lines where there is none."""
    if not isinstance(wanted, bool | None):
        return wanted
    if wanted is False:
        return Silent()
    if sys.stderr is not None and sys.stderr.isatty():
        return LiveDisplay(label)
    return Lines(label)


class Silent(ParentOutput):
    """Shows nothing but what workers print."""

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Lines(ParentOutput):
    """A line on stderr after ten seconds and then every half minute."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._pace = Pace()
        self._next_seconds: float | None = None

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Print a line if it is time."""
        self._pace.note(coordinator, now_seconds)
        if self._next_seconds is None:
            self._next_seconds = now_seconds + _FIRST_LINE_SECONDS
        elif now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + _LINE_SECONDS
            facts = describe(coordinator, tally, self._pace)
            self.write("stderr", f"{self._label}: {', '.join(facts)}\n")

    def close(self) -> None:
        """Nothing."""


class LiveDisplay(ParentOutput):
    """One line on the terminal, rewritten in place."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._pace = Pace()
        self._next_seconds: float | None = None
        self._live: Any = None

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Draw again, a few times a second."""
        self._pace.note(coordinator, now_seconds)
        if self._next_seconds is None:
            self._next_seconds = now_seconds + _SILENT_SECONDS
        if now_seconds < self._next_seconds:
            return
        self._next_seconds = now_seconds + _DISPLAY_SECONDS
        if self._live is None:
            self._open()
        self._live.update(self._draw(coordinator, tally), refresh=True)

    def write(self, stream: Stream, text: str) -> None:
        """Above the display while there is one, in the stream that it was meant for where that is not the terminal."""
        target = sys.stdout if stream == "stdout" else sys.stderr
        if self._live is None or target is None or not target.isatty():
            super().write(stream, text)
        else:
            self._live.console.out(text.removesuffix("\n"), highlight=False)

    def close(self) -> None:
        """Take it away; what is worth keeping is in the report."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _open(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self._live = Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False)
        self._live.start()

    def _draw(self, coordinator: Coordinator, tally: Tally) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bar = ProgressBar(total=max(1, coordinator.units), completed=coordinator.done_units, width=16)
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column()
        table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_row(self._label, bar, ", ".join(describe(coordinator, tally, self._pace)))
        return table


class Pace:
    """How fast a run is lately: its units may become dearer, and its steps larger."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()  # when, units done, steps

    def note(self, coordinator: Coordinator, now_seconds: float) -> None:
        """Remember how far it is, now and then."""
        seen = self._seen
        if not seen:
            # What an earlier sitting has done took no time of this one.
            seen.append((now_seconds, coordinator.restored_units, 0))
        if now_seconds - seen[-1][0] >= _LATELY_SECONDS / 40:
            seen.append((now_seconds, coordinator.done_units, coordinator.steps))
            while len(seen) > 2 and seen[1][0] <= now_seconds - _LATELY_SECONDS:
                seen.popleft()

    @property
    def units_a_second(self) -> float:
        """0 where nothing is known."""
        seconds, units, _ = self._lately()
        return units / seconds if seconds > 0 else 0.0

    @property
    def units_a_step(self) -> float:
        """0 where nothing is known."""
        _, units, steps = self._lately()
        return units / steps if steps else 0.0

    def _lately(self) -> tuple[float, int, int]:
        if not self._seen:
            return 0.0, 0, 0
        began, done, steps = self._seen[0]
        until, done_now, steps_now = self._seen[-1]
        return until - began, done_now - done, steps_now - steps


def _short(number: float) -> str:
    return format_count(round(number)) if number >= 10 else f"{number:.2g}"


def describe(coordinator: Coordinator, tally: Tally, pace: Pace) -> list[str]:
    """What a person wants to know: units, rate, step size, workers, memory, units set aside, time left."""
    done, units = coordinator.done_units, coordinator.units
    facts = [f"{format_count(done)} of {format_count(units)} units ({done / max(1, units):.0%})"]
    rate = pace.units_a_second
    if rate:
        facts.append(f"{_short(rate)}/s")
    if pace.units_a_step:
        facts.append(f"{_short(pace.units_a_step)} a step")
    busy = coordinator.busy_workers
    facts.append(f"{tally.workers} workers" if busy == tally.workers else f"{busy} of {tally.workers} workers busy")
    if tally.held_bytes:
        allowed = "" if coordinator.total_bytes is None else f" of {format_bytes(coordinator.total_bytes)}"
        facts.append(f"{format_bytes(tally.held_bytes)}{allowed}")
    if coordinator.failed_units:
        facts.append(f"{format_count(coordinator.failed_units)} set aside")
    left = units - done - coordinator.failed_units
    if rate and coordinator.is_complete:
        facts.append(f"{format_seconds(left / rate)} left")
    return facts
