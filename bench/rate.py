"""How many tasks of one unit that does nothing go to workers and come back in a second, one by one."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

from bench.measuring import Finding
from bench.turns import enough_repeats, in_fresh_process, take_turns
from bench.workloads import tasks

_OURS = "aliquot.imap"
_BAR = 15_000


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    peers = ["Pool.imap_unordered", "futures, as_completed"]
    if find_spec("joblib"):
        peers.append("joblib, batch_size=1")
    count = tasks(quick=quick)
    turns = take_turns(
        [_OURS, *peers],
        partial(in_fresh_process, workload="one_by_one", quick=quick),
        enough_repeats(repeats, quick=quick),
        ("tasks/s", lambda turn: count / turn.seconds),
    )
    rates = {name: count / turns[name].timing.median for name in turns}
    beside = "; ".join(f"{name} {rates[name]:,.0f}" for name in peers)
    return [Finding.at_least("rate: tasks of one unit", rates[_OURS], "/s", _BAR, beside)]
