from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from aliquot.cli.ending import EXIT_FAILED
from aliquot.cli.options import Reading, reading_options
from aliquot.quantities import format_bytes, format_count, format_seconds, number_of

if TYPE_CHECKING:
    from aliquot.virtual_file import VirtualFile


@click.command()
@click.argument("files", nargs=-1, required=True)
@reading_options
@click.option("--rebuild", is_flag=True, help="Count again, whatever is remembered.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the number of units.")
def index(*, files: tuple[str, ...], reading: Reading, rebuild: bool, quiet: bool) -> None:
    """Count the units of FILES and remember where they are.

    Nothing has to be indexed beforehand: this only shows it, and does it at a time of your choosing. A table that
    cannot be read is named, and the exit code is then 1.

    \b
    aliquot index reads.fastq.gz
    aliquot index --quiet 'logs/*.jsonl'
    aliquot index --option delimiter=';' measurements.csv
    aliquot index --format fixed --option record_bytes=16 events.bin
    """
    source = reading.open(files)
    if rebuild:
        source.source.forget_index()
        source = reading.open(files)
    began = time.perf_counter()
    remembered = source.source.complete
    _show_counting(source, visible=sys.stderr.isatty() and not quiet)
    units = len(source)
    problems = [problem for part in source.source.constituents() for problem in part.problems()]
    for path, problem in problems:
        click.echo(f"aliquot: {path}: {problem}. It counts as one unit, which fails", err=True)
    if quiet:
        click.echo(units)
        sys.exit(EXIT_FAILED if problems else 0)
    seconds = time.perf_counter() - began
    total_bytes = sum(found.stop - found.start for found in source.byte_ranges())
    file_count = len(source.source.paths())
    in_files = f" in {file_count} files" if file_count > 1 else ""
    click.echo(f"{number_of(units, 'unit')}, {format_bytes(total_bytes)} of content{in_files}")
    click.echo("known without counting" if remembered else f"counted in {format_seconds(seconds)}")
    if problems:
        sys.exit(EXIT_FAILED)


def _show_counting(source: VirtualFile, *, visible: bool) -> None:
    """Count, and show how far it is on a terminal."""
    if not visible:
        source.index()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(_Counting(source), console=Console(stderr=True), refresh_per_second=10, transient=True):
        source.index()


class _Counting:
    """What the display asks for, again and again, while the units are counted."""

    def __init__(self, source: VirtualFile) -> None:
        self._source = source

    def __rich__(self) -> str:
        return f"counting: {format_count(self._source.count(wait=False))} units so far"
