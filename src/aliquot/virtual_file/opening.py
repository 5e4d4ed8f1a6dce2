from __future__ import annotations

import builtins
import glob
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from aliquot.errors import DataError, UsageError
from aliquot.virtual_file.file_source import FileSource
from aliquot.virtual_file.formats.format import Format
from aliquot.virtual_file.formats.registry import (
    format_by_content,
    format_by_known_suffix,
    format_by_suffix,
    format_option_names,
    make_format,
)
from aliquot.virtual_file.sequences import ItemsSource, RangeSource
from aliquot.virtual_file.several import FilesInOrder, FilesTogether
from aliquot.virtual_file.source import Source
from aliquot.virtual_file.storage import Storage, compression_by_name, open_storage
from aliquot.virtual_file.virtual_file import VirtualFile

Path = str | os.PathLike[str]
_HEAD_BYTES = 64 * 1024
_MAGIC_BYTES = 64
_OF_THIS_PROCESS = ("/dev/stdin", "/dev/fd/", "/proc/self/")


def open(
    what: Path | Sequence[Any],
    format: str | Format | None = None,
    *,
    compression: str | None = None,
    columns: Sequence[str] | str | None = None,
    as_: str | None = None,
    **options: Any,
) -> VirtualFile:
    """Open anything that has units: a file, a glob or list of files, a table, a range, a sequence.

    ``format`` is found from the file's name and first bytes where it is not given; ``options`` are those of the format,
    such as ``delimiter`` for CSV. ``compression`` is found from the first bytes: none, gzip, bgzf or zstd. A list of
    strings is taken for paths; ``format="items"`` makes them the units.

    The rows of tables (ROOT, Parquet, Feather, HDF5, npz, SQLite, DuckDB) are read by columns: ``columns`` are those
    that are wanted, by default all, and ``as_`` says what a batch is: awkward, numpy, pandas, arrow, polars or records
    (a list of dicts). Which table of a file stands behind a colon: ``"nano/*.root:Events"``.

    Nothing is read but the first bytes: counting begins when somebody asks.
    """
    told = _Told(format, compression, columns, as_, options)
    if isinstance(what, str | os.PathLike):
        if format == "items":
            raise UsageError("format='items' is for a list of strings; a single path has a format")
        return VirtualFile(_open_paths([os.fspath(what)], told, is_list=False))
    if format == "items" or not _are_paths(what):
        if format not in (None, "items") or told != _Told(format, None, None, None, {}):
            raise UsageError("a range or a sequence has no format, compression, columns or options")
        return VirtualFile(_open_sequence(what))
    return VirtualFile(_open_paths([os.fspath(path) for path in what], told, is_list=True))


def option_names() -> set[str]:
    """All keywords that `open` takes, with those of all formats that are known."""
    from aliquot.virtual_file.tables.registry import table_option_names

    return {"format", "compression", "columns", "as_", *format_option_names(), *table_option_names()}


class _Told(NamedTuple):
    """How files are to be read, as the user says."""

    format: str | Format | None
    compression: str | None
    columns: Sequence[str] | str | None
    form: str | None
    options: dict[str, Any]


def together(*files: VirtualFile | Path, same_names: bool = True) -> VirtualFile:
    """Cut several sources at the same units, such as the two files of paired reads.

    A record is a tuple of their records. They must have as many units each, and, where their format has names for units
    (FASTQ), the same names, unless ``same_names`` is False.
    """
    if len(files) == 1 and isinstance(files[0], list | tuple):
        raise UsageError("together() takes the files one by one: together(*files)")
    views = [file if isinstance(file, VirtualFile) else open(file) for file in files]
    for view in views:
        if not view.is_whole():
            raise UsageError(f"together() takes whole sources, to be divided afterwards, not {view!r}")
    return VirtualFile(FilesTogether([view.source for view in views], same_names))


def _open_paths(paths: Sequence[str], told: _Told, *, is_list: bool) -> Source:
    """Globs are expanded; what is in a list, or matched by a glob, is one stream of units."""
    found: list[tuple[str, str]] = []
    for path in paths:
        if not path:
            raise UsageError("an empty path names no file")
        name, inner = _split_inner(path, told)
        matching = [name]
        if glob.has_magic(name) and not os.path.exists(name):
            is_list = True
            matching = sorted(glob.glob(name, recursive=True))
            if not matching:
                raise DataError("no file matches this pattern", path=name, advice="Check it with 'ls'")
        found += [(_path_for_all(one), inner) for one in matching]
    table_format = _table_format(found[0][0], told)
    if table_format is not None:
        return _open_tables(table_format, found, told)
    for name, inner in found:
        if inner:
            # It must not be passed over: whoever means a format by it would get other units.
            raise UsageError(
                f"{name}:{inner}: a name after a colon is that of a table, and {os.path.basename(name)} is not a file "
                "of tables. Which format a file has is said with format='NAME'"
            )
    if told.columns is not None or told.form is not None:
        raise UsageError(f"columns= and as_= are for tables, and {found[0][0]} is not one")
    files = [_open_file(name, told) for name, _ in found]
    return FilesInOrder(files) if is_list else files[0]


