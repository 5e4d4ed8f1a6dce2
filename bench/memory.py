"""Two workers that may hold 300 MB together: what they hold, what is done for nothing, and what watching costs."""

from __future__ import annotations

import multiprocessing
import operator
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rich.table import Table

import aliquot
from aliquot.measuring.limit import DataLimit
from aliquot.measuring.peak import PeakMeter
from aliquot.measuring.trees import Trees, resident_bytes
from aliquot.measuring.usage import UsageMeter
from aliquot.workers.nursery import the_nursery
from bench.heavy_units import MB, SHAPES
from bench.measuring import Finding, console, format_time

_WORKERS = 2
_ALLOWED_BYTES = 300 * MB
_UNITS = 4_000
_STATIC_SIZES = (4, 10, 50, 100, 130)
_LOOK_SECONDS = 0.002
_STOPPED_PERCENT_BAR = 5.0

# What a step may hold that starts a program which takes 2 GB a second, and how often that is tried.
_STOPPED_AT_BYTES = 500 * MB
_STOPS = 10
_STOP_MILLISECONDS_BAR = 200.0

_STEP_SECONDS = 0.01
_MEASURE_MICROSECONDS_BAR = 50.0
_MEASURE_PERCENT_BAR = 1.0
_MEASURES = 2_000


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    if not PeakMeter().is_exact:
        return [Finding.skipped("memory", "a kernel that tells the peak of a process")]
    findings = []
    for name in SHAPES:
        findings += _measure_shape(name, 1 if quick else repeats, quick=quick)
    findings.append(_measure_stopping(3 if quick else _STOPS))
    return findings + _measure_measuring()


# Three shapes


@dataclass(frozen=True)
class _Turn:
    """One run, as it was seen from outside."""

    seconds: float
    peak_bytes: int
    stopped_percent: float = 0.0
    steps: int = 0
    stopped_steps: int = 0


class _Sampler:
    """The most that all processes below one of ours held together, looked at every few milliseconds."""

    def __init__(self, root: int, *others: int) -> None:
        self.peak_bytes = 0
        self._root = root
        self._roots = (root, *others)
        self._trees = Trees()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            below = self._trees.find(self._roots)[self._root]
            self.peak_bytes = max(self.peak_bytes, sum(map(resident_bytes, below)))


def _measure_shape(name: str, repeats: int, *, quick: bool) -> list[Finding]:
    shape = SHAPES[name]
    # A part from the middle, where one of the shapes changes.
    units = range(1_600, 2_000) if quick else range(_UNITS)
    turns = [_ours(shape.function, units) for _ in range(repeats)]
    static = {size: _static(shape.function, units, size) for size in _STATIC_SIZES}
    _print_turns(f"{len(units):,} units, {shape.what}", turns, static)
    fitting = [turn.seconds for turn in static.values() if turn.peak_bytes <= _ALLOWED_BYTES]
    seconds = statistics.median(turn.seconds for turn in turns)
    peak = max(turn.peak_bytes for turn in turns) / MB
    stopped = statistics.median(turn.stopped_percent for turn in turns)
    steps = statistics.median(turn.steps for turn in turns)
    pools = ", ".join(f"{size}: {turn.seconds:.1f} s, {turn.peak_bytes / MB:,.0f} MB" for size, turn in static.items())
    told = f"first guess: all {len(units):,} units"
    findings = [
        Finding.at_most(f"memory, {name}: peak of two workers", peak, "MB", _ALLOWED_BYTES / MB, told),
        Finding.at_most(f"memory, {name}: time in stopped steps", stopped, "%", _STOPPED_PERCENT_BAR, f"{steps} steps"),
    ]
    if fitting:
        ratio, beside = seconds / min(fitting), f"{seconds:.1f} s; Pool by static size: {pools}"
        findings.append(Finding.without_bar(f"memory, {name}: over the best static that fits", ratio, "x", beside))
    return findings


def _ours(function: Callable[..., int], units: range) -> _Turn:
    job = aliquot.FunctionJob(function, aliquot.open(units), operator.add)
    site = aliquot.sites.Local(cores=_WORKERS, memory=_ALLOWED_BYTES)
    with _Sampler(the_nursery()._process) as sampler:
        began = time.perf_counter()
        outcome = aliquot.run(job, on=site, size=len(units), progress=False)
        seconds = time.perf_counter() - began
    assert outcome.value == sum(units)
    report = outcome.report
    stopped_percent = 100 * report.stopped_seconds / (_WORKERS * seconds)
    return _Turn(seconds, sampler.peak_bytes, stopped_percent, report.steps, report.exhausted_steps)


