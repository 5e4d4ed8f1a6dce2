"""The command line. Slow imports happen inside the commands, so that `aliquot --help` is quick."""

from __future__ import annotations

import sys

import click

from aliquot import __version__
from aliquot.cli.index import index
from aliquot.cli.map import map_function
from aliquot.cli.slice import slice_units
from aliquot.errors import AliquotError

EXIT_WRONG_USAGE = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Divide any data at any unit, and run functions over it on all cores.

    \b
    aliquot index reads.fastq.gz            count its units, once
    aliquot slice reads.fastq.gz 1000:1010  print ten reads from the middle
    aliquot map analysis:fill reads.fastq.gz --join analysis:add --out counts.json
    """


commands.add_command(index)
commands.add_command(slice_units)
commands.add_command(map_function)


def main() -> None:
    """Run the command line; what went wrong is said in a line, without a traceback."""
    try:
        commands.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about it at its end.
        sys.stdout = None
        sys.exit(0)
    except (AliquotError, OSError) as error:
        click.echo(f"aliquot: {error}", err=True)
        sys.exit(EXIT_WRONG_USAGE)
