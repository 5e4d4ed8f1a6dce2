from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from aliquot.cli.config import config_option, configured_command, with_config
from aliquot.cli.ending import (
    EXIT_FAILED,
    exit_code_of,
    exit_code_of_interrupt,
    tell_end,
    tell_failed,
    tell_interrupted,
    warn_of_empty_outputs,
    warn_of_headers,
)
from aliquot.cli.json_events import JsonEvents
from aliquot.cli.options import Limits, Reading, limit_options, parse_named, reading_options
from aliquot.cli.wording import in_options
from aliquot.errors import AliquotError

if TYPE_CHECKING:
    from aliquot.jobs import Command
    from aliquot.journal import RunDirectory
    from aliquot.running.plan import Plan

_EXAMPLE = "aliquot run --split reads=sample.fastq.gz --join sam=out.sam -- 'bwa mem ref.fa {reads} > {sam}'"
_REDIRECTIONS = ("<", ">", ">>")
# These are meant for one sitting, not for whoever goes on with the run.
_NOT_KEPT = ("fresh", "resume_anyway", "force", "forget", "quiet", "as_json", "dry_run")


class _Run(click.Command):
    """Options of the user's own program are easily taken for ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            told = f"{error.message} If it is one of your own command, put that after --, in quotes."
            raise click.UsageError(told, ctx) from None


@click.command("run", cls=_Run)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--split",
    multiple=True,
    metavar="NAME=PATH",
    help="A file, or a pattern of files, whose units are divided; {NAME} in the command. Repeatable.",
)
@click.option(
    "--join",
    multiple=True,
    metavar="NAME=PATH[:RULE]",
    help="An output; {NAME} in the command, else what it prints. PATH is - for standard output. Rules: concat, sam, "
    "csv, lines-sorted, json-merge, sum, dir, module:function. Default: by the end of PATH. Repeatable.",
)
@click.option(
    "--names-may-differ",
    is_flag=True,
    help="Files that are split together are no mates: reads at the same place may have different names (FASTQ).",
)
@click.option("--unordered", is_flag=True, help="Outputs may be joined in any order.")
@click.option("--check", metavar="COMMAND", help="Runs after each step, and fails if its outputs are not good.")
@click.option("--least-bytes", type=float, metavar="N", help="Outputs have at least so many bytes a unit.")
@click.option(
    "--step-cores",
    type=click.IntRange(1),
    metavar="N",
    help="How many cores a step uses; {cores} in the command. Default: all if the command says {cores}, else one.",
)
@click.option("--sandbox", is_flag=True, help="Run each step in a directory of its own.")
@click.option("--input", "inputs", multiple=True, metavar="PATH", help="What a sandbox has a link to. Repeatable.")
@click.option("--run-dir", metavar="DIR", help="Where the run is recorded. Default: .aliquot/ and the first output.")
@click.option("--fresh", is_flag=True, help="Begin anew, whatever an earlier run has done.")
@click.option("--resume-anyway", is_flag=True, help="Go on with an earlier run, though inputs or programs changed.")
@click.option("--force", is_flag=True, help="Replace outputs that exist.")
@click.option("--forget", is_flag=True, help="Use nothing that earlier runs have learned.")
@limit_options
@reading_options
@click.option(
    "--json", "as_json", is_flag=True, help="Events, one a line, on stdout; on stderr if an output goes to stdout."
)
@click.option("--dry-run", is_flag=True, help="Say what would be run, and run nothing.")
@config_option
def run_command(
    *,
    command: Sequence[str],
    split: Sequence[str],
    join: Sequence[str],
    names_may_differ: bool,
    unordered: bool,
    check: str | None,
    least_bytes: float | None,
    step_cores: int | None,
    sandbox: bool,
    inputs: Sequence[str],
    run_dir: str | None,
    fresh: bool,
    resume_anyway: bool,
    force: bool,
    forget: bool,
    limits: Limits,
    reading: Reading,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Run a program over all units of files, on all cores, and join what it writes.

    COMMAND is a line for the shell, in quotes. {NAME} stands for a file with some of the units, '< {NAME}' or
    {NAME:pipe} for a pipe, {NAME:source}, {NAME:offset} and {NAME:length} for a range of bytes; {NAME} of an output for
    where to write it. Braces of your own are written twice: {{ and }}. Also: {cores}, {memory}, {scratch},
    {unit_start}, {units}.

    A run that was interrupted or killed goes on when it is started again. Several files that are split are cut at
    the same units. --format fastq is for all of them, --format NAME=fastq for one.

    \b
    aliquot run --split reads=sample.fastq.gz --join sam=out.sam -- 'bwa mem ref.fa {reads} > {sam}'
    aliquot run --split log=access.log --join n=count.txt:sum -- 'wc -l < {log} > {n}'
    aliquot run --split a=r1.fq --split b=r2.fq --join sam=out.sam -- 'bwa mem ref.fa {a} {b} > {sam}'
    aliquot run --split r=reads.fastq --join sam=out.sam -- 'bwa mem -t {cores} ref.fa {r:pipe} > {sam}'
    aliquot run --config align.toml --memory 8GB --keep-going --set-aside bad.fastq

    \b
    exit code 0: all units are done      2: wrong usage, or an input or output that cannot be used
              1: units were set aside, more failed than --max-failures allows, or a program is not there
            130: interrupted by Ctrl-C, 143: by SIGTERM; the same command, or aliquot resume, goes on
    """
    ctx = click.get_current_context()
    split, join = with_config(ctx, "split", split), with_config(ctx, "join", join)
    text = _command_text(ctx, command) or configured_command(ctx)
    if not text:
        raise click.UsageError(f"say what to run, after --\n\n  {_EXAMPLE}")
    if not split:
        raise click.UsageError(
            f"say what to divide, with --split NAME=PATH and {{NAME}} in the command\n\n  {_EXAMPLE}"
        )
    # Functions that join outputs are found here, as in `aliquot map`; behind all else, which may have the same names.
    sys.path.append(os.getcwd())
    import aliquot
    from aliquot.jobs.command import have_header_row
    from aliquot.outputs import parse_output
    from aliquot.running.options import make_options
    from aliquot.running.planning import plan_job

    files = parse_named(split, "--split", "reads=sample.fastq")
    reading.check_names(list(files))
    views = {name: reading.open(paths, name) for name, paths in files.items()}
    has_header_row = have_header_row(views.values())
    outputs = [parse_output(told, has_header_row=has_header_row) for told in join]
    if sys.stdout is None and (not outputs or any(output.path == "-" for output in outputs)):
        raise click.UsageError("standard output is closed, and an output goes there: name a file with --join")
    events = JsonEvents(on_stderr=not outputs or any(output.path == "-" for output in outputs)) if as_json else None
    arguments = limits.arguments()
    job = aliquot.Command(
        text,
        split=views,
        join=outputs,
        unordered=unordered,
        check=check,
        least_bytes_per_unit=least_bytes,
        step_cores=step_cores,
        sandbox=sandbox,
        inputs=inputs,
        same_names=not names_may_differ,
    )
    options = make_options(
        **{**arguments, "progress": events or arguments["progress"]},
        run_dir=run_dir,
        fresh=fresh,
        resume_anyway=resume_anyway,
        force=force,
        forget=forget,
    )
    plan = plan_job(job, options)
    assert plan.keeping is not None
    settings = {**ctx.params, "split": split, "join": join, "command": [text]}
    kept = {name: value for name, value in settings.items() if name not in _NOT_KEPT}
    command_line = shlex.join(["aliquot", *sys.argv[1:]])
    plan = plan._replace(keeping=plan.keeping._replace(settings=kept, command_line=command_line))
    if dry_run:
        from aliquot.cli.dry_run import tell_plan

        tell_plan(job, plan.counted())
        return
    sys.exit(_run(job, plan, limits, events))


