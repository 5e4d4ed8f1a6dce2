from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, cast

from aliquot.errors import DataError, UsageError
from aliquot.virtual_file.file_source import FileSource
from aliquot.virtual_file.formats.format import Format
from aliquot.virtual_file.formats.registry import format_by_content, format_by_suffix, make_format
from aliquot.virtual_file.sequences import ItemsSource, RangeSource
from aliquot.virtual_file.several import FilesInOrder, FilesTogether
from aliquot.virtual_file.source import Source
from aliquot.virtual_file.storage import Storage, compression_by_name, open_storage
from aliquot.virtual_file.virtual_file import VirtualFile

Path = str | os.PathLike[str]
_HEAD_BYTES = 64 * 1024


def open(
    what: Path | Sequence[Any],
    format: str | Format | None = None,
    *,
    compression: str | None = None,
    **options: Any,
) -> VirtualFile:
    """Open anything that has units: a file, a glob or list of files, a range, a sequence.

    ``format`` is found from the file's name and first bytes where it is not given; ``options`` are those of the format,
    such as ``delimiter`` for CSV. ``compression`` is found from the first bytes: none, gzip, bgzf or zstd. A list of
    strings is taken for paths; ``format="items"`` makes them the units.

    Nothing is read but the first bytes: counting begins when somebody asks.
    """
    if isinstance(what, str | os.PathLike):
        if format == "items":
            raise UsageError("format='items' is for a list of strings; a single path has a format")
        return VirtualFile(_open_path(os.fspath(what), format, compression, options))
    if format == "items" or not _are_paths(what):
        if format not in (None, "items") or compression or options:
            raise UsageError("a range or a sequence has no format, compression or options")
        return VirtualFile(_open_sequence(what))
    files = [_open_file(os.fspath(path), format, compression, options) for path in what]
    return VirtualFile(FilesInOrder(files))


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


def _open_path(path: str, format: str | Format | None, compression: str | None, options: dict[str, Any]) -> Source:
    if glob.has_magic(path) and not os.path.exists(path):
        found = sorted(glob.glob(path, recursive=True))
        if not found:
            raise DataError("no file matches this pattern", path=path, advice="Check it with 'ls'")
        return FilesInOrder([_open_file(name, format, compression, options) for name in found])
    return _open_file(path, format, compression, options)


def _open_file(path: str, format: str | Format | None, compression: str | None, options: dict[str, Any]) -> FileSource:
    if not path:
        raise UsageError("an empty path names no file")
    storage = open_storage(os.path.abspath(path), compression)
    if isinstance(format, Format):
        if options:
            raise UsageError(f"give the options to the format itself: {type(format).__name__}(...)")
        return FileSource(storage, format)
    return FileSource(storage, make_format(format or _detect_format(storage), options))


def _detect_format(storage: Storage) -> str:
    """By name, and where the name says nothing by the first bytes."""
    named = format_by_suffix(compression_by_name(storage.path)[0])
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
