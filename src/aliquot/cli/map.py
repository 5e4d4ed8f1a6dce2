from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import click

from aliquot.cli.options import open_as_told, reading_options

_EXIT_FAILED = 1


@click.command("map")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("files", nargs=-1, required=True)
@click.option("--join", metavar="MODULE:FUNCTION", help="Makes one value of two. Default: their sum.")
@click.option(
    "--each", is_flag=True, help="FUNCTION takes one unit; what it returns is printed, a line each, in order."
)
@click.option("-o", "--out", metavar="PATH", help="Write the value to a file: .json, or .pkl for a pickle.")
@click.option("--cores", type=click.IntRange(1), metavar="N", help="How many workers. Default: all cores.")
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
    """
    from aliquot.running.outcome import RemoteTraceback

    if each and (join or out):
        raise click.UsageError("--each prints a line for each unit, and so goes with neither --join nor --out")
    if out is not None and os.path.splitext(out)[1] not in _WRITERS:
        raise click.BadParameter(f"{out!r} should end in {' or '.join(_WRITERS)}", param_hint="--out")
    sys.path.insert(0, os.getcwd())
    called = _find(function)
    source = open_as_told(files, format_name, compression, options)
    told = {"on": _make_site(cores), "size": size, "progress": False if quiet else None}
    try:
        if each:
            _print_each(called, source, told)
        else:
            report = _run(called, source, join, out, told)
            if not quiet:
                click.echo(report, err=True)
    except Exception as error:
        if not isinstance(error.__cause__, RemoteTraceback):
            raise
        # What the user's function raised, without what called it here.
        where = getattr(error, "__notes__", [f"aliquot: {error}"])[-1]
        click.echo(f"{error.__cause__}\n{where}", err=True)
        sys.exit(_EXIT_FAILED)


def _print_each(called: Any, source: Any, told: dict[str, Any]) -> None:
    import aliquot

    for value in aliquot.imap(called, source, **told):
        click.echo(value)


def _run(called: Any, source: Any, join: str | None, out: str | None, told: dict[str, Any]) -> Any:
    import operator

    import aliquot

    job = aliquot.FunctionJob(called, source, join=operator.add if join is None else _find(join))
    outcome = aliquot.run(job, **told)
    if out is None:
        click.echo(outcome.value)
    else:
        _WRITERS[os.path.splitext(out)[1]](outcome.value, out)
    return outcome.report


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
