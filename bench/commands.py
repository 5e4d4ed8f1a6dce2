"""bwa over a bacterium's reads: as one process with a thread for each core, and divided by aliquot and by its peers.

All write the same records, which is checked. aliquot is run as users do, and knows nothing: the index of the reads is
made within its time. The peers are told a size, in reads: first all sizes take turns, then the best of each peer take
turns with us. A size that makes very many tasks is run over the first reads only, as many as make some hundred tasks;
what one task more costs is then taken for the others too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from rich.table import Table

from bench.command_data import CommandData, make_command_data
from bench.command_line import OUTPUT, Places, aliquot_run, places, run_here
from bench.data import read_through
from bench.makeflow_bwa import PROGRAMS, put_makeflow_bwa_into, run_makeflow_bwa
from bench.measuring import Contender, Finding, Timing, alternate, console, format_time, ratio

CORES = 2
IDEAL = f"bwa mem -t {CORES}"
PIPE, FILES = "aliquot, pipe", "aliquot, files"
THREADS_PIPE, THREADS_FILES = "aliquot, -t {cores}, pipe", "aliquot, -t {cores}, files"
PARALLEL, MAKEFLOW = "GNU parallel", "makeflow_bwa"

BARS = {THREADS_PIPE: 1.05, THREADS_FILES: 1.10, PIPE: 1.05, FILES: 1.10}
# What is written for bwa and for its reads. With threads, one program at a time is told how many cores there are, as by
# its users.
_WAYS = {
    THREADS_PIPE: ("bwa mem -t {cores}", "{reads:pipe}"),
    THREADS_FILES: ("bwa mem -t {cores}", "{reads}"),
    PIPE: ("bwa mem", "{reads:pipe}"),
    FILES: ("bwa mem", "{reads}"),
}
_LEAST_OVER_WORST = 20
_SIZES = (1, 10, 100, 1_000, 10_000, 25_000, 50_000, 100_000)
_MOST_TASKS, _QUICK_MOST_TASKS = 400, 50
_SWEEP_REPEATS = 2
# So many of the sizes of each peer, the best, take turns with us: which one is the best is not certain before.
_FINALISTS = 2


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    if shutil.which("bwa") is None:
        return [Finding.skipped("commands", "bwa")]
    reads = make_command_data(quick=quick)
    read_through(reads.reads)
    bench = _Bench(reads, _QUICK_MOST_TASKS if quick else _MOST_TASKS)
    with places() as bench.places:
        swept = bench.sweep(1 if quick else _SWEEP_REPEATS)
    finalists = {peer: _fastest(sizes)[:_FINALISTS] for peer, sizes in swept.items()}
    with places() as bench.places:
        contenders = [
            bench.whole(IDEAL, lambda place: run_here(f"bwa mem -t {CORES} ref.fa reads.fastq > {OUTPUT}", place)),
            *(bench.whole(name, partial(run_here, by_aliquot(name))) for name in BARS),
            *(bench.peer(peer, size) for peer, sizes in finalists.items() for size in sizes),
        ]
        timings = alternate(contenders, repeats)
    return _findings(timings, swept, finalists)


def by_aliquot(name: str, *options: str) -> list[str]:
    """The command line of one of our contenders."""
    bwa, reads = _WAYS[name]
    return bwa_by_aliquot(reads, *options, bwa=bwa)


def bwa_by_aliquot(reads: str, *options: str, bwa: str = "bwa mem") -> list[str]:
    command = f"{bwa} ref.fa {reads} > {{sam}}"
    return aliquot_run(command, split="reads=reads.fastq", join=f"sam={OUTPUT}", options=("--cores", "2", *options))


def by_parallel(data: CommandData, size: int) -> str:
    """What is written for the same with GNU parallel, for the shell."""
    # It cuts the file at byte offsets, without reading what is between. The header is that of a bwa without reads.
    exactly_one = "--pipe -N 1 < reads.fastq"
    cut = exactly_one if size == 1 else f"--pipe-part -a reads.fastq --block {round(size * data.read_bytes)}"
    parallel = f"parallel --will-cite -j {CORES} -k --recstart @r {cut} 'bwa mem -v 1 ref.fa -'"
    header = "bwa mem -v 1 ref.fa /dev/null"
    return f"({header}; {parallel} | LC_ALL=C grep -v ^@) > {OUTPUT}"


def check_records(expected: str) -> Callable[[str], None]:
    """A check that a directory has the records that were made by one process over all reads."""

    def check(directory: str) -> None:
        made = _digest(os.path.join(directory, OUTPUT))
        if made != expected:
            raise AssertionError(f"{OUTPUT}: its records differ from those of {IDEAL}")

    return check


def expected_records(data: CommandData) -> str:
    """Of one process over all reads; made with the rest of the data, outside all times."""
    path = f"{data.reads}.sam"
    if not os.path.exists(path):
        directory = os.path.dirname(data.reads)
        run_here(f"bwa mem -t {CORES} ref.fa {os.path.basename(data.reads)} > expected.unfinished", directory)
        os.replace(os.path.join(directory, "expected.unfinished"), path)
    return _digest(path)


@dataclass(frozen=True)
class _Size:
    """What a peer took with a size; ``tasks`` is how many were run where the rest is reckoned."""

    seconds: float
    tasks: int | None


@dataclass
class _Bench:
    data: CommandData
    most_tasks: int
    places: Places = field(default_factory=Places)

    def __post_init__(self) -> None:
        self._check = check_records(expected_records(self.data))

    def whole(self, name: str, run: Callable[[str], None]) -> Contender:
        """Over all reads, checked."""
        return self.places.contender(name, run, fill=self._fill, check=self._check)

    def peer(self, peer: str, size: int) -> Contender:
        return self.whole(_label(peer, size), lambda directory: self._run(peer, directory, size))

    def _fill(self, directory: str, only_reads: int | None = None) -> None:
        self.data.link_into(directory, only_reads=only_reads)
        if shutil.which(PROGRAMS[0]):
            put_makeflow_bwa_into(directory)

    def sweep(self, repeats: int) -> dict[str, dict[int, _Size]]:
        """Every peer that is there, with every size up to half of the reads."""
        sizes = [size for size in _SIZES if size <= self.data.count // 2]
        peers = [peer for peer in _PEERS if self._is_there(peer)]
        contenders = [
            contender for peer in peers for contender in (self._one_task(peer), *(self._some(peer, n) for n in sizes))
        ]
        if not contenders:
            return {}
        console.print(
            f"the sizes of the peers, in reads; over the first reads only if they make over {self.most_tasks}"
        )
        timings = alternate(contenders, repeats)
        swept = {peer: {size: self._reckon(timings, peer, size, _one(peer)) for size in sizes} for peer in peers}
        _print_sizes(swept)
        return swept

    def _some(self, peer: str, size: int) -> Contender:
        if self._is_whole(size):
            return self.peer(peer, size)
        return self._first_reads(_label(peer, size), peer, size, size * self.most_tasks)

    def _one_task(self, peer: str) -> Contender:
        """What a peer takes before its first task and after its last."""
        return self._first_reads(_one(peer), peer, 1, 1)

    def _first_reads(self, name: str, peer: str, size: int, reads: int) -> Contender:
        return self.places.contender(
            name,
            lambda directory: self._run(peer, directory, size),
            fill=lambda directory: self._fill(directory, reads),
            at_most_repeats=1,
        )

    def _reckon(self, timings: dict[str, Timing], peer: str, size: int, one: str) -> _Size:
        seconds = timings[_label(peer, size)].median
        if self._is_whole(size):
            return _Size(seconds, None)
        # So that what is paid once is not counted for every task.
        paid_once = min(timings[one].median, seconds)
        times = self.data.count / (size * self.most_tasks)
        return _Size(paid_once + (seconds - paid_once) * times, self.most_tasks)

    def _is_whole(self, size: int) -> bool:
        return self.data.count <= size * self.most_tasks

    def _is_there(self, peer: str) -> bool:
        missing = [program for program in _PEERS[peer] if shutil.which(program) is None]
        if missing:
            console.print(f"{peer} is left out: {missing[0]} is not installed")
        return not missing

    def _run(self, peer: str, directory: str, size: int) -> None:
        if peer == MAKEFLOW:
            run_makeflow_bwa(directory, size, CORES)
            return
        run_here(by_parallel(self.data, size), directory)


_PEERS: dict[str, tuple[str, ...]] = {PARALLEL: ("parallel",), MAKEFLOW: PROGRAMS}


def _findings(
    timings: dict[str, Timing], swept: dict[str, dict[int, _Size]], finalists: dict[str, list[int]]
) -> list[Finding]:
    findings = []
    for name, bar in BARS.items():
        over, times = ratio(timings[name], timings[IDEAL])
        findings.append(Finding.at_most(f"commands: {name}, over {IDEAL}", over, "x", bar, times))
    ours = min(BARS, key=lambda name: timings[name].median)
    for peer, programs in _PEERS.items():
        if peer not in swept:
            findings.append(Finding.skipped(f"commands: {ours}, over {peer}", programs[0]))
            continue
        label = min((_label(peer, size) for size in finalists[peer]), key=lambda name: timings[name].median)
        over, times = ratio(timings[ours], timings[label])
        findings.append(Finding.at_most(f"commands: {ours}, over {label}, its best", over, "x", 1.0, times))
        worst = _fastest(swept[peer])[-1]
        seconds = swept[peer][worst].seconds
        faster = seconds / timings[ours].median
        beside = f"{format_time(seconds)}{_reckoned(swept[peer][worst])} / {format_time(timings[ours].median)}"
        name = f"commands: {_label(peer, worst)}, its worst, over {ours}"
        findings.append(Finding.at_least(name, faster, "x", _LEAST_OVER_WORST, beside))
    return findings


def _fastest(sizes: dict[int, _Size]) -> list[int]:
    """The sizes, the fastest first."""
    return sorted(sizes, key=lambda size: sizes[size].seconds)


def _print_sizes(swept: dict[str, dict[int, _Size]]) -> None:
    sizes = next(iter(swept.values()))
    table = Table("reads a task", *swept, title="seconds over all reads", title_justify="left")
    for size in sizes:
        table.add_row(f"{size:,}", *(f"{found[size].seconds:,.1f}{_reckoned(found[size])}" for found in swept.values()))
    console.print(table)


def _reckoned(size: _Size) -> str:
    return "" if size.tasks is None else f" (reckoned from {size.tasks} tasks)"


def _label(peer: str, size: int) -> str:
    return f"{peer}, {size:,} read{'' if size == 1 else 's'} a task"


def _one(peer: str) -> str:
    return f"{peer}, one task only"


def _digest(path: str) -> str:
    """Of the records; the header tells the command line, which differs."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for line in file:
            if not line.startswith(b"@"):
                digest.update(line)
    return digest.hexdigest()
