from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from aliquot.errors import UsageError
from aliquot.virtual_file.source import ByteRange
from aliquot.virtual_file.tables.forms import check_content, distinct_columns, from_arrow, needed
from aliquot.virtual_file.tables.ranges import joined
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable
from aliquot.virtual_file.tables.type_names import arrow_type
from aliquot.virtual_file.tables.wording import one_line

# Rows that were decoded are kept within this bound: for the next step, or for one that is tried again.
_KEPT_BYTES = 16 << 20
# Below some thousand rows at a time, decoding costs half as much again; beyond, nothing is gained.
_FEWEST_ROWS = 4096
_MOST_ROWS = 65536
# Where a row group cannot be decoded is told this exactly, so that it does not depend on the size of a step.
_ROWS_OF_A_SEARCH = 1024


class ParquetTable(Table):
    """The rows of a Parquet file.

    Whole row groups are read at once. For less, a row group is decoded as a stream that goes on where the last call
    left it: neither decoded twice nor ever held as a whole. Arrow's threads are not used: there is a worker for each
    core.
    """

    name = "parquet"
    suffixes = (".parquet", ".pq")
    library = "pyarrow"
    extra = "arrow"
    forms = ("arrow", "pandas", "polars", "numpy", "awkward", "records")

    _file: Any = None
    _columns: tuple[str, ...] = ()
    _leaves: tuple[int, ...] = ()  # the numbers of the stored columns that the wanted ones are made of
    _ends: tuple[int, ...] = ()  # where each row group ends
    # One row group, being decoded: record batches as yet to come, and those kept, with their first rows and bytes.
    _stream: Iterator[Any] | None = None
    _stream_group = -1
    _stream_row = 0  # the first that the stream has not given yet
    _kept: tuple[tuple[int, Any, int], ...] = ()
    # The row groups that cannot be decoded to their end: the first row that cannot be had, and why.
    _bad: dict[int, tuple[int, str]] | None = None

    def check_options(self) -> None:
        """There is only one table in such a file."""
        if self.inner:
            raise UsageError(
                f"{self.path}:{self.inner}: a Parquet file holds one table, without a name. "
                "Columns are named by columns=[...]"
            )

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """By its first four bytes, plain or encrypted."""
        return head[:4] in (b"PAR1", b"PARE")

    def facts(self) -> Facts:
        """From the footer."""
        file = self._opened()
        types = file.schema_arrow
        from_arrow(types.empty_table().select(list(self._columns)), self.form)  # refuses what has no place in the form
        columns = {name: arrow_type(types.field(name).type) for name in self._columns}
        rows = file.metadata.num_rows
        return Facts(rows, tuple(sorted({end for end in self._ends if end})), columns)

    def read(self, start: int, stop: int) -> Any:
        """Row groups as a whole, and parts of them from a stream."""
        arrow = needed("pyarrow", "reading Parquet")
        self._opened()
        parts = []
        at = start
        while at < stop:
            first, last = self._whole_groups(at, stop)
            if first < last:
                parts.append(self._read_groups(first, last))
                at = self._ends[last - 1]
            else:
                end = min(stop, self._ends[first])
                parts.append(self._read_part(first, at, end))
                at = end
        table = arrow.concat_tables(parts) if parts else self._file.schema_arrow.empty_table()
        table = table.select(list(self._columns))
        if table.num_rows != stop - start:
            problem = f"{stop - start} rows were to be decoded, and {table.num_rows} were"
            raise BadRows(problem, start, stop, is_certain=False)
        try:
            return from_arrow(table, self.form)
        except (UnicodeDecodeError, arrow.ArrowException) as error:
            check_content(table, start)
            problem = f"cannot become as_={self.form!r} ({one_line(error)})"
            raise BadRows(problem, start, stop, is_certain=False) from error

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """The column chunks of the row groups that are touched."""
        metadata = self._opened().metadata
        found = []
        group = bisect_right(self._ends, start)
        while start < stop and group < len(self._ends) and self._begin(group) < stop:
            found += self._chunks(metadata.row_group(group))
            group += 1
        return joined(self.path, found)

    def close(self) -> None:
        """And forget what was decoded."""
        self._forget_stream()
        self._bad = None
        if self._file is not None:
            self._file.close(force=True)
            self._file = None

    def _opened(self) -> Any:
        if self._file is not None:
            return self._file
        parquet = needed("pyarrow.parquet", "reading Parquet")
        _check_magic(self.path)
        try:
            metadata = parquet.read_metadata(self.path)
            # A column is read through a buffer, instead of all of it before its first row is decoded.
            buffer_bytes = max(1 << 16, min(1 << 20, (16 << 20) // max(metadata.num_columns, 1)))
            file = parquet.ParquetFile(
                self.path,
                metadata=metadata,
                pre_buffer=False,
                buffer_size=buffer_bytes,
                page_checksum_verification=True,  # of pages that have one
            )
            available = file.schema_arrow.names
        except MemoryError:
            raise
        except Exception as error:
            raise UnreadableTable(
                f"its footer cannot be read ({one_line(error)})", advice="Is it complete? Copy or write it again"
            ) from error
        try:
            columns = distinct_columns(self.columns, available)
        except BaseException:
            file.close(force=True)
            raise
        paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        prefixes = tuple(f"{name}." for name in columns)
        wanted = set(columns)
        self._leaves = tuple(
            number for number, path in enumerate(paths) if path in wanted or ("." in path and path.startswith(prefixes))
        )
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if min(rows, default=0) < 0 or sum(rows) != metadata.num_rows:
            file.close(force=True)
            raise UnreadableTable(
                f"its footer announces {metadata.num_rows} rows, and row groups of {sum(rows)} rows",
                advice="Copy or write it again",
            )
        self._ends = tuple(accumulate(rows))
        self._columns = columns
        self._file = file
        return file

    def _begin(self, group: int) -> int:
        return self._ends[group - 1] if group else 0

    def _whole_groups(self, start: int, stop: int) -> tuple[int, int]:
        """The sound row groups, from one up to another, that lie between two rows from the first on."""
        first = last = bisect_right(self._ends, start)
        if self._begin(first) == start and first != self._stream_group:
            while last < len(self._ends) and self._ends[last] <= stop and last not in self._bad_groups():
                last += 1
        return first, last

    def _read_groups(self, first: int, last: int) -> Any:
        try:
            return self._file.read_row_groups(list(range(first, last)), columns=list(self._columns), use_threads=False)
        except MemoryError:
            raise
        except Exception as error:
            for group in range(first, last):
                if self._find_bad(group):
                    self._refuse(group, self._begin(group), self._ends[group])
            problem = _undecodable(first, error)
            raise BadRows(problem, self._begin(first), self._ends[last - 1], is_certain=False) from error

    def _read_part(self, group: int, start: int, stop: int) -> Any:
        """Some rows of one row group: from what was kept, and from the stream."""
        arrow = needed("pyarrow", "reading Parquet")
        self._refuse(group, start, stop)
        first_kept = self._kept[0][0] if self._kept else self._stream_row
        if group != self._stream_group or start < first_kept:
            self._begin_stream(group, start, stop)
        while self._stream_row < stop:
            try:
                batch = next(self._stream or iter(()), None)
            except MemoryError:
                raise
            except Exception as error:
                self._forget_stream()
                if group not in self._bad_groups() and self._find_bad(group):
                    return self._read_part(group, start, stop)
                problem = _undecodable(group, error)
                raise BadRows(problem, start, stop, self._byte_of(group), is_certain=False) from error
            if batch is None:
                problem = f"row group {group} ends before its {self._ends[group] - self._begin(group)} rows"
                raise BadRows(problem, max(start, self._stream_row), stop, self._byte_of(group))
            end = self._stream_row + batch.num_rows
            if end > start:
                self._kept += ((self._stream_row, batch, batch.nbytes),)
            else:
                self._kept = ()  # this one is skipped, and what is kept has no holes
            self._stream_row = end
        if self._stream_row >= self._ends[group]:
            self._stream = None  # let go of its buffers; what is kept stays
        parts = []
        for begin, batch, _ in self._kept:
            low, high = max(start - begin, 0), min(stop - begin, batch.num_rows)
            if low < high:
                parts.append(batch.slice(low, high - low))
        table = arrow.Table.from_batches(parts)
        self._keep_within_bound(stop)
        return table

    def _begin_stream(self, group: int, start: int, stop: int) -> None:
        self._forget_stream()
        begin = self._begin(group)
        metadata = self._file.metadata.row_group(group)
        group_bytes = sum(metadata.column(leaf).total_uncompressed_size for leaf in self._leaves)
        affordable = _KEPT_BYTES * metadata.num_rows // max(group_bytes, 1)
        # Those asked for are held in any case. More than these only within the bound: where few are asked for, because
        # their size is only tried, or where many are skipped.
        rows = max(stop - start, min(max(_FEWEST_ROWS, start - begin), affordable), 1)
        if group in self._bad_groups():
            rows = _ROWS_OF_A_SEARCH
        self._stream = self._batches(group, min(rows, _MOST_ROWS))
        self._stream_group = group
        self._stream_row = begin

    def _batches(self, group: int, rows: int) -> Iterator[Any]:
        batches = self._file.iter_batches(rows, row_groups=[group], columns=list(self._columns), use_threads=False)
        return iter(batches)

    def _keep_within_bound(self, stop: int) -> None:
        """Let go of the first rows, but never of those that are yet to be asked for."""
        kept_bytes = sum(batch_bytes for _, _, batch_bytes in self._kept)
        gone = 0
        for begin, batch, batch_bytes in self._kept:
            if kept_bytes <= _KEPT_BYTES or begin + batch.num_rows > stop:
                break
            kept_bytes -= batch_bytes
            gone += 1
        self._kept = self._kept[gone:]

    def _forget_stream(self) -> None:
        self._stream = None
        self._stream_group = -1
        self._stream_row = 0
        self._kept = ()

    def _bad_groups(self) -> dict[int, tuple[int, str]]:
        if self._bad is None:
            self._bad = {}
        return self._bad

    def _find_bad(self, group: int) -> bool:
        """Look for the first row of a row group that cannot be decoded."""
        row = self._begin(group)
        try:
            for batch in self._batches(group, _ROWS_OF_A_SEARCH):
                row += batch.num_rows
        except MemoryError:
            raise
        except Exception as error:
            self._bad_groups()[group] = (row, _undecodable(group, error))
            return True
        return False  # whatever it was, it has passed

    def _refuse(self, group: int, start: int, stop: int) -> None:
        """Raise where some of these rows are known to be bad."""
        first, problem = self._bad_groups().get(group, (stop, ""))
        if first < stop:
            advice = "Copy the file again, or write it again"
            raise BadRows(problem, first, self._ends[group], self._byte_of(group), advice)

    def _byte_of(self, group: int) -> int | None:
        return min((begin for begin, _ in self._chunks(self._file.metadata.row_group(group))), default=None)

    def _chunks(self, row_group: Any) -> list[tuple[int, int]]:
        """Where the bytes of the wanted columns of a row group are."""
        found = []
        for leaf in self._leaves:
            chunk = row_group.column(leaf)
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                begin = min(begin, chunk.dictionary_page_offset)
            found.append((begin, begin + chunk.total_compressed_size))
        return found


def _check_magic(path: str) -> None:
    """Say plainly what is wrong with a file that does not begin or end as it must."""
    try:
        with open(path, "rb") as file:
            head = file.read(4)
            size = file.seek(0, 2)
            file.seek(max(size - 4, 0))
            tail = file.read(4)
    except OSError as error:
        raise UnreadableTable(f"cannot be opened ({error.strerror})") from error
    if size == 0:
        raise UnreadableTable("is empty, and a Parquet file is not, even without rows")
    if head == b"PARE":
        raise UnreadableTable("is encrypted", advice="Write it again without encryption")
    if head != b"PAR1":
        raise UnreadableTable("is not a Parquet file: it does not begin with PAR1", byte=0)
    if tail not in (b"PAR1", b"PARE") or size < 12:
        raise UnreadableTable(
            "is not complete: a Parquet file ends with its footer, and this one does not",
            byte=size,
            advice="Was it copied or written to its end? Copy or write it again",
        )


def _undecodable(group: int, error: Exception) -> str:
    return f"row group {group} cannot be decoded ({one_line(error)})"
