"""One turn with little memory, in this process: `python -m bench.topeft_turn CONTENDER [--weights] [--quick]`.

Prints what came of it. coffea's workers are put into a control group that holds what both may, so that the kernel kills
one that goes beyond; aliquot is told the same number.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from topeft_like import QUANTITIES, process

from aliquot.measuring.cages import Cage, open_cage
from bench.column_data import COFFEA, CORES, OURS, TOPEFT, directory_of, read_all_through

ALLOWED_BYTES = 400_000_000
FIRST_GUESS_EVENTS = 512_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.topeft_turn", description="One library in little memory.")
    parser.add_argument("contender", help=f"{OURS}, or {COFFEA} with ', chunks of N'")
    parser.add_argument("--weights", action="store_true", help="with all terms")
    parser.add_argument("--quick", action="store_true", help="fewer events")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    directory = directory_of(TOPEFT, quick=told.quick)
    read_all_through(directory)
    library, _, size = told.contender.partition(", ")
    if library == OURS:
        report = _aliquot(directory, weights=told.weights)
    else:
        report = _coffea(directory, int(size.rpartition(" ")[2]), weights=told.weights)
    print(json.dumps(report))


def _aliquot(directory: str, *, weights: bool) -> dict[str, Any]:
    import aliquot

    columns = ["channel", "weight", *QUANTITIES, *(["couplings"] if weights else [])]
    site = aliquot.sites.Local(cores=CORES, memory=ALLOWED_BYTES)
    began = time.perf_counter()
    source = aliquot.open(os.path.join(directory, "*.root:Events"), columns=columns, as_="numpy")
    job = aliquot.FunctionJob(partial(process, weights=weights), source)
    outcome = aliquot.run(job, on=site, size=FIRST_GUESS_EVENTS, progress=False)
    seconds = time.perf_counter() - began
    report = outcome.report
    return {
        "ended": "done" if _is_right(outcome.value, directory) else "wrong",
        "seconds": seconds,
        "steps": report.steps,
        "stopped": report.exhausted_steps,
        "lost_percent": 100 * report.stopped_seconds / (CORES * seconds),
        "peak_bytes": report.peak_bytes,
    }


def _coffea(directory: str, chunk_events: int, *, weights: bool) -> dict[str, Any]:
    from concurrent.futures import ProcessPoolExecutor

    from coffea.nanoevents import BaseSchema
    from coffea.processor import FuturesExecutor, Runner

    cage = open_cage(f"bench-{os.getpid()}", ALLOWED_BYTES)
    if cage is None:
        return {"ended": "no control group can be made here", "seconds": 0.0}
    pool = partial(ProcessPoolExecutor, initializer=_enter, initargs=(cage.directory, cage.kind))
    files = {entry.path: "Events" for entry in os.scandir(directory) if entry.name.endswith(".root")}
    began = time.perf_counter()
    try:
        executor = FuturesExecutor(workers=CORES, pool=pool, status=False)
        run = Runner(executor, schema=BaseSchema, chunksize=chunk_events)
        found = run({"events": {"files": files}}, partial(process, weights=weights))
        ended = "done" if _is_right(found, directory) else "wrong"
    except Exception as error:  # whatever its user would see
        ended = type(error).__name__
    seconds = time.perf_counter() - began
    kills = cage.kills()
    peak_bytes = cage.peak_bytes() or 0
    cage.remove()
    return {"ended": ended, "seconds": seconds, "stopped": kills, "peak_bytes": peak_bytes}


def _enter(directory: str, kind: str) -> None:
    Cage(directory, kind).add(os.getpid())


def _is_right(histograms: Any, directory: str) -> bool:
    """Whether all events are in each of them."""
    weight = 0.0
    for entry in os.scandir(directory):
        if entry.name.endswith(".npz"):
            weight += float(np.load(entry.path)["weight"].sum(dtype=np.float64))
    return all(np.isclose(histograms[f"{name} nominal"][:, 0].sum(), weight) for name in QUANTITIES)


if __name__ == "__main__":
    main()
