from __future__ import annotations

import difflib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import quote

from aliquot.errors import UsageError
from aliquot.virtual_file.tables.narrowing import narrowed
from aliquot.virtual_file.tables.sqlite_values import batch_of, columns_of, dicts, ragged
from aliquot.virtual_file.tables.table import BadRows, ChangedTable, Facts, Table, UnreadableTable, check_columns
from aliquot.virtual_file.tables.wording import quoted

_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 5.0
# How many units lie between two whose place is kept. To step over them takes less than 0.1 ms.
_BLOCK_UNITS = 4096
_MOST_ENDS = 65_536
# A table of so many rows may be scanned whole for each read: that takes some ten milliseconds.
_MOST_SCANNED_ROWS = 100_000
_RAGGED_FORMS = ("awkward", "records")
_ROWID_NAMES = ("_rowid_", "rowid", "oid")  # a column of that name hides it


class SqliteTable(Table):
    """A table or a view of an SQLite database, or what a query finds in it.

    A unit is a row, in the order of the rowids. Where none was ever deleted, the place of a row is known by counting;
    else every 4096th rowid is looked up once, as far as rows are wanted.

    With ``key="event"`` a unit is all rows that share a value of that column, and units are in the order of the values.
    Within a unit, rows are in the order of their rowids, or as the view or the query gives them. A batch is ragged: an
    awkward array in which ``batch.event`` is flat and ``batch.pt`` has a list for each event, or a list of
    ``{"event": value, "rows": [...]}``. The key wants an index: without one every read is a scan of the whole table,
    which is refused beyond 100,000 rows. Rows whose key is NULL belong to no unit, and are refused.

    Views, tables WITHOUT ROWID and ``query="SELECT ..."`` have no rowids: they need a key.

    A column may hold values of any type. As numpy arrays (and in pandas) integers are int64 and reals float64;
    integers of which some are NULL, or some are reals, are float64 with NaN, unless one is too large for it to be
    exact. Text, bytes and all other mixtures are objects, with None for NULL. In awkward, arrow and polars what is
    NULL is missing; mixtures fit into awkward arrays, and are refused by the others.
    """

    name: ClassVar[str] = "sqlite"
    suffixes: ClassVar[tuple[str, ...]] = (".sqlite", ".sqlite3", ".db")
    library: ClassVar[str] = ""
    forms: ClassVar[tuple[str, ...]] = ("records", "numpy", "pandas", "arrow", "polars", "awkward")
    option_names: ClassVar[tuple[str, ...]] = ("key", "query")

    _connection: sqlite3.Connection | None = None
    _identity: tuple[int, ...] = ()  # of the file in which the following were found
    _source: str = ""  # what stands after FROM
    _rowid: str = ""  # what the rowid is called, "" where there is none
    _types: Mapping[str, str] = {}  # of the wanted columns, as they are declared
    _rowids: tuple[int, int, int] | None = None  # how many, the first and the last
    _firsts: list[Any]  # the rowid or the key of the units 0, 4096, 8192 and so on, as far as they were needed
    _before: tuple[int, Any] | None = None  # a unit, and the rowid or key of the one before it

    def check_options(self) -> None:
        """A query is told apart from a table, and only some forms have a place for groups of rows."""
        key, query = self.options.get("key"), self.options.get("query")
        for name, told in (("key", key), ("query", query)):
            if told is not None and not (isinstance(told, str) and told.strip()):
                raise UsageError(f"{name}={told!r}: it must be text that is not empty")
        if query is not None and self.inner:
            raise UsageError(f"there is a query, so the table cannot be told: leave out {self.inner!r}")
        if query is not None and key is None:
            raise UsageError("query= needs key=, the column that orders and divides its rows")
        if key is not None and self.form not in _RAGGED_FORMS:
            raise UsageError(
                f"with key={key!r} a unit is any number of rows, which as_={self.form!r} has no place for: "
                "use as_='awkward' or 'records'"
            )
        if key == "rows" and self.form == "records":
            raise UsageError(
                "key='rows' is what the rows of a unit are called: use as_='awkward', or rename it by query="
            )
        self._firsts = []

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """Whether it begins as SQLite begins a file."""
        return head.startswith(_MAGIC)

    @classmethod
    def companions(cls, path: str) -> tuple[str, ...]:
        """What was committed and waits to be merged."""
        return (f"{path}-wal",)

    @property
    def unit_word(self) -> str:
        """With a key, a unit is a group of rows."""
        return "row" if self._key is None else "group"

    @property
    def _key(self) -> str | None:
        return self.options.get("key")

    @property
    def _order(self) -> str:
        """By what units are ordered, and found."""
        return self._rowid if self._key is None else quoted(self._key)

    # What there is

    def facts(self) -> Facts:
        """Count. Nothing but an index is read where there is one."""
        with self._snapshot() as connection:
            if self._key is None:
                units, first, last = self._count_rows(connection)
                in_one_piece = last - first + 1 == units
            else:
                units, in_one_piece = self._count_keys(connection), False
        every = _BLOCK_UNITS * (1 + units // (_BLOCK_UNITS * _MOST_ENDS))
        # To cut between rows that are found by counting costs nothing anywhere.
        ends = () if in_one_piece else (*range(every, units, every), *((units,) if units else ()))
        return Facts(units, ends, {name: declared.lower() or "any" for name, declared in self._types.items()})

    def _count_rows(self, connection: sqlite3.Connection) -> tuple[int, int, int]:
        if self._rowids is None:
            rowid = self._rowid
            # Each alone, or SQLite goes through all rows: it counts by pages, and finds the ends by descending.
            counts = (f"(SELECT {what} FROM {self._source})" for what in ("count(*)", f"min({rowid})", f"max({rowid})"))
            found = connection.execute(f"SELECT {', '.join(counts)}").fetchone()
            self._rowids = found if found[0] else (0, 0, -1)
        return self._rowids

    def _count_keys(self, connection: sqlite3.Connection) -> int:
        key = self._order
        if not self._is_indexed(connection):
            (rows,) = connection.execute(f"SELECT count(*) FROM {self._source}").fetchone()
            if rows > _MOST_SCANNED_ROWS:
                statement = "CREATE INDEX ..., on the column behind it"
                if self._rowid:
                    statement = f"CREATE INDEX by_key ON {self._source.removeprefix('main.')}({key})"
                raise UnreadableTable(
                    f"has no index by which {self._key!r} can be found, and every read would scan {rows} rows",
                    advice=f"Make one, in the program sqlite3: {statement}",
                )
        (nulls,) = connection.execute(f"SELECT count(*) FROM {self._source} WHERE {key} IS NULL").fetchone()
        if nulls:
            raise UnreadableTable(
                f"has {nulls} rows whose {self._key!r} is NULL: they belong to no unit",
                advice=f"Leave them out by query='SELECT ... WHERE {self._key} IS NOT NULL'",
            )
        (units,) = connection.execute(f"SELECT count(DISTINCT {key}) FROM {self._source}").fetchone()
        return int(units)

    def _is_indexed(self, connection: sqlite3.Connection) -> bool:
        rows = self._select(list(self._types), f"{self._order} BETWEEN ? AND ?")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {rows}", (0, 0)).fetchall()
        return all(step[-1] != "USE TEMP B-TREE FOR ORDER BY" for step in plan)

    # Reading

    def read(self, start: int, stop: int) -> Any:
        """All of these rows as they are at one moment, whatever is being written meanwhile."""
        if self._key is None:
            columns = narrowed(self._read_rows, start, stop)
            if self.form == "records":
                return list(dicts(columns))
            return batch_of(columns, self._types, self.form)
        keys, counts, columns = narrowed(self._read_groups, start, stop)
        if self.form == "awkward":
            return ragged({self._key: keys}, counts, columns, self._types)
        rows: Iterator[dict[str, Any]] = ({} for _ in range(sum(counts)))
        if columns:
            rows = dicts(columns)
        return [{self._key: key, "rows": list(islice(rows, count))} for key, count in zip(keys, counts, strict=True)]

    def _read_rows(self, start: int, stop: int) -> dict[str, list[Any]]:
        """The values of each wanted column."""
        wanted = stop - start
        with self._snapshot((start, stop)) as connection:
            names = list(self._types)
            units, first, last = self._count_rows(connection)
            if not wanted or last - first + 1 == units:
                select = self._select(names, f"{self._rowid} BETWEEN ? AND ?")
                columns = columns_of(connection.execute(select, (first + start, first + stop - 1)), len(names))
            else:
                where, value, offset = self._place_of(connection, start, stop)
                select = self._select([*names, None], where) + " LIMIT ? OFFSET ?"
                *columns, rowids = columns_of(connection.execute(select, (value, wanted, offset)), len(names) + 1)
                if len(rowids) == wanted and rowids:
                    self._before = (stop, rowids[-1])
        if len(columns[0]) != wanted:
            raise _changed(start, stop, len(columns[0]))
        return dict(zip(names, columns, strict=True))

    def _read_groups(self, start: int, stop: int) -> tuple[list[Any], list[int], dict[str, list[Any]]]:
        """The keys, how many rows each has, and the values of each other wanted column."""
        key = self._order
        keys: list[Any] = []
        counts: list[int] = []
        with self._snapshot((start, stop)) as connection:
            names = [name for name in self._types if name != self._key]
            if start < stop:
                where, value, offset = self._place_of(connection, start, stop)
                # SQLite itself says which rows belong together: it knows how its text is compared.
                groups = (
                    f"SELECT {key}, count(*) FROM {self._source} WHERE {where} "
                    f"GROUP BY {key} ORDER BY {key} LIMIT ? OFFSET ?"
                )
                found = connection.execute(groups, (value, stop - start, offset))
                keys, counts = columns_of(found, 2)
            columns: list[list[Any]] = [[] for _ in names]
            if keys and names:
                select = self._select(names, f"{key} BETWEEN ? AND ?")
                columns = columns_of(connection.execute(select, (keys[0], keys[-1])), len(names))
        if len(keys) != stop - start or any(len(column) != sum(counts) for column in columns):
            raise _changed(start, stop, len(keys))
        if keys:
            self._before = (stop, keys[-1])
        return keys, counts, dict(zip(names, columns, strict=True))

    def _select(self, names: Sequence[str | None], where: str) -> str:
        """Rows in order; None stands for the rowid."""
        columns = ", ".join(self._rowid if name is None else quoted(name) for name in names)
        order = dict.fromkeys(name for name in (self._order, self._rowid) if name)
        return f"SELECT {columns} FROM {self._source} WHERE {where} ORDER BY {', '.join(order)}"

    def _place_of(self, connection: sqlite3.Connection, unit: int, stop: int) -> tuple[str, Any, int]:
        """Where a unit begins: a condition, its value, and how many units to step over."""
        if self._before is not None and self._before[0] == unit:
            return f"{self._order} > ?", self._before[1], 0
        block, offset = divmod(unit, _BLOCK_UNITS)
        # Step by step, and not by a window function: that takes twenty times as long.
        order, source = self._order, self._source
        first = f"SELECT {order} FROM {source} WHERE {order} IS NOT NULL ORDER BY {order} LIMIT 1"
        group = "" if self._key is None else f"GROUP BY {order}"
        after = (
            f"SELECT {order} FROM {source} WHERE {order} > ? {group} ORDER BY {order} LIMIT 1 OFFSET {_BLOCK_UNITS - 1}"
        )
        while len(self._firsts) <= block:
            found = connection.execute(after, self._firsts[-1:]) if self._firsts else connection.execute(first)
            row = found.fetchone()
            if row is None:
                raise _changed(unit, stop, 0)
            self._firsts.append(row[0])
        return f"{order} >= ?", self._firsts[block], offset

    # Opening

    @contextmanager
    def _snapshot(self, wanted: tuple[int, int] | None = None) -> Iterator[sqlite3.Connection]:
        """The database as it is at one moment. What SQLite says becomes an error about the table, or the rows."""
        try:
            if self._connection is None:
                self._open()
            connection = self._connection
            assert connection is not None
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self._explained(error, wanted) from error

    def _open(self) -> None:
        identity = _identity_of(self.path)
        if identity != self._identity:
            self._identity, self._rowids, self._firsts, self._before = identity, None, [], None
        connection = _connect(self.path)
        try:
            self._choose(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _choose(self, connection: sqlite3.Connection) -> None:
        """Find the table and its columns."""
        query = self.options.get("query")
        if query is None:
            kind, name = self._find_table(connection)
            schema = "main"
        else:
            # As a view its columns have types, as those of a table.
            kind, name, schema = "view", "aliquot_query", "temp"
            try:
                connection.execute(f"CREATE TEMP VIEW {name} AS {query.strip().rstrip(';')}")
                connection.execute(f"SELECT * FROM temp.{name} LIMIT 0")
            except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
                if _code(error) not in (sqlite3.SQLITE_ERROR, 0):
                    raise
                raise UnreadableTable(
                    f"the query is refused: {error}", advice="Try it in the program sqlite3"
                ) from error
        self._source = f"{schema}.{quoted(name)}"
        described = connection.execute(f"PRAGMA {schema}.table_xinfo({quoted(name)})").fetchall()
        # 1 marks what virtual tables hide from SELECT *.
        available = {column[1]: column[2] for column in described if column[6] != 1}
        wanted = check_columns(self.columns, list(available))
        self._types = {column: available[column] for column in wanted}
        self._rowid = "" if kind == "view" else _rowid_name(connection, self._source, available)
        if self._key is not None:
            check_columns([self._key], list(available))
            self._types = {self._key: available[self._key], **self._types}
        elif not self._rowid:
            what = f"the view {name!r}" if kind == "view" else f"the table {name!r}"
            raise UnreadableTable(
                f"{what} has no rowids, by which rows could be counted",
                advice="Say with key= which column orders and divides its rows",
            )

    def _find_table(self, connection: sqlite3.Connection) -> tuple[str, str]:
        found = connection.execute(
            "SELECT type, name FROM main.sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' "
            "ESCAPE '\\' ORDER BY type, rowid"
        ).fetchall()
        names = [name for _, name in found]
        listed = f"It has {', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}"
        if not names:
            raise UnreadableTable("has no tables", advice="Is it the right file, and was it written to the end?")
        if self.inner:
            for kind, name in found:
                if name == self.inner:
                    return kind, name
            for kind, name in found:
                if name.lower() == self.inner.lower():  # as SQLite does
                    return kind, name
            near = difflib.get_close_matches(self.inner, names, n=1)
            advice = f"Did you mean {near[0]}?" if near else listed
            raise UnreadableTable(f"has no table {self.inner!r}", advice=advice)
        tables = [(kind, name) for kind, name in found if kind == "table"]
        if len(tables) == 1:
            return tables[0]
        if len(found) == 1:
            return found[0]  # type: ignore[no-any-return]  # a row of the result
        raise UnreadableTable(
            f"has {len(found)} tables and views, and none was chosen", advice=f"Name one after a colon. {listed}"
        )

    def close(self) -> None:
        """Let go of the file. What was counted is kept, for as long as the file stays the same."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # What went wrong

    def _explained(self, error: sqlite3.Error, wanted: tuple[int, int] | None) -> BadRows | UnreadableTable:
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return UnreadableTable(
                f"is locked by another process that writes to it, for more than {_BUSY_SECONDS:.0f} seconds",
                advice="Wait until that has committed; with PRAGMA journal_mode=WAL it can be read meanwhile",
            )
        if code == sqlite3.SQLITE_NOTADB:
            return UnreadableTable(
                "is not an SQLite database, or is encrypted",
                byte=0,
                advice="Is it the right file? Say the format if not",
            )
        if code == sqlite3.SQLITE_READONLY:
            return UnreadableTable(
                f"was left in the middle of a change by a process that ended ({error})",
                advice="Open it once with the program sqlite3, and write access: that undoes the change",
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return UnreadableTable(
                f"cannot be opened ({error})", advice="Check the path, and the permissions of the file and its folder"
            )
        problem, advice = f"cannot be read ({error})", "Is a disk or a network failing?"
        if code == sqlite3.SQLITE_CORRUPT:
            missing = _missing_bytes(self.path)
            problem = f"is truncated: {missing} bytes are missing" if missing else f"is damaged ({error})"
            advice = "Copy it again, or save what can be saved: sqlite3 FILE .recover"
        elif "decode to UTF-8" in str(error):
            problem = f"holds text that is not UTF-8 ({error})"
            advice = "Leave the column out, or have it as bytes: CAST(... AS BLOB) in a query"
        elif code == sqlite3.SQLITE_ERROR:
            advice = "Try the query in the program sqlite3"
        if wanted is None or wanted[0] == wanted[1]:
            return UnreadableTable(problem, advice=advice)
        return BadRows(problem, *wanted, advice=advice)


def _changed(start: int, stop: int, found: int) -> ChangedTable:
    return ChangedTable(
        f"of the units {start} up to {stop}, {found} are there: it was changed since they were counted",
        advice="Wait until it is complete, and open it again",
    )


def _connect(path: str) -> sqlite3.Connection:
    """Open it to read. Where nothing can be written beside it, as if nobody could write to it."""
    # Two slashes more, so that no folder is taken for a host.
    address = f"file://{quote(os.fsencode(os.path.abspath(path)))}?mode=ro"
    try:
        return _try_to_connect(address)
    except sqlite3.OperationalError as error:
        # A database in WAL mode wants two files beside it even to be read. Without them nothing waits to be merged.
        beside = any(os.path.exists(path + suffix) for suffix in ("-wal", "-journal"))
        if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or beside or not os.path.isfile(path):
            raise
        return _try_to_connect(f"{address}&immutable=1")


def _try_to_connect(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _identity_of(path: str) -> tuple[int, ...]:
    """What changes when the database does: of the file, and of what waits beside it to be merged."""
    found: list[int] = []
    for name in (path, *SqliteTable.companions(path)):
        try:
            status = os.stat(name)
        except OSError:
            continue
        if status.st_size:
            found += (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return tuple(found)


def _missing_bytes(path: str) -> int:
    """How much shorter a file is than its header says."""
    try:
        with open(path, "rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return 0
    page_bytes = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    return max(0, (65_536 if page_bytes == 1 else page_bytes) * pages - size)


def _rowid_name(connection: sqlite3.Connection, source: str, columns: Mapping[str, str]) -> str:
    """What the rowid is called, or "" where there is none."""
    taken = {name.lower() for name in columns}
    for name in _ROWID_NAMES:
        if name not in taken:
            try:
                connection.execute(f"SELECT {name} FROM {source} LIMIT 0")
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_ERROR:
                    raise
                return ""
            return name
    return ""


def _code(error: sqlite3.Error) -> int:
    """The kind of an error, without its details; 0 where it did not come from SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
