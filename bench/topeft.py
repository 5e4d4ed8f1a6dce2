"""Two workers that may hold 400 MB together, and a first guess of 512,000 events, as in the literature's hardest case.

What the example `topeft_like` fills holds little without its option, and 9 KB an event with it. There, 19 % of the
workers' time was lost in steps that did not fit, and 32 % with an option that multiplies memory.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec

from rich.table import Table

from bench.column_data import COFFEA, ENVIRONMENT, NEEDED, OURS, TOPEFT, events_of, make_columns
from bench.measuring import Finding, console

_FIRST_GUESS_EVENTS = 512_000
# The first guess; what coffea takes by default; what somebody finds who tries.
_COFFEA_CHUNKS = (_FIRST_GUESS_EVENTS, 100_000, 8_000)
_LOST_PERCENT_BAR = {False: 5.0, True: 5.0}
_LITERATURE = {False: 19, True: 32}
_TURN_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class _Turn:
    ended: str
    seconds: float
    steps: int = 0
    stopped: int = 0
    lost_percent: float = 0.0
    peak_bytes: int = 0


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    missing = [package for package in NEEDED if not find_spec(package)]
    if missing:
        return [Finding.skipped("topeft", ", ".join(missing))]
    make_columns(TOPEFT, quick=quick)
    peers = [f"{COFFEA}, chunks of {size}" for size in _COFFEA_CHUNKS] if find_spec("coffea") else []
    findings = []
    for weights in (False, True):
        turns: dict[str, list[_Turn]] = {name: [] for name in (OURS, *peers)}
        for number in range(1 if quick else repeats):
            for name, taken in turns.items():
                if name == OURS or number == 0:
                    taken.append(_in_fresh_process(name, weights=weights, quick=quick))
        _print_turns(turns, weights=weights)
        findings += _findings(turns, events_of(TOPEFT, quick=quick), weights=weights)
    return findings


def _findings(turns: dict[str, list[_Turn]], events: int, *, weights: bool) -> list[Finding]:
    what = f"topeft: {events:,} events{', all terms' if weights else ''} in 400 MB"
    ours = turns[OURS]
    done = sum(turn.ended == "done" for turn in ours)
    lost = statistics.median(turn.lost_percent for turn in ours)
    others = ", ".join(
        f"{name.partition(' of ')[2]}: {taken[0].ended}" for name, taken in turns.items() if name != OURS
    )
    return [
        Finding.at_least(f"{what}, done", 100 * done / len(ours), "%", 100, f"coffea by chunk: {others}"),
        Finding.at_most(
            f"{what}, time lost in stopped steps",
            lost,
            "%",
            _LOST_PERCENT_BAR[weights],
            f"{statistics.median(turn.stopped for turn in ours):g} stopped; literature {_LITERATURE[weights]} %",
        ),
    ]


def _in_fresh_process(contender: str, *, weights: bool, quick: bool) -> _Turn:
    options = [*(["--weights"] if weights else []), *(["--quick"] if quick else [])]
    with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as learned:
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "bench.topeft_turn", contender, *options],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={**os.environ, **ENVIRONMENT, "ALIQUOT_CACHE": learned},
                timeout=_TURN_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _Turn(f"not over after {_TURN_TIMEOUT_SECONDS} s", _TURN_TIMEOUT_SECONDS)
    if ran.returncode != 0:
        raise RuntimeError(f"{contender} failed with exit code {ran.returncode}:\n{ran.stderr[-4000:]}")
    return _Turn(**json.loads(ran.stdout.splitlines()[-1]))


def _print_turns(turns: dict[str, list[_Turn]], *, weights: bool) -> None:
    title = "all terms" if weights else "the Standard Model only"
    table = Table("contender", "ended", "seconds", "steps", "stopped", "% of time lost", "peak, MB", title=title)
    for name, taken in turns.items():
        for turn in taken:
            steps, lost = (str(turn.steps), f"{turn.lost_percent:.1f}") if name == OURS else ("", "")
            peak = f"{turn.peak_bytes / 1e6:.0f}"
            table.add_row(name, turn.ended, f"{turn.seconds:.2f}", steps, str(turn.stopped), lost, peak)
    console.print(table)
