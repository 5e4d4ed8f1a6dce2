"""Lines in the order of their bytes, whatever number of them: sorted in runs that fit, then merged."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from aliquot.outputs.growing_file import GrowingFile, remove_if_there
from aliquot.outputs.rules.folding import Folded
from aliquot.outputs.rules.rule import Growing, Rule, State

# What is sorted at once, and what is read ahead of all runs that are merged at once.
_RUN_BYTES = 8 << 20
_READ_AHEAD_BYTES = 8 << 20
_RUNS_AT_ONCE = 128


class LinesSorted(Rule):
    """The lines of all pieces in the order of their bytes, as `LC_ALL=C sort` has them.

    As there, a last line without a newline gets one.
    """

    name = "lines-sorted"

    def grow(self, path: str, state: State | None) -> Growing:
        """Every section is a sorted run of lines."""
        return SortedLines(path, state)


class SortedLines(Folded):
    """Sorted runs, which are merged at the end."""

    def add(self, piece: str, descriptor: int, size_bytes: int) -> None:
        """As runs that fit in memory."""
        for lines in _blocks_of_lines(Run(descriptor, 0, size_bytes), _RUN_BYTES):
            lines.sort()
            self.sections.add(_text_of(lines))

    def fold(self, into: str, suffix: str) -> None:
        """Merge, some runs at a time, until one is left."""
        with contextlib.ExitStack() as files:
            runs = self._gathered(_scratch_file(f"{self.path}.runs-0", files))
            passes = 0
            while len(runs) > _RUNS_AT_ONCE:
                passes += 1
                runs = _merged_once(runs, _scratch_file(f"{self.path}.runs-{passes}", files))
            with open(into, "wb") as file:
                merge(runs, file.write)

    def _gathered(self, scratch: GrowingFile) -> list[Run]:
        """The sections as runs: many short ones that follow each other are sorted to one."""
        runs: list[Run] = []
        short: list[tuple[int, int]] = []
        short_bytes = 0

        def gather() -> None:
            if len(short) == 1:
                runs.append(Run(self.sections.file.descriptor, *short[0]))
            elif short:
                lines = _lines_of(b"".join(self.sections.read(*section) for section in short))
                lines.sort()
                runs.append(_write_run(scratch, lambda write: write(_text_of(lines))))

        for start, stop in self.sections:
            if short_bytes + stop - start > _RUN_BYTES:
                gather()
                short, short_bytes = [], 0
            short.append((start, stop))
            short_bytes += stop - start
        gather()
        return runs


class Run(NamedTuple):
    """Lines in an open file."""

    descriptor: int
    start: int
    stop: int


def merge(runs: Sequence[Run], write: Callable[[bytes], object]) -> None:
    """Write the lines of all runs in order, holding a block of each.

    Of the last lines of all blocks, the least tells how far it is certain that no run has a lesser line still to come.
    All lines up to it are sorted together, which is fast, as they are a few sorted parts.
    """
    readers = [_Reader(run, max(4096, _READ_AHEAD_BYTES // len(runs))) for run in runs]
    while True:
        readers = [reader for reader in readers if reader.fill()]
        if not readers:
            return
        limit = min(reader.lines[-1] for reader in readers)
        lines: list[bytes] = []
        for reader in readers:
            reader.take_up_to(limit, lines)
        lines.sort()
        write(_text_of(lines))


class _Reader:
    def __init__(self, run: Run, block_bytes: int) -> None:
        self._blocks = _blocks_of_lines(run, block_bytes)
        self.lines: list[bytes] = []
        self._at = 0

    def fill(self) -> bool:
        """Whether there is a line."""
        if self._at == len(self.lines):
            self.lines = next(self._blocks, [])
            self._at = 0
        return bool(self.lines)

    def take_up_to(self, limit: bytes, into: list[bytes]) -> None:
        end = bisect_right(self.lines, limit, self._at)
        into += self.lines[self._at : end]
        self._at = end


def _merged_once(runs: list[Run], scratch: GrowingFile) -> list[Run]:
    groups = (runs[at : at + _RUNS_AT_ONCE] for at in range(0, len(runs), _RUNS_AT_ONCE))
    return [_write_run(scratch, partial(merge, group)) for group in groups]


def _write_run(scratch: GrowingFile, fill: Callable[[Callable[[bytes], None]], object]) -> Run:
    start = scratch.size_bytes
    fill(scratch.write)
    return Run(scratch.descriptor, start, scratch.size_bytes)


def _scratch_file(path: str, files: contextlib.ExitStack) -> GrowingFile:
    files.callback(remove_if_there, path)
    scratch = GrowingFile(path, None)
    files.callback(scratch.close)
    return scratch


def _blocks_of_lines(run: Run, block_bytes: int) -> Iterator[list[bytes]]:
    """Whole lines without their newlines, about so many bytes at a time; never an empty list.

    Without the newlines, as a byte that is less than a newline would come after it.
    """
    at, rest = run.start, b""
    while at < run.stop:
        data = os.pread(run.descriptor, min(block_bytes, run.stop - at), at)
        if not data:
            raise OSError(f"a file that is sorted has become shorter: {at} bytes of {run.stop}")
        at += len(data)
        end = data.rfind(b"\n") + 1
        if end:
            yield _lines_of(rest + data[:end])
            rest = data[end:]
        else:
            rest += data
    if rest:
        yield [rest]


def _lines_of(text: bytes) -> list[bytes]:
    """Lines of a text that ends with a newline."""
    lines = text.split(b"\n")
    lines.pop()
    return lines


def _text_of(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"