def _path_for_all(path: str) -> str:
    """By which workers find it too, whose standard input and descriptors are others."""
    path = os.path.abspath(path)
    if not path.startswith(_OF_THIS_PROCESS) or not os.path.isfile(path):
        return path
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        advice = "Save it as a file first, which can be read from the middle"
        raise DataError("is a file without a name, which workers cannot open", path=path, advice=advice)
    return real


def _split_inner(path: str, told: _Told) -> tuple[str, str]:
    """The path of a file, and which table of it, where a colon says so."""
    name, colon, inner = path.rpartition(":")
    if not colon or os.path.exists(path):
        return path, ""
    return (name, inner) if os.path.isfile(name) or _table_format(name, told) is not None else (path, "")


def _table_format(path: str, told: _Told) -> str | None:
    """The format of a table, where the file is one."""
    if isinstance(told.format, Format) or (told.format is None and format_by_known_suffix(_uncompressed(path))):
        return None
    from aliquot.virtual_file.tables.registry import is_table_format, table_format_by_content, table_format_by_suffix

    if told.format is not None:
        return told.format if is_table_format(told.format) else None
    named = table_format_by_suffix(path)
    if named is not None or not os.path.isfile(path):
        return named
    try:
        with builtins.open(path, "rb") as file:
            return table_format_by_content(file.read(_MAGIC_BYTES))
    except OSError:
        return None  # told by whoever opens it as something else


def _open_tables(table_format: str, found: Sequence[tuple[str, str]], told: _Told) -> Source:
    from aliquot.virtual_file.tables.forms import canonical_form
    from aliquot.virtual_file.tables.looking import HowRead, TablePlace
    from aliquot.virtual_file.tables.registry import find_table_class
    from aliquot.virtual_file.tables.source import TablesSource

    if told.compression is not None:
        raise UsageError(f"a {table_format} file is compressed in its own way: leave compression out")
    for name, _ in found[1:]:
        other = _table_format(name, told)
        if other != table_format:
            raise UsageError(
                f"{found[0][0]} is {table_format} and {name} is {other or 'not a table'}: "
                "files that are one stream of units have one format"
            )
    table_class = find_table_class(table_format)
    unknown = [option for option in told.options if option not in table_class.option_names]
    if unknown:
        offered = ", ".join(("columns", "as_", *table_class.option_names))
        raise UsageError(f"the format {table_format!r} has no option {unknown[0]!r}: it has {offered}")
    columns = told.columns
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    how = HowRead(
        table_format,
        canonical_form(told.form, table_class.forms, table_format),
        None if columns is None else tuple(columns),
        told.options,
    )
    places = [TablePlace(name, inner) for name, inner in found]
    how.table(places[0])  # refuses options that make no sense
    return TablesSource(how, places)


def _open_file(path: str, told: _Told) -> FileSource:
    storage = open_storage(path, told.compression)
    if isinstance(told.format, Format):
        if told.options:
            raise UsageError(f"give the options to the format itself: {type(told.format).__name__}(...)")
        return FileSource(storage, told.format)
    return FileSource(storage, make_format(told.format or _detect_format(storage), told.options))


def _uncompressed(path: str) -> str:
    return compression_by_name(path)[0]


def _detect_format(storage: Storage) -> str:
    """By name, and where the name says nothing by the first bytes."""
    named = format_by_suffix(_uncompressed(storage.path))
    if named is not None:
        return named
    head = storage.read_at(0, _HEAD_BYTES)
    found = format_by_content(head)
    if found is not None:
        return found
    if b"\0" in head:
        raise DataError(
            "neither its name nor its first bytes tell what format it is in",
            path=storage.path,
            advice="Say it: format='lines', or format='fixed' with record_bytes=... for binary records",
        )
    return "lines"


def _open_sequence(what: object) -> Source:
    if isinstance(what, range):
        return RangeSource(what)
    is_sequence = hasattr(what, "__len__") and hasattr(what, "__getitem__")
    if is_sequence and not isinstance(what, dict | bytes | bytearray | memoryview):
        return ItemsSource(cast(Sequence[Any], what))
    raise UsageError(
        f"a {type(what).__name__!r} cannot be opened: give a path, a glob, a list of paths, a range or a sequence"
    )


def _are_paths(what: object) -> bool:
    return (
        isinstance(what, list | tuple) and len(what) > 0 and all(isinstance(item, str | os.PathLike) for item in what)
    )
