from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from aliquot.cli.ending import shown_path
from aliquot.cli.finding import find_run, run_argument
from aliquot.cli.options import add_limit_options
from aliquot.cli.run import run_command
from aliquot.errors import UsageError


@click.command()
@run_argument
@click.option("--fresh", is_flag=True, help="Begin anew, whatever the run has done.")
@click.option("--resume-anyway", is_flag=True, help="Though inputs or programs changed.")
@add_limit_options
@click.option("--json", "as_json", is_flag=True, help="Events, one a line, as in aliquot run.")
def resume(*, run: str | None, **_: Any) -> None:
    """Go on with a run, as it was started.

    RUN is its name, the path of an output or, as after --run-dir, its directory; by default the last one.
    Options that are given replace those that it was started with. The same 'aliquot run' again does the same.

    \b
    aliquot resume out.sam
    aliquot resume out.sam --memory 16GB --keep-going
    """
    from aliquot.journal import Journal

    ctx = click.get_current_context()
    directory = find_run(run)
    with Journal.open(directory.journal_path, read_only=True) as journal:
        settings: dict[str, Any] | None = journal.get("settings")
        place: str | None = journal.identity.get("directory")
    if settings is None or place is None:
        raise UsageError(
            f"{shown_path(directory.path)} was not started by 'aliquot run', or was ended before that was "
            "recorded: go on with it by the same command or call as before"
        )
    if not os.path.isdir(place):
        raise UsageError(f"the run was started in {place}, which is not there any more")
    told = {
        name: value
        for name, value in ctx.params.items()
        if name != "run" and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if told.get("set_aside"):
        told["set_aside"] = os.path.abspath(told["set_aside"])  # from here, not from where it was started
    # Each of them replaces the other.
    if "max_failures" in told or "keep_going" in told:
        settings |= {"max_failures": None, "keep_going": False}
    known = {option.name for option in run_command.params}
    kept = {name: value for name, value in settings.items() if name in known}
    os.chdir(place)
    ctx.invoke(run_command, **{**kept, **told, "run_dir": directory.path})
