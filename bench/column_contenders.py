"""How each library is asked for the histogram of the example `dimuon` from files of events, on two cores.

A contender is made before the clock starts, which is when it imports its library, as a user's script does. Its call
finds the files, starts the workers, lets them do all and stops them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

from analysis import COLUMNS, fill

from bench.column_data import COFFEA, CORES, DASK, HALVES, LOOP, OURS, POOL

Call = Callable[[str], Any]


class Chunk(NamedTuple):
    """Some entries of a file."""

    path: str
    start: int
    stop: int


def fill_chunk(chunk: Chunk) -> Any:
    """What somebody writes who has workers and chunks."""
    import uproot

    with uproot.open(chunk.path) as file:
        return fill(file["Events"].arrays(COLUMNS, entry_start=chunk.start, entry_stop=chunk.stop))


def plain_loop(directory: str, chunk_events: int) -> Any:
    """In one process."""
    return _loop_over(_files(directory), chunk_events)


def _loop_over(files: list[str], chunk_events: int) -> Any:
    import uproot

    return reduce(add, map(fill, uproot.iterate(dict.fromkeys(files, "Events"), COLUMNS, step_size=chunk_events)))


def contender(name: str) -> Call:
    """By its name, which may end in the size of a chunk or of a first guess."""
    library, _, size = name.partition(", ")
    number = int(size.rpartition(" ")[2]) if size else None
    return _MAKERS[library](number)


def _files(directory: str) -> list[str]:
    return sorted(glob.glob(os.path.join(directory, "*.root")))


def _chunks(directory: str, chunk_events: int) -> list[Chunk]:
    """Equal parts of each file, none of which is larger than that."""
    import uproot

    chunks = []
    for path in _files(directory):
        with uproot.open(path) as file:
            entries = file["Events"].num_entries
        parts = max(1, round(entries / chunk_events))
        ends = [entries * part // parts for part in range(parts + 1)]
        chunks += [Chunk(path, start, stop) for start, stop in pairwise(ends)]
    return chunks


def _aliquot(size: int | None) -> Call:
    # Before the clock starts, as for all others.
    import msgspec  # noqa: F401
    import uproot  # noqa: F401

    import aliquot
    from aliquot import map_batches, open

    def call(directory: str) -> Any:
        source = open(os.path.join(directory, "*.root:Events"), columns=COLUMNS, as_="awkward")
        site = aliquot.sites.Local(cores=CORES)
        return map_batches(fill, source, ordered=False, on=site, size=size, progress=False)

    return call


def _loop(chunk_events: int | None) -> Call:
    import uproot  # noqa: F401  # before the clock starts

    assert chunk_events is not None, "it has no size of its own"
    return partial(plain_loop, chunk_events=chunk_events)


def _halves(chunk_events: int | None) -> Call:
    import multiprocessing

    import uproot  # noqa: F401  # before the clock starts

    def call(directory: str) -> Any:
        assert chunk_events is not None, "it has no size of its own"
        halves: list[list[str]] = [[] for _ in range(CORES)]
        held = [0] * CORES
        for path in sorted(_files(directory), key=os.path.getsize, reverse=True):
            least = held.index(min(held))
            halves[least].append(path)
            held[least] += os.path.getsize(path)
        with multiprocessing.get_context("fork").Pool(CORES) as pool:
            return reduce(add, pool.imap_unordered(partial(_loop_over, chunk_events=chunk_events), halves, chunksize=1))

    return call


def _coffea(chunk_events: int | None) -> Call:
    from concurrent.futures import ProcessPoolExecutor

    from coffea.nanoevents import BaseSchema
    from coffea.processor import FuturesExecutor, Runner

    def call(directory: str) -> Any:
        # Its own kind of pool imports coffea anew in each worker, twice in a call: that takes longer than all else.
        executor = FuturesExecutor(workers=CORES, pool=ProcessPoolExecutor, status=False)
        run = Runner(executor, schema=BaseSchema, **({} if chunk_events is None else {"chunksize": chunk_events}))
        return run({"events": {"files": dict.fromkeys(_files(directory), "Events")}}, fill)

    return call


def _dask(chunk_events: int | None) -> Call:
    import distributed
    import uproot  # noqa: F401  # before the clock starts

    # Some versions have types for them, some have not.
    make_cluster: Any = distributed.LocalCluster
    make_client: Any = distributed.Client

    def call(directory: str) -> Any:
        assert chunk_events is not None, "it has no size of its own"
        options = {"n_workers": CORES, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with make_cluster(**options) as cluster, make_client(cluster) as client:
            futures = client.map(fill_chunk, _chunks(directory, chunk_events))
            while len(futures) > 1:
                # Sums of eight at once, on the workers.
                futures = [client.submit(_sum, futures[at : at + 8]) for at in range(0, len(futures), 8)]
            return futures[0].result()

    return call


def _pool(chunk_events: int | None) -> Call:
    from concurrent.futures import ProcessPoolExecutor

    import uproot  # noqa: F401  # before the clock starts

    def call(directory: str) -> Any:
        assert chunk_events is not None, "it has no size of its own"
        with ProcessPoolExecutor(CORES) as pool:
            return reduce(add, pool.map(fill_chunk, _chunks(directory, chunk_events)))

    return call


def _sum(histograms: list[Any]) -> Any:
    return reduce(add, histograms)


_MAKERS: dict[str, Callable[[int | None], Call]] = {
    OURS: _aliquot,
    LOOP: _loop,
    HALVES: _halves,
    COFFEA: _coffea,
    DASK: _dask,
    POOL: _pool,
}
