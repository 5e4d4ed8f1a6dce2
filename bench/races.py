"""bwa through aliquot against `bwa mem -t 2`, over the same seconds: see racing.py.

`commands` and `command_guesses` have all contenders, and whole runs one after the other. Where these scatter more than
the bars, this decides: of the ways to run bwa, and of the first guesses for the one with most programs.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile

from rich.table import Table

from bench.command_data import CommandData, make_command_data
from bench.command_guesses import BAR, BWA_SIZES
from bench.command_line import OUTPUT
from bench.commands import BARS, CORES, FILES, IDEAL, by_aliquot, check_records, expected_records
from bench.data import read_through
from bench.measuring import Finding, console, format_time
from bench.racing import Racer, missing, race

_LEAST_RACES = 9


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    lacks = missing() or (None if shutil.which("bwa") else "bwa")
    if lacks:
        return [Finding.skipped("races", lacks)]
    reads = make_command_data(quick=quick)
    read_through(reads.reads)
    bench = _Races(reads)
    races = 1 if quick else max(repeats, _LEAST_RACES)
    ways = bench.races({name: by_aliquot(name) for name in BARS}, races)
    sizes = [size for size in BWA_SIZES if size <= reads.count]
    guesses = bench.races({f"{FILES}, start {size:,}": by_aliquot(FILES, "--size", str(size)) for size in sizes}, races)
    spread = max(map(_median_ratio, guesses.values())) / min(map(_median_ratio, guesses.values()))
    return [
        *(
            Finding.at_most(f"races: {name}, over {IDEAL}", _median_ratio(raced), "x", BARS[name], f"{races} races")
            for name, raced in ways.items()
        ),
        Finding.at_most("races: slowest start over fastest", spread, "x", BAR, f"{races} races of each"),
    ]


class _Races:
    def __init__(self, data: CommandData) -> None:
        self._data = data
        self._check = check_records(expected_records(data))

    def races(self, commands: dict[str, list[str]], count: int) -> dict[str, list[tuple[float, float]]]:
        """Each of some commands as often as that, by turns; what it took, and bwa alone."""
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(count):
            for name, command in commands.items():
                taken[name].append(self._race(command, is_first=number % 2 == 0))
        _print_races(taken)
        return taken

    def _race(self, command: list[str], *, is_first: bool) -> tuple[float, float]:
        with contextlib.ExitStack() as stack:
            made = [tempfile.TemporaryDirectory(prefix="aliquot-bench-") for _ in range(2)]
            one, other = map(stack.enter_context, made)
            for directory in (one, other):
                self._data.link_into(directory)
            ours = Racer(command, one)
            ideal = Racer(["sh", "-c", f"exec bwa mem -t {CORES} ref.fa reads.fastq > {OUTPUT}"], other)
            if is_first:
                our_seconds, ideal_seconds = race(ours, ideal)
            else:
                ideal_seconds, our_seconds = race(ideal, ours)
            self._check(one)
        return our_seconds, ideal_seconds


def _median_ratio(raced: list[tuple[float, float]]) -> float:
    return statistics.median(ours / ideal for ours, ideal in raced)


def _print_races(taken: dict[str, list[tuple[float, float]]]) -> None:
    table = Table("contender", "median", IDEAL, "ratio: lowest", "median", "highest", "races")
    for name, raced in taken.items():
        ratios = sorted(ours / ideal for ours, ideal in raced)
        medians = (format_time(statistics.median(seconds)) for seconds in zip(*raced, strict=True))
        shown = (f"{value:.3f}" for value in (ratios[0], statistics.median(ratios), ratios[-1]))
        table.add_row(name, *medians, *shown, str(len(raced)))
    console.print(table)
