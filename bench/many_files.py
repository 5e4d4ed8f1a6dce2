"""As many events in 200 files of a thousand to a hundred thousand entries as in one, and what the files cost."""

from __future__ import annotations

from importlib.util import find_spec

from bench.column_data import ENVIRONMENT, LOOP, MANY_FILES, NEEDED, ONE_FILE, OURS, POOL, make_columns
from bench.measuring import Finding, ratio
from bench.turns import Turn, enough_repeats, in_fresh_process, take_turns

_LOOP, _POOL = f"{LOOP}, chunks of 200000", f"{POOL}, chunks of 200000"
_WORKLOADS = {"many files": MANY_FILES, "one file": ONE_FILE}
_BAR = 1.05
# Two turns of the same differ by more than the bar allows, so it takes many to tell. The others are far off and slow.
_OURS_IN_A_ROUND = 4


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    missing = [package for package in NEEDED if not find_spec(package)]
    if missing:
        return [Finding.skipped("many files", ", ".join(missing))]
    for workload in _WORKLOADS.values():
        make_columns(workload, quick=quick)

    def turn(name: str) -> Turn:
        contender, _, files = name.partition(": ")
        workload = _WORKLOADS[files]
        return in_fresh_process(contender, workload, quick=quick, environment=ENVIRONMENT, module="bench.column_turn")

    ours, loop, pool = [[f"{name}: {files}" for files in _WORKLOADS] for name in (OURS, _LOOP, _POOL)]
    contenders = [*ours * (1 if quick else _OURS_IN_A_ROUND), *loop, *pool]
    turns = take_turns(contenders, turn, enough_repeats(repeats, quick=quick), ("seconds", lambda turn: turn.seconds))
    ratios = {
        name: ratio(turns[f"{name}: many files"].timing, turns[f"{name}: one file"].timing)
        for name in (OURS, _LOOP, _POOL)
    }
    others = ", ".join(f"{name.partition(',')[0]} {ratios[name][0]:.2f}" for name in (_LOOP, _POOL))
    over_one, times = ratios[OURS]
    over_pool, pool_times = ratio(turns[f"{OURS}: many files"].timing, turns[f"{_POOL}: many files"].timing)
    files = 20 if quick else 200
    return [
        Finding.at_most(f"many files: {files} over one of as many events", over_one, "x", _BAR, f"{times}; {others}"),
        Finding.at_most(f"many files: {files}, over ProcessPoolExecutor", over_pool, "x", 1.0, pool_times),
    ]
