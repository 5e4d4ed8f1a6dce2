"""What a command line says, in a file: each option by its name, and what is split and joined as tables.

command = 'bwa mem ref.fa {reads} > {sam}'
memory = '8GB'
keep-going = true

[split]
reads = 'sample.fastq.gz'

[join]
sam = 'out.sam'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from aliquot.errors import UsageError

_KEY = "aliquot.config"
_TABLES = ("split", "join")
_NOT_IN_A_FILE = ("config", "help")


def config_option(command: Any) -> Any:
    """Add --config, which is read before all others: what is told on the command line wins."""
    return click.option(
        "--config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_read,
        help="A TOML file with any of these options, the command, and tables [split] and [join].",
    )(command)


def with_config(ctx: click.Context, name: str, told: Sequence[str]) -> list[str]:
    """NAME=PATH as told, and those of the file's table whose names were not told."""
    names = {text.partition("=")[0] for text in told}
    table: Mapping[str, Any] = ctx.meta.get(_KEY, {}).get(name, {})
    kept = [(key, value) for key, value in table.items() if key not in names]
    in_file = [f"{key}={path}" for key, value in kept for path in (value if isinstance(value, list) else [value])]
    return [*in_file, *told]


def configured_command(ctx: click.Context) -> str | None:
    """The command of the file."""
    command: str | None = ctx.meta.get(_KEY, {}).get("command")
    return command


def _read(ctx: click.Context, _: click.Parameter, path: str | None) -> str | None:
    if path is None or ctx.resilient_parsing:
        return path
    import tomllib

    try:
        with open(path, "rb") as file:
            told = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path} is not TOML: {error}") from None
    options = {_name_of(option): option for option in ctx.command.params if isinstance(option, click.Option)}
    known = sorted({*options, "command"} - {*_NOT_IN_A_FILE})
    defaults: dict[str, Any] = {}
    apart: dict[str, Any] = {}
    for key, value in told.items():
        name = key.replace("_", "-")
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"{path}: there is no option {key!r}: {advice}")
        if name == "command":
            apart[name] = _as_text(path, key, value)
        elif name in _TABLES:
            apart[name] = _as_table(path, key, value)
        else:
            option = options[name]
            assert option.name is not None
            defaults[option.name] = _as_told(ctx, path, option, value)
    ctx.meta[_KEY] = apart
    ctx.default_map = defaults
    return path


def _name_of(option: click.Option) -> str:
    return max(option.opts, key=len).lstrip("-")


def _as_text(path: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{path}: {key} is a text in quotes, not {value!r}")
    return value


def _as_table(path: str, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {key} is a table: write [{key}], and below it NAME = 'PATH'")
    for name, paths in value.items():
        if not all(isinstance(one, str) for one in (paths if isinstance(paths, list) else [paths])):
            raise UsageError(f"{path}: {name} in [{key}] is a path in quotes, not {paths!r}")
    return value


def _as_told(ctx: click.Context, path: str, option: click.Option, value: Any) -> Any:
    """As it would be on the command line; refused here, where the file is known."""
    if option.multiple:
        if isinstance(value, dict):
            value = [f"{key}={one}" for key, one in value.items()]
        value = value if isinstance(value, list) else [value]
    elif isinstance(value, list | dict):
        raise UsageError(f"{path}: {_name_of(option)} is one value, not {value!r}")
    try:
        return option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise UsageError(f"{path}: {_name_of(option)} = {value!r}: {error.message}") from None
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"{path}: {_name_of(option)} = {value!r}: this is not of the kind that it takes") from None
