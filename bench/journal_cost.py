"""What it costs to record a run so that it can be gone on with, and how large its journal becomes.

A run with a journal and one without differ by less than two turns of the same run do. So what is measured is the time
that the coordinating process spends in the calls that record (pieces, events, commits, syncing the outputs), as a part
of the run: it cannot cost more, and mostly costs less, as the workers go on meanwhile. The whole runs with the journal
and without stand beside it. What workers do to have a step's files on the disk before they tell of them is in both.

aliquot makes steps of 5 ms larger, where starting them costs much, and tells of several at once. So that every single
one is recorded, as in the worst case, the events of such a run are replayed to a real recorder, as they would come from
two workers, one every 2.5 ms.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table

from aliquot.coordinator import Progressed
from aliquot.journal import Journal
from aliquot.running.recording import JournalRecorder
from aliquot.workers.command_stepping import Produced
from aliquot.workers.packing import pack
from bench.command_line import environment
from bench.measuring import Finding, Timing, console, format_time, ratio

_CORES = 2
# How long a unit takes, how many there are, and how much of the time the journal may take.
_RUNS = ((0.1, 100, 2.0), (0.005, 2_000, 10.0))
_QUICK_PART = 5
_STEPS, _QUICK_STEPS = 100_000, 10_000
_REPLAYED_SECONDS, _REPLAYED_PERCENT = 0.005, 10.0
_MOST_BYTES = 50e6
_PIECE = b"x" * 1000
_TURN_TIMEOUT_SECONDS = 300


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    findings = []
    for unit_seconds, units, percent in _RUNS:
        findings += _real(unit_seconds, units // (_QUICK_PART if quick else 1), percent, repeats)
    return findings + _replayed(_QUICK_STEPS if quick else _STEPS)


@dataclass(frozen=True)
class _Turn:
    seconds: float
    steps: int
    recorder_seconds: float
    recorder_cpu_seconds: float

    @property
    def percent(self) -> float:
        return 100 * self.recorder_seconds / self.seconds


def _real(unit_seconds: float, units: int, percent: float, repeats: int) -> list[Finding]:
    turns: dict[str, list[_Turn]] = {"journal": [], "no journal": []}
    for _ in range(repeats):
        for name, taken in turns.items():
            taken.append(_turn(unit_seconds, units, "--off" if name == "no journal" else None))
    what = f"{units:,} units of {format_time(unit_seconds)}"
    _print_turns(what, turns)
    timings = {name: Timing(tuple(turn.seconds for turn in taken)) for name, taken in turns.items()}
    over, times = ratio(timings["journal"], timings["no journal"])
    ours = turns["journal"]
    busy = statistics.median(turn.recorder_seconds for turn in ours)
    steps = statistics.median(turn.steps for turn in ours)
    beside = f"{format_time(busy)} / {format_time(timings['journal'].median)}, {steps:,.0f} steps"
    return [
        Finding.below(
            f"journal cost: {what}, part of the time",
            statistics.median(turn.percent for turn in ours),
            "%",
            percent,
            beside,
        ),
        Finding.without_bar(f"journal cost: {what}, over the same without a journal", over, "x", times),
    ]


def _turn(unit_seconds: float, units: int, *options: str | None) -> _Turn:
    command = [sys.executable, "-m", "bench.journal_turn", str(unit_seconds), str(units), *filter(None, options)]
    with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as cache:
        done = subprocess.run(
            command, capture_output=True, check=False, env=environment(cache), timeout=_TURN_TIMEOUT_SECONDS
        )
    if done.returncode != 0:
        raise RuntimeError(f"{command} failed with {done.returncode}:\n{done.stderr[-4000:].decode(errors='replace')}")
    return _Turn(**json.loads(done.stdout))


class _Sink:
    """An output that grows by a little with each piece, and is on the disk at each checkpoint, as a real one."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        self._starts: list[int] = []
        self._bytes = 0

    def append(self, start: int) -> None:
        self._bytes += os.write(self._descriptor, _PIECE)
        self._starts.append(start)

    @property
    def is_certain(self) -> bool:
        return not self._starts

    def checkpoint(self) -> tuple[list[int], dict[str, Any]]:
        os.fdatasync(self._descriptor)
        starts, self._starts = self._starts, []
        return starts, {"sam": {"bytes": self._bytes}}

    def forget_appended(self) -> None:
        """There are no files of pieces here."""

    def close(self) -> None:
        os.close(self._descriptor)


def _replayed(steps: int) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as directory:
        path = os.path.join(directory, "journal.sqlite")
        journal = Journal.create(path, {"command": "bwa mem ref.fa {reads} > {sam}"})
        sink = _Sink(os.path.join(directory, "sam"))
        busy_seconds = _replay(JournalRecorder(journal, sink, 0.0), sink, steps)
        largest_bytes = sum(entry.stat().st_size for entry in os.scandir(directory) if entry.name != "sam")
        journal.close()
        sink.close()
        bytes_ = os.path.getsize(path)
    step_seconds = _REPLAYED_SECONDS / _CORES
    each = busy_seconds / steps
    what = f"{steps:,} steps"
    return [
        Finding.below(
            f"journal cost: {what} of {format_time(_REPLAYED_SECONDS)}, replayed, part of the time",
            100 * each / step_seconds,
            "%",
            _REPLAYED_PERCENT,
            f"{format_time(each)} a step, of which there is one every {format_time(step_seconds)}",
        ),
        Finding.below(
            f"journal cost: {what}, journal",
            bytes_ / 1e6,
            "MB",
            _MOST_BYTES / 1e6,
            f"{bytes_ / steps:,.0f} bytes a step; with its log while it is open: {largest_bytes / 1e6:,.1f} MB",
        ),
    ]


def _replay(recorder: JournalRecorder, sink: _Sink, steps: int) -> float:
    """Tell of steps as fast as possible, at the times at which they would come; how long the telling took."""
    step_seconds = _REPLAYED_SECONDS / _CORES
    began_seconds = time.monotonic()
    busy_seconds = 0.0
    for step in range(steps):
        start, stop = 100 * step, 100 * (step + 1)
        packed = pack(Produced({"sam": (f"3f9a01bc-{step:04}.sam", 24_640)}))
        event = Progressed(
            worker=step % _CORES,
            span=step // 1000,
            start=start,
            stop=stop,
            result=step,
            result_bytes=packed.total_bytes,
            busy_seconds=_REPLAYED_SECONDS * 1.01,
            seconds=((100.0, _REPLAYED_SECONDS, 1.0),),
            peak_bytes=((100.0, 31_457_280.0, 1.0),),
        )
        now_seconds = began_seconds + step * step_seconds
        spent = _timed(partial(recorder.arrived, start, stop, packed))
        spent += _timed(partial(recorder.note, event, [], now_seconds))
        sink.append(start)
        busy_seconds += spent + _timed(partial(recorder.keep_up, now_seconds))
    return busy_seconds + _timed(recorder.checkpoint)


def _timed(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _print_turns(what: str, turns: dict[str, list[_Turn]]) -> None:
    table = Table("contender", "run", "recording", "its CPU time", "steps", "runs", title=what, title_justify="left")
    for name, taken in turns.items():
        columns = [
            format_time(statistics.median(values))
            for values in zip(*((t.seconds, t.recorder_seconds, t.recorder_cpu_seconds) for t in taken), strict=True)
        ]
        table.add_row(name, *columns, f"{statistics.median(t.steps for t in taken):,.0f}", str(len(taken)))
    console.print(table)
