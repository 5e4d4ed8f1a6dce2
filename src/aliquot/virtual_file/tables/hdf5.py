from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aliquot.errors import UsageError
from aliquot.virtual_file.source import ByteRange
from aliquot.virtual_file.tables.forms import from_numpy, needed
from aliquot.virtual_file.tables.narrowing import narrowed
from aliquot.virtual_file.tables.ranges import joined
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable, check_columns
from aliquot.virtual_file.tables.type_names import array_type
from aliquot.virtual_file.tables.wording import one_line

if TYPE_CHECKING:
    import numpy

_MAGIC = b"\x89HDF\r\n\x1a\n"
# Chunks that are decoded in part are kept by the library within this bound, for all datasets together.
_KEPT_BYTES = 32 << 20
_MOST_ENDS = 2000
_MOST_RANGES = 10_000


class Hdf5Table(Table):
    """The rows of an HDF5 dataset, whose fields are the columns; or of a group, whose datasets are.

    Without the name of either, the group is the whole file; where it holds nothing but one dataset, the table is that.
    """

    name = "hdf5"
    suffixes = (".h5", ".hdf5", ".hdf")
    library = "h5py"
    extra = "hdf5"
    forms = ("numpy", "pandas", "polars", "arrow", "awkward", "records")

    _file: Any = None
    _datasets: dict[str, Any]  # by column; or one, by "", whose fields are the columns
    _columns: tuple[str, ...] = ()
    _rows = 0

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """By its first eight bytes."""
        return head.startswith(_MAGIC)

    def facts(self) -> Facts:
        """From the description of the datasets."""
        self._opened()
        empty = self._arrays(0, 0)
        from_numpy(empty, self.form)  # refuses what has no place in the form
        columns = {name: array_type(array) for name, array in empty.items()}
        return Facts(self._rows, self._ends(), columns)

    def read(self, start: int, stop: int) -> Any:
        """Every wanted column from one row up to another."""
        self._opened()
        return from_numpy(self._arrays(start, stop), self.form)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Of datasets in one piece, and of the chunks of others; empty where these are too many to look up."""
        self._opened()
        found = []
        for dataset in self._datasets.values() if start < stop else ():
            row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
            if dataset.chunks is None:
                offset = dataset.id.get_offset()
                if offset is not None:
                    found.append((offset + start * row_bytes, offset + stop * row_bytes))
                continue
            if -(-(stop - start) // dataset.chunks[0]) * _chunks_across(dataset) > _MOST_RANGES:
                return []
            for begin, _ in _chunk_rows(dataset, start, stop):
                found += _places(dataset, begin)
        return joined(self.path, found)

    def close(self) -> None:
        """And let the library forget its chunks."""
        self._datasets = {}
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> Any:
        if self._file is not None:
            return self._file
        h5py = needed("h5py", "reading HDF5")
        _check_not_empty(self.path)
        try:
            # Locks fail on some network file systems, and whoever only reads needs none.
            file = h5py.File(self.path, "r", locking=False)
        except MemoryError:
            raise
        except Exception as error:
            raise UnreadableTable(
                f"cannot be opened ({one_line(error)})",
                advice="Was it copied or written to its end? Copy or write it again",
            ) from error
        try:
            self._look(h5py, file)
        except (UnreadableTable, UsageError, MemoryError):
            file.close()
            raise
        except Exception as error:
            file.close()
            raise UnreadableTable(
                f"its list of datasets cannot be read ({one_line(error)})", advice="Copy or write it again"
            ) from error
        self._file = file
        return file

    def _look(self, h5py: Any, file: Any) -> None:
        """Find the datasets of the wanted columns, and check that they fit together."""
        inner = self.inner.strip("/")
        found = file.get(inner) if inner else file
        if found is None:
            raise UnreadableTable(f"has no dataset or group {self.inner!r}", advice=_contents(h5py, file))
        if isinstance(found, h5py.Group):
            # Those of a single value, or of none, have no rows: they say something about the others.
            datasets = {name: item for name, item in found.items() if isinstance(item, h5py.Dataset) and item.shape}
            if not datasets:
                where = f"group {self.inner!r}" if inner else "its outermost group"
                raise UnreadableTable(f"{where} holds no datasets with rows", advice=_contents(h5py, file))
            if not inner and any(isinstance(item, h5py.Group) for item in found.values()):
                raise UnreadableTable("has groups beside its datasets: say which of them", advice=_contents(h5py, file))
            if len(datasets) == 1 and next(iter(datasets.values())).dtype.names:
                found = next(iter(datasets.values()))
        if isinstance(found, h5py.Dataset):
            if not found.shape:
                raise UnreadableTable(f"dataset {found.name!r} has no rows: it is a single value")
            fields = found.dtype.names
            name = found.name.rsplit("/", 1)[-1]
            self._columns = tuple(dict.fromkeys(check_columns(self.columns, fields or [name])))
            datasets = {"": found} if fields else {name: found}
        else:
            self._columns = tuple(dict.fromkeys(check_columns(self.columns, list(datasets))))
            datasets = {name: datasets[name] for name in self._columns}
        first = next(iter(datasets.values()))
        for dataset in datasets.values():
            if len(dataset) != len(first):
                raise UnreadableTable(
                    f"dataset {first.name!r} has {len(first)} rows, and {dataset.name!r} has {len(dataset)}",
                    advice="Name the columns to read, of datasets that belong together",
                )
            _check_filters(h5py, dataset)
        self._rows = len(first)
        self._datasets = {name: _with_cache(h5py, dataset, len(datasets)) for name, dataset in datasets.items()}

    def _ends(self) -> tuple[int, ...]:
        """Where the longest chunks end; not all of them where they are many."""
        chunk = max((dataset.chunks[0] for dataset in self._datasets.values() if dataset.chunks), default=0)
        if not chunk or not self._rows:
            return ()
        several = chunk * max(1, -(-self._rows // (chunk * _MOST_ENDS)))
        return (*range(several, self._rows, several), self._rows)

    def _arrays(self, start: int, stop: int) -> dict[str, numpy.ndarray[Any, Any]]:
        if list(self._datasets) == [""]:
            rows: dict[str, numpy.ndarray[Any, Any]] = self._rows_of(self._datasets[""], start, stop, self._columns)
            return rows
        return {name: self._rows_of(dataset, start, stop) for name, dataset in self._datasets.items()}

    def _rows_of(self, dataset: Any, start: int, stop: int, fields: tuple[str, ...] = ()) -> Any:
        def read(begin: int, end: int) -> Any:
            try:
                return _read(dataset, begin, end, fields)
            except MemoryError:
                raise
            except Exception as error:
                raise self._bad(dataset, begin, end, error) from error

        try:
            return read(start, stop)
        except BadRows as bad:
            for begin, end in _chunk_rows(dataset, start, stop):
                # The rows of a chunk are lost together, but for values of any length, which are kept elsewhere.
                if dataset.chunks and not dataset.dtype.hasobject:
                    read(begin, end)
                else:
                    narrowed(read, begin, end)
            bad.is_certain = False  # each chunk can be read alone
            raise

    def _bad(self, dataset: Any, start: int, stop: int, error: Exception) -> BadRows:
        if isinstance(error, UnicodeDecodeError):
            problem = f"text in dataset {dataset.name!r} is not UTF-8 ({one_line(error)})"
        else:
            what = "a chunk of dataset" if dataset.chunks else "dataset"
            problem = f"{what} {dataset.name!r} cannot be read ({one_line(error)})"
        try:
            byte = min((begin for begin, _ in _places(dataset, start)), default=None)
        except Exception:  # it is damaged: where it is may be, too
            byte = None
        return BadRows(problem, start, stop, byte, "Copy the file again, or write it again")


def _read(dataset: Any, start: int, stop: int, fields: tuple[str, ...]) -> Any:
    """An array; or one for each field."""
    import numpy

    if fields:
        rows = dataset.fields(list(fields))[start:stop]
        return {
            name: _decoded(rows[name]) if _is_text(dataset.dtype[name]) else numpy.ascontiguousarray(rows[name])
            for name in fields
        }
    return _decoded(dataset[start:stop]) if _is_text(dataset.dtype) else dataset[start:stop]


def _is_text(dtype: numpy.dtype[Any]) -> bool:
    """Whether it is text of any length, which comes as bytes. Text of a fixed length is numpy's own."""
    found = needed("h5py", "reading HDF5").check_string_dtype(dtype)
    return found is not None and found.length is None


