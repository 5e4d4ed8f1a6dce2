"""One run of a command whose steps take a chosen time: `python -m bench.journal_turn STEP_SECONDS UNITS [--off]`.

Prints how long the run took, and how long the process that coordinates was busy with the journal meanwhile. With --off
nothing is recorded until the run ends; the outputs are the same.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import aliquot
from aliquot.running import recorded
from aliquot.running.recording import JournalRecorder
from bench.busy import COMMAND, expected_output, write_busy_program, write_lines

_CORES = 2
# All by which a run tells its recorder of something. One may call another, which is counted once.
_METHODS = ("arrived", "failed", "note", "keep_up", "checkpoint")


class _Off(JournalRecorder):
    """Nothing is recorded but the end, without which there would be no outputs."""

    due_seconds = None

    def arrived(self, *_: Any) -> None:
        """Nothing."""

    def note(self, *_: Any) -> None:
        """Nothing."""

    def keep_up(self, now_seconds: float) -> None:
        """Nothing."""

    def checkpoint(self) -> None:
        """What is appended is all there is."""
        assert self._sink is not None, "a command has outputs"
        self._sink.checkpoint()
        self._sink.forget_appended()


class _Clock:
    """Wall and CPU time of the methods of a recorder."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0
        self._is_inside = False

    def time(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*arguments: Any) -> Any:
            if self._is_inside:
                return method(*arguments)
            self._is_inside = True
            began, cpu_began = time.perf_counter(), time.thread_time()
            try:
                return method(*arguments)
            finally:
                self.seconds += time.perf_counter() - began
                self.cpu_seconds += time.thread_time() - cpu_began
                self._is_inside = False

        return timed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.journal_turn", description="What the journal costs.")
    parser.add_argument("step_seconds", type=float)
    parser.add_argument("units", type=int, help="each takes so long; a step may have several")
    parser.add_argument("--off", action="store_true", help="record nothing")
    told = parser.parse_args()
    clock = _Clock()
    kind = _Off if told.off else JournalRecorder
    timed = {name: clock.time(getattr(kind, name)) for name in _METHODS}
    vars(recorded)["JournalRecorder"] = type("TimedRecorder", (kind,), timed)

    with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as directory:
        os.chdir(directory)
        write_busy_program(".", start_seconds=0, line_seconds=told.step_seconds)
        write_lines(".", "lines.txt", told.units)
        command = aliquot.Command(f"{COMMAND} {{n}} > {{out}}", split={"n": "lines.txt"}, join={"out": "out.txt"})
        outcome = aliquot.run(
            command,
            on=aliquot.sites.Local(cores=_CORES),
            size=1,
            target_seconds=told.step_seconds,
            progress=False,
            forget=True,
        )
        with open("out.txt") as file:
            assert file.read() == expected_output(told.units), "the output differs"
        os.chdir("/")
    report = outcome.report
    print(
        json.dumps(
            {
                "seconds": report.wall_seconds,
                "steps": report.steps,
                "recorder_seconds": clock.seconds,
                "recorder_cpu_seconds": clock.cpu_seconds,
            }
        )
    )


if __name__ == "__main__":
    main()
