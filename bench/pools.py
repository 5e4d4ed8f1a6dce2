"""Lists of units through every library's own way to map over them, with the start and the end of its workers.

The ideal is all CPU seconds that the units really took, spread evenly over the cores. It is made of what the units
measured themselves, so that a unit that took longer than it should does not count against the library.
"""

from __future__ import annotations

from functools import partial

from bench.contenders import OURS, PEERS
from bench.measuring import Finding, ratio
from bench.pool_turn import IN_MAIN, WARM
from bench.turns import (
    SLOW_REPEATS,
    Turn,
    Turns,
    enough_repeats,
    in_fresh_process,
    installed_peers,
    over_ideals,
    take_turns,
)
from bench.workloads import squares, units

_BAR = 1.03
# A future for each of a million numbers takes minutes.
_TOO_SLOW_AT_SQUARES = "futures"


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    repeats = enough_repeats(repeats, quick=quick)
    count = f"{units(quick=quick):,} units"
    findings = []
    for workload, what in (
        ("equal", f"{count} of 1 ms"),
        ("heavy_tailed", f"{count}, Pareto"),
        ("dear_at_the_end", f"{count}, the last 2 % fifty times dearer"),
    ):
        turns = _burn(workload, repeats, quick=quick)
        findings.append(
            Finding.at_most(f"pools: {what}, over ideal", turns[OURS].over_ideal, "x", _BAR, _beside(turns))
        )
        findings += _variants(what, turns)
    findings += _few_dear(repeats, quick=quick)
    findings += _squares(repeats, quick=quick)
    return findings


def _burn(workload: str, repeats: int, *, quick: bool) -> dict[str, Turns]:
    return take_turns(
        [OURS, *installed_peers(PEERS), OURS + IN_MAIN, OURS + WARM],
        partial(in_fresh_process, workload=workload, quick=quick),
        repeats,
        ("over ideal", lambda turn: turn.over_ideal),
        SLOW_REPEATS,
    )


def _few_dear(repeats: int, *, quick: bool) -> list[Finding]:
    """Units that cannot be divided: no one reaches the ideal, so that the best of the peers is the measure."""
    turns = _burn("few_dear", repeats, quick=quick)
    what = f"{10 if quick else 40} units of 0.05 to 0.6 s"
    best = min((name for name in turns if name in PEERS), key=lambda name: turns[name].over_ideal)
    over_best, times = ratio(turns[OURS].timing, turns[best].timing)
    return [
        Finding.at_most(f"pools: {what}, over {best}, the best peer", over_best, "x", 1.0, times),
        Finding.without_bar(f"pools: {what}, over ideal", turns[OURS].over_ideal, "x", f"over ideal: {_beside(turns)}"),
        *_variants(what, turns),
    ]


def _squares(repeats: int, *, quick: bool) -> list[Finding]:
    """Units that cost less than their way to a worker."""
    count = squares(quick=quick)

    def rate(turn: Turn) -> float:
        return count / turn.seconds

    findings = []
    for workload, what, peers in (
        ("squares_of_range", "a range", installed_peers(name for name in PEERS if name != _TOO_SLOW_AT_SQUARES)),
        # What the others do with a range they do with a list.
        ("squares_of_list", "a list", ["Pool.map"]),
    ):
        turns = take_turns(
            [OURS, *peers, OURS + IN_MAIN, OURS + WARM],
            partial(in_fresh_process, workload=workload, quick=quick),
            repeats,
            ("units/s", rate),
            SLOW_REPEATS,
        )
        ours = turns[OURS].timing
        faster, times = ratio(turns["Pool.map"].timing, ours)
        rates = ", ".join(f"{name} {count / turns[name].timing.median / 1e6:.3f}" for name in turns)
        findings += [
            Finding.at_least(f"pools: {count:,} squares of {what}, rate over Pool.map's", faster, "x", 1.0, times),
            Finding.without_bar(f"pools: {count:,} squares of {what}", count / ours.median / 1e6, "M/s", rates),
        ]
    return findings


def _variants(what: str, turns: dict[str, Turns]) -> list[Finding]:
    return [
        Finding.without_bar(f"pools: {what}{variant}, over ideal", turns[OURS + variant].over_ideal, "x")
        for variant in (IN_MAIN, WARM)
    ]


def _beside(turns: dict[str, Turns]) -> str:
    return over_ideals({name: turns[name] for name in turns if name == OURS or name in PEERS}, ours=OURS)
