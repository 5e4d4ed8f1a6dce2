"""A million units of which seven are bad, each in its own way: all are named, and little is done again."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Sequence

from rich.table import Table

import aliquot
from aliquot.running import one_run, options, planning
from bench.bad_units import BAD_OF_A_MILLION, CALLS_PLACES, SevenBad
from bench.measuring import Finding, console

_UNITS = 1_000_000
_WALL_SECONDS = 2.0
_MEMORY_BYTES = 2_000_000_000
_BAR_PERCENT = 1.0
# What a unit takes. The bar is for those that take anything: a death costs what its worker did in a part of a second.
_UNIT_MICROSECONDS, _QUICK_UNIT_MICROSECONDS = (0, 50, 100), (0,)


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    table = Table(
        "a unit takes", "seconds", "named", "right", "tasks", "calls made again", title="seven bad of a million"
    )
    findings = []
    for microseconds in _QUICK_UNIT_MICROSECONDS if quick else _UNIT_MICROSECONDS:
        percents = []
        for _ in range(repeats):
            began = time.perf_counter()
            named, right, tasks, calls = _run(microseconds * 1e-6)
            percents.append(100 * (calls - _UNITS) / _UNITS)
            seconds = f"{time.perf_counter() - began:.1f}"
            table.add_row(f"{microseconds} us", seconds, str(named), f"{right:,}", str(tasks), f"{percents[-1]:.2f} %")
        findings.append(_finding(microseconds, percents))
    console.print(table)
    return findings


def _finding(microseconds: int, percents: Sequence[float]) -> Finding:
    name = f"isolation: units of {microseconds} us, calls made again"
    shown = ", ".join(f"{percent:.2f}" for percent in percents)
    if not microseconds:
        return Finding.without_bar(name, max(percents), "%", shown)
    return Finding.below(name, max(percents), "%", _BAR_PERCENT, shown)


def _run(unit_seconds: float) -> tuple[int, int, int, int]:
    """How many bad units were named, how many values are right, in how many tasks, and by how many calls."""
    with tempfile.NamedTemporaryFile(prefix="aliquot-bench-") as file:
        os.truncate(file.name, CALLS_PLACES * 8)
        function = SevenBad(unit_seconds, file.name)
        site = aliquot.sites.Local(cores=2, memory=_MEMORY_BYTES)
        told = options.make_options(on=site, max_failures=1e-5, wall_seconds=_WALL_SECONDS, progress=False)
        outcome = one_run.run_plan(planning.plan_each(function, range(_UNITS), told))
        with open(file.name, "rb") as counted:
            calls = sum(struct.unpack(f"{CALLS_PLACES}q", counted.read()))
    named = [failure.start for failure in outcome.failures]
    assert named == list(BAD_OF_A_MILLION), f"bad units that were named: {named}"
    right = sum(value == unit for unit, value in enumerate(outcome.value))
    return len(named), right, outcome.report.tasks, calls
