"""Large arrays on their way back from the workers that made them."""

from __future__ import annotations

from functools import partial

from bench.contenders import OURS
from bench.measuring import Finding, ratio
from bench.turns import enough_repeats, in_fresh_process, installed_peers, take_turns
from bench.units import ARRAY_BYTES
from bench.workloads import arrays

_PEERS = ("Pool.map", "futures", "joblib")


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    count = len(arrays(quick=quick).items)
    gigabytes = count * ARRAY_BYTES / 1e9
    turns = take_turns(
        [OURS, *installed_peers(_PEERS)],
        partial(in_fresh_process, workload="arrays", quick=quick),
        enough_repeats(repeats, quick=quick),
        ("GB/s", lambda turn: gigabytes / turn.seconds),
    )
    what = f"copies: {count} arrays of {ARRAY_BYTES / 1e6:.0f} MB"
    faster, times = ratio(turns["Pool.map"].timing, turns[OURS].timing)
    rates = {name: gigabytes / turns[name].timing.median for name in turns}
    beside = ", ".join(f"{name} {rates[name]:.2f}" for name in turns if name != OURS)
    return [
        Finding.at_least(f"{what}, rate over Pool.map's", faster, "x", 1.0, times),
        Finding.without_bar(what, rates[OURS], "GB/s", beside),
    ]