def _command_text(ctx: click.Context, words: Sequence[str]) -> str:
    """A line for the shell as it is; several words as a program would have been given them."""
    if len(words) == 1:
        return words[0]
    ours = {name for option in ctx.command.params for name in (*option.opts, *option.secondary_opts)}
    misplaced = [word for word in words[1:] if word.partition("=")[0] in ours]
    if misplaced and len(words[0].split()) > 1 and not os.path.exists(words[0]):
        raise click.UsageError(f"{misplaced[0]} stands behind the command: options of aliquot run come before --", ctx)
    for word, following in itertools.pairwise(words):
        if word in _REDIRECTIONS and following.startswith("{"):
            raise click.UsageError(f"{word!r} is for the shell: put all of the command in quotes\n\n  {_EXAMPLE}", ctx)
    return shlex.join(words)


def _run(job: Command, plan: Plan, limits: Limits, events: JsonEvents | None) -> int:
    from aliquot.journal import RunDirectory
    from aliquot.running.one_run import run_plan

    assert plan.keeping is not None
    directory = RunDirectory(plan.keeping.directory)
    if events is not None:
        events.emit(
            "begin", run=directory.path, command=job.template.text, units=plan.units if plan.growing is None else None
        )
    elif not limits.quiet:
        warn_of_headers(job)
    with _telling_interrupts(directory, events):
        outcome = run_plan(plan)
    exit_code = EXIT_FAILED if outcome.failures or not outcome.is_complete else 0
    if events is not None:
        events.end(outcome, exit_code)
    elif not outcome.is_complete:
        tell_failed(directory, outcome, limits.set_aside)
    elif not limits.quiet and not outcome.was_done:
        tell_end(directory, outcome, limits.set_aside)
        warn_of_empty_outputs(job)
    return exit_code


@contextlib.contextmanager
def _telling_interrupts(directory: RunDirectory, events: JsonEvents | None) -> Iterator[None]:
    """Say how to go on, or what went wrong, also to programs."""
    try:
        yield
    except KeyboardInterrupt as error:
        exit_code = exit_code_of_interrupt(error)
        if events is not None:
            events.emit("end", status="interrupted", exit_code=exit_code)
        if events is None or not events.is_on_stderr:
            tell_interrupted(directory)
        sys.exit(exit_code)
    except (AliquotError, OSError) as error:
        if events is None:
            raise
        exit_code = exit_code_of(error)
        events.emit("end", status="error", exit_code=exit_code, error=in_options(str(error)))
        if not events.is_on_stderr:
            raise
        sys.exit(exit_code)
