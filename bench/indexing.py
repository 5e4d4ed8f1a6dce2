"""Counting all reads of a plain file that is in memory, on one core, with no index to begin with."""

from __future__ import annotations

import contextlib
import os
from importlib.util import find_spec

import aliquot
from bench.data import Data, read_through
from bench.fresh_cache import FreshCache, fresh_cache
from bench.measuring import Contender, Finding, alternate, find_program, on_one_core, ratio, run_program

_SLOW_REPEATS = 2
_REFERENCE_BYTES = 10e9


def run(data: Data, repeats: int, *, quick: bool) -> list[Finding]:
    read_through(data.plain)
    with fresh_cache() as cache, on_one_core():
        # What is imported when a file is first opened is measured elsewhere.
        len(aliquot.open(data.plain))
        index_bytes = cache.size_bytes()
        try:
            timings = alternate(_contenders(data.plain, cache), repeats)
        finally:
            _remove_indexes_of_peers(data.plain)

    ours = timings["aliquot"]
    over_wc, times = ratio(ours, timings["wc -l"])
    findings = [Finding.at_most("indexing: aliquot over wc -l", over_wc, "x", 1.5, times)]
    for peer, limit in (("samtools fqidx", 20), ("pyfastx", 3)):
        name = f"indexing: {peer} over aliquot"
        if peer in timings:
            over_ours, times = ratio(timings[peer], ours)
            findings.append(Finding.at_least(name, over_ours, "x", limit, times))
        else:
            findings.append(Finding.skipped(name, peer.split()[0]))
    plain_bytes = os.path.getsize(data.plain)
    megabytes = index_bytes / plain_bytes * _REFERENCE_BYTES / 1e6
    sizes = f"{index_bytes:,} bytes for {plain_bytes:,}"
    findings.append(Finding.below("indexing: index of 10 GB", megabytes, "MB", 1, sizes))
    return findings


def _contenders(path: str, cache: FreshCache) -> list[Contender]:
    contenders = [
        Contender("aliquot", lambda: len(aliquot.open(path)), cache.empty),
        Contender("wc -l", lambda: run_program("wc", "-l", path)),
    ]
    samtools = find_program("samtools")
    if samtools:
        contenders.append(
            Contender(
                "samtools fqidx",
                lambda: run_program(samtools, "fqidx", path),
                lambda: _remove_indexes_of_peers(path),
                _SLOW_REPEATS,
            )
        )
    if find_spec("pyfastx"):
        contenders.append(
            Contender(
                "pyfastx", lambda: _index_with_pyfastx(path), lambda: _remove_indexes_of_peers(path), _SLOW_REPEATS
            )
        )
    return contenders


def _index_with_pyfastx(path: str) -> int:
    import pyfastx

    return len(pyfastx.Fastq(path))


def _remove_indexes_of_peers(path: str) -> None:
    for suffix in (".fai", ".fxi"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)
