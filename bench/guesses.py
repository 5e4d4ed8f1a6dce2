"""The first guess of the size must not matter: all must be as fast as the best size that one could have known."""

from __future__ import annotations

from functools import partial

from bench.contenders import OURS, START_SIZES, STATIC_SIZES, start, static
from bench.measuring import Finding, format_time, ratio
from bench.turns import Turns, enough_repeats, in_fresh_process, take_turns

_BAR = 1.05


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    repeats = enough_repeats(repeats, quick=quick)
    return [
        *_compare(OURS, "Pool.map", "equal", repeats, quick=quick),
        *_compare("aliquot.map_batches", "Pool of batches", "batches", repeats, quick=quick),
    ]


def _compare(ours: str, peer: str, workload: str, repeats: int, *, quick: bool) -> list[Finding]:
    starts = [start(ours, size) for size in START_SIZES]
    statics = [static(peer, size) for size in STATIC_SIZES]
    turns = take_turns(
        [*starts, *statics],
        partial(in_fresh_process, workload=workload, quick=quick),
        repeats,
        ("seconds", lambda turn: turn.seconds),
    )
    slowest, fastest = _slowest_and_fastest(turns, starts)
    _, best_static = _slowest_and_fastest(turns, statics)
    spread = turns[slowest].timing.median / turns[fastest].timing.median
    over_best, times = ratio(turns[fastest].timing, turns[best_static].timing)
    return [
        Finding.at_most(f"guesses: {ours}, slowest start over fastest", spread, "x", _BAR, _times(turns, starts)),
        Finding.at_most(f"guesses: {fastest}, over {best_static}, the best", over_best, "x", 1.0, times),
        Finding.without_bar(
            f"guesses: {ours}, slowest start over the best static size",
            ratio(turns[slowest].timing, turns[best_static].timing)[0],
            "x",
            _times(turns, statics),
        ),
    ]


def _slowest_and_fastest(turns: dict[str, Turns], names: list[str]) -> tuple[str, str]:
    by_median = sorted(names, key=lambda name: turns[name].timing.median)
    return by_median[-1], by_median[0]


def _times(turns: dict[str, Turns], names: list[str]) -> str:
    return ", ".join(f"{name.rpartition(' ')[2]}: {format_time(turns[name].timing.median)}" for name in names)
