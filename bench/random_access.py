"""Single reads at random places, with the index in memory."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from importlib.util import find_spec

import aliquot
from bench.data import Data, read_through
from bench.fresh_cache import fresh_cache
from bench.measuring import Contender, Finding, alternate, ratio

_BLOCK_BYTES = 64 * 1024


def run(data: Data, repeats: int, *, quick: bool) -> list[Finding]:
    if not find_spec("dnaio"):
        return [Finding.skipped("random access", "dnaio")]
    chance = random.Random(1)
    with fresh_cache():
        plain = _opened(data.plain)
        units, size_bytes = len(plain), os.path.getsize(data.plain)
        places = chance.sample(range(units), 10_000)
        offsets = [chance.randrange(size_bytes) for _ in places]
        contenders = [
            Contender("plain", lambda: _read_units(plain, places), per=len(places)),
            Contender("open, read 64 KiB, close", lambda: _read_blocks(data.plain, offsets), per=len(places)),
        ]
        # Each read costs the decoding of a block or more, so that fewer are enough.
        for name, path, count in (("BGZF", data.bgzf, 1_000), ("gzip", data.gzip, 100)):
            if path is None or (name == "gzip" and not find_spec("rapidgzip")):
                continue
            contenders.append(_compressed_contender(name, path, places[:count]))
        timings = alternate(contenders, repeats)

    over_blocks, times = ratio(timings["plain"], timings["open, read 64 KiB, close"])
    findings = [
        Finding.below(
            "random access: one read of a plain file, mean",
            timings["plain"].median * 1e6,
            "us",
            200,
            f"{over_blocks:.1f} x reading a block: {times}",
        )
    ]
    for name, missing in (("BGZF", "bgzip"), ("gzip", "rapidgzip")):
        what = f"random access: one read of {name} over plain"
        if name not in timings:
            findings.append(Finding.skipped(what, missing))
            continue
        over_plain, times = ratio(timings[name], timings["plain"])
        findings.append(Finding.without_bar(what, over_plain, "x", times))
    return findings


def _opened(path: str) -> aliquot.VirtualFile:
    read_through(path)
    file = aliquot.open(path)
    file.index()
    return file


def _compressed_contender(name: str, path: str, places: Sequence[int]) -> Contender:
    file = _opened(path)
    return Contender(name, lambda: _read_units(file, places), per=len(places))


def _read_units(file: aliquot.VirtualFile, places: Sequence[int]) -> None:
    for place in places:
        file[place]


def _read_blocks(path: str, offsets: Sequence[int]) -> None:
    for offset in offsets:
        descriptor = os.open(path, os.O_RDONLY)
        os.pread(descriptor, _BLOCK_BYTES, offset)
        os.close(descriptor)
