"""Two workers, one of which has a quarter of its core: three other programs are busy there.

The ideal is all CPU seconds that the units really took, over what the two workers have of their cores: one and a
quarter. What a library does besides takes from that, and counts against it; that a core is slower for a while does not.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from bench.contenders import OURS
from bench.measuring import Finding
from bench.turns import Turn, enough_repeats, in_fresh_process, installed_peers, over_ideals, take_turns
from bench.units import TICKETS_VARIABLE
from bench.workloads import SLOWED_SHARE

_BAR = 1.05
_PEERS = ("Pool.map", "futures", "joblib")
_HOGS = round(1 / SLOWED_SHARE) - 1
_HOG = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    name = "slowed: over ideal"
    if not hasattr(os, "sched_setaffinity"):
        return [Finding.skipped(name, "a system that can bind a process to a core")]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) != 2 or os.cpu_count() != 2:
        # Every library would start more workers than there are tickets.
        return [Finding.skipped(name, f"exactly 2 cores: here are {os.cpu_count()}, of which {len(cores)} may be used")]

    def turn(contender: str) -> Turn:
        with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as tickets:
            for order, core in enumerate(cores):
                with open(os.path.join(tickets, f"{order}-{core}"), "w"):
                    pass
            return in_fresh_process(contender, "slowed", quick=quick, environment={TICKETS_VARIABLE: tickets})

    with _hogs(cores[1]):
        turns = take_turns(
            [OURS, *installed_peers(_PEERS)],
            turn,
            enough_repeats(repeats, quick=quick),
            ("over ideal", lambda turn: turn.over_ideal),
        )
    return [Finding.at_most(name, turns[OURS].over_ideal, "x", _BAR, over_ideals(turns, ours=OURS))]


@contextlib.contextmanager
def _hogs(core: int) -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", _HOG, str(core)]) for _ in range(_HOGS)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
