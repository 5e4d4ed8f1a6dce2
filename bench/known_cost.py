"""What dividing costs, beside GNU parallel, for a program of which is known what it costs.

bwa takes a third more or less from one run to the next on a machine that others use too, as it waits for memory. This
program takes so many microseconds of CPU a read, however fast the machine is, and what is left is what the tools need
themselves: to start, to find out, to cut, to join, and for the programs that they start beyond one for each core.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial

from bench.command_data import CommandData, make_command_data
from bench.command_guesses import BAR
from bench.command_line import OUTPUT, aliquot_run, places, run_here
from bench.data import read_through
from bench.measuring import Finding, alternate, format_time, ratio

_CORES = 2
_PROGRAM = "known_cost.py"
_START_SECONDS, _READ_SECONDS = 0.02, 45e-6
# Its own start is within what it costs.
_SOURCE = f"""
import sys, time
with (open(sys.argv[1], "rb") if sys.argv[1:] else sys.stdin.buffer) as file:
    reads = file.read()
sys.stdout.buffer.write(reads)
sys.stdout.flush()
ends = {_START_SECONDS} + {_READ_SECONDS} * (reads.count(b"\\n") // 4)
while time.process_time() < ends:
    pass
"""
_WAYS = {"aliquot, pipe": "< {reads:pipe}", "aliquot, files": "{reads}"}
_GUESSES = (1, 100, 10_000, 200_000)
_PARALLEL_SHARES = (2, 4, 8)


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    if shutil.which("parallel") is None:
        return [Finding.skipped("known cost", "parallel")]
    reads = make_command_data(quick=quick)
    read_through(reads.reads)
    with places() as made:
        timings = alternate(
            [
                made.contender(
                    name, partial(run_here, command), fill=partial(_fill, reads), check=partial(_check, reads)
                )
                for name, command in _commands(reads).items()
            ],
            repeats,
        )
    peers = [name for name in timings if name.startswith("GNU")]
    best = min(peers, key=lambda name: timings[name].median)
    ideal = _START_SECONDS + _READ_SECONDS * reads.count / _CORES
    findings = []
    for name in (*_WAYS, best):
        seconds = timings[name].median
        findings.append(Finding.without_bar(f"known cost: {name}, over ideal", seconds / ideal, "x", f"{ideal:.2f} s"))
    for name in _WAYS:
        over, times = ratio(timings[name], timings[best])
        findings.append(Finding.without_bar(f"known cost: {name}, over {best}", over, "x", times))
    guesses = {name: timings[name].median for name in timings if name.startswith("aliquot, start")}
    told = "; ".join(f"{name}: {format_time(seconds)}" for name, seconds in guesses.items())
    spread = max(guesses.values()) / min(guesses.values())
    return [*findings, Finding.at_most("known cost: files, slowest start over fastest", spread, "x", BAR, told)]


def _commands(reads: CommandData) -> dict[str, list[str] | str]:
    program = f"{sys.executable} -I -S {_PROGRAM}"

    def aliquot(given: str, *options: str) -> list[str]:
        return aliquot_run(
            f"{program} {given} > {{out}}",
            split="reads=reads.fastq",
            join=f"out={OUTPUT}:concat",
            options=("--cores", str(_CORES), *options),
        )

    ours = {name: aliquot(given) for name, given in _WAYS.items()}
    guesses = {f"aliquot, start {size:,}": aliquot("{reads}", "--size", str(size)) for size in _GUESSES}
    peers = {
        f"GNU parallel, {reads.count // share:,} reads a task": (
            f"parallel --will-cite -j {_CORES} -k --recstart @r --pipe-part -a reads.fastq"
            # A byte more each, so that there is not one block more than that.
            f" --block {os.path.getsize(reads.reads) // share + 1} '{program}' > {OUTPUT}"
        )
        for share in _PARALLEL_SHARES
    }
    return {**ours, **guesses, **peers}


def _fill(reads: CommandData, directory: str) -> None:
    reads.link_into(directory)
    with open(os.path.join(directory, _PROGRAM), "w") as file:
        file.write(_SOURCE)


def _check(reads: CommandData, directory: str) -> None:
    with open(reads.reads, "rb") as given, open(os.path.join(directory, OUTPUT), "rb") as made:
        assert given.read() == made.read(), f"{OUTPUT}: it differs from the reads"
