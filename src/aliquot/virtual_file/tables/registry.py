"""Formats of tables, by name and by file. Their modules are imported when a file may be one of theirs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

from aliquot.errors import UsageError
from aliquot.virtual_file.tables.table import Table

# In the order in which the first bytes are looked at.
_BUILT_IN = {
    "root": "root.table:RootTable",
    "parquet": "parquet:ParquetTable",
    "feather": "feather:FeatherTable",
    "npz": "npz:NpzTable",
    "hdf5": "hdf5:Hdf5Table",
    "sqlite": "sqlite:SqliteTable",
    "duckdb": "duckdb:DuckdbTable",
}
# Every database may be called so, and SQLite's mostly are.
_AMBIGUOUS_SUFFIX = ".db"
_HEAD_BYTES = 64
_by_name: dict[str, type[Table]] = {}


def register_table(table_class: type[Table]) -> type[Table]:
    """Make a format of tables known to `aliquot.open`, by its name and its suffixes. Usable as a decorator.

    Workers need it too: register it in a module that the function's own module imports.
    """
    if table_class.name in _BUILT_IN:
        raise UsageError(f"the format name {table_class.name!r} is one of aliquot's own: choose another")
    _by_name[table_class.name] = table_class
    return table_class


def is_table_format(name: str) -> bool:
    """Whether tables have a format of that name."""
    return name in _BUILT_IN or name in _by_name


def find_table_class(name: str) -> type[Table]:
    """The class of that name."""
    if name not in _by_name and name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        _by_name[name] = getattr(importlib.import_module(f"aliquot.virtual_file.tables.{module}"), attribute)
    if name not in _by_name:
        raise UsageError(f"unknown format {name!r}: import the module that registers it")
    return _by_name[name]


def table_format_by_suffix(file_name: str) -> str | None:
    """Name the format that a file name means, if it means one. Where it may mean several, the file itself decides."""
    lowered = file_name.lower()
    named = next((table.name for table in _all() if lowered.endswith(table.suffixes)), None)
    if named == "sqlite" and lowered.endswith(_AMBIGUOUS_SUFFIX):
        return table_format_by_content(_head_of(file_name)) or named
    return named


def table_format_by_content(head: bytes) -> str | None:
    """Name the format that the first bytes of a file mean, if they mean one."""
    return next((table.name for table in _all() if table.looks_like(head)), None)


def _head_of(path: str) -> bytes:
    """Its first bytes; none where it cannot be read, which whoever opens it will say."""
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def table_format_names() -> list[str]:
    """All that are known."""
    return sorted({*_BUILT_IN, *_by_name})


def table_option_names() -> set[str]:
    """The options of all formats that are known."""
    return {option for table in _all() for option in table.option_names}


def _all() -> Iterator[type[Table]]:
    yield from reversed([table for name, table in _by_name.items() if name not in _BUILT_IN])
    yield from map(find_table_class, _BUILT_IN)
