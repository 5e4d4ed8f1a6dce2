from __future__ import annotations

import difflib
import os
import re
from typing import Any, ClassVar

import numpy as np

from aliquot.virtual_file.tables.forms import from_arrow, needed
from aliquot.virtual_file.tables.narrowing import narrowed
from aliquot.virtual_file.tables.table import BadRows, ChangedTable, Facts, Table, UnreadableTable, check_columns
from aliquot.virtual_file.tables.wording import one_line, quoted

_MAGIC = b"DUCK"
_MAGIC_BYTE = 8  # after a checksum
_ROW_GROUP_ROWS = 122_880
_VECTOR_ROWS = 2048  # what DuckDB reads at once
_ROWID = "aliquot_rowid"
_MOST_SAID = 1000  # characters of an error, from which the place of the damage is taken


class DuckdbTable(Table):
    """A table of a DuckDB database. A unit is a row, in the order of the rowids.

    Where rows were deleted, DuckDB is asked once how many are left in every 2048. Views have no rowids and are refused.
    """

    name: ClassVar[str] = "duckdb"
    suffixes: ClassVar[tuple[str, ...]] = (".duckdb", ".ddb")
    forms: ClassVar[tuple[str, ...]] = ("arrow", "pandas", "polars", "numpy", "awkward", "records")
    library: ClassVar[str] = "duckdb"
    extra: ClassVar[str] = "duckdb"

    _connection: Any = None
    _source: str = ""  # what stands after FROM
    _types: dict[str, str] = {}  # noqa: RUF012  # replaced, never changed
    _rowids: tuple[int, int, int] = (0, 0, -1)  # how many, the first and the last
    # Where rows were deleted: which blocks of 2048 rowids have rows, and at which unit each of them ends.
    _blocks: np.ndarray[Any, Any] | None = None
    _block_ends: np.ndarray[Any, Any] | None = None

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """Whether it begins as DuckDB begins a file."""
        return head[_MAGIC_BYTE:].startswith(_MAGIC)

    @classmethod
    def companions(cls, path: str) -> tuple[str, ...]:
        """What was committed and waits to be merged."""
        return (f"{path}.wal",)

    def facts(self) -> Facts:
        """DuckDB keeps the count."""
        self._open()
        return Facts(self._rowids[0], self._ends(), {name: kind.lower() for name, kind in self._types.items()})

    def _ends(self) -> tuple[int, ...]:
        """Where groups of rows end, as far as rows are left in them."""
        units, first, last = self._rowids
        if not units:
            return ()
        if last - first + 1 == units:
            return (*range(_ROW_GROUP_ROWS - first % _ROW_GROUP_ROWS, units, _ROW_GROUP_ROWS), units)
        assert self._blocks is not None
        assert self._block_ends is not None
        groups = self._blocks // (_ROW_GROUP_ROWS // _VECTOR_ROWS)
        return (*self._block_ends[:-1][groups[1:] != groups[:-1]].tolist(), units)

    def read(self, start: int, stop: int) -> Any:
        """Through arrow, whatever the form."""
        return from_arrow(narrowed(self._read, start, stop, _VECTOR_ROWS), self.form)

    def _read(self, start: int, stop: int) -> Any:
        self._open()
        units, first, last = self._rowids
        if start == stop or last - first + 1 == units:
            return self._select(first + start, first + stop - 1, (0, stop - start), (start, stop))
        assert self._blocks is not None
        assert self._block_ends is not None
        begin = int(np.searchsorted(self._block_ends, start, side="right"))
        end = int(np.searchsorted(self._block_ends, stop, side="left"))
        if end >= len(self._blocks):
            raise _changed()
        before = int(self._block_ends[begin - 1]) if begin else 0
        from_rowid = int(self._blocks[begin]) * _VECTOR_ROWS
        to_rowid = (int(self._blocks[end]) + 1) * _VECTOR_ROWS - 1
        return self._select(from_rowid, to_rowid, (start - before, stop - before), (start, stop))

    def _select(self, from_rowid: int, to_rowid: int, part: tuple[int, int], units: tuple[int, int]) -> Any:
        """Some of the rows between two rowids."""
        columns = ", ".join(quoted(name) for name in self._types)
        # Without ORDER BY, which takes as long again: one thread gives rows as they are stored.
        query = (
            f"SELECT {columns}, rowid AS {_ROWID} FROM {self._source} WHERE rowid BETWEEN {from_rowid} AND {to_rowid}"
        )
        duckdb = _library()
        try:
            found = self._connection.sql(query).to_arrow_table()
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(one_line(error)) from error
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException):
                self.close()  # it answers nothing any more
            problem, byte, advice = _damage(error)
            raise BadRows(problem, *units, byte, advice) from error
        rowids = found.column(found.num_columns - 1).to_numpy()
        if len(rowids) > 1 and not (rowids[1:] > rowids[:-1]).all():
            found = found.take(np.argsort(rowids))
        begin, end = part
        if found.num_rows < end:
            raise _changed()
        return found.select(range(found.num_columns - 1)).slice(begin, end - begin)

    # Opening

    def _open(self) -> None:
        if self._connection is not None:
            return
        duckdb = _library()
        try:
            # Workers are many, each with a core.
            connection = duckdb.connect(os.path.abspath(self.path), read_only=True, config={"threads": 1})
        except duckdb.Error as error:
            raise _cannot_open(error) from error
        try:
            self._choose(connection)
            self._count(connection)
        except duckdb.Error as error:
            connection.close()
            problem, byte, advice = _damage(error)
            raise UnreadableTable(problem, byte, advice) from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _choose(self, connection: Any) -> None:
        """Find the table and its columns."""
        here = "database_name = current_database() AND NOT internal"
        tables = connection.execute(
            f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {here} ORDER BY ALL"
        ).fetchall()
        views = connection.execute(
            f"SELECT schema_name, view_name FROM duckdb_views() WHERE {here} ORDER BY ALL"
        ).fetchall()
        by_name = {name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in tables}
        more = f" and {len(by_name) - 8} more" if len(by_name) > 8 else ""
        listed = f"It has {', '.join(list(by_name)[:8]) or 'no tables'}{more}"
        chosen = self.inner.removeprefix("main.")
        if not chosen:
            if not by_name:
                raise UnreadableTable("has no tables", advice="Is it the right file, and was it written to the end?")
            if len(by_name) > 1:
                raise UnreadableTable(
                    f"has {len(by_name)} tables, and none was chosen", advice=f"Name one after a colon. {listed}"
                )
            chosen = next(iter(by_name))
        if chosen not in by_name:
            if any(chosen in (name, f"{schema}.{name}") for schema, name in views):
                raise UnreadableTable(
                    f"{chosen!r} is a view, whose rows have no numbers",
                    advice=f"Make it a table: CREATE TABLE ... AS FROM {chosen}; or write it as Parquet: COPY ... TO",
                )
            near = difflib.get_close_matches(chosen, by_name, n=1)
            advice = f"Did you mean {near[0]}?" if near else listed
            raise UnreadableTable(f"has no table {chosen!r}", advice=advice)
        self._source = ".".join(quoted(part) for part in by_name[chosen])
        available = {row[0]: row[1] for row in connection.execute(f"DESCRIBE {self._source}").fetchall()}
        if any(name.lower() == "rowid" for name in available):
            raise UnreadableTable(
                "has a column that is called 'rowid', which hides the numbers of the rows",
                advice="Rename it: ALTER TABLE ... RENAME COLUMN rowid TO ...",
            )
        self._types = {name: available[name] for name in check_columns(self.columns, list(available))}

    def _count(self, connection: Any) -> None:
        counts = f"SELECT count(*), coalesce(min(rowid), 0), coalesce(max(rowid), -1) FROM {self._source}"
        # All rows, though there is one: a result that was not fetched to its end blocks the connection.
        (self._rowids,) = connection.execute(counts).fetchall()
        units, first, last = self._rowids
        if last - first + 1 != units:
            blocks = (
                f"SELECT rowid // {_VECTOR_ROWS} AS block, count(*) FROM {self._source} GROUP BY block ORDER BY block"
            )
            found = np.array(connection.execute(blocks).fetchall(), dtype=np.int64)
            self._blocks, self._block_ends = found[:, 0], np.cumsum(found[:, 1])

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _library() -> Any:
    return needed("duckdb", "to read DuckDB tables")


