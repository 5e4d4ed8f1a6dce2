"""How each library is asked to do a workload: at its defaults, on all cores.

A contender is made before the clock starts, which is when it imports its library. Its call starts the workers, lets
them do all and stops them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

Function = Callable[[Any], Any]
Call = Callable[[Function, Sequence[Any]], Any]

OURS = "aliquot.map"
# What one would write who knows no chunk size, by the package to install; None is in the standard library.
PEERS = {"Pool.map": None, "futures": None, "joblib": "joblib", "dask.bag": "dask", "ray": "ray"}
START_SIZES = (1, 10, 100, 1_000, None)
STATIC_SIZES = (1, 10, 100, 500, 1_000, 4_000)


def start(name: str, size: int | None) -> str:
    """The name of the contender that begins with a guess; None is all units at once."""
    return f"{name}, start {size or 'all'}"


def static(name: str, size: int) -> str:
    """The name of the contender that keeps to one size."""
    return f"{name}, chunks of {size}"


def _aliquot_map() -> Call:
    import aliquot

    call: Call = aliquot.map
    return call


def _pool_map(chunk_units: int | None = None) -> Call:
    from multiprocessing.pool import Pool

    def call(function: Function, items: Sequence[Any]) -> Any:
        with Pool() as pool:
            return pool.map(function, items, chunk_units)

    return call


def _futures() -> Call:
    from concurrent.futures import ProcessPoolExecutor

    def call(function: Function, items: Sequence[Any]) -> Any:
        with ProcessPoolExecutor() as pool:
            return list(pool.map(function, items))

    return call


def _joblib(**options: Any) -> Call:
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor

    def call(function: Function, items: Sequence[Any]) -> Any:
        # Its default is one job, which would be no contender.
        results = Parallel(n_jobs=-1, **options)(delayed(function)(item) for item in items)
        # Its workers stay for a next call unless told otherwise; all others stop theirs.
        get_reusable_executor().shutdown()
        return results

    return call


def _dask_bag() -> Call:
    import dask.bag

    # It would be loaded at the first use otherwise.
    import dask.multiprocessing

    # Some versions have types for it, some have not.
    from_sequence: Any = dask.bag.from_sequence

    def call(function: Function, items: Sequence[Any]) -> Any:
        return from_sequence(items).map(function).compute(scheduler="processes")

    return call


def _ray() -> Call:
    # Nothing is reported to anybody, and no note about it is printed.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.util.multiprocessing import Pool

    def call(function: Function, items: Sequence[Any]) -> Any:
        with Pool() as pool:
            results = pool.map(function, items)
        ray.shutdown()
        return results

    return call


def _aliquot_map_from(size: int | None) -> Call:
    import aliquot

    run = aliquot.map
    return lambda function, items: run(function, items, size=size or len(items))


def _aliquot_map_batches_from(size: int | None) -> Call:
    import aliquot

    run = aliquot.map_batches
    return lambda function, items: run(function, items, size=size or len(items))


def _pool_of_chunks(chunk_units: int) -> Call:
    from multiprocessing.pool import Pool

    def call(function: Function, items: Sequence[Any]) -> Any:
        chunks = [items[at : at + chunk_units] for at in range(0, len(items), chunk_units)]
        with Pool() as pool:
            return sum(pool.map(function, chunks, 1))

    return call


def _aliquot_imap() -> Call:
    import aliquot

    run = aliquot.imap
    return lambda function, items: list(run(function, items, target_seconds=0))


def _futures_as_completed() -> Call:
    from concurrent.futures import ProcessPoolExecutor, as_completed

    def call(function: Function, items: Sequence[Any]) -> Any:
        with ProcessPoolExecutor() as pool:
            return [future.result() for future in as_completed([pool.submit(function, item) for item in items])]

    return call


def _pool_imap_unordered() -> Call:
    from multiprocessing.pool import Pool

    def call(function: Function, items: Sequence[Any]) -> Any:
        with Pool() as pool:
            return list(pool.imap_unordered(function, items, 1))

    return call


CONTENDERS: dict[str, Callable[[], Call]] = {
    OURS: _aliquot_map,
    "Pool.map": _pool_map,
    "futures": _futures,
    "joblib": _joblib,
    "dask.bag": _dask_bag,
    "ray": _ray,
    "aliquot.imap": _aliquot_imap,
    "futures, as_completed": _futures_as_completed,
    "Pool.imap_unordered": _pool_imap_unordered,
    "joblib, batch_size=1": partial(_joblib, batch_size=1),
    **{start(OURS, size): partial(_aliquot_map_from, size) for size in START_SIZES},
    **{start("aliquot.map_batches", size): partial(_aliquot_map_batches_from, size) for size in START_SIZES},
    **{static("Pool.map", size): partial(_pool_map, size) for size in STATIC_SIZES},
    **{static("Pool of batches", size): partial(_pool_of_chunks, size) for size in STATIC_SIZES},
}
