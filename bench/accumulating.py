"""Partial results of 300 MB, each from one unit: how many of them are held at once, beside those in the function."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy
from rich.table import Table

import aliquot
from aliquot.measuring.trees import Trees
from bench.heavy_units import MB
from bench.measuring import Finding, console

_WORKERS = 2
_PARTIAL_BYTES = 300 * MB
_UNITS = 64
_LOOK_SECONDS = 0.01
_HELD_BAR = 3.05  # three, and the interpreter
_MEMFD = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+) +/memfd:aliquot-value", re.MULTILINE)


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    partial_bytes = _PARTIAL_BYTES // 10 if quick else _PARTIAL_BYTES
    turns = {}
    for ordered in (False, True):
        name = "in order" if ordered else "as they come"
        told: dict[str, Any] = {"ordered": ordered, "target_seconds": 0}  # every unit is a step
        turns[name] = [_turn(partial_bytes, told) for _ in range(1 if quick else min(repeats, 3))]
    _print_turns(turns, partial_bytes)
    findings = []
    for name, taken in turns.items():
        outside = max(turn.outside_bytes for turn in taken) / partial_bytes
        most = max(max(turn.by_process.values()) for turn in taken) / partial_bytes
        seconds = statistics.median(turn.seconds for turn in taken)
        beside = f"{_UNITS} of {partial_bytes / MB:,.0f} MB, {_WORKERS} workers, {seconds:.1f} s"
        findings += [
            Finding.at_most(f"accumulating, {name}: the process with the most", most, "partials", _HELD_BAR, beside),
            Finding.without_bar(f"accumulating, {name}: all of them, but for the function", outside, "partials"),
        ]
    return findings


@dataclass
class _Turn:
    """One run, as it was seen from outside: the most bytes that were held at once."""

    seconds: float = 0.0
    total_bytes: int = 0
    outside_bytes: int = 0  # of the function
    file_bytes: int = 0  # of results on their way
    by_process: dict[str, int] = field(default_factory=dict)  # of their own, without those


def fill(path: str, partial_bytes: int, units: Sequence[int]) -> numpy.ndarray[Any, Any]:
    """A partial result; meanwhile, a byte of a file says that this process is making one."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as marks:
        marks[os.getpid() % len(marks)] = 1
        try:
            return numpy.full(partial_bytes // 8, float(len(units)))
        finally:
            marks[os.getpid() % len(marks)] = 0


def _turn(partial_bytes: int, told: dict[str, Any]) -> _Turn:
    turn = _Turn()
    with tempfile.NamedTemporaryFile(prefix="aliquot-bench-") as file:
        file.write(bytes(1 << 16))
        file.flush()
        site = aliquot.sites.Local(cores=_WORKERS)
        with _Sampler(turn, file.name, partial_bytes):
            began = time.perf_counter()
            function: Callable[[Any], Any] = partial(fill, file.name, partial_bytes)
            value = aliquot.map_batches(function, range(_UNITS), on=site, size=1, progress=False, **told)
            turn.seconds = time.perf_counter() - began
    assert value[0] == value[-1] == _UNITS
    return turn


class _Sampler:
    """Looks at this process and all below it, every few milliseconds."""

    def __init__(self, turn: _Turn, marks: str, partial_bytes: int) -> None:
        self._turn = turn
        self._marks = marks
        self._partial_bytes = partial_bytes
        self._before: dict[int, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_often)

    def __enter__(self) -> _Sampler:
        self._before = {os.getpid(): _own_bytes(os.getpid())}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look_often(self) -> None:
        trees, root = Trees(), os.getpid()
        while not self._is_over.wait(_LOOK_SECONDS):
            self._look([root, *trees.find((root,))[root]])

    def _look(self, processes: list[int]) -> None:
        turn, files, total = self._turn, {}, 0
        for process in dict.fromkeys(processes):
            held = max(0, _own_bytes(process) - self._before.get(process, 0))
            files.update(_result_files(process))
            total += held
            name = "parent" if process == os.getpid() else f"worker {process}"
            turn.by_process[name] = max(turn.by_process.get(name, 0), held)
        total += sum(files.values())
        with open(self._marks, "rb") as file:
            inside = sum(file.read()) * self._partial_bytes
        turn.total_bytes = max(turn.total_bytes, total)
        turn.outside_bytes = max(turn.outside_bytes, total - inside)
        turn.file_bytes = max(turn.file_bytes, sum(files.values()))


def _own_bytes(process: int) -> int:
    """What a process has for itself; shared between several, its part."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss_Anon:"):
                return int(line.split()[1]) * 1024
    return 0


def _result_files(process: int) -> dict[int, int]:
    """The files in memory that hold results, open or only mapped: their bytes, by inode."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                path = f"/proc/{process}/fd/{name}"
                if os.readlink(path).startswith("/memfd:aliquot-value"):
                    status = os.stat(path)
                    found[status.st_ino] = status.st_blocks * 512
    with contextlib.suppress(OSError), open(f"/proc/{process}/maps", "rb") as file:
        for match in _MEMFD.finditer(file.read()):
            begin, _, end = match.group(0).split(maxsplit=1)[0].partition(b"-")
            found.setdefault(int(match.group(1)), int(end, 16) - int(begin, 16))
    return found


def _print_turns(turns: dict[str, list[_Turn]], partial_bytes: int) -> None:
    title = f"{_UNITS} partial results of {partial_bytes / MB:,.0f} MB; in partial results, at most at once"
    table = Table("run", "seconds", "all", "outside of the function", "on their way", "parent", "workers", title=title)
    for name, taken in turns.items():
        for turn in taken:
            sizes = [turn.total_bytes, turn.outside_bytes, turn.file_bytes, turn.by_process.get("parent", 0)]
            workers = sorted((held for who, held in turn.by_process.items() if who != "parent"), reverse=True)
            shown = [f"{size / partial_bytes:.2f}" for size in (*sizes, *workers[:_WORKERS])]
            table.add_row(name, f"{turn.seconds:.1f}", *shown[:4], ", ".join(shown[4:]))
    console.print(table)
