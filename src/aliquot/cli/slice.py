from __future__ import annotations

import sys

import click

from aliquot.cli.options import Reading, reading_options
from aliquot.errors import UsageError


# A negative START looks like an option.
@click.command("slice", context_settings={"ignore_unknown_options": True})
@click.argument("files", nargs=-1)
@click.argument("units", metavar="START:STOP")
@reading_options
@click.option(
    "-o", "--out", metavar="PATH", help="Write to a file, new or not, whole or not at all, instead of standard output."
)
def slice_units(*, files: tuple[str, ...], units: str, reading: Reading, out: str | None) -> None:
    """Print the units START up to, not including, STOP of FILES, counted from 0.

    Either may be left out or negative, as in Python; a single number is one unit. A header is repeated where the
    format has one.

    \b
    aliquot slice reads.fastq.gz 1000:1010
    aliquot slice table.csv -100: --out last_rows.csv
    """
    if not files:
        raise click.UsageError(f"say which units of {units!r}: aliquot slice {units} START:STOP")
    source = reading.open(files)
    view = source[_parse_units(units)]
    if ":" not in units and not len(view):
        raise UsageError(f"there is no unit {units}: there are {len(source)}")
    if out is not None:
        view.instantiate(out)
        return
    sys.stdout.flush()
    view.write_to(sys.stdout.fileno())


def _parse_units(text: str) -> slice:
    start, colon, stop = text.partition(":")
    try:
        if not colon:
            number = int(start)
            return slice(number, number + 1 or None)
        return slice(int(start) if start else None, int(stop) if stop else None)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not START:STOP, such as 1000:1010", param_hint="START:STOP") from None
