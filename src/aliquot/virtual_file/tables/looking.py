"""What is known of tables before their rows are read: looked for once, in any process, and remembered."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aliquot.cache import read_record, record_path, write_record
from aliquot.errors import DataError
from aliquot.virtual_file.storage.storage import stat_file
from aliquot.virtual_file.tables.ranges import possible_byte
from aliquot.virtual_file.tables.registry import find_table_class
from aliquot.virtual_file.tables.table import Facts, Table, UnreadableTable

_MOST_REMEMBERED = 100_000  # tables of one directory


class TablePlace(Struct, frozen=True):
    """Which table of which file."""

    path: str
    inner: str


class HowRead(Struct, frozen=True):
    """In which format, which columns, and what becomes of them."""

    format: str
    form: str
    columns: tuple[str, ...] | None = None
    options: dict[str, Any] = {}

    def table(self, place: TablePlace, detail: bytes = b"") -> Table:
        """The table that is there, not opened yet."""
        table_class = find_table_class(self.format)
        table = table_class(place.path, place.inner, columns=self.columns, form=self.form, options=self.options)
        table.detail = detail
        return table

    def stat(self, place: TablePlace) -> tuple[int, int]:
        """Size and time of change of all files that the table is in."""
        return stat_of(place.path, find_table_class(self.format).companions(place.path))


class Known(Struct, frozen=True):
    """What was found when somebody looked, and at what file."""

    size_bytes: int
    mtime_ns: int
    facts: Facts


def stat_of(path: str, companions: Sequence[str] = ()) -> tuple[int, int]:
    """Size and time of change: what tells a file from what it was before. Its companions count with it."""
    found = stat_file(path)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise DataError("is a pipe or a device, and no table", path=path, advice="Copy its content to a file first")
    size_bytes, mtime_ns = found.st_size, found.st_mtime_ns
    for companion in companions:
        try:
            found = os.stat(companion)
        except OSError:
            continue
        if found.st_size:  # whoever reads may make it, and leaves it empty
            size_bytes, mtime_ns = size_bytes + found.st_size, max(mtime_ns, found.st_mtime_ns)
    return size_bytes, mtime_ns


def look(how: HowRead, place: TablePlace) -> Known:
    """Open a table, look at its metadata, close it. One that cannot be read is one unit, with a problem."""
    size_bytes, mtime_ns = how.stat(place)
    table = how.table(place)
    try:
        facts = table.facts()
    except UnreadableTable as fault:
        facts = Facts(1, (1,), problem=problem_of(fault, size_bytes))
    finally:
        table.close()
    return Known(size_bytes, mtime_ns, facts)


def problem_of(fault: UnreadableTable, size_bytes: int) -> str:
    """What is wrong, where in the file, which has that size, and what to do."""
    byte = possible_byte(fault.byte, size_bytes)
    where = "" if byte is None else f" (byte {byte})"
    return f"{fault.problem}{where}. {fault.advice}" if fault.advice else f"{fault.problem}{where}"


def recall(how: HowRead, places: Sequence[TablePlace]) -> dict[TablePlace, Known]:
    """What was remembered of these; whether it is still true, the caller finds out."""
    found: dict[TablePlace, Known] = {}
    by_directory: dict[str, list[TablePlace]] = {}
    for place in places:
        by_directory.setdefault(os.path.dirname(place.path), []).append(place)
    for directory, within in by_directory.items():
        remembered = _load(_record_path(how, directory))
        for place in within if remembered else ():
            known = remembered.get(_name_of(place))
            if known is not None:
                found[place] = known
    return found


def remember(how: HowRead, known: Mapping[TablePlace, Known]) -> None:
    """Keep it for the next process. What cannot be read is looked at again: it may have been mended."""
    by_directory: dict[str, dict[str, Known]] = {}
    for place, found in known.items():
        if not found.facts.problem:
            by_directory.setdefault(os.path.dirname(place.path), {})[_name_of(place)] = found
    for directory, additional in by_directory.items():
        path = _record_path(how, directory)
        kept = {**_load(path), **additional}
        if len(kept) <= _MOST_REMEMBERED:
            write_record(path, msgspec.msgpack.encode(kept))


def _name_of(place: TablePlace) -> str:
    return f"{os.path.basename(place.path)}\0{place.inner}"


def _record_path(how: HowRead, directory: str) -> str:
    read = msgspec.json.encode([how.format, how.form, how.columns, how.options]).decode()
    return record_path(f"{os.path.realpath(directory)}\0{read}", "tables")


def _load(path: str) -> dict[str, Known]:
    content = read_record(path)
    if content is None:
        return {}
    try:
        return msgspec.msgpack.decode(content, type=dict[str, Known])
    except msgspec.DecodeError:
        return {}
