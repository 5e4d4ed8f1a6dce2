"""bwa through aliquot against `bwa mem -t 2`, over the same seconds: see racing.py.

`commands` has all contenders, and whole runs one after the other. Where these scatter more than the bars, this decides.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile

from rich.table import Table

from bench.command_data import CommandData, make_command_data
from bench.command_line import OUTPUT
from bench.commands import BARS, CORES, IDEAL, by_aliquot, check_records, expected_records
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
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in BARS}
    for number in range(races):
        for name, raced in taken.items():
            raced.append(bench.race(name, is_first=number % 2 == 0))
    _print_races(taken)
    return [
        Finding.at_most(f"races: {name}, over {IDEAL}", _median_ratio(raced), "x", BARS[name], f"{len(raced)} races")
        for name, raced in taken.items()
    ]


class _Races:
    def __init__(self, data: CommandData) -> None:
        self._data = data
        self._check = check_records(expected_records(data))

    def race(self, name: str, *, is_first: bool) -> tuple[float, float]:
        """What aliquot took in its way, and bwa alone."""
        with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as one, tempfile.TemporaryDirectory() as other:
            for directory in (one, other):
                self._data.link_into(directory)
            ours = Racer(by_aliquot(name), one)
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
