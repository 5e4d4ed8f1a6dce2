"""How far a run is: one live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
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
        self._began_seconds: float | None = None
        self._next_seconds = 0.0

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Print a line if it is time."""
        if self._began_seconds is None:
            self._began_seconds = now_seconds
            self._next_seconds = now_seconds + _FIRST_LINE_SECONDS
        elif now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + _LINE_SECONDS
            facts = describe(coordinator, tally, now_seconds - self._began_seconds)
            self.write("stderr", f"{self._label}: {', '.join(facts)}\n")

    def close(self) -> None:
        """Nothing."""


class LiveDisplay(ParentOutput):
    """One line on the terminal, rewritten in place."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._began_seconds: float | None = None
        self._next_seconds = 0.0
        self._live: Any = None

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Draw again, a few times a second."""
        if self._began_seconds is None:
            self._began_seconds = now_seconds
            self._next_seconds = now_seconds + _SILENT_SECONDS
        if now_seconds < self._next_seconds:
            return
        self._next_seconds = now_seconds + _DISPLAY_SECONDS
        if self._live is None:
            self._open()
        self._live.update(self._draw(coordinator, tally, now_seconds - self._began_seconds), refresh=True)

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

    def _draw(self, coordinator: Coordinator, tally: Tally, elapsed_seconds: float) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        bar = ProgressBar(total=max(1, coordinator.units), completed=coordinator.done_units, width=28)
        table = Table.grid(padding=(0, 1))
        table.add_row(self._label, bar, ", ".join(describe(coordinator, tally, elapsed_seconds)))
        return table


def describe(coordinator: Coordinator, tally: Tally, elapsed_seconds: float) -> list[str]:
    """What a person wants to know: units, rate, step size, workers, memory, units set aside, time left."""
    done, units = coordinator.done_units, coordinator.units
    facts = [f"{format_count(done)} of {format_count(units)} units ({done / max(1, units):.0%})"]
    rate = done / elapsed_seconds if elapsed_seconds > 0 else 0.0
    if rate:
        facts.append(f"{format_count(round(rate))}/s" if rate >= 10 else f"{rate:.2g}/s")
    if coordinator.steps:
        facts.append(f"{done / coordinator.steps:,.3g} a step")
    facts.append(f"{tally.workers} workers")
    if tally.peak_bytes:
        facts.append(f"{format_bytes(tally.peak_bytes)} each")
    if coordinator.failed_units:
        facts.append(f"{format_count(coordinator.failed_units)} set aside")
    if rate and coordinator.is_complete:
        facts.append(f"{format_seconds((units - done) / rate)} left")
    return facts
