"""Dividing among many unequal workers, in virtual time: against static chunk sizes, and against what can be reached.

All figures are makespan over ideal, where the ideal is all work over all speed plus one start-up, or the longest unit.
``reachable`` is what perfect knowledge would reach from equal spans: everyone starts once again at most, and nothing is
lost to pieces that do not fit.
"""

from __future__ import annotations

import heapq
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from rich.table import Table

from aliquot.coordinator import Advise, AppendAsTheyCome, Assign, Coordinator, Ticked, Trim
from aliquot.coordinator.stealing import Load, level_seconds
from aliquot.sites.simulated import EqualCosts, GivenCosts, Simulated, SimulatedWorker, UnitCosts, Workload
from bench.measuring import Finding, console

_BAR = 1.10
# From so many start-ups of work for each worker on, the bar holds.
_BAR_STARTUPS = 10
_BAR_US = 50
_BAR_GB = 1.0
_WORKERS = 160
_FOUR_SPEEDS = (0.5, 1.0, 1.5, 2.0)
_STARTUPS = (3, 6, 10, 20)
# Static chunks: so many for each worker, on the average.
_CHUNKS_A_WORKER = (0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)


class _Case(NamedTuple):
    name: str
    startup_seconds: float
    mean_seconds: float
    costs: Callable[[int], UnitCosts]
    is_slowed: bool = False


class _Measured(NamedTuple):
    reachable: float
    best_static: float
    worst_static: float
    ours: float
    spans: int


def run(data: None, repeats: int, *, quick: bool) -> list[Finding]:
    table = Table("workload", "start-ups", "reachable", "best static", "worst static", "aliquot", "spans a worker")
    findings = []
    closest_to_static = 0.0
    for case in _cases():
        highest = 0.0
        for startups in _STARTUPS[-2:] if quick else _STARTUPS:
            measured = _measure(case, startups)
            ratios = (f"{value:.2f}" for value in measured[:3])
            spans = f"{measured.spans / _WORKERS:.2f}"
            table.add_row(case.name, str(startups), *ratios, f"{measured.ours:.3f}", spans)
            closest_to_static = max(closest_to_static, measured.ours / measured.best_static)
            if startups >= _BAR_STARTUPS:
                highest = max(highest, measured.ours)
        findings.append(Finding.at_most(f"simulated: {case.name}, {_WORKERS} workers", highest, "x ideal", _BAR))
    console.print(table)
    findings.append(Finding.at_most("simulated: against the best static size", closest_to_static, "x", 1.0))
    return findings + _scale(quick=quick)


