"""Dividing a file of reads: it must cost nothing but the making of the parts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, Protocol

import aliquot
from bench.data import Data
from bench.fresh_cache import fresh_cache
from bench.measuring import Contender, Finding, Timing, alternate, ratio

_BAR_US = 3


class _Divisible(Protocol):
    def split(self, count: int, size: int) -> Any: ...


def run(data: Data, repeats: int, *, quick: bool) -> list[Finding]:
    parts = 100_000 if quick else 1_000_000
    with fresh_cache(), tempfile.TemporaryDirectory(prefix="aliquot-bench-") as directory:
        # The file is opened through a link that is gone before the first split: one that touched the file would fail.
        link = os.path.join(directory, "reads.fastq")
        os.symlink(os.path.abspath(data.plain), link)
        file = aliquot.open(link)
        units = len(file)
        os.unlink(link)
        _make_sure_it_cannot_be_read(file)

        size = units // parts
        job = aliquot.FunctionJob(len, file)
        # These make several objects for each part; fewer parts tell as much.
        fewer = parts // 10
        subjects: list[tuple[str, _Divisible, int]] = [
            ("virtual file", file, parts),
            ("Slice", aliquot.Slice(0, units), parts),
            ("FunctionJob", job, fewer),
            ("Bundle", aliquot.Bundle.of(job), fewer),
        ]
        contenders = [
            Contender("tuples in a list", lambda: [(at, at + size) for at in range(0, parts * size, size)], per=parts)
        ]
        for name, subject, count in subjects:
            contenders.append(Contender(f"{name}, at once", _at_once(subject, count, size), per=count))
            contenders.append(Contender(f"{name}, one by one", _one_by_one(subject, count, size), per=count))
        timings = alternate(contenders, repeats)

    tuples = timings["tuples in a list"]
    return [
        _finding(name, timing, tuples, has_bar=name.startswith("virtual file"))
        for name, timing in timings.items()
        if timing is not tuples
    ]


def _at_once(subject: _Divisible, count: int, size: int) -> Callable[[], None]:
    def split() -> None:
        made = len(subject.split(count, size))
        assert count <= made <= count + 1, f"{made} parts instead of {count}"

    return split


def _one_by_one(subject: _Divisible, count: int, size: int) -> Callable[[], None]:
    def split() -> None:
        rest = subject
        for _ in range(count - 1):
            _, rest = rest.split(1, size)

    return split


def _finding(name: str, timing: Timing, tuples: Timing, *, has_bar: bool) -> Finding:
    over_tuples, times = ratio(timing, tuples)
    beside = f"{over_tuples:.1f} x a tuple: {times}"
    if has_bar:
        return Finding.below(f"splitting: {name}, a part", timing.median * 1e6, "us", _BAR_US, beside)
    return Finding.without_bar(f"splitting: {name}, a part", timing.median * 1e6, "us", beside)


def _make_sure_it_cannot_be_read(file: aliquot.VirtualFile) -> None:
    try:
        file[0]
    except aliquot.DataError:
        return
    raise RuntimeError("the link to the file is gone, and the file was still read: this shows nothing about splits")
