"""What is said when a run has ended, on standard error, and with which exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from aliquot.cli.wording import in_options
from aliquot.errors import DataError
from aliquot.quantities import format_count, format_seconds, number_of

if TYPE_CHECKING:
    from aliquot.jobs import Command
    from aliquot.journal import RunDirectory
    from aliquot.running.outcome import Failure, Outcome

EXIT_FAILED = 1
EXIT_WRONG_USAGE = 2
EXIT_INTERRUPTED = 130

# A shell adds this to the number of the signal that has ended a program.
_BY_SIGNAL = 128
_MOST_SHOWN = 20
_WIDTH = 240


def exit_code_of(error: Exception) -> int:
    """Whether units or the command have failed, or nothing could be run as it was told."""
    from aliquot.jobs import CommandError
    from aliquot.running.outcome import UnitsFailedError

    have_units_failed = isinstance(error, UnitsFailedError | CommandError) or getattr(error, "has_failed_a_run", False)
    return EXIT_FAILED if have_units_failed else EXIT_WRONG_USAGE


def exit_code_of_interrupt(error: BaseException) -> int:
    """130 after Ctrl-C, 143 after SIGTERM: as if the signal itself had ended it."""
    from aliquot.running.stopping import RunInterruptedError

    return _BY_SIGNAL + error.signal_number if isinstance(error, RunInterruptedError) else EXIT_INTERRUPTED


def tell_failures(failures: Sequence[Failure], set_aside: str | None) -> None:
    """Name the units that were set aside."""
    from aliquot.running.outcome import count_units

    written = f"; the input is in {set_aside}" if set_aside else ""
    click.echo(f"aliquot: {count_units(failures)} set aside{written}", err=True)
    for failure in failures[:_MOST_SHOWN]:
        click.echo(f"  {in_options(str(failure))}", err=True)
    if len(failures) > _MOST_SHOWN:
        click.echo(f"  and {len(failures) - _MOST_SHOWN} more", err=True)


def tell_end(directory: RunDirectory, outcome: Outcome, set_aside: str | None) -> None:
    """Three lines at most: what was done, how close to ideal and why not closer, what was set aside and where."""
    from aliquot.journal import JournalError
    from aliquot.reporting.losses import format_share, tell_waiting
    from aliquot.reporting.reading import read_run
    from aliquot.reporting.text import format_rate

    try:
        story, about = read_run(directory)
    except JournalError:
        if os.path.lexists(directory.journal_path):
            raise
        click.echo("aliquot: done; what was recorded of it has just been removed, as by 'aliquot clean'", err=True)
        return
    totals = story.totals
    cores, rate = number_of(totals.cores, "core"), format_rate(totals.units_per_second)
    took = f"in {format_seconds(totals.wall_seconds)} on {cores}, {rate}"
    outputs = [shown_path(path) for path in about.outputs if path != "-"]
    made = f": {', '.join(outputs)}" if outputs and outcome.is_complete else ""
    click.echo(f"aliquot: {number_of(about.done_units or 0, 'unit')} {took}{made}", err=True)
    if totals.available_seconds and about.done_units:
        reasons = [loss.sentence for loss in story.losses[:1]]
        why = " ".join(filter(None, [*reasons, tell_waiting(about.busy_share, totals.useful_seconds)]))
        click.echo(f"{format_share(totals.efficiency)} of ideal{'. ' + why if why else ''}", err=True)
    if outcome.failures:
        units = sum(failure.stop - failure.start for failure in outcome.failures)
        what = "1 unit was" if units == 1 else f"{format_count(units)} units were"
        where = f"; {'its' if units == 1 else 'their'} input is in {shown_path(set_aside)}" if set_aside else ""
        first = one_line(in_options(str(outcome.failures[0])))
        click.echo(f"{what} set aside{where}; see 'aliquot report {run_name(directory)}'. {first}", err=True)


def tell_failed(directory: RunDirectory, outcome: Outcome, set_aside: str | None) -> None:
    """The run has stopped, since too many units failed: the first of them in full."""
    from aliquot.running.outcome import count_failed

    failures = outcome.failures
    what = count_failed(failures)
    where = f"; the input is in {set_aside}" if set_aside else ""
    why = "more than --max-failures allows" if outcome.report.units else "and none was done"
    click.echo(f"aliquot: stopped, as {what}, {why}{where}", err=True)
    if failures:
        click.echo(in_options(str(failures[0])), err=True)
    name = run_name(directory)
    if not outcome.report.units and failures and _is_of_input(failures[0], directory):
        click.echo("The input is at fault, and not the command. Once it is mended, run the same again", err=True)
        return
    if not outcome.report.units:
        click.echo(
            f"No unit was done at all, so the command itself may be at fault. Mend it and run it again; "
            f"'aliquot run --dry-run' shows what is run, {shown_path(directory.failed)} what it left",
            err=True,
        )
        return
    click.echo(
        f"What is done is kept: once it is mended, go on with 'aliquot resume {name}' (with --resume-anyway, if the "
        f"program was changed); or leave out what fails: 'aliquot resume {name} --keep-going'",
        err=True,
    )


def _is_of_input(failure: Failure, directory: RunDirectory) -> bool:
    """Whether units could not be read: a step's own files, in the run directory, are no input."""
    error = failure.exception
    run = os.path.realpath(directory.path)
    return isinstance(error, DataError) and not os.path.realpath(error.path or "").startswith(f"{run}/")


def warn_of_empty_outputs(job: Command) -> None:
    """A program that writes elsewhere than it should ends as well as any other."""
    for output in job.outputs:
        path = os.path.join(job.directory, output.path)
        if output.path == "-" or not os.path.isfile(path) or os.path.getsize(path):
            continue
        why = "no step wrote anything to it"
        if job.template.stdout_output == output.name:
            name = f"{{{output.name}}}"
            why = (
                f"{name} is nowhere in the command, so it was made of what the command prints, and it printed nothing. "
                f"If the command writes to a file, write {name} where it names that file"
            )
        click.echo(f"aliquot: {output.path} is empty: {why}", err=True)


def warn_of_headers(job: Command) -> None:
    """Every part of a table has its header; whether a program passes it on, nobody knows."""
    for name, source in job.sources.items():
        outputs = [output.name for output in job.outputs if output.rule == "concat"]
        if source.header(1) and outputs:
            click.echo(
                f"aliquot: each part of {{{name}}} begins with the header of {os.path.basename(source.paths()[0])}: "
                f"if the command passes it on, join by --join {outputs[0]}=PATH:csv",
                err=True,
            )


def tell_interrupted(directory: RunDirectory) -> None:
    """How much is done, and how to go on."""
    from aliquot.journal.runs import summarise

    if not os.path.exists(directory.journal_path):
        click.echo("aliquot: interrupted before anything was done", err=True)
        return
    run = summarise(directory)
    of_all = "" if run.units is None else f" of {format_count(run.units)}"
    click.echo(
        f"aliquot: interrupted; {format_count(run.done_units)}{of_all} units are done. "
        f"Go on with: aliquot resume {run_name(directory)}",
        err=True,
    )


def run_name(directory: RunDirectory) -> str:
    """What to call a run on the command line, from here: its name, or where it is."""
    from aliquot.journal.run_directory import RUNS_DIRECTORY

    is_here = os.path.dirname(directory.path) == os.path.abspath(RUNS_DIRECTORY)
    return shlex.quote(directory.name if is_here else shown_path(directory.path))


def shown_path(path: str) -> str:
    """As a person would write it from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def one_line(text: str) -> str:
    """The first line, not too long."""
    line = text.partition("\n")[0]
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
