from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from aliquot.cli.ending import shown_path
from aliquot.cli.finding import complete_runs, find_run, run_argument
from aliquot.errors import UsageError
from aliquot.quantities import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from aliquot.journal import RunSummary
    from aliquot.reporting.about import About

_PAGES, _PICTURES = (".html", ".htm"), (".png", ".svg", ".pdf")


@click.command()
@click.option("--all", "everywhere", metavar="DIR", help="All runs in DIR and below, wherever they are.")
def runs(*, everywhere: str | None) -> None:
    """List the runs of this directory, the last one first.

    \b
    aliquot runs
    aliquot runs --all ~/projects
    """
    from aliquot.journal import list_runs

    if everywhere is None:
        found = list_runs()
        where = "here"
    else:
        if not os.path.isdir(everywhere):
            raise UsageError(f"--all {everywhere}: there is no such folder")
        found = [run for parent in _parents_of_runs(everywhere) for run in list_runs(parent)]
        found.sort(key=lambda run: -run.changed_seconds)
        where = f"in {everywhere}"
    if not found:
        elsewhere = "" if everywhere else "; 'aliquot runs --all .' also looks in other folders"
        click.echo(f"there are no runs {where}: 'aliquot run --help' says how to begin one{elsewhere}", err=True)
    names = [run.name if everywhere is None else shown_path(run.path) for run in found]
    rows = [[name, *_columns(run)] for name, run in zip(names, found, strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _columns(run: RunSummary) -> list[str]:
    of_all = "" if run.units is None else f" of {format_count(run.units)}"
    aside = f", {format_count(run.failed_units)} set aside" if run.failed_units else ""
    ago = format_seconds(max(1.0, time.time() - run.changed_seconds))
    held = "" if run.holder is None else f"process {run.holder.pid} on {run.holder.host}"
    units = f"{format_count(run.done_units)}{of_all} units{aside}"
    return [run.status, units, f"{ago} ago", format_bytes(run.size_bytes), held]


def _parents_of_runs(directory: str) -> list[str]:
    found = []
    for place, inner, files in os.walk(directory):
        if "journal.sqlite" in files:
            found.append(os.path.dirname(place))
            inner.clear()
    return list(dict.fromkeys(found))


@click.command()
@run_argument
def status(*, run: str | None) -> None:
    """Say how far a run is, also while it goes on.

    RUN is its name, the path of an output or, as after --run-dir, its directory; by default the last one.

    \b
    aliquot status out.sam
    aliquot status .aliquot/out.sam
    """
    from aliquot.reporting.reading import read_run
    from aliquot.reporting.text import status_lines

    directory = find_run(run)
    holder = directory.holder()
    story, about = read_run(directory)
    for line in status_lines(story, about, None if holder is None else str(holder)):
        click.echo(line)


@click.command()
@run_argument
@click.option("--html", metavar="[PATH]", is_flag=False, flag_value="", help="As a page. Default: RUN.html, here.")
@click.option("--png", metavar="PATH", help="As a picture.")
def report(*, run: str | None, html: str | None, png: str | None) -> None:
    """Tell how a run went: what was done, how close to ideal it ran and why not closer, what was set aside.

    RUN is its name, the path of an output or, as after --run-dir, its directory; by default the last one.

    \b
    aliquot report out.sam
    aliquot report out.sam --html
    aliquot report out.sam --html page.html --png charts.png
    """
    from aliquot.reporting.reading import read_run
    from aliquot.reporting.text import report_lines

    _check_ending("--html", html, _PAGES)
    _check_ending("--png", png, _PICTURES)
    directory = find_run(run)
    story, about = read_run(directory)
    html = f"{directory.name}.html" if html == "" else html
    for path in (html, png):
        if path is not None:
            _check_target(path, about)
    if html is not None:
        from aliquot.reporting.html import html_page

        with open(html, "w", encoding="utf-8") as file:
            file.write(html_page(story, about))
        click.echo(html)
    if png is not None:
        from aliquot.reporting.png import draw_png

        draw_png(story, about, png)
        click.echo(png)
    if html is None and png is None:
        for line in report_lines(story, about):
            click.echo(line)


def _check_ending(option: str, path: str | None, endings: tuple[str, ...]) -> None:
    """Behind --html, the name of a run would be taken for a path, and the output of that name written over."""
    instead = "" if option == "--html" else f" {os.path.basename(path or '')}{endings[0]}"
    if path and not path.lower().endswith(endings):
        raise UsageError(
            f"{option} {path}: name a file that ends in {' or '.join(endings)}. "
            f"If this is the run that is meant, it comes first: aliquot report {path} {option}{instead}"
        )


def _check_target(path: str, about: About) -> None:
    known = (os.path.realpath(one) for one in (*about.inputs, *about.outputs))
    if os.path.realpath(path) in known:
        raise UsageError(f"{path} is what the run has made or was made from: name another file for the report")
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise UsageError(f"{path}: there is no folder {folder!r}")


@click.command()
@click.argument("names", metavar="[RUN]...", nargs=-1, shell_complete=complete_runs)
@click.option("--all", "everything", is_flag=True, help="Also those that are not done, but for what is running.")
def clean(*, names: tuple[str, ...], everything: bool) -> None:
    """Remove what is recorded of runs: of those that are done without a failure, or of each RUN. Outputs stay.

    \b
    aliquot clean
    aliquot clean out.sam
    aliquot clean --all
    """
    from aliquot.journal import clean as remove

    if names and everything:
        raise UsageError("--all means all runs: name some, or say --all")
    if names:
        found = [find_run(name) for name in names]
        removed = [run for one in found for run in remove(os.path.dirname(one.path), [one.name])]
    else:
        removed = remove(everything=everything)
    for run in removed:
        click.echo(f"removed {shown_path(run.path)} ({run.status}), {format_bytes(run.size_bytes)}")
    if not removed:
        click.echo(f"there is nothing to remove{'' if everything else _why_none()}", err=True)


def _why_none() -> str:
    from aliquot.journal import list_runs

    with_failures = [run.name for run in list_runs() if run.status == "done" and run.failed_units]
    if with_failures:
        return f": {with_failures[0]} is done, but with units set aside. Name it to remove it, or say --all"
    return ": none is done. Name a run, or say --all"
