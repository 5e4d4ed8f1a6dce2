"""The command line. Slow imports happen inside the commands, so that `aliquot --help` is quick.

run, map            over all units; options: what both take; config: as a file; json_events: for programs
dry_run, ending     what is said before and after a run; wording: in the words of the command line
resume, runs        what was recorded; finding: which run is meant
index, slice        files alone
"""

from __future__ import annotations

import errno
import importlib
import os
import sys

import click

from aliquot import __version__
from aliquot.cli.ending import EXIT_FAILED, exit_code_of, exit_code_of_interrupt
from aliquot.cli.wording import in_options
from aliquot.errors import AliquotError

# The module here, and the name in it, of each command.
_COMMANDS = {
    "run": ("run", "run_command"),
    "map": ("map", "map_function"),
    "index": ("index", "index"),
    "slice": ("slice", "slice_units"),
    "runs": ("runs", "runs"),
    "status": ("runs", "status"),
    "report": ("runs", "report"),
    "resume": ("resume", "resume"),
    "clean": ("runs", "clean"),
    "completion": ("completion", "completion"),
}


class _Commands(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            return _load(cmd_name)
        self.commands = {name: _load(name) for name in _COMMANDS}  # for click to say which of them was meant
        return None


def _load(command: str) -> click.Command:
    module, name = _COMMANDS[command]
    loaded: click.Command = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return loaded


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Divide any data at any unit, and run programs and functions over it on all cores.

    \b
    aliquot run --split reads=sample.fastq.gz --join sam=out.sam -- 'bwa mem ref.fa {reads} > {sam}'
    aliquot map analysis:fill reads.fastq.gz --join analysis:add --out counts.json
    aliquot index reads.fastq.gz            count its units, once
    aliquot slice reads.fastq.gz 1000:1010  print ten reads from the middle
    aliquot status out.sam                  how far a run is; report: how it went; resume: go on with it
    """


def main() -> None:
    """Run the command line; what went wrong is said in a line, without a traceback."""
    try:
        commands.main(prog_name="aliquot", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        interrupt = error.__cause__ or error  # click has made its own of it
        # A run that is recorded says how to go on.
        click.echo(f"aliquot: {interrupt}" if str(interrupt) else "interrupted", err=True)
        sys.exit(exit_code_of_interrupt(interrupt))
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about it at its end.
        sys.stdout = None
        sys.exit(0)
    except (AliquotError, OSError) as error:
        is_of_files = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
        told = f"{error}: 'ulimit -n' says how many there may be, 256 are enough" if is_of_files else str(error)
        click.echo("\n".join([f"aliquot: {in_options(told)}", *_notes_of(error)]), err=True)
        sys.exit(exit_code_of(error))
    except Exception as error:
        if os.environ.get("ALIQUOT_DEBUG"):
            raise
        told = f"aliquot: {type(error).__name__}: {error}"
        where = "To see where, run it again with ALIQUOT_DEBUG=1"
        click.echo("\n".join([told, *_notes_of(error), where]), err=True)
        sys.exit(EXIT_FAILED)


def _notes_of(error: BaseException) -> list[str]:
    return [in_options(note) for note in getattr(error, "__notes__", ())]
