"""Functions that hold memory, for workers."""

from __future__ import annotations

import mmap
import random
import subprocess
import sys
from collections.abc import Callable, Iterable

MB = 1 << 20
BASE_MEGABYTES = 20


def hold(megabytes: float) -> bytes:
    """Memory that was written to."""
    return b"x" * int(megabytes * MB)


def even(_: int) -> float:
    return 1


def varied(unit: int) -> float:
    return random.Random(unit).uniform(1, 10)


def heavy_in_the_middle(unit: int) -> float:
    return 10 if 225 <= unit < 275 else 1


class OneHeavy:
    """1 MB, but for one unit."""

    def __init__(self, heavy: int, megabytes: float) -> None:
        self._heavy = heavy
        self._megabytes = megabytes

    def __call__(self, unit: int) -> float:
        return self._megabytes if unit == self._heavy else 1


def weigh(weight_of: Callable[[int], float], units: Iterable[int]) -> list[int]:
    """Hold a base and what each unit weighs, all at once; a list of the units."""
    held = [hold(BASE_MEGABYTES)]
    done = []
    for unit in units:
        held.append(hold(weight_of(unit)))
        done.append(unit)
    return done


def weigh_one(weight_of: Callable[[int], float], unit: int) -> int:
    """The same for one unit."""
    return weigh(weight_of, (unit,))[0]


_kept: list[bytes] = []


def leak(megabytes: float, units: Iterable[int]) -> list[int]:
    """Keep so much of each unit for ever."""
    done = list(units)
    _kept.append(hold(megabytes * len(done)))
    return done


def run_program(megabytes: int, units: Iterable[int]) -> list[int]:
    """Start a program that holds so much for a tenth of a second."""
    source = f"import time\nheld = b'x' * ({megabytes} << 20)\ntime.sleep(0.1)\n"
    subprocess.run([sys.executable, "-S", "-E", "-c", source], check=True)
    return list(units)


def run_programs_that_share_out(megabytes: int, count: int, heavy: int, unit: int) -> int:
    """At one unit, start several programs that hold so much each, and would wait for an hour; none holds too much."""
    if unit == heavy:
        source = f"import time\nheld = b'x' * ({megabytes} << 20)\ntime.sleep(3600)\n"
        programs = [subprocess.Popen([sys.executable, "-S", "-E", "-c", source]) for _ in range(count)]
        for program in programs:
            program.wait()
    return unit


def map_memory(megabytes: int, heavy: int, unit: int) -> int:
    """At one unit, have so much mapped, as libraries in C do: where it is refused, that is an OSError."""
    if unit == heavy:
        with mmap.mmap(-1, megabytes * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:
            for _ in range(megabytes):
                mapped.write(b"x" * MB)
    return unit


def make_large(megabytes: float, units: Iterable[int]) -> list[bytes]:
    return [hold(megabytes) for _ in units]
