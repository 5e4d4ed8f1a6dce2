"""All reads of a plain file, in one go and in a thousand slices."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from importlib.util import find_spec
from random import Random

import aliquot
from bench.data import Data, read_through
from bench.fresh_cache import fresh_cache
from bench.measuring import Contender, Finding, alternate, ratio

_SLICES = 1_000


def run(data: Data, repeats: int, *, quick: bool) -> list[Finding]:
    if not find_spec("dnaio"):
        return [Finding.skipped("reading", "dnaio")]
    read_through(data.plain)
    with fresh_cache():
        file = aliquot.open(data.plain)
        units = len(file)
        slices = file.split(_SLICES)
        shuffled = Random(1).sample(slices, _SLICES)
        timings = alternate(
            [
                Contender("batches of one slice", lambda: _count_in_batches([file], units)),
                Contender("dnaio, in a loop", lambda: _count_with_dnaio(data.plain, units)),
                Contender("batches of 1,000 slices", lambda: _count_in_batches(slices, units)),
                Contender("batches of 1,000 slices, shuffled", lambda: _count_in_batches(shuffled, units)),
                Contender("records of one slice, in a loop", lambda: _count_records(file, units)),
                Contender("dnaio, without a loop in Python", lambda: _drain_dnaio(data.plain)),
            ],
            repeats,
        )

    one, many = timings["batches of one slice"], timings["batches of 1,000 slices"]
    over_dnaio, over_dnaio_times = ratio(one, timings["dnaio, in a loop"])
    over_one, over_one_times = ratio(many, one)
    shuffled_over_one, shuffled_times = ratio(timings["batches of 1,000 slices, shuffled"], one)
    records, records_times = ratio(timings["records of one slice, in a loop"], timings["dnaio, in a loop"])
    drained, drained_times = ratio(one, timings["dnaio, without a loop in Python"])
    return [
        Finding.at_most("reading: batches over dnaio", over_dnaio, "x", 1.0, over_dnaio_times),
        Finding.at_most("reading: 1,000 slices over one", over_one, "x", 1.05, over_one_times),
        Finding.without_bar("reading: 1,000 slices, shuffled, over one", shuffled_over_one, "x", shuffled_times),
        Finding.without_bar("reading: records one by one over dnaio", records, "x", records_times),
        Finding.without_bar("reading: batches over dnaio without a loop in Python", drained, "x", drained_times),
    ]


def _count_in_batches(slices: Iterable[aliquot.VirtualFile], expected: int) -> None:
    count = 0
    for part in slices:
        for batch in part.batches():
            count += len(batch)
    assert count == expected, f"{count} reads instead of {expected}"


def _count_records(file: aliquot.VirtualFile, expected: int) -> None:
    count = 0
    for _ in file:
        count += 1
    assert count == expected, f"{count} reads instead of {expected}"


def _count_with_dnaio(path: str, expected: int) -> None:
    import dnaio

    count = 0
    with dnaio.open(path) as reader:
        for _ in reader:
            count += 1
    assert count == expected, f"{count} reads instead of {expected}"


def _drain_dnaio(path: str) -> None:
    """Iterate without a line of Python for each read: what dnaio can do at best."""
    import dnaio

    with dnaio.open(path) as reader:
        deque(reader, maxlen=0)