def _static(function: Callable[..., int], units: range, size: int) -> _Turn:
    chunks = [units[at : at + size] for at in range(0, len(units), size)]
    with _Sampler(os.getpid(), the_nursery()._process) as sampler:
        began = time.perf_counter()
        with multiprocessing.get_context("fork").Pool(_WORKERS) as pool:
            assert sum(pool.imap_unordered(function, chunks)) == sum(units)
        seconds = time.perf_counter() - began
    return _Turn(seconds, sampler.peak_bytes, steps=len(chunks))


def _print_turns(title: str, turns: list[_Turn], static: dict[int, _Turn]) -> None:
    table = Table("run", "seconds", "peak, MB", "steps", "stopped", "% of time stopped", title=title)
    named = [("aliquot", turn) for turn in turns] + [(f"Pool, {size} a step", turn) for size, turn in static.items()]
    for name, turn in named:
        peak = f"{turn.peak_bytes / MB:,.0f}"
        stopped = (str(turn.stopped_steps), f"{turn.stopped_percent:.2f}") if name == "aliquot" else ("", "")
        table.add_row(name, f"{turn.seconds:.2f}", peak, str(turn.steps), *stopped)
    console.print(table)


# How soon a step is stopped

_RECORD = struct.Struct("<qq")
# Takes memory that the kernel does not count as data, and so does not refuse. Notes when all of its worker's processes
# held how much, until it is killed.
_TAKER = """
import mmap, os, struct, sys, time
record, piece, page = struct.Struct("<qq"), 8_000_000, os.sysconf("SC_PAGE_SIZE")
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
def held():
    total = 0
    for process in (os.getpid(), os.getppid()):
        with open(f"/proc/{process}/statm", "rb") as file:
            total += int(file.read().split()[1]) * page
    return total
pieces, began = [], time.perf_counter()
while len(pieces) < 1000:
    taken = mmap.mmap(-1, piece)
    taken.write(b"x" * piece)
    pieces.append(taken)
    os.write(out, record.pack(time.monotonic_ns(), held()))
    time.sleep(max(0.0, began + len(pieces) * piece / 2e9 - time.perf_counter()))
"""


def _take_in_a_program(path: str, _: int) -> None:
    subprocess.run([sys.executable, "-S", "-E", "-c", _TAKER, path], check=True)


def _measure_stopping(times: int) -> Finding:
    seconds = [_seconds_until_stopped() for _ in range(times)]
    shown = ", ".join(map(format_time, sorted(seconds)))
    console.print(f"stopped after crossing the allowance, at 2 GB/s: {shown}")
    return Finding.at_most(
        "memory: a program that takes 2 GB/s is stopped after",
        1e3 * statistics.median(seconds),
        "ms",
        _STOP_MILLISECONDS_BAR,
        f"median of {times}; the longest: {format_time(max(seconds))}",
    )


def _seconds_until_stopped() -> float:
    """From when more was held than is allowed to the last sign of life."""
    site = aliquot.sites.Local(cores=1, memory=_STOPPED_AT_BYTES)
    with tempfile.NamedTemporaryFile(prefix="aliquot-bench-") as file:
        job = aliquot.FunctionJob(partial(_take_in_a_program, file.name), aliquot.open(range(1)), operator.add)
        outcome = aliquot.run(job, on=site, max_failures=1, progress=False)
        (failure,) = outcome.failures
        assert failure.kind == "exhausted", failure
        content = file.read()
    records = list(_RECORD.iter_unpack(content[: len(content) // _RECORD.size * _RECORD.size]))
    above = [moment for moment, held in records if held > _STOPPED_AT_BYTES]
    return (above[-1] - above[0]) / 1e9 if above else 0.0


# What measuring costs


def _measure_measuring() -> list[Finding]:
    """What is done after each step that holds much, in a process that does; and the meter of CPU and bytes."""
    held = b"x" * (100 * MB)
    peak, limit, usage = PeakMeter(), DataLimit(), UsageMeter()

    def measure_memory() -> None:
        peak.peak_bytes()
        peak.resident_bytes()
        peak.reset()
        limit.set(len(held) + 1_000 * MB)

    try:
        memory_seconds = _median_seconds(measure_memory)
        limit.lift()
        usage_seconds = _median_seconds(usage.read)
    finally:
        limit.lift()
        limit.close()
        peak.close()
        usage.close()
    beside = f"peak and limit {format_time(memory_seconds)}, CPU and bytes {format_time(usage_seconds)}"
    seconds = memory_seconds + usage_seconds
    return [
        Finding.at_most("memory: measuring a step", 1e6 * seconds, "us", _MEASURE_MICROSECONDS_BAR, beside),
        Finding.at_most("memory: of a step of 10 ms", 100 * seconds / _STEP_SECONDS, "%", _MEASURE_PERCENT_BAR),
    ]


def _median_seconds(measured: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_MEASURES):
        began = time.perf_counter()
        measured()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
