"""A program that computes for a chosen time when it starts and for each line, and prints how long the line is.

It is written in awk, which starts in a millisecond and is everywhere, so that even 5 ms can be chosen.
"""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess

PROGRAM = "busy.awk"
COMMAND = f"awk -f {PROGRAM}"

_TEXT = """BEGIN {{ for (i = 0; i < {start_loops}; i++) x += i }}
{{ for (i = 0; i < {line_loops}; i++) x += i; print length($0) + 1 }}
"""
_MEASURED_LOOPS = 2_000_000
_REPEATS = 5


def write_busy_program(directory: str, *, start_seconds: float, line_seconds: float) -> None:
    """Where starting awk alone takes longer than ``start_seconds``, that is what it takes."""
    own_seconds, loop_seconds = _speed()
    start_loops = max(0, round((start_seconds - own_seconds) / loop_seconds))
    line_loops = round(line_seconds / loop_seconds)
    with open(os.path.join(directory, PROGRAM), "w") as file:
        file.write(_TEXT.format(start_loops=start_loops, line_loops=line_loops))


def write_lines(directory: str, name: str, count: int) -> None:
    with open(os.path.join(directory, name), "w") as file:
        file.writelines(f"{number}\n" for number in range(count))


def expected_output(count: int) -> str:
    """For those lines."""
    return "".join(f"{len(str(number)) + 1}\n" for number in range(count))


@functools.cache
def _speed() -> tuple[float, float]:
    """How long awk takes to start, and for one loop."""
    own_seconds = _seconds(0)
    return own_seconds, max(1e-9, (_seconds(_MEASURED_LOOPS) - own_seconds) / _MEASURED_LOOPS)


def _seconds(loops: int) -> float:
    """CPU time: whatever else runs just now is not the program's."""
    program = _TEXT.format(start_loops=loops, line_loops=0)
    taken = []
    for _ in range(_REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["awk", program], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)
