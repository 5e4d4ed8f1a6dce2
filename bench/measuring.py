"""Contenders take turns, so that whatever else the machine does disturbs them alike; what counts is the median."""

from __future__ import annotations

import contextlib
import operator
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.table import Table

console = Console(width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True)
class Contender:
    """Something to be timed; ``prepare`` is called before each turn and not timed."""

    name: str
    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    # A slow contender that is far from its bar need not be repeated as often as the others.
    at_most_repeats: int | None = None
    # How many things one run does, where the time of one of them is what matters.
    per: int = 1


@dataclass(frozen=True)
class Timing:
    """How long each run of a contender took, for one of the things it does."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """What is compared."""
        return statistics.median(self.seconds)

    @property
    def unsteady(self) -> bool:
        """Whether the machine was busy with other work: the middle half of the runs is far apart."""
        if len(self.seconds) < 4:
            return max(self.seconds) > 1.3 * min(self.seconds)
        low, _, high = statistics.quantiles(self.seconds, n=4)
        return high > 1.3 * low


@dataclass(frozen=True)
class Finding:
    """A line of the summary; ``met`` is None where there is no bar, or nothing was measured."""

    name: str
    measured: str
    bar: str = ""
    met: bool | None = None
    beside: str = ""

    @classmethod
    def at_most(cls, name: str, value: float, unit: str, limit: float, beside: str = "") -> Self:
        """A bar from above."""
        return cls(name, _number(value, unit), f"<= {limit:g} {unit}", value <= limit, beside)

    @classmethod
    def below(cls, name: str, value: float, unit: str, limit: float, beside: str = "") -> Self:
        """A bar from above that must not be touched."""
        return cls(name, _number(value, unit), f"< {limit:g} {unit}", value < limit, beside)

    @classmethod
    def at_least(cls, name: str, value: float, unit: str, limit: float, beside: str = "") -> Self:
        """A bar from below."""
        return cls(name, _number(value, unit), f">= {limit:g} {unit}", value >= limit, beside)

    @classmethod
    def without_bar(cls, name: str, value: float, unit: str, beside: str = "") -> Self:
        """Only for information."""
        return cls(name, _number(value, unit), beside=beside)

    @classmethod
    def skipped(cls, name: str, missing: str) -> Self:
        """A contender is not there."""
        return cls(name, "skipped: not installed", beside=missing)


def alternate(contenders: Sequence[Contender], repeats: int) -> dict[str, Timing]:
    """Let each contender run once, then each again, until all have run often enough. Prints what they took."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(repeats):
        for contender in contenders:
            if turn >= (contender.at_most_repeats or repeats):
                continue
            contender.prepare()
            began = time.perf_counter()
            contender.run()
            seconds[contender.name].append((time.perf_counter() - began) / contender.per)
    timings = {name: Timing(tuple(taken)) for name, taken in seconds.items()}
    _print_timings(timings)
    return timings


def ratio(first: Timing, second: Timing) -> tuple[float, str]:
    """How many times as long the first takes as the second, and the times it was made of.

    The median of the ratios of each turn, as the two ran one after the other there: a machine that is slower for some
    seconds is slower for both. Where one ran less often, it is compared by medians.
    """
    times = f"{format_time(first.median)} / {format_time(second.median)}"
    note = " unsteady" if first.unsteady or second.unsteady else ""
    if len(first.seconds) != len(second.seconds):
        return first.median / second.median, times + note
    return statistics.median(map(operator.truediv, first.seconds, second.seconds)), times + note


def format_time(seconds: float) -> str:
    """Three digits, in a unit that suits."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return _number(seconds * factor, unit)
    return _number(seconds * 1e9, "ns")


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this process, and those it starts meanwhile, on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def find_program(name: str) -> str | None:
    """Look beside this Python first, as the programs of its packages are there."""
    own = os.path.dirname(sys.executable)
    return shutil.which(name, path=own) or shutil.which(name)


def run_program(*command: str) -> None:
    """Run to the end, without output; raises if it fails."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def print_findings(title: str, findings: Sequence[Finding]) -> None:
    table = Table("measured", "value", "bar", "met", "of", title=title, title_justify="left")
    for finding in findings:
        met = {True: "[green]yes", False: "[red]no", None: ""}[finding.met]
        table.add_row(finding.name, finding.measured, finding.bar, met, finding.beside)
    console.print(table)


def _print_timings(timings: dict[str, Timing]) -> None:
    table = Table("contender", "median", "lowest", "highest", "runs")
    for name, timing in timings.items():
        lowest, highest = min(timing.seconds), max(timing.seconds)
        times = (format_time(taken) for taken in (timing.median, lowest, highest))
        table.add_row(name, *times, str(len(timing.seconds)))
    console.print(table)


def _number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"
