"""A ROOT file with as many branches as NanoAOD has: opened, and five columns of it read, nothing known beforehand."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec

import aliquot
from bench.column_data import NEEDED
from bench.fresh_cache import fresh_cache
from bench.measuring import Contender, Finding, alternate, ratio

_BRANCHES, _ENTRIES = 1_500, 1_000
_BAR = 0.2
_COLUMNS = [f"column_{number}" for number in (3, 300, 600, 900, 1_499)]


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    missing = [package for package in NEEDED if not find_spec(package)]
    if missing:
        return [Finding.skipped("opening", ", ".join(missing))]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "nano.root")
        _write(path)
        timings = alternate(
            [Contender("aliquot.open", lambda: _ours(path)), Contender("uproot.open", lambda: _theirs(path))], repeats
        )
    over_uproot, times = ratio(timings["aliquot.open"], timings["uproot.open"])
    return [Finding.at_most(f"opening: {_BRANCHES:,} branches, over uproot", over_uproot, "x", _BAR, times)]


def _write(path: str) -> None:
    import numpy
    import uproot

    names = [f"column_{number}" for number in range(_BRANCHES)]
    with uproot.recreate(path) as file:
        file.mktree("Events", dict.fromkeys(names, "f4")).extend(
            dict.fromkeys(names, numpy.arange(_ENTRIES, dtype="f4"))
        )


def _ours(path: str) -> None:
    with fresh_cache():
        _check(aliquot.open(f"{path}:Events", columns=_COLUMNS).batch())


def _theirs(path: str) -> None:
    import uproot

    with uproot.open(path) as file:
        _check(file["Events"].arrays(_COLUMNS))


def _check(events: object) -> None:
    assert len(events) == _ENTRIES  # type: ignore[arg-type]  # it is an array
