"""How far a run is: one live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from aliquot.coordinator import Coordinator
from aliquot.quantities import format_amount, format_bytes, format_count, format_seconds, time_left
from aliquot.running.tally import Tally
from aliquot.sites.local.output import Output, ParentOutput, Stream

# A run that is over by then shows nothing.
_SILENT_SECONDS = 1.0
_DISPLAY_SECONDS = 0.2
_FIRST_LINE_SECONDS = 10.0
_LINE_SECONDS = 30.0
_STOPPING = "aliquot: stopping; what is under way has two seconds to end (once more: at once)\n"
# What is lately.
_LATELY_SECONDS = 20.0
_BAR_WIDTH = 16
_LEAST_LABEL_WIDTH = 8


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


class _Telling(ParentOutput):
    """Tells at once that a wish to stop was heard."""

    _has_told = False

    def _tell_of_halt(self, coordinator: Coordinator) -> None:
        if coordinator.is_halted and coordinator.busy_workers and not self._has_told:
            self._has_told = True
            self.write("stderr", _STOPPING)


class Lines(_Telling):
    """A line on stderr after ten seconds and then every half minute."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._pace = Pace()
        self._next_seconds: float | None = None

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Print a line if it is time."""
        self._tell_of_halt(coordinator)
        self._pace.note(coordinator, now_seconds)
        if self._next_seconds is None:
            self._next_seconds = now_seconds + _FIRST_LINE_SECONDS
        elif now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + _LINE_SECONDS
            facts = describe(coordinator, tally, self._pace)
            self.write("stderr", f"{self._label}: {', '.join(facts)}\n")

    def close(self) -> None:
        """Nothing."""


class LiveDisplay(_Telling):
    """One line on the terminal, rewritten in place."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._pace = Pace()
        self._next_seconds: float | None = None
        self._live: Any = None

    def update(self, coordinator: Coordinator, tally: Tally, now_seconds: float) -> None:
        """Draw again, a few times a second."""
        self._tell_of_halt(coordinator)
        self._pace.note(coordinator, now_seconds)
        if self._next_seconds is None:
            self._next_seconds = now_seconds + _SILENT_SECONDS
        if now_seconds < self._next_seconds:
            return
        self._next_seconds = now_seconds + _DISPLAY_SECONDS
        if self._live is None:
            self._open()
        facts = find_facts(coordinator, tally, self._pace)
        share = coordinator.done_units / max(1, coordinator.expected_units)
        self._live.update(draw(self._label, share, facts, self._live.console.width), refresh=True)

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


class Fact(NamedTuple):
    """Something to be told; where there is no room for all, the one with the highest rank is left out first."""

    text: str
    rank: int


def draw(label: str, share: float, facts: Sequence[Fact], width: int) -> Any:
    """A line of a terminal: what is run, a bar, and what there is room for; the time left rather than all else."""
    from rich.cells import cell_len
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    least = len(fit(facts, 0))
    has_bar = cell_len(label) + _BAR_WIDTH + 2 + least <= width
    taken = _BAR_WIDTH + 2 if has_bar else 1
    label_width = min(cell_len(label), max(_LEAST_LABEL_WIDTH, width - taken - least))
    told = fit(facts, width - taken - label_width)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, overflow="ellipsis", width=label_width)
    if has_bar:
        table.add_column(width=_BAR_WIDTH)
    table.add_column(no_wrap=True, overflow="ellipsis")
    bar = [ProgressBar(total=1.0, completed=share, width=_BAR_WIDTH)] if has_bar else []
    table.add_row(label, *bar, told)
    return table


def fit(facts: Sequence[Fact], width: int) -> str:
    """As many of them as there is room for, in their order; at least those that are never left out."""
    shown = list(facts)
    while True:
        text = ", ".join(fact.text for fact in shown)
        last = max(shown, key=lambda fact: fact.rank)
        if len(text) <= width or not last.rank:
            return text
        shown.remove(last)


class Pace:
    """How fast a run is lately: its units may become dearer, and its steps larger.

    What workers do before they report it is left out on both sides: a step may take as long as all before it.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()  # the time that was reported on, units done, steps
        self._noted_seconds = -math.inf
        self._unreported_seconds = 0.0

    def note(self, coordinator: Coordinator, now_seconds: float) -> None:
        """Remember how far it is, now and then."""
        seen = self._seen
        if not seen:
            # What an earlier sitting has done took no time of this one.
            seen.append((now_seconds, coordinator.restored_units, 0))
            self._noted_seconds = now_seconds
        if now_seconds - self._noted_seconds < _LATELY_SECONDS / 40:
            return
        self._noted_seconds = now_seconds
        self._unreported_seconds = coordinator.unreported_seconds(now_seconds)
        until = max(seen[-1][0], now_seconds - self._unreported_seconds)  # who leaves may have reported all
        if until - seen[-1][0] >= _LATELY_SECONDS / 40 or coordinator.done_units > seen[-1][1]:
            seen.append((until, coordinator.done_units, coordinator.steps))
            while len(seen) > 2 and seen[1][0] <= until - _LATELY_SECONDS:
                seen.popleft()

    def left_seconds(self, left_units: int) -> float | None:
        """How long so many units will take; None where nothing is known."""
        rate = self.units_a_second
        return time_left(left_units, rate, self._unreported_seconds) if rate else None

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


def describe(coordinator: Coordinator, tally: Tally, pace: Pace) -> list[str]:
    """All that is known, where there is room for it."""
    return [fact.text for fact in find_facts(coordinator, tally, pace)]


def find_facts(coordinator: Coordinator, tally: Tally, pace: Pace) -> list[Fact]:
    """What a person wants to know: units, rate, step size, workers, memory, units set aside, time left."""
    done, units = coordinator.done_units, coordinator.expected_units
    about = "" if coordinator.is_complete else "about "  # they are still being counted
    facts = [Fact(f"{format_count(done)} of {about}{format_count(units)} units ({done / max(1, units):.0%})", 0)]
    rate = pace.units_a_second
    if rate:
        facts.append(Fact(f"{format_amount(rate)}/s", 2))
    if pace.units_a_step:
        facts.append(Fact(f"{format_amount(pace.units_a_step)} a step", 5))
    busy = coordinator.busy_workers
    count = "1 worker" if tally.workers == 1 else f"{tally.workers} workers"
    workers = count if busy == tally.workers else f"{busy} of {count} busy"
    facts.append(Fact(workers, 4))
    if tally.held_bytes:
        allowed = "" if coordinator.total_bytes is None else f" of {format_bytes(coordinator.total_bytes)}"
        facts.append(Fact(f"{format_bytes(tally.held_bytes)}{allowed}", 3))
    if coordinator.failed_units:
        facts.append(Fact(f"{format_count(coordinator.failed_units)} set aside", 1))
    left_seconds = pace.left_seconds(units - done - coordinator.failed_units)
    if left_seconds is not None:
        facts.append(Fact(f"{format_seconds(left_seconds)} left", 0))
    return facts
