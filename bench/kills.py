"""`kill -9` at random instants: the coordinator alone, one of its other processes, or everything at once, by turns.

Each time a real `aliquot run` over lines is begun anew, killed once, and started again until it is done, through files
and through pipes by turns. The program itself notes every line that it begins with, so that nobody needs to believe the
journal about what was done twice. Just before the kill all processes are stopped, so that there is one instant to look
at. What was in flight is all that programs had begun with by then and that the journal had not recorded, and what
those of that instant began with until they were ended: that may be done again, once, and nothing else may.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from aliquot.journal import Journal, JournalError
from bench.command_line import aliquot_program, environment
from bench.measuring import Finding, console, format_time

_KILLS, _QUICK_KILLS = 100, 6
_VICTIMS = ("the coordinator", "one other process", "everything")
# Each program notes who it is, by the shell that has started it.
_WAYS = {
    "files": "awk -v program=$$ -f note.awk {n} > {out}",
    "pipe": "awk -v program=$$ -f note.awk {n:pipe} > {out}",
}
# What a line costs is some thousand loops, about a millisecond: a run takes about two seconds.
_PROGRAM = """{
    print $1, program >> "begun.log"; fflush("begun.log")
    for (i = 0; i < 30000; i++) x += i
    print 3 * $1
}
"""
_LINES = 3_000
_STEP_SECONDS = "0.05"
_MARK = "ALIQUOT_BENCH_KILLS"
_JOURNAL = ".aliquot/out.txt/journal.sqlite"
_SITTING_TIMEOUT_SECONDS = 120
_GONE_SECONDS = 10
_MOST_SITTINGS = 5


@dataclass(frozen=True)
class _Trial:
    """What became of one run that was killed."""

    way: str
    victim: str
    killed_seconds: float  # since it was begun
    recorded_units: int  # when it was killed
    in_flight_units: int
    redone_units: int
    redone_recorded_units: int
    redone_other_units: int  # that were neither recorded nor in flight, or in flight once and done again twice
    sittings: int
    is_identical: bool


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    if not os.path.isdir("/proc/self"):
        return [Finding.skipped("kills", "a system that lists its processes in /proc")]
    chance = random.Random(1)
    ways = list(_WAYS)
    undisturbed = {way: _undisturbed_seconds(way) for way in ways}
    kills = _QUICK_KILLS if quick else _KILLS
    trials: list[_Trial] = []
    while len(trials) < kills:
        # Each victim is killed in both ways.
        number = len(trials)
        way, victim = ways[number // len(_VICTIMS) % len(ways)], _VICTIMS[number % len(_VICTIMS)]
        trial = _Run(way, chance).killed(victim, undisturbed[way])
        # Sometimes it was over before: then there is another one.
        if trial is not None:
            trials.append(trial)
    _print_trials(trials)
    return _findings(trials, undisturbed)


class _Run:
    """A run in a directory of its own, and all its processes, which carry a mark."""

    def __init__(self, way: str, chance: random.Random) -> None:
        self._way = way
        self._chance = chance
        self._mark = os.urandom(8).hex()
        self.directory = tempfile.mkdtemp(prefix="aliquot-bench-")
        with open(self._path("numbers.txt"), "w") as file:
            file.writelines(f"{number}\n" for number in range(_LINES))
        with open(self._path("note.awk"), "w") as file:
            file.write(_PROGRAM)

    def killed(self, victim: str, undisturbed_seconds: float) -> _Trial | None:
        """Begin, kill, and start again until it is done; None where it was over before it could be killed."""
        try:
            return self._killed(victim, undisturbed_seconds)
        finally:
            _signal(self._processes(), signal.SIGKILL)
            shutil.rmtree(self.directory, ignore_errors=True)

    def seconds(self) -> float:
        """What it takes when nobody disturbs it."""
        try:
            began = time.perf_counter()
            self._to_the_end(self._start())
            seconds = time.perf_counter() - began
            assert self._is_identical(), "the output is wrong, although nobody disturbed the run"
            return seconds
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _killed(self, victim: str, undisturbed_seconds: float) -> _Trial | None:
        began = time.perf_counter()
        process = self._start()
        time.sleep(self._chance.uniform(0, undisturbed_seconds))
        recorded = self._recorded()
        alive = self._freeze()
        with contextlib.suppress(JournalError):  # one that was just being made
            recorded = self._recorded()
        # All that is recorded was begun before this: whatever of it comes later is done again.
        begun = self._begun()
        noted = len(begun)
        others = sorted(alive - {process.pid})
        victims = {
            "the coordinator": [process.pid],
            "one other process": self._chance.sample(others, min(1, len(others))),
            "everything": [process.pid, *others],
        }[victim]
        was_killed = process.poll() is None and _signal(victims, signal.SIGKILL)
        _signal(alive, signal.SIGCONT)
        if not was_killed:
            process.communicate(timeout=_SITTING_TIMEOUT_SECONDS)
            return None
        killed_seconds = time.perf_counter() - began
        sittings = 1
        if process.pid in victims:
            process.communicate()
            if process.returncode == 0:
                return None
            self._wait_until_gone()
            recorded, begun = self._recorded(), self._begun()
            noted = len(begun)
        else:
            _, errors = process.communicate(timeout=_SITTING_TIMEOUT_SECONDS)
        while process.returncode != 0:
            if sittings >= _MOST_SITTINGS:
                raise RuntimeError(
                    f"a run that was killed once is not done after {sittings} sittings: {errors[-4000:].decode()}"
                )
            sittings += 1
            process = self._start()
            _, errors = process.communicate(timeout=_SITTING_TIMEOUT_SECONDS)
        all_begun = self._begun()
        programs = alive | {program for _, program in begun}
        in_flight = {unit for unit, program in all_begun if program in programs} - recorded
        redone = {unit: times - 1 for unit, times in Counter(unit for unit, _ in all_begun).items() if times > 1}
        return _Trial(
            self._way,
            victim,
            killed_seconds,
            recorded_units=len(recorded),
            in_flight_units=len(in_flight),
            redone_units=sum(redone.values()),
            redone_recorded_units=len(recorded & {unit for unit, _ in all_begun[noted:]}),
            redone_other_units=sum(
                times - (unit in in_flight) for unit, times in redone.items() if unit not in recorded
            ),
            sittings=sittings,
            is_identical=self._is_identical(),
        )

    def _start(self) -> subprocess.Popen[bytes]:
        own = ["--cores", "2", "--target-seconds", _STEP_SECONDS, "--forget", "-q"]
        command = ["--split", "n=numbers.txt", "--join", "out=out.txt", *own, "--", _WAYS[self._way]]
        return subprocess.Popen(
            [aliquot_program(), "run", *command],
            cwd=self.directory,
            env=environment(self._path("cache"), **{_MARK: self._mark}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _to_the_end(self, process: subprocess.Popen[bytes]) -> None:
        _, errors = process.communicate(timeout=_SITTING_TIMEOUT_SECONDS)
        if process.returncode != 0:
            raise RuntimeError(f"aliquot run failed with {process.returncode}: {errors[-4000:].decode()}")

    def _processes(self) -> list[int]:
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if self._mark.encode() in file.read():
                        found.append(int(name))
        return found

    def _freeze(self) -> set[int]:
        """Stop all processes where they are, also those that others have just started; which these are."""
        stopped: set[int] = set()
        while new := set(self._processes()) - stopped:
            _signal(new, signal.SIGSTOP)
            stopped |= new
        return stopped

    def _wait_until_gone(self) -> None:
        deadline = time.monotonic() + _GONE_SECONDS
        while self._processes():
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes outlive their coordinator by {_GONE_SECONDS} s: {self._processes()}")
            time.sleep(0.005)

    def _recorded(self) -> set[int]:
        """The units that are done for certain."""
        path = self._path(_JOURNAL)
        if not os.path.exists(path):
            return set()
        with Journal.open(path, read_only=True) as journal:
            return {unit for piece in journal.restore().pieces for unit in range(piece.start, piece.stop)}

    def _begun(self) -> list[tuple[int, int]]:
        """The units that programs have begun with, in that order, each as often as one has, and which it was."""
        with contextlib.suppress(FileNotFoundError), open(self._path("begun.log")) as file:
            words = [line.split() for line in file.read().split("\n")[:-1]]
            return [(int(unit), int(program)) for unit, program in words]
        return []

    def _is_identical(self) -> bool:
        with open(self._path("out.txt")) as file:
            return file.read() == "".join(f"{3 * number}\n" for number in range(_LINES))

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


def _undisturbed_seconds(way: str) -> float:
    return _Run(way, random.Random(0)).seconds()


def _signal(processes: Iterable[int], number: signal.Signals) -> bool:
    """Whether there was one of them."""
    was_there = False
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
            was_there = True
    return was_there


def _findings(trials: list[_Trial], undisturbed: dict[str, float]) -> list[Finding]:
    identical = sum(trial.is_identical for trial in trials)
    recorded_again = sum(trial.redone_recorded_units for trial in trials)
    other_again = sum(trial.redone_other_units for trial in trials)
    redone = statistics.mean(trial.redone_units for trial in trials)
    in_flight = statistics.mean(trial.in_flight_units for trial in trials)
    recorded = statistics.mean(trial.recorded_units for trial in trials)
    beside = f"{recorded:,.0f} were recorded and {in_flight:,.0f} in flight of {_LINES:,}"
    times = ", ".join(f"{way}: {format_time(seconds)}" for way, seconds in undisturbed.items())
    count = len(trials)
    return [
        Finding(
            "kills: identical outputs", f"{identical} of {count}", f"{count} of {count}", identical == count, times
        ),
        _none("kills: recorded units that were done again", recorded_again, beside),
        _none("kills: units done again that were not in flight either", other_again),
        Finding.without_bar("kills: units done again, mean of a kill", redone, "units", beside),
    ]


def _none(name: str, units: int, beside: str = "") -> Finding:
    return Finding(name, f"{units:,} units", "0 units", units == 0, beside)


def _print_trials(trials: list[_Trial]) -> None:
    table = Table(
        "way", "killed", "kills", "identical", "recorded", "in flight", "done again", "most", "recorded, done again",
        "neither, done again", "sittings", title=f"{_LINES:,} units; means of a kill", title_justify="left",
    )  # fmt: skip
    for way in _WAYS:
        for victim in _VICTIMS:
            some = [trial for trial in trials if (trial.way, trial.victim) == (way, victim)]
            if some:
                table.add_row(
                    way,
                    victim,
                    str(len(some)),
                    str(sum(trial.is_identical for trial in some)),
                    f"{statistics.mean(trial.recorded_units for trial in some):,.0f}",
                    f"{statistics.mean(trial.in_flight_units for trial in some):,.0f}",
                    f"{statistics.mean(trial.redone_units for trial in some):,.0f}",
                    f"{max(trial.redone_units for trial in some):,}",
                    str(sum(trial.redone_recorded_units for trial in some)),
                    str(sum(trial.redone_other_units for trial in some)),
                    f"{statistics.mean(trial.sittings for trial in some):.1f}",
                )
    console.print(table)
