from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from aliquot.cli.ending import EXIT_FAILED, tell_failures
from aliquot.cli.options import Limits, Reading, limit_options, reading_options
from aliquot.cli.wording import in_options


@click.command("map")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--join",
    metavar="MODULE:FUNCTION",
    help="Makes one value of two. Default: by what they are; numbers are added, also those in dicts, which are merged "
    "key by key. A maximum needs builtins:max.",
)
@click.option(
    "--each",
    is_flag=True,
    help="FUNCTION takes one unit; what it returns is printed in order, a line each, and none where it failed.",
)
@click.option("--columns", metavar="A,B,...", help="Which columns of a table are read. Default: all.")
@click.option("--as", "form", metavar="FORM", help="What a batch of a table is: awkward, numpy, pandas, arrow, ...")
@click.option("-o", "--out", metavar="PATH", help="Write the value to a file, new or not: .json, or .pkl for a pickle.")
@click.option("--run-dir", metavar="DIR", help="Record what is done there: the same command again goes on with it.")
@click.option("--fresh", is_flag=True, help="With --run-dir: begin anew, whatever an earlier run has done.")
@click.option("--resume-anyway", is_flag=True, help="With --run-dir: go on, though files or FUNCTION changed.")
@limit_options
@reading_options
def map_function(
    *,
    function: str,
    files: tuple[str, ...],
    join: str | None,
    each: bool,
    columns: str | None,
    form: str | None,
    out: str | None,
    run_dir: str | None,
    fresh: bool,
    resume_anyway: bool,
    limits: Limits,
    reading: Reading,
) -> None:
    """Run a Python function over all units of FILES, on all cores.

    FUNCTION is given a batch of units, and what it returns is joined into one value, which is printed or written.
    How large a batch is, is found out while running. Modules are also looked for in the present directory.

    \b
    aliquot map analysis:count_bases reads.fastq.gz --join analysis:add --out bases.json
    aliquot map builtins:len 'logs/*.jsonl'
    aliquot map analysis:fill 'nano/*.root:Events' --columns Muon_pt,Muon_eta --out hist.pkl
    aliquot map analysis:parse_line --each log.txt > parsed.txt
    aliquot map analysis:count_bases reads.fastq --keep-going --set-aside bad.fastq --memory 4GB
    aliquot map analysis:count_bases reads.fastq --run-dir bases-run     goes on there after Ctrl-C or kill -9

    \b
    exit code 0: all units are done      2: wrong usage, or an input or output that cannot be used
              1: units were set aside, or more failed than --max-failures allows
            130: interrupted by Ctrl-C; with --run-dir, 143 by SIGTERM, and the same command goes on
    """
    from aliquot.running.outcome import RemoteTraceback

    if each and (join or out):
        raise click.UsageError("--each prints a line for each unit, and so goes with neither --join nor --out")
    if each and run_dir:
        raise click.UsageError("--each prints values as they come, and so they cannot be recorded: leave --run-dir out")
    if (fresh or resume_anyway) and not run_dir:
        raise click.UsageError("--fresh and --resume-anyway are for a run that is recorded: say where, with --run-dir")
    if out is not None and os.path.splitext(out)[1] not in _WRITERS:
        raise click.BadParameter(f"{out!r} should end in {' or '.join(_WRITERS)}", param_hint="--out")
    if out is not None and not os.path.isdir(os.path.dirname(out) or "."):
        raise click.BadParameter(f"there is no folder {os.path.dirname(out)!r}", param_hint="--out")
    sys.path.insert(0, os.getcwd())
    called = _find(function)
    told = limits.arguments()
    source = reading.open(files, columns=columns, as_=form)
    try:
        if each:
            failures = _print_each(called, source, told)
        else:
            told |= {"run_dir": run_dir, "fresh": fresh, "resume_anyway": resume_anyway}
            failures = _run(called, source, join, out, told, quiet=limits.quiet)
    except Exception as error:
        if not isinstance(error.__cause__, RemoteTraceback):
            raise
        # What the user's function raised, without what called it here.
        notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("aliquot: ")]
        where = "\n".join(notes or [f"aliquot: {error}"])
        click.echo(f"{error.__cause__}\n{in_options(where)}", err=True)
        sys.exit(EXIT_FAILED)
    if failures:
        tell_failures(failures, limits.set_aside)
        sys.exit(EXIT_FAILED)


def _print_each(called: Any, source: Any, told: dict[str, Any]) -> Sequence[Any]:
    import aliquot
    from aliquot.running.spoiled import told_as_one

    failures = {}  # each stands in the place of every one of its units
    for value in aliquot.imap(called, source, **told):
        if isinstance(value, aliquot.Failure):
            failures[value.start] = value
        else:
            click.echo(value)
    return told_as_one(failures.values())


def _run(
    called: Any, source: Any, join: str | None, out: str | None, told: dict[str, Any], *, quiet: bool
) -> Sequence[Any]:
    import aliquot

    job = aliquot.FunctionJob(called, source, join=aliquot.merge if join is None else _find(join))
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


def _find(path: str) -> Any:
    from aliquot.errors import DescriptionError, UsageError
    from aliquot.job import find_by_import_path

    try:
        found = find_by_import_path(path)
    except DescriptionError as error:
        meant = _what_was_meant(path)
        if not meant:
            raise
        raise UsageError(meant) from error
    if not callable(found):
        raise UsageError(f"{path} is not a function")
    return found


def _what_was_meant(path: str) -> str:
    """What to write instead of a path that names nothing, where that can be told."""
    import builtins

    module, colon, name = path.partition(":")
    if module.endswith(".py"):
        file = os.path.relpath(module.removesuffix(".py"))
        is_below = not file.startswith(os.pardir)
        shown = file.replace("/", ".") if is_below else os.path.basename(file)
        where = "" if is_below else f", with {os.path.dirname(os.path.abspath(module))} on PYTHONPATH"
        return f"{path!r} is not MODULE:FUNCTION: leave out .py, as in {shown}:{name or 'FUNCTION'}{where}"
    if not colon:
        is_builtin = callable(getattr(builtins, path, None))
        instead = f"a builtin is written builtins:{path}" if is_builtin else "write both, with a colon between them"
        return f"{path!r} is not MODULE:FUNCTION: {instead}"
    import difflib

    thing: Any = sys.modules.get(module)
    *outer, last = name.split(".")
    for one in outer:
        thing = getattr(thing, one, None)
    near = difflib.get_close_matches(last, dir(thing), n=1) if thing is not None else []
    return f"{module!r} has no {name!r}: did you mean {'.'.join([*outer, near[0]])}?" if near else ""


def _write_json(value: Any, path: str) -> None:
    import json

    from aliquot.errors import UsageError

    # Made whole before the file is touched.
    try:
        text = json.dumps(value, default=_as_json)
    except TypeError as error:
        _write_pickle(value, f"{path}.pkl")
        raise UsageError(f"{path}: the value cannot be written as JSON ({error}): it is in {path}.pkl") from error
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def _as_json(value: Any) -> Any:
    """Arrays and numbers of numpy as lists and numbers, sets as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _write_pickle(value: Any, path: str) -> None:
    import pickle

    content = pickle.dumps(value)
    with open(path, "wb") as file:
        file.write(content)


_WRITERS: dict[str, Callable[[Any, str], None]] = {".json": _write_json, ".pkl": _write_pickle}