def _decoded(texts: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    import numpy

    decoded = numpy.empty(texts.shape, object)
    decoded.ravel()[:] = [text.decode() for text in texts.flat]
    return decoded


def _check_not_empty(path: str) -> None:
    """Whether it is HDF5, the library finds out: a file may begin with something else."""
    try:
        with open(path, "rb") as file:
            is_empty = not file.read(1)
    except OSError as error:
        raise UnreadableTable(f"cannot be opened ({error.strerror})") from error
    if is_empty:
        raise UnreadableTable("is empty, and an HDF5 file is not, even without rows")


def _check_filters(h5py: Any, dataset: Any) -> None:
    """Compression that this machine cannot undo is told before any row is read."""
    filters = dataset.id.get_create_plist()
    for number in range(filters.get_nfilters()):
        code, _, _, name = filters.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            said = name.decode(errors="replace") or f"number {code}"
            raise UnreadableTable(
                f"dataset {dataset.name!r} is compressed in a way that is not installed here ({said})",
                advice="pip install hdf5plugin, and import it where the function is defined",
            )


def _with_cache(h5py: Any, dataset: Any, sharing: int) -> Any:
    """The same dataset; chunks that are not too large are kept while some of their rows are yet to be read."""
    if not dataset.chunks:
        return dataset
    needed_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize * _chunks_across(dataset)
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    access.set_chunk_cache(1009, max(1 << 20, min(2 * needed_bytes, _KEPT_BYTES // sharing)), 1.0)
    return h5py.Dataset(h5py.h5d.open(dataset.file.id, dataset.name.encode(), access))


def _chunks_across(dataset: Any) -> int:
    """How many chunks hold one row."""
    return math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape[1:], dataset.chunks[1:], strict=True))


def _chunk_rows(dataset: Any, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The rows of each chunk among some rows; all of them where there are no chunks."""
    if not dataset.chunks:
        yield start, stop
        return
    at = start
    while at < stop:
        end = min((at // dataset.chunks[0] + 1) * dataset.chunks[0], stop)
        yield at, end
        at = end


def _places(dataset: Any, row: int) -> list[tuple[int, int]]:
    """The bytes of the chunks that hold a row; none for chunks that were never written."""
    import itertools

    if not dataset.chunks:
        return []
    first = row // dataset.chunks[0] * dataset.chunks[0]
    across = [range(0, size, chunk) for size, chunk in zip(dataset.shape[1:], dataset.chunks[1:], strict=True)]
    chunks = (dataset.id.get_chunk_info_by_coord((first, *rest)) for rest in itertools.product(*across))
    return [(chunk.byte_offset, chunk.byte_offset + chunk.size) for chunk in chunks if chunk.byte_offset is not None]


def _contents(h5py: Any, file: Any, most: int = 8) -> str:
    """What could have been meant."""
    names: list[str] = []

    def note(name: str, item: Any) -> bool | None:
        if isinstance(item, h5py.Dataset) and item.shape:
            names.append(name)
        return True if len(names) > most else None  # enough: stop looking

    file.visititems(note)
    more = " and more" if len(names) > most else ""
    if not names:
        return "It has no datasets with rows"
    example = f"{os.path.basename(file.filename)}:{names[0].rpartition('/')[0] or names[0]}"
    return f"It has the datasets {', '.join(names[:most])}{more}: say {example}, for example"
