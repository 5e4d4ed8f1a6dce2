"""What a program pays before it has done anything."""

from __future__ import annotations

import sys

from bench.data import Data
from bench.measuring import Contender, Finding, Timing, alternate, find_program, ratio, run_program

_REPEATS = 20


def run(data: Data, repeats: int, *, quick: bool) -> list[Finding]:
    # These are short, and starting a process is never the same twice: they are repeated more often than the rest.
    contenders = [
        _python("nothing", "pass"),
        _python("import aliquot", "import aliquot"),
        _python("import aliquot, open", "import aliquot; aliquot.open"),
        _python("import numpy", "import numpy"),
    ]
    program = find_program("aliquot")
    if program:
        contenders.append(Contender("aliquot --help", lambda: run_program(program, "--help")))
    timings = alternate(contenders, max(_REPEATS, repeats))

    nothing = timings["nothing"]
    over_nothing, times = ratio(timings["import aliquot"], nothing)
    findings = [
        Finding.below(
            "importing: import aliquot, over an empty program",
            _milliseconds_more(timings["import aliquot"], nothing),
            "ms",
            60,
            f"{over_nothing:.1f} x: {times}",
        )
    ]
    for name in ("import aliquot, open", "aliquot --help"):
        if name in timings:
            over_numpy, times = ratio(timings[name], timings["import numpy"])
            findings.append(Finding.without_bar(f"importing: {name}, over import numpy", over_numpy, "x", times))
        else:
            findings.append(Finding.skipped(f"importing: {name}", "aliquot"))
    return findings


def _python(name: str, program: str) -> Contender:
    return Contender(name, lambda: run_program(sys.executable, "-c", program))


def _milliseconds_more(timing: Timing, than: Timing) -> float:
    return max(0.0, timing.median - than.median) * 1e3