def _changed() -> ChangedTable:
    return ChangedTable(
        "has fewer rows than were counted: it was changed meanwhile",
        advice="Wait until it is complete, and open it again",
    )


def _cannot_open(error: Exception) -> UnreadableTable:
    """Only the text of an error says what it is about."""
    text = one_line(error, _MOST_SAID)
    if "lock" in text:
        holder = re.search(r"\(PID (\d+)\)", text)
        who = f"process {holder[1]}" if holder else "another process"
        return UnreadableTable(
            f"is locked by {who}, which has it open to write",
            advice="Wait until that has closed it: DuckDB lets others read only then",
        )
    if "different configuration" in text:
        return UnreadableTable(
            "is open in this process already, to write or with other settings",
            advice="Close that connection first",
        )
    if "not a valid DuckDB" in text:
        return UnreadableTable("is not a DuckDB database", byte=0, advice="Is it the right file?")
    problem, byte, advice = _damage(error)
    return UnreadableTable(problem, byte, advice)


def _damage(error: Exception) -> tuple[str, int | None, str]:
    """What is wrong, at which byte, and what to do."""
    text = one_line(error, _MOST_SAID)
    place = re.search(r"location (\d+)", text)
    byte = int(place[1]) if place else None
    if "read enough bytes" in text:
        return "is truncated", byte, "Copy it again: was the copy finished?"
    if "checksum" in text or "orrupt" in text:
        return f"is damaged ({text})", byte, "Copy it again, or make it anew"
    return f"cannot be read ({text})", byte, "Was it written by a newer DuckDB? Is a disk failing?"
