"""Two workers, one of which has a quarter of its core: three other programs are busy there.

What a unit does is a fixed amount of work, so that it takes longer there. The ideal is all units over the speeds that
the two cores had together just before the turn and just after it, while the other programs were running.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from bench.contenders import OURS
from bench.measuring import Finding, console
from bench.turns import Turn, enough_repeats, in_fresh_process, installed_peers, over_ideals, take_turns
from bench.units import TICKETS_VARIABLE, loop
from bench.workloads import LOOPS_VARIABLE, units

_BAR = 1.05
_PEERS = ("Pool.map", "futures", "joblib")
_HOGS = 3
_HOG = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
_UNIT_SECONDS = 1e-3
_MEASURED_SECONDS = 1.5


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    name = "slowed: over ideal"
    if not hasattr(os, "sched_setaffinity"):
        return [Finding.skipped(name, "a system that can bind a process to a core")]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) != 2 or os.cpu_count() != 2:
        # Every library would start more workers than there are tickets.
        return [Finding.skipped(name, f"exactly 2 cores: here are {os.cpu_count()}, of which {len(cores)} may be used")]
    loops = _loops_of_a_unit()
    with _hogs(cores[1]):
        bench = _SlowedCore(cores, loops, quick=quick)
        turns = take_turns(
            [OURS, *installed_peers(_PEERS)],
            bench.turn,
            enough_repeats(repeats, quick=quick),
            ("over ideal", lambda turn: turn.over_ideal),
        )
    speeds = " + ".join(f"{statistics.median(speeds):,.0f}" for speeds in zip(*bench.speeds, strict=True))
    console.print(f"units/s of the cores between the turns, medians: {speeds}")
    beside = over_ideals(turns, ours=OURS)
    return [
        Finding.at_most(name, turns[OURS].over_ideal, "x", _BAR, beside),
        Finding.without_bar(
            "slowed: over the ideal of the speeds that the workers had",
            statistics.median(bench.over_own_ideal[OURS]),
            "x",
            ", ".join(f"{name} {statistics.median(bench.over_own_ideal[name]):.2f}" for name in turns if name != OURS),
        ),
    ]


@dataclass
class _SlowedCore:
    """Takes turns, and measures the cores' speeds before the first and after each: a machine may change meanwhile."""

    cores: list[int]
    loops: int
    quick: bool
    # Units a second of each core: one measurement more than there were turns.
    speeds: list[list[float]] = field(default_factory=list)
    # By contender, a number a turn. It does not count what a library's own work takes from its workers, so it is no
    # bar; where it is far from the other ratio, the workers' share of the core was not that of the measurement.
    over_own_ideal: dict[str, list[float]] = field(default_factory=dict)

    def turn(self, contender: str) -> Turn:
        if not self.speeds:
            self.speeds.append(self._measure())
        with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as tickets:
            for order, core in enumerate(self.cores):
                with open(os.path.join(tickets, f"{order}-{core}"), "w"):
                    pass
            environment = {TICKETS_VARIABLE: tickets, LOOPS_VARIABLE: str(self.loops)}
            turn = in_fresh_process(contender, "slowed", quick=self.quick, environment=environment)
        self.over_own_ideal.setdefault(contender, []).append(turn.over_ideal)
        self.speeds.append(self._measure())
        before, after = map(sum, self.speeds[-2:])
        return Turn(turn.seconds, units(quick=self.quick) / ((before + after) / 2))

    def _measure(self) -> list[float]:
        # A pool for each core: one process must not measure both, one after the other.
        with contextlib.ExitStack() as stack:
            pools = [stack.enter_context(ProcessPoolExecutor(1)) for _ in self.cores]
            pairs = zip(pools, self.cores, strict=True)
            asked = [pool.submit(_units_per_second, core, self.loops) for pool, core in pairs]
            return [future.result() for future in asked]


def _units_per_second(core: int, loops: int) -> float:
    os.sched_setaffinity(0, {core})
    done = 0
    began = time.perf_counter()
    while (taken := time.perf_counter() - began) < _MEASURED_SECONDS:
        loop(loops)
        done += 1
    return done / taken


def _loops_of_a_unit() -> int:
    """So many that they take about 1 ms where nothing else runs: the fastest of some tries."""
    tried = 20_000
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        loop(tried)
        seconds.append(time.perf_counter() - began)
    return int(tried * _UNIT_SECONDS / min(seconds))


@contextlib.contextmanager
def _hogs(core: int) -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", _HOG, str(core)]) for _ in range(_HOGS)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
