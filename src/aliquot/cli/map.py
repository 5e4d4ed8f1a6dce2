from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from aliquot.cli.options import open_as_told, reading_options

_EXIT_FAILED = 1
_MOST_SHOWN = 20


@click.command("map")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("files", nargs=-1, required=True)
@click.option("--join", metavar="MODULE:FUNCTION", help="Makes one value of two. Default: their sum.")
@click.option(
    "--each",
    is_flag=True,
    help="FUNCTION takes one unit; what it returns is printed in order, a line each, and none where it failed.",
)
@click.option("-o", "--out", metavar="PATH", help="Write the value to a file: .json, or .pkl for a pickle.")
@click.option("--cores", type=click.IntRange(1), metavar="N", help="How many workers. Default: all cores.")
@click.option("--memory", metavar="SIZE", help="What all workers may hold together, such as 8GB. Default: most of it.")
@click.option(
    "--max-failures",
    default="0",
    metavar="N|P%",
    help="How many units may fail, or which part of them; they are set aside. Default: none.",
)
@click.option("--keep-going", is_flag=True, help="Any number of units may fail.")
@click.option("--set-aside", metavar="PATH", help="Write the raw input of units that failed to a file.")
@click.option("--wall", "wall_seconds", type=float, metavar="SECONDS", help="Stop a step that takes longer.")
@click.option("--size", type=click.IntRange(1), metavar="N", help="A first guess of units a step; never needed.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, no report.")
@reading_options
def map_function(
    *,
    function: str,
    files: tuple[str, ...],
    join: str | None,
    each: bool,
    out: str | None,
    cores: int | None,
    memory: str | None,
    max_failures: str,
    keep_going: bool,
    set_aside: str | None,
    wall_seconds: float | None,
    size: int | None,
    quiet: bool,
    format_name: str | None,
    compression: str | None,
    options: tuple[str, ...],
) -> None:
    """Run a Python function over all units of FILES, on all cores.

    FUNCTION is given a batch of units, and what it returns is joined into one value, which is printed or written.
    How large a batch is, is found out while running. Modules are also looked for in the present directory.

    \b
    aliquot map analysis:count_bases reads.fastq.gz --join analysis:add --out bases.json
    aliquot map builtins:len 'logs/*.jsonl'
    aliquot map analysis:parse_line --each log.txt > parsed.txt
    aliquot map analysis:count_bases reads.fastq --keep-going --set-aside bad.fastq --memory 4GB

    \b
    exit code 0: all units are done      2: wrong usage
              1: units were set aside, or more failed than --max-failures allows
    """
    from aliquot.running.outcome import RemoteTraceback

    if each and (join or out):
        raise click.UsageError("--each prints a line for each unit, and so goes with neither --join nor --out")
    if out is not None and os.path.splitext(out)[1] not in _WRITERS:
        raise click.BadParameter(f"{out!r} should end in {' or '.join(_WRITERS)}", param_hint="--out")
    if out is not None and not os.path.isdir(os.path.dirname(out) or "."):
        raise click.BadParameter(f"there is no folder {os.path.dirname(out)!r}", param_hint="--out")
    sys.path.insert(0, os.getcwd())
    called = _find(function)
    source = open_as_told(files, format_name, compression, options)
    told = {
        "on": _make_site(cores),
        "memory": memory,
        "max_failures": float("inf") if keep_going else _parse_failures(max_failures),
        "set_aside": set_aside,
        "wall_seconds": wall_seconds,
        "size": size,
        "progress": False if quiet else None,
    }
    try:
        failures = _print_each(called, source, told) if each else _run(called, source, join, out, told, quiet=quiet)
    except Exception as error:
        if not isinstance(error.__cause__, RemoteTraceback):
            raise
        # What the user's function raised, without what called it here.
        where = getattr(error, "__notes__", [f"aliquot: {error}"])[-1]
        click.echo(f"{error.__cause__}\n{where}", err=True)
        sys.exit(_EXIT_FAILED)
    if failures:
        written = f"; their input is in {set_aside}" if set_aside else ""
        click.echo(f"aliquot: {len(failures)} units failed and were set aside{written}", err=True)
        for failure in failures[:_MOST_SHOWN]:
            click.echo(f"  {failure}", err=True)
        if len(failures) > _MOST_SHOWN:
            click.echo(f"  and {len(failures) - _MOST_SHOWN} more", err=True)
        sys.exit(_EXIT_FAILED)


def _parse_failures(told: str) -> float:
    from aliquot.errors import UsageError

    try:
        return float(told[:-1]) / 100 if told.endswith("%") else int(told)
    except ValueError:
        raise UsageError(f"--max-failures {told}: a number of units, or a part such as 1%") from None


def _print_each(called: Any, source: Any, told: dict[str, Any]) -> list[Any]:
    import aliquot

    failures = []
    for value in aliquot.imap(called, source, **told):
        if isinstance(value, aliquot.Failure):
            failures.append(value)
        else:
            click.echo(value)
    return failures


def _run(
    called: Any, source: Any, join: str | None, out: str | None, told: dict[str, Any], *, quiet: bool
) -> Sequence[Any]:
    import operator

    import aliquot

    job = aliquot.FunctionJob(called, source, join=operator.add if join is None else _find(join))
    outcome = aliquot.run(job, **told)
    if not quiet and not outcome.is_complete:
        click.echo(outcome.report, err=True)
    if out is None:
        click.echo(outcome.value)
    else:
        _WRITERS[os.path.splitext(out)[1]](outcome.value, out)
    if not quiet:
        click.echo(outcome.report, err=True)
    return outcome.failures


def _make_site(cores: int | None) -> Any:
    from aliquot.sites import Local

    return Local(cores=cores)


def _find(path: str) -> Any:
    from aliquot.errors import UsageError
    from aliquot.job import find_by_import_path

    found = find_by_import_path(path)
    if not callable(found):
        raise UsageError(f"{path} is not a function")
    return found


def _write_json(value: Any, path: str) -> None:
    from aliquot.errors import UsageError

    # Made whole before the file is touched.
    try:
        text = json.dumps(value)
    except TypeError as error:
        raise UsageError(f"{path}: the value cannot be written as JSON: {error}. Write it to a .pkl") from error
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def _write_pickle(value: Any, path: str) -> None:
    content = pickle.dumps(value)
    with open(path, "wb") as file:
        file.write(content)


_WRITERS: dict[str, Callable[[Any, str], None]] = {".json": _write_json, ".pkl": _write_pickle}
