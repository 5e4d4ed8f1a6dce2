from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import accumulate
from typing import Any

from aliquot.errors import UsageError
from aliquot.virtual_file.source import ByteRange
from aliquot.virtual_file.tables.forms import check_content, distinct_columns, from_arrow, needed
from aliquot.virtual_file.tables.ranges import joined
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable
from aliquot.virtual_file.tables.type_names import arrow_type
from aliquot.virtual_file.tables.wording import one_line

_MAGIC = b"ARROW1"
_MAGIC_OF_VERSION_1 = b"FEA1"
_CONTINUATION = b"\xff\xff\xff\xff"  # what a message begins with, but for those of old writers


class FeatherTable(Table):
    """The rows of an Arrow IPC file, which Feather is another name of.

    The file is mapped into memory: of record batches that are not compressed, only what is used is read.
    """

    name = "feather"
    suffixes = (".feather", ".arrow", ".ipc")
    library = "pyarrow"
    extra = "arrow"
    forms = ("arrow", "pandas", "polars", "numpy", "awkward", "records")

    _reader: Any = None
    _mapped: Any = None
    _columns: tuple[str, ...] = ()
    _schema: Any = None  # of the wanted columns
    _ends: tuple[int, ...] = ()  # where each record batch ends
    _blocks: tuple[tuple[int, int], ...] = ()  # the bytes of each, from the first up to the last
    # The last record batch that was read, and its number: to read some of its rows, all of it had to be decompressed.
    _batch: Any = None
    _batch_number = -1

    def check_options(self) -> None:
        """There is only one table in such a file."""
        if self.inner:
            raise UsageError(
                f"{self.path}:{self.inner}: an Arrow file holds one table, without a name. "
                "Columns are named by columns=[...]"
            )

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """By its first bytes; also those of version 1, to say what is wrong with it."""
        return head.startswith((_MAGIC, _MAGIC_OF_VERSION_1))

    def facts(self) -> Facts:
        """From the footer, and from the head of each record batch."""
        self._opened()
        from_arrow(self._schema.empty_table(), self.form)  # refuses what has no place in the form
        columns = {field.name: arrow_type(field.type) for field in self._schema}
        return Facts(self._ends[-1] if self._ends else 0, tuple(sorted({end for end in self._ends if end})), columns)

    def read(self, start: int, stop: int) -> Any:
        """Slices of record batches."""
        arrow = needed("pyarrow", "reading Feather")
        self._opened()
        parts = []
        at = start
        while at < stop:
            number = bisect_right(self._ends, at)
            begin = self._begin(number)
            end = min(stop, self._ends[number])
            part = arrow.Table.from_batches([self._batch_of(number).slice(at - begin, end - at)])
            # Nothing else looks at the content of a mapped file, and a wrong offset would end the process.
            try:
                check_content(part, at)
            except BadRows as error:
                error.byte = self._blocks[number][0]
                raise
            parts.append(part)
            at = end
        table = arrow.concat_tables(parts) if parts else self._schema.empty_table()
        return from_arrow(table.select(list(self._columns)), self.form)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """The record batches that are touched, with all their columns."""
        self._opened()
        found = []
        number = bisect_right(self._ends, start)
        while start < stop and number < len(self._ends) and self._begin(number) < stop:
            found.append(self._blocks[number])
            number += 1
        return joined(self.path, found)

    def close(self) -> None:
        """And forget the record batch. The file stays mapped for as long as somebody has rows of it."""
        self._reader = self._batch = None
        self._batch_number = -1
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None

    def _begin(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _batch_of(self, number: int) -> Any:
        if number == self._batch_number:
            return self._batch
        self._batch = None  # never two at a time
        self._batch_number = -1
        rows = self._ends[number] - self._begin(number)
        try:
            batch = self._reader.get_batch(number)
            batch.validate()
        except MemoryError:
            raise
        except Exception as error:
            raise self._bad(number, one_line(error)) from error
        if batch.num_rows != rows:
            raise self._bad(number, f"it has {batch.num_rows} rows instead of {rows}")
        self._batch = batch
        self._batch_number = number
        return batch

    def _bad(self, number: int, why: str) -> BadRows:
        advice = "Copy the file again, or write it again"
        start, stop, byte = self._begin(number), self._ends[number], self._blocks[number][0]
        return BadRows(f"record batch {number} cannot be read ({why})", start, stop, byte, advice)

    def _opened(self) -> Any:
        if self._reader is not None:
            return self._reader
        arrow = needed("pyarrow", "reading Feather")
        ipc = needed("pyarrow.ipc", "reading Feather")
        _check_magic(self.path)
        mapped = arrow.memory_map(self.path)
        try:
            names = ipc.open_file(mapped).schema.names
            columns = distinct_columns(self.columns, names)
            numbers = sorted(names.index(name) for name in columns)
            options = ipc.IpcReadOptions(use_threads=False, included_fields=numbers)
            reader = ipc.open_file(mapped, options=options)
            blocks = _blocks(mapped)
            rows = [_rows(mapped, begin) for begin, _ in blocks]
            if len(blocks) != reader.num_record_batches or any(count < 0 for count in rows):
                raise ValueError("the record batches are not where the footer says")  # noqa: TRY301  # told below
            schema = arrow.schema([reader.schema.field(name) for name in columns], metadata=reader.schema.metadata)
        except (UnreadableTable, MemoryError):
            mapped.close()
            raise
        except Exception as error:
            mapped.close()
            raise UnreadableTable(
                f"its footer cannot be read ({one_line(error)})", advice="Is it complete? Copy or write it again"
            ) from error
        self._columns = columns
        self._schema = schema
        self._blocks = tuple(blocks)
        self._ends = tuple(accumulate(rows))
        self._mapped = mapped
        self._reader = reader
        return reader


def _check_magic(path: str) -> None:
    """Say plainly what is wrong with a file that does not begin or end as it must."""
    try:
        with open(path, "rb") as file:
            head = file.read(8)
            size = file.seek(0, 2)
            file.seek(max(size - 6, 0))
            tail = file.read(6)
    except OSError as error:
        raise UnreadableTable(f"cannot be opened ({error.strerror})") from error
    if size == 0:
        raise UnreadableTable("is empty, and an Arrow file is not, even without rows")
    if head.startswith(_MAGIC_OF_VERSION_1):
        raise UnreadableTable(
            "is a Feather file of version 1, which cannot be read in parts",
            advice="Write it again: pyarrow.feather.write_feather(pyarrow.feather.read_table(old), new)",
        )
    if head.startswith(_CONTINUATION):
        raise UnreadableTable(
            "is a stream of Arrow record batches, and not a file, which ends with where they are",
            advice="Write it again with pyarrow.ipc.new_file",
        )
    if not head.startswith(_MAGIC):
        raise UnreadableTable("is not an Arrow file: it does not begin with ARROW1", byte=0)
    if tail != _MAGIC or size < 24:
        raise UnreadableTable(
            "is not complete: an Arrow file ends with its footer, and this one does not",
            byte=size,
            advice="Was it copied or written to its end? Copy or write it again",
        )


def _blocks(mapped: Any) -> list[tuple[int, int]]:
    """Where the record batches are, which the footer tells, and the library does not.

    The footer is a FlatBuffers table, before its length and the magic at the end of the file. Its fourth field is a
    vector of blocks of 24 bytes: an offset, the length of the head (four bytes of it unused), the length of the body.
    """
    size = mapped.size()
    length = struct.unpack("<i", mapped.read_at(4, size - 10))[0]
    footer = mapped.read_at(length, size - 10 - length)
    place = _field(footer, struct.unpack_from("<I", footer)[0], 3)
    if place is None:
        return []
    vector = place + struct.unpack_from("<I", footer, place)[0]
    blocks = []
    for number in range(struct.unpack_from("<I", footer, vector)[0]):
        offset, head, body = struct.unpack_from("<qi4xq", footer, vector + 4 + 24 * number)
        blocks.append((offset, offset + head + body))
    return blocks


def _rows(mapped: Any, offset: int) -> int:
    """How many rows a record batch has: the first field of its header, which is the third one of its message."""
    start = mapped.read_at(8, offset)
    at, length = (8, start[4:]) if start[:4] == _CONTINUATION else (4, start[:4])
    message = mapped.read_at(struct.unpack("<i", length)[0], offset + at)
    place = _field(message, struct.unpack_from("<I", message)[0], 2)
    if place is None:
        return -1
    rows = _field(message, place + struct.unpack_from("<I", message, place)[0], 0)
    return 0 if rows is None else int(struct.unpack_from("<q", message, rows)[0])


def _field(buffer: bytes, table: int, number: int) -> int | None:
    """Where a field of a FlatBuffers table is; None where it has its default."""
    fields = table - struct.unpack_from("<i", buffer, table)[0]
    size = struct.unpack_from("<H", buffer, fields)[0]
    if 4 + 2 * number + 2 > size:
        return None
    within = struct.unpack_from("<H", buffer, fields + 4 + 2 * number)[0]
    return table + within if within else None
