"""A plain gzip file: its first read at once, its index once, any of its reads afterwards."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import aliquot
from bench.data import Data, read_through
from bench.fresh_cache import FreshCache, fresh_cache
from bench.measuring import Contender, Finding, alternate, find_program, ratio, run_program

_SLICE_UNITS = 1_000
_FIRST_UNIT = "import sys, aliquot; aliquot.open(sys.argv[1])[0]"
_FIRST_UNIT_WITH_DNAIO = "import sys, dnaio; next(iter(dnaio.open(sys.argv[1])))"


def run(data: Data, repeats: int, *, quick: bool) -> list[Finding]:
    for module in ("rapidgzip", "dnaio"):
        if not find_spec(module):
            return [Finding.skipped("compressed", module)]
    if data.gzip is None:
        return [Finding.skipped("compressed", "gzip")]
    read_through(data.gzip)
    read_through(data.plain)
    with fresh_cache() as cache:
        return [
            _first_unit(data.gzip, cache, repeats),
            *_indexing(data.gzip, cache, repeats),
            *_slices(data.gzip, data.plain, cache, repeats),
        ]


def _first_unit(path: str, cache: FreshCache, repeats: int) -> Finding:
    """From the start of a process to the first read, with no index."""
    timings = alternate(
        [
            Contender("first read", lambda: run_program(sys.executable, "-c", _FIRST_UNIT, path), cache.empty),
            Contender("first read, dnaio", lambda: run_program(sys.executable, "-c", _FIRST_UNIT_WITH_DNAIO, path)),
        ],
        repeats,
    )
    ours = timings["first read"]
    over_dnaio, times = ratio(ours, timings["first read, dnaio"])
    beside = f"{over_dnaio:.1f} x dnaio: {times}"
    return Finding.below("compressed: first read in a new process", ours.median, "s", 1, beside)


def _indexing(path: str, cache: FreshCache, repeats: int) -> list[Finding]:
    program = find_program("rapidgzip")
    contenders = [Contender("indexing", lambda: len(aliquot.open(path)), cache.empty)]
    if program:
        contenders += [
            Contender("rapidgzip", lambda: run_program(program, "--count-lines", path)),
            Contender("rapidgzip -P 1", lambda: run_program(program, "--count-lines", "-P", "1", path)),
        ]
    timings = alternate(contenders, repeats)
    ours = timings["indexing"]
    name = "compressed: indexing over rapidgzip --count-lines"
    if not program:
        return [Finding.skipped(name, "rapidgzip")]
    over_default, default_times = ratio(ours, timings["rapidgzip"])
    over_one, one_times = ratio(ours, timings["rapidgzip -P 1"])
    return [
        Finding.at_most(name, over_default, "x", 1.2, default_times),
        Finding.without_bar(f"{name} -P 1", over_one, "x", one_times),
    ]


def _slices(path: str, plain_path: str, cache: FreshCache, repeats: int) -> list[Finding]:
    """Reads at random places, through the index that an earlier process would have left."""
    cache.empty()
    units = len(aliquot.open(path))
    index_bytes, compressed_bytes = cache.size_bytes(), os.path.getsize(path)
    reopened, plain = aliquot.open(path), aliquot.open(plain_path)
    assert reopened.count(wait=False) == units, "the index was not found again in the cache"
    len(plain)
    chance = random.Random(1)
    starts = [chance.randrange(units - _SLICE_UNITS) for _ in range(50)]
    timings = alternate(
        [
            Contender("opened again, first slice", lambda: _read_slices(aliquot.open(path), [chance.choice(starts)])),
            Contender("slice of 1,000 reads", lambda: _read_slices(reopened, starts), per=len(starts)),
            Contender("the same of a plain file", lambda: _read_slices(plain, starts), per=len(starts)),
        ],
        repeats,
    )
    ours = timings["slice of 1,000 reads"]
    over_plain, times = ratio(ours, timings["the same of a plain file"])
    first_over_later, first_times = ratio(timings["opened again, first slice"], ours)
    gigabytes = compressed_bytes / 1e9
    return [
        Finding.below(
            "compressed: slice of 1,000 reads, mean", ours.median * 1e3, "ms", 50, f"{over_plain:.0f} x plain: {times}"
        ),
        Finding.without_bar(
            "compressed: opening again and first slice over later ones", first_over_later, "x", first_times
        ),
        Finding.without_bar(
            "compressed: index with seek points for 10 GB of gzip",
            index_bytes / 1e6 / gigabytes * 10,
            "MB",
            f"{index_bytes:,} bytes for {compressed_bytes:,}",
        ),
    ]


def _read_slices(file: aliquot.VirtualFile, starts: Sequence[int]) -> None:
    for start in starts:
        for batch in file[start : start + _SLICE_UNITS].batches():
            len(batch)
