"""The options that several commands have: how files are read, and what a run may use.

Each decorator adds the options and hands the command one object with what was told.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from aliquot.errors import UsageError

if TYPE_CHECKING:
    from aliquot.virtual_file import VirtualFile

Function = Callable[..., Any]


class Reading(NamedTuple):
    """How files are to be read."""

    formats: tuple[str, ...]
    compression: str | None
    options: tuple[str, ...]

    def open(self, files: Sequence[str], name: str | None = None, **more: Any) -> VirtualFile:
        """Open one file, or several as one stream of units; ``name`` is by what --format may mean it alone."""
        import aliquot

        what: str | list[str] = files[0] if len(files) == 1 else list(files)
        options = dict(map(_parse_option, self.options))
        for option, value in more.items():
            if value is not None:
                if option in options:
                    raise UsageError(f"--option {option}=... and its own option say the same: leave one out")
                options[option] = value
        return aliquot.open(what, self._format_of(name), compression=self.compression, **options)

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse formats of what is not there."""
        for told in self.formats:
            name, equals, _ = told.partition("=")
            if equals and name not in names:
                raise UsageError(f"--format {told}: nothing is called {name!r}; there is {', '.join(names)}")

    def _format_of(self, name: str | None) -> str | None:
        found = None
        for told in self.formats:
            of, equals, format_name = told.rpartition("=")
            if not equals:
                found = found or format_name
            elif of == name:
                return format_name
        return found


class Limits(NamedTuple):
    """What a run may use, how many units may fail in it, and what is shown of it."""

    cores: int | None
    memory: str | None
    disk: str | None
    max_failures: str | None
    keep_going: bool
    set_aside: str | None
    wall_seconds: float | None
    size: int | None
    target_seconds: float | None
    quiet: bool

    def arguments(self) -> dict[str, Any]:
        """What aliquot's calls take."""
        from aliquot.sites import Local

        if self.keep_going and self.max_failures is not None:
            raise UsageError("--keep-going allows any number of failures, and --max-failures a few: say one of them")
        return {
            "on": Local(cores=self.cores),
            "memory": self.memory,
            "disk": self.disk,
            "max_failures": float("inf") if self.keep_going else _parse_failures(self.max_failures or "0"),
            "set_aside": self.set_aside,
            "wall_seconds": self.wall_seconds,
            "size": self.size,
            "target_seconds": self.target_seconds,
            "progress": False if self.quiet else None,
        }


_READING = (
    click.option(
        "--format",
        "formats",
        multiple=True,
        metavar="NAME",
        help="lines, csv, tsv, jsonl, fasta, fastq, fixed, npy, or of tables root, parquet, feather, npz, hdf5, "
        "sqlite, duckdb; if the file name does not say.",
    ),
    click.option(
        "--compression",
        type=click.Choice(["none", "gzip", "bgzf", "zstd"]),
        help="How it is compressed, if its first bytes should not decide.",
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the format, such as delimiter=';', header=no or record_bytes=16. Repeatable.",
    ),
)

_LIMITS = (
    click.option("--cores", type=click.IntRange(1), metavar="N", help="How many workers. Default: all cores."),
    click.option("--memory", metavar="SIZE", help="What all workers may hold, such as 8GB. Default: most of it."),
    click.option("--disk", metavar="SIZE", help="What temporary files may take together, such as 100GB."),
    click.option(
        "--max-failures",
        metavar="N|P%",
        help="How many units may fail, or which part of them; they are set aside. Default: none.",
    ),
    click.option(
        "--keep-going",
        is_flag=True,
        help="Any number of units may fail. (A command that has failed at fifty and done none is stopped.)",
    ),
    click.option("--set-aside", metavar="PATH", help="Write the raw input of units that failed to a file."),
    click.option("--wall", "wall_seconds", type=float, metavar="SECONDS", help="Stop a step that takes longer."),
    click.option("--size", type=click.IntRange(1), metavar="N", help="A first guess of units a step; never needed."),
    click.option(
        "--target-seconds",
        type=float,
        metavar="SECONDS",
        help="How long a step should take. Default: 1; 4 for programs that read files.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="No progress, no report."),
)


def reading_options(command: Function) -> Function:
    """Add --format, --compression and --option, as ``reading``."""
    return _collected(command, _READING, "reading", Reading)


def limit_options(command: Function) -> Function:
    """Add what every run takes, as ``limits``."""
    return _collected(command, _LIMITS, "limits", Limits)


def add_limit_options(command: Function) -> Function:
    """Add what every run takes, each as it is."""
    return _added(command, _LIMITS)


def _collected(command: Function, options: Sequence[Function], name: str, kind: Any) -> Function:
    @functools.wraps(command)
    def collecting(**told: Any) -> Any:
        collected = kind(**{field: told.pop(field) for field in kind._fields})
        return command(**told, **{name: collected})

    return _added(collecting, options)


def _added(command: Function, options: Sequence[Function]) -> Function:
    # As decorators are written one above the other, the last one is applied first.
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def parse_named(told: Sequence[str], option: str, example: str) -> dict[str, list[str]]:
    """NAME=PATH, given any number of times; all the paths of each name."""
    found: dict[str, list[str]] = {}
    for text in told:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"{option} {text!r} is not NAME=PATH: write {option} {example}")
        found.setdefault(name, []).append(path)
    return found


def _parse_option(option: str) -> tuple[str, Any]:
    name, equals, value = option.partition("=")
    if not equals:
        raise UsageError(f"--option {option!r} is not NAME=VALUE")
    words: Mapping[str, Any] = {"none": None, "yes": True, "no": False}
    return name, words.get(value.lower(), value.replace("\\t", "\t"))


def _parse_failures(told: str) -> float:
    try:
        allowed = float(told[:-1]) / 100 if told.endswith("%") else int(told)
    except ValueError:
        allowed = -1
    if allowed < 0 or (told.endswith("%") and not allowed <= 1):
        raise UsageError(f"--max-failures {told}: a number of units, or a part such as 1%")
    return allowed
