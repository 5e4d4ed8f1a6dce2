"""bwa through aliquot against `bwa mem -t 2` and GNU parallel, over the same seconds: see racing.py.

`commands` and `command_guesses` have all contenders, and whole runs one after the other. Where these scatter more than
the bars, this decides: of the ways to run bwa, and of the first guesses for the one with most programs. Those are raced
against one of them: a program with two threads is quick at other times than two programs with one.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import statistics
import tempfile

from rich.table import Table

from bench.command_data import CommandData, make_command_data
from bench.command_guesses import BAR, BWA_SIZES
from bench.command_line import OUTPUT
from bench.commands import (
    BARS,
    CORES,
    FILES,
    IDEAL,
    PARALLEL,
    PIPE,
    THREADS_FILES,
    by_aliquot,
    by_parallel,
    check_records,
    expected_records,
)
from bench.data import read_through
from bench.measuring import Finding, console, format_time
from bench.racing import Racer, missing, race

_LEAST_RACES = 9
# As found by the sweep of `commands`: half of the reads for each of two programs.
_BEST_PARALLEL_PART = 2
# What the other first guesses are raced against.
_USUAL_GUESS = 1_000
# The ideal of programs with one thread: equal parts for equal cores, and nothing is decided while they run.
_BY_HAND = f"{CORES} bwa mem from a shell, cut by hand"


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    lacks = missing() or next((program for program in ("bwa", "parallel") if shutil.which(program) is None), None)
    if lacks:
        return [Finding.skipped("races", lacks)]
    reads = make_command_data(quick=quick)
    read_through(reads.reads)
    bench = _Races(reads)
    races = 1 if quick else max(repeats, _LEAST_RACES)
    by_hand = _by_hand(reads)
    ways = bench.races({**{name: by_aliquot(name) for name in BARS}, _BY_HAND: ["sh", "-c", by_hand]}, races)
    size = reads.count // _BEST_PARALLEL_PART
    best = f"{PARALLEL}, {size:,} reads a task"
    beside = bench.races(
        {name: by_aliquot(name) for name in (THREADS_FILES, FILES, PIPE)}, races, (best, by_parallel(reads, size))
    )
    one_thread = bench.races({name: by_aliquot(name) for name in (PIPE, FILES)}, races, (_BY_HAND, by_hand))
    usual = f"{FILES}, start {_USUAL_GUESS:,}"
    guesses = bench.races(
        {
            f"{FILES}, start {size:,}": _guess(size)
            for size in BWA_SIZES
            if size <= reads.count and size != _USUAL_GUESS
        },
        races,
        (usual, shlex.join(_guess(_USUAL_GUESS))),
    )
    ratios = [1.0, *map(_median_ratio, guesses.values())]
    spread = max(ratios) / min(ratios)
    return [
        *(
            Finding.at_most(f"races: {name}, over {IDEAL}", _median_ratio(raced), "x", BARS[name], f"{races} races")
            for name, raced in ways.items()
            if name in BARS
        ),
        Finding.without_bar(f"races: {_BY_HAND}, over {IDEAL}", _median_ratio(ways[_BY_HAND]), "x", f"{races} races"),
        *(
            Finding.at_most(f"races: {name}, over {_BY_HAND}", _median_ratio(raced), "x", BARS[name], f"{races} races")
            for name, raced in one_thread.items()
        ),
        Finding.at_most(
            f"races: {THREADS_FILES}, over {best}", _median_ratio(beside[THREADS_FILES]), "x", 1.0, f"{races} races"
        ),
        *(
            Finding.without_bar(f"races: {name}, over {best}", _median_ratio(beside[name]), "x", f"{races} races")
            for name in (FILES, PIPE)
        ),
        Finding.at_most("races: slowest start over fastest", spread, "x", BAR, f"{races} races of each"),
    ]


def _guess(size: int) -> list[str]:
    return by_aliquot(FILES, "--size", str(size))


def _by_hand(data: CommandData) -> str:
    """An equal part of the reads for each core."""
    part = 4 * -(-data.count // CORES)
    programs = [
        f"tail -n +{part * core + 1} reads.fastq | head -n {part} | bwa mem ref.fa - > {core}.sam & bwa{core}=$!"
        for core in range(CORES)
    ]
    ends = [f"wait $bwa{core} || exit" for core in range(CORES)]
    pieces = " ".join(f"{core}.sam" for core in range(CORES))
    return f"{'; '.join(programs)}; {'; '.join(ends)}; LC_ALL=C grep -hv ^@ {pieces} > {OUTPUT}"


class _Races:
    def __init__(self, data: CommandData) -> None:
        self._data = data
        self._check = check_records(expected_records(data))

    def races(
        self,
        commands: dict[str, list[str]],
        count: int,
        other: tuple[str, str] = (IDEAL, f"exec bwa mem -t {CORES} ref.fa reads.fastq > {OUTPUT}"),
    ) -> dict[str, list[tuple[float, float]]]:
        """Each of some commands as often as that, by turns; what it took, and the other one."""
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(count):
            for name, command in commands.items():
                taken[name].append(self._race(command, ["sh", "-c", other[1]], is_first=number % 2 == 0))
        _print_races(taken, other[0])
        return taken

    def _race(self, command: list[str], beside: list[str], *, is_first: bool) -> tuple[float, float]:
        with contextlib.ExitStack() as stack:
            made = [tempfile.TemporaryDirectory(prefix="aliquot-bench-") for _ in range(2)]
            one, other = map(stack.enter_context, made)
            for directory in (one, other):
                self._data.link_into(directory)
            ours = Racer(command, one)
            theirs = Racer(beside, other)
            if is_first:
                our_seconds, their_seconds = race(ours, theirs)
            else:
                their_seconds, our_seconds = race(theirs, ours)
            self._check(one)
            self._check(other)
        return our_seconds, their_seconds


def _median_ratio(raced: list[tuple[float, float]]) -> float:
    return statistics.median(ours / theirs for ours, theirs in raced)


def _print_races(taken: dict[str, list[tuple[float, float]]], other: str) -> None:
    table = Table("contender", "median", other, "ratio: lowest", "median", "highest", "races")
    for name, raced in taken.items():
        ratios = sorted(ours / theirs for ours, theirs in raced)
        medians = (format_time(statistics.median(seconds)) for seconds in zip(*raced, strict=True))
        shown = (f"{value:.3f}" for value in (ratios[0], statistics.median(ratios), ratios[-1]))
        table.add_row(name, *medians, *shown, str(len(raced)))
    console.print(table)
