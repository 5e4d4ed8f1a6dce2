"""Pairs of muons in files of events, on two cores: the histogram that the example `dimuon` fills.

The ideal is half of what one process takes that does nothing but read and fill, at its best chunk size. The best size
of each peer is found by a sweep first; aliquot is told none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

from bench.column_data import (
    COFFEA,
    CORES,
    DASK,
    DIMUON,
    ENVIRONMENT,
    HALVES,
    LOOP,
    NEEDED,
    OURS,
    POOL,
    events_of,
    make_columns,
)
from bench.measuring import Finding, Timing, console, format_time, ratio
from bench.turns import Turns, enough_repeats, in_fresh_process, take_turns

# By the package to install.
_PEERS = {COFFEA: "coffea", DASK: "distributed", POOL: "uproot"}
_CHUNK_EVENTS = (20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
_QUICK_CHUNK_EVENTS = (20_000, 100_000)
_SWEEPS, _QUICK_SWEEPS = 2, 1
_STARTS = (100, 10_000, 1_000_000, 5_000_000)
_OVER_IDEAL_BAR, _STARTS_BAR = 1.05, 1.10


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    missing = [package for package in NEEDED if not find_spec(package)]
    if missing:
        return [Finding.skipped("dimuon", ", ".join(missing))]
    make_columns(DIMUON, quick=quick)
    repeats = enough_repeats(repeats, quick=quick)
    peers = [name for name, package in _PEERS.items() if find_spec(package)]
    best = _best_sizes([LOOP, *peers], quick=quick)
    starts = [f"{OURS}, start {size}" for size in _STARTS]
    # Divided by hand, by what is known of the files, and with the chunk size of the loop.
    halves = best[LOOP].replace(LOOP, HALVES)
    turns = _turns([OURS, halves, *best.values(), *starts], repeats, quick=quick)
    return _findings(turns, best, starts, halves, events_of(DIMUON, quick=quick))


def _halved(timing: Timing) -> Timing:
    """What one process takes, spread evenly over the cores."""
    return Timing(tuple(seconds / CORES for seconds in timing.seconds))


def _findings(
    turns: dict[str, Turns], best: dict[str, str], starts: Sequence[str], halves: str, events: int
) -> list[Finding]:
    ideal = _halved(turns[best[LOOP]].timing)
    ours = turns[OURS].timing
    what = f"dimuon: {events:,} events"
    over_ideals = {name: ratio(turns[name].timing, ideal)[0] for name in (OURS, *best.values()) if name != best[LOOP]}
    beside = ", ".join(f"{name} {over:.2f}" for name, over in over_ideals.items() if name != OURS)
    findings = [
        Finding.at_most(f"{what}, over ideal", over_ideals[OURS], "x", _OVER_IDEAL_BAR, beside),
        Finding.without_bar(f"{what} a second", events / ours.median / 1e6, "M/s", ratio(ours, ideal)[1]),
    ]
    over, times = ratio(turns[halves].timing, ideal)
    findings.append(Finding.without_bar(f"{what}, {halves}, over ideal", over, "x", times))
    over, times = ratio(ours, turns[halves].timing)
    findings.append(Finding.without_bar(f"{what}, aliquot over {halves}", over, "x", times))
    peers = [name for library, name in best.items() if library != LOOP]
    if peers:
        best_peer = min(peers, key=lambda name: turns[name].timing.median)
        over, times = ratio(ours, turns[best_peer].timing)
        findings.append(Finding.at_most(f"{what}, over {best_peer}, the best peer", over, "x", 1.0, times))
    by_median = sorted(starts, key=lambda name: turns[name].timing.median)
    slowest, fastest = turns[by_median[-1]].timing.median, turns[by_median[0]].timing.median
    medians = ", ".join(f"{name.rpartition(' ')[2]}: {format_time(turns[name].timing.median)}" for name in starts)
    spread = slowest / fastest
    return [*findings, Finding.at_most(f"{what}, slowest start over fastest", spread, "x", _STARTS_BAR, medians)]


def _best_sizes(libraries: Sequence[str], *, quick: bool) -> dict[str, str]:
    """For each library, the name of the contender with the size at which it is fastest."""
    sizes = _QUICK_CHUNK_EVENTS if quick else _CHUNK_EVENTS
    sweeps = _QUICK_SWEEPS if quick else _SWEEPS
    console.print("the best chunk size of each:")
    swept = _turns([f"{name}, chunks of {size}" for name in libraries for size in sizes], sweeps, quick=quick)
    return {
        library: min(
            (name for name in swept if name.startswith(f"{library},")), key=lambda name: min(swept[name].timing.seconds)
        )
        for library in libraries
    }


def _turns(contenders: Sequence[str], repeats: int, *, quick: bool) -> dict[str, Turns]:
    turn = partial(in_fresh_process, workload=DIMUON, quick=quick, environment=ENVIRONMENT, module="bench.column_turn")
    return take_turns(contenders, turn, repeats, ("seconds", lambda turn: turn.seconds))