def _cases() -> list[_Case]:
    def pareto(units: int) -> UnitCosts:
        # 3 ms on the average. A unit longer than a start-up would end late on the slowest workers whoever divides.
        drawn = np.random.default_rng(1).pareto(1.5, units) + 1
        return GivenCosts(np.minimum(drawn * 0.001, 0.25))

    def dear(units: int) -> UnitCosts:
        costs = np.full(units, 0.002 / 3.45)
        costs[units * 95 // 100 :] *= 50
        return GivenCosts(costs)

    table = [
        _Case("0.05 ms a unit, 0.1 s to start", 0.1, 5e-5, lambda units: EqualCosts(units, 5e-5)),
        _Case("0.2 ms a unit, 8 s to start", 8.0, 2e-4, lambda units: EqualCosts(units, 2e-4)),
        _Case("2 ms a unit, 1 s to start", 1.0, 2e-3, lambda units: EqualCosts(units, 2e-3)),
        _Case("Pareto 1.5", 1.0, 0.003, pareto),
        _Case("last 5 % 50 times dearer", 1.0, 0.002, dear),
    ]
    slowed = [case._replace(name=f"{case.name}, some slowed", is_slowed=True) for case in (table[2], table[4])]
    return table + slowed


def _speeds(case: _Case) -> list[float]:
    speeds = [_FOUR_SPEEDS[number % len(_FOUR_SPEEDS)] for number in range(_WORKERS)]
    # Two of eight, of different speeds, are four times slower.
    return [speed / 4 if case.is_slowed and at % 8 in (1, 6) else speed for at, speed in enumerate(speeds)]


def _measure(case: _Case, startups: int) -> _Measured:
    speeds = _speeds(case)
    units = round(startups * case.startup_seconds * sum(speeds) / case.mean_seconds)
    costs = case.costs(units)
    longest = 0.0 if isinstance(costs, EqualCosts) else max(costs.seconds(at, at + 1) for at in range(units))
    ideal = max(costs.seconds(0, units) / sum(speeds) + case.startup_seconds, longest)
    statics = [
        _static_seconds(costs, speeds, case.startup_seconds, max(1, round(units / (_WORKERS * chunks))))
        for chunks in _CHUNKS_A_WORKER
    ]
    workload = Workload(costs, span_seconds=case.startup_seconds)
    ours, coordinator, _ = _simulate(workload, [SimulatedWorker(speed) for speed in speeds])
    reachable = _reachable_seconds(costs, speeds, case.startup_seconds)
    return _Measured(reachable / ideal, min(statics) / ideal, max(statics) / ideal, ours / ideal, coordinator.spans)


def _static_seconds(costs: UnitCosts, speeds: Sequence[float], startup_seconds: float, chunk_units: int) -> float:
    """Chunks of one size, each to the next worker that is idle."""
    idle = [(0.0, number) for number in range(len(speeds))]
    end = 0.0
    for start in range(0, len(costs), chunk_units):
        at, number = heapq.heappop(idle)
        work = costs.seconds(start, min(start + chunk_units, len(costs)))
        at += startup_seconds + work / speeds[number]
        end = max(end, at)
        heapq.heappush(idle, (at, number))
    return end


def _reachable_seconds(costs: UnitCosts, speeds: Sequence[float], startup_seconds: float) -> float:
    cuts = [len(costs) * number // len(speeds) for number in range(len(speeds) + 1)]
    loads = [
        Load(startup_seconds + costs.seconds(start, stop) / speed, speed)
        for start, stop, speed in zip(cuts, cuts[1:], speeds, strict=False)
    ]
    return level_seconds(loads, startup_seconds)


def _simulate(workload: Workload, workers: Sequence[SimulatedWorker]) -> tuple[float, Coordinator, float]:
    """The makespan, the coordinator, and the microseconds that it took for each command."""
    site = Simulated(workload, workers)
    coordinator = Coordinator(AppendAsTheyCome(), units=len(workload.costs), expected_workers=site.expected_workers)
    commands = 0
    seconds = 0.0
    while not coordinator.is_over:
        for event in site.wait(coordinator.wake_seconds(site.now_seconds())) or [Ticked()]:
            began = time.process_time()
            wanted = coordinator.handle(event, site.now_seconds())
            seconds += time.process_time() - began
            commands += len(wanted)
            for command in wanted:
                if isinstance(command, Assign | Trim | Advise):
                    site.perform(command)
    return site.now_seconds(), coordinator, seconds / commands * 1e6


def _scale(*, quick: bool) -> list[Finding]:
    """In a process of its own, as memory is measured by its peak."""
    workers = 1000 if quick else 10_000
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        ratio, microseconds, peak_bytes = pool.submit(_run_at_scale, workers).result()
    name = f"simulated: 10^9 units, {workers:,} workers"
    return [
        Finding.below(f"{name}, a command", microseconds, "us", _BAR_US, f"{ratio:.3f} x ideal"),
        Finding.below(f"{name}, peak memory", peak_bytes / 1e9, "GB", _BAR_GB),
    ]


def _run_at_scale(workers: int) -> tuple[float, float, int]:
    startups, startup_seconds, units = 10, 1.0, 10**9
    speeds = [_FOUR_SPEEDS[number % len(_FOUR_SPEEDS)] for number in range(workers)]
    work_seconds = startups * startup_seconds * sum(speeds)
    workload = Workload(EqualCosts(units, work_seconds / units), span_seconds=startup_seconds)
    took, _, microseconds = _simulate(workload, [SimulatedWorker(speed) for speed in speeds])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return took / ((startups + 1) * startup_seconds), microseconds, peak
