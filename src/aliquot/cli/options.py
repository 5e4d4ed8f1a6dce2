"""The options that say how files are read, for every command that reads some."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from aliquot.errors import UsageError

if TYPE_CHECKING:
    from aliquot.virtual_file import VirtualFile


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --format, --compression and --option."""
    command = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the format, such as delimiter=';', header=no or record_bytes=16. Repeatable.",
    )(command)
    command = click.option(
        "--compression",
        type=click.Choice(["none", "gzip", "bgzf", "zstd"]),
        help="How it is compressed, if its first bytes should not decide.",
    )(command)
    return click.option(
        "--format",
        "format_name",
        metavar="NAME",
        help="lines, csv, tsv, jsonl, fasta, fastq, fixed or npy, if the file name does not say.",
    )(command)


def open_as_told(
    files: tuple[str, ...], format_name: str | None, compression: str | None, options: tuple[str, ...]
) -> VirtualFile:
    """Open one file, or several as one stream of units."""
    import aliquot

    what: str | list[str] = files[0] if len(files) == 1 else list(files)
    return aliquot.open(what, format_name, compression=compression, **dict(map(_parse_option, options)))


def _parse_option(option: str) -> tuple[str, Any]:
    name, equals, value = option.partition("=")
    if not equals:
        raise UsageError(f"--option {option!r} is not NAME=VALUE")
    words: dict[str, Any] = {"none": None, "yes": True, "no": False}
    return name, words.get(value.lower(), value.replace("\\t", "\t"))
