"""Which run is meant: by its name, by its directory, or by what it makes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from aliquot.errors import UsageError

if TYPE_CHECKING:
    from aliquot.journal import RunDirectory


def find_run(told: str | None) -> RunDirectory:
    """Find it here, below .aliquot, or where it was said to be; the last one if nobody says."""
    from aliquot.journal import RunDirectory, list_runs
    from aliquot.journal.run_directory import RUNS_DIRECTORY

    if told is None:
        last = next(iter(list_runs()), None)
        if last is None:
            raise UsageError(f"there are no runs in {os.path.abspath(RUNS_DIRECTORY)}: say which one is meant")
        return RunDirectory(last.path)
    for path in (os.path.join(RUNS_DIRECTORY, told), told):
        if any(os.path.lexists(os.path.join(path, name)) for name in ("journal.sqlite", "holder")):
            return RunDirectory(path)
    target = os.path.abspath(told)
    runs = list_runs()
    beside = os.path.join(os.path.dirname(target), RUNS_DIRECTORY)
    for run in [*runs, *(list_runs(beside) if beside != os.path.abspath(RUNS_DIRECTORY) else ())]:
        if target in map(os.path.abspath, run.outputs):
            return RunDirectory(run.path)
    names = [run.name for run in runs]
    import difflib

    near = difflib.get_close_matches(told, names, n=1)
    if near:
        advice = f"did you mean {near[0]}?"
    elif names:
        advice = f"'aliquot runs' lists all; the last is {names[0]}"
    else:
        advice = f"there are none in {os.path.abspath(RUNS_DIRECTORY)}; 'aliquot runs --all DIR' looks in all of DIR"
    raise UsageError(f"there is no run {told!r}: {advice}")


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of the runs that are here, for the shell."""
    from aliquot.journal.run_directory import RUNS_DIRECTORY

    try:
        return sorted(name for name in os.listdir(RUNS_DIRECTORY) if name.startswith(incomplete) and name[0] != ".")
    except OSError:
        return []


def run_argument(command: Any) -> Any:
    """Add RUN."""
    return click.argument("run", metavar="[RUN]", required=False, shell_complete=complete_runs)(command)
