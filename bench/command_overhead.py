"""What a user waits for who has almost nothing to do: the help, and one line through one program."""

from __future__ import annotations

import os
import shutil
from functools import partial

from bench.command_line import aliquot_program, aliquot_run, places, run_here
from bench.measuring import Contender, Finding, alternate, console, ratio, run_program

_REPEATS = 20
_HELP_SECONDS, _RUN_SECONDS = 0.2, 0.5
_LINE = "one line\n"


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    # These are short, and starting a process is never the same twice: they are repeated more often than the rest.
    repeats = repeats if quick else max(_REPEATS, repeats)
    program = aliquot_program()
    commands: dict[str, list[str] | str] = {
        "aliquot run": aliquot_run("cat {x}", split="x=x.txt", join="out=out.txt"),
        "sh -c cat": "cat x.txt > out.txt",
    }
    if shutil.which("parallel"):
        commands["parallel"] = "parallel --will-cite --pipe-part -a x.txt -k cat > out.txt"
    else:
        console.print("parallel is left out: it is not installed")
    with places() as made:
        contenders = [Contender("aliquot --help", lambda: run_program(program, "--help"))]
        for name, command in commands.items():
            contenders.append(made.contender(name, partial(run_here, command), fill=_fill, check=_check))
        timings = alternate(contenders, repeats)

    findings = [
        Finding.below("command overhead: aliquot --help", timings["aliquot --help"].median, "s", _HELP_SECONDS),
        Finding.below("command overhead: one line, aliquot run", timings["aliquot run"].median, "s", _RUN_SECONDS),
    ]
    for name in commands:
        if name != "aliquot run":
            over, times = ratio(timings["aliquot run"], timings[name])
            findings.append(Finding.without_bar(f"command overhead: one line, over {name}", over, "x", times))
    return findings


def _fill(directory: str) -> None:
    with open(os.path.join(directory, "x.txt"), "w") as file:
        file.write(_LINE)


def _check(directory: str) -> None:
    with open(os.path.join(directory, "out.txt")) as file:
        assert file.read() == _LINE, "the output differs"
