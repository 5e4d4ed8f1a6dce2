"""The first guess of the size must not matter for commands either, whose every step starts a program.

bwa through files is started with sizes from one read to all of them. A program that takes 5 ms to start, and 0.1 ms
for a line, is started with one line, beside the static sizes that one could have chosen: a Python program with two
threads that start the same program over files that were cut before its time begins.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial

from bench.busy import COMMAND, expected_output, write_busy_program, write_lines
from bench.command_data import make_command_data
from bench.command_line import Places, aliquot_run, places, run_here
from bench.commands import bwa_by_aliquot, check_records, expected_records
from bench.data import read_through
from bench.measuring import Contender, Finding, Timing, alternate, format_time, ratio

BAR = 1.10
BWA_SIZES = (1, 10, 100, 1_000, 10_000, 100_000, 200_000)
_START_SECONDS, _LINE_SECONDS = 5e-3, 1e-4
_LINES, _QUICK_LINES = 100_000, 10_000
_STATIC_SIZES = (100, 1_000, 5_000, 10_000, 25_000, 50_000)
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    return [*_bwa(repeats, quick=quick), *_short_starts(repeats, quick=quick)]


def _bwa(repeats: int, *, quick: bool) -> list[Finding]:
    name = "command guesses: bwa, slowest start over fastest"
    if shutil.which("bwa") is None:
        return [Finding.skipped(name, "bwa")]
    reads = make_command_data(quick=quick)
    read_through(reads.reads)
    check = check_records(expected_records(reads))
    sizes = [size for size in BWA_SIZES if size <= reads.count]
    with places() as places_:
        timings = alternate(
            [
                places_.contender(
                    _start(size),
                    partial(run_here, bwa_by_aliquot("{reads}", "--size", str(size))),
                    fill=reads.link_into,
                    check=check,
                )
                for size in sizes
            ],
            repeats,
        )
    slowest, fastest = _slowest_and_fastest(timings)
    spread = timings[slowest].median / timings[fastest].median
    return [Finding.at_most(name, spread, "x", BAR, _times(timings))]


def _short_starts(repeats: int, *, quick: bool) -> list[Finding]:
    count = _QUICK_LINES if quick else _LINES
    sizes = [size for size in _STATIC_SIZES if size <= count // 2]
    with places() as places_:
        ours = _ours(places_, count)
        timings = alternate([ours, *(_static(places_, count, size) for size in sizes)], repeats)
    statics = {name: timing for name, timing in timings.items() if name != ours.name}
    _, best = _slowest_and_fastest(statics)
    over, times = ratio(timings[ours.name], timings[best])
    ideal = (count * _LINE_SECONDS + 2 * _START_SECONDS) / 2
    return [
        Finding.at_most(f"command guesses: 5 ms a start, {ours.name}, over {best}, the best", over, "x", BAR, times),
        Finding.without_bar(
            "command guesses: 5 ms a start, over two programs with half of the lines each",
            timings[ours.name].median / ideal,
            "x",
            f"as calibrated: {format_time(ideal)}; {_times(statics)}",
        ),
    ]


def _ours(places_: Places, count: int) -> Contender:
    command = aliquot_run(
        f"{COMMAND} {{n}} > {{out}}", split="n=lines.txt", join="out=out.txt", options=("--cores", "2", "--size", "1")
    )

    def fill(directory: str) -> None:
        _fill(directory)
        write_lines(directory, "lines.txt", count)

    return places_.contender(_start(1), lambda place: run_here(command, place), fill=fill, check=_checking(count))


def _static(places_: Places, count: int, size: int) -> Contender:
    command = [sys.executable, "-m", "bench.static_turn", COMMAND, "pieces", "out.txt"]

    def fill(directory: str) -> None:
        _fill(directory)
        pieces = os.path.join(directory, "pieces")
        os.mkdir(pieces)
        for start in range(0, count, size):
            with open(os.path.join(pieces, f"{start:09}"), "w") as file:
                file.writelines(f"{number}\n" for number in range(start, min(count, start + size)))

    return places_.contender(
        f"static, {size:,}",
        lambda place: run_here(command, place, PYTHONPATH=_ROOT),
        fill=fill,
        check=_checking(count),
    )


def _fill(directory: str) -> None:
    write_busy_program(directory, start_seconds=_START_SECONDS, line_seconds=_LINE_SECONDS)


def _checking(count: int) -> Callable[[str], None]:
    expected = expected_output(count)

    def check(directory: str) -> None:
        with open(os.path.join(directory, "out.txt")) as file:
            assert file.read() == expected, "the output differs"

    return check


def _slowest_and_fastest(timings: Mapping[str, Timing]) -> tuple[str, str]:
    by_median = sorted(timings, key=lambda name: timings[name].median)
    return by_median[-1], by_median[0]


def _times(timings: Mapping[str, Timing]) -> str:
    return "; ".join(f"{name}: {format_time(timing.median)}" for name, timing in timings.items())


def _start(size: int) -> str:
    return f"start {size:,}"
