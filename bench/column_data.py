"""Files of made-up events, made once by the examples' own generators."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys

from bench.data import DIRECTORY, read_through
from bench.measuring import console

_EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
# Everybody's workers find the functions of the examples as modules.
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(os.path.join(_EXAMPLES, name) for name in ("dimuon", "topeft_like"))}

CORES = 2
OURS = "aliquot"
LOOP, COFFEA, DASK, POOL = "uproot.iterate", "coffea", "Dask", "ProcessPoolExecutor"
# Two such loops at once, each over half of the data: what this machine allows, as cores are not alone in it.
HALVES = "two loops over half each"
# Without these there is nothing to measure.
NEEDED = ("uproot", "awkward", "hist")

DIMUON, MANY_FILES, ONE_FILE, TOPEFT = "dimuon", "many_files", "one_file", "topeft"


def events_of(workload: str, *, quick: bool) -> int:
    full = {DIMUON: 5_000_000, TOPEFT: 1_000_000}[workload]
    return full // 10 if quick else full


def directory_of(workload: str, *, quick: bool) -> str:
    return os.path.join(DIRECTORY, "quick" if quick else "full", workload)


def make_columns(workload: str, *, quick: bool) -> None:
    """Make the files of a workload where they are not there."""
    directory = directory_of(workload, quick=quick)
    if not os.path.isdir(directory):
        console.print(f"making {directory} (once)")
        unfinished = f"{directory}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        os.makedirs(unfinished)
        command = [sys.executable, "-m", "bench.column_making", workload, unfinished, *(["--quick"] if quick else [])]
        subprocess.run(command, check=True, env={**os.environ, **ENVIRONMENT})
        os.rename(unfinished, directory)


def read_all_through(directory: str) -> None:
    """Bring all files into the memory of the system: just before each turn, as some systems drop them after a while."""
    for path in glob.glob(os.path.join(directory, "*")):
        read_through(path)
