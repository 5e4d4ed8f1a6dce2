"""Contenders that start workers take turns, each turn in a fresh Python process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from rich.table import Table

from bench.contenders import PEERS
from bench.measuring import Timing, console, format_time

AT_LEAST_REPEATS = 5
# Those that are far off and slow need not be repeated as often.
SLOW_REPEATS = {"dask.bag": 3, "ray": 3}

_TURN_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Turn:
    """What one call took; ``ideal_seconds`` is None where nothing tells them."""

    seconds: float
    ideal_seconds: float | None = None

    @property
    def over_ideal(self) -> float:
        """How many times as long as with workers that are busy from the first moment to the last."""
        assert self.ideal_seconds is not None, "this workload has no ideal"
        return self.seconds / self.ideal_seconds


@dataclass(frozen=True)
class Turns:
    """All turns of one contender."""

    turns: tuple[Turn, ...]

    @property
    def timing(self) -> Timing:
        """For comparing with others."""
        return Timing(tuple(turn.seconds for turn in self.turns))

    @property
    def over_ideal(self) -> float:
        """The median."""
        return statistics.median(turn.over_ideal for turn in self.turns)


def enough_repeats(repeats: int, *, quick: bool) -> int:
    """Medians of fewer than five turns are for a quick look only."""
    return repeats if quick else max(repeats, AT_LEAST_REPEATS)


def installed_peers(names: Iterable[str]) -> list[str]:
    found = []
    for name in names:
        package = PEERS[name]
        if package is None or find_spec(package):
            found.append(name)
        else:
            console.print(f"{name} is left out: {package} is not installed")
    return found


def take_turns(
    contenders: Sequence[str],
    turn: Callable[[str], Turn],
    repeats: int,
    value: tuple[str, Callable[[Turn], float]],
    at_most_repeats: Mapping[str, int] | None = None,
) -> dict[str, Turns]:
    """Let each contender run once, then each again. Prints what they took, and the median of the value.

    Every second time in the other order: the same one would always come after the one that heats the machine most.
    """
    taken: dict[str, list[Turn]] = {name: [] for name in contenders}
    for number in range(repeats):
        for name in contenders if number % 2 == 0 else reversed(contenders):
            if number < (at_most_repeats or {}).get(name, repeats):
                taken[name].append(turn(name))
    all_turns = {name: Turns(tuple(turns)) for name, turns in taken.items()}
    _print_turns(all_turns, value)
    return all_turns


def in_fresh_process(
    contender: str,
    workload: str,
    *,
    quick: bool,
    environment: Mapping[str, str] | None = None,
    module: str = "bench.pool_turn",
) -> Turn:
    command = [sys.executable, "-m", module, contender, workload, *(["--quick"] if quick else [])]
    # With bytecode, as installed packages have it; without what an earlier turn has learned.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    learned = tempfile.mkdtemp(prefix="aliquot-bench-")
    # A group of its own can be ended with all workers in it. Not a session of its own: Linux may share the cores
    # between sessions first, and beside busy programs the turn would get another part of a core than was measured.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**inherited, "ALIQUOT_CACHE": learned, **(environment or {})},
        process_group=0,
    )
    try:
        output, errors = process.communicate(timeout=_TURN_TIMEOUT_SECONDS)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        shutil.rmtree(learned, ignore_errors=True)
    if process.returncode != 0:
        raise RuntimeError(f"{contender} failed at {workload} with exit code {process.returncode}:\n{errors[-4000:]}")
    # Libraries may print as well, but only before the call is over.
    return Turn(**json.loads(output.splitlines()[-1]))


def over_ideals(turns: Mapping[str, Turns], *, ours: str) -> str:
    """How far the others are from the ideal, and whether the machine let us see how far we are."""
    others = ", ".join(f"{name} {taken.over_ideal:.2f}" for name, taken in turns.items() if name != ours)
    return others + (" unsteady" if turns[ours].timing.unsteady else "")


def _print_turns(all_turns: Mapping[str, Turns], value: tuple[str, Callable[[Turn], float]]) -> None:
    value_name, value_of = value
    table = Table("contender", value_name, "median", "lowest", "highest", "runs")
    for name, turns in all_turns.items():
        timing = turns.timing
        shown = statistics.median(map(value_of, turns.turns))
        times = (format_time(seconds) for seconds in (timing.median, min(timing.seconds), max(timing.seconds)))
        table.add_row(name, f"{shown:,.3f}" if shown < 100 else f"{shown:,.0f}", *times, str(len(turns.turns)))
    console.print(table)
