"""Rows of SQLite databases: by rowid, and all of a key together."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from aliquot.errors import UsageError
from aliquot.virtual_file.tables import sqlite
from aliquot.virtual_file.tables.sqlite import SqliteTable
from aliquot.virtual_file.tables.table import BadRows, ChangedTable, UnreadableTable


def make(path: Path, *statements: str, rows: tuple[str, list[Any]] | None = None) -> str:
    """A database in which these statements were run, and one more for many rows."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        if rows is not None:
            connection.executemany(*rows)
        connection.commit()
    return str(path)


def numbers(path: Path, count: int, *more: str) -> str:
    """Rows of which each says which it is."""
    created = "CREATE TABLE t(i INTEGER, x REAL, s TEXT)"
    rows = [(i, i / 2, f"row {i}") for i in range(count)]
    made = make(path, created, rows=("INSERT INTO t VALUES(?, ?, ?)", rows))
    make(path, *more)
    return made


def hits(path: Path, sizes: list[int], *more: str) -> str:
    """Events 0, 10, 20 and so on, with so many hits each, stored in no order."""
    rows = [(10 * event, hit, 100.0 * event + hit) for event, size in enumerate(sizes) for hit in range(size)]
    Random(3).shuffle(rows)
    created = "CREATE TABLE hits(event INTEGER, n INTEGER, pt REAL)"
    return make(path, created, *more, rows=("INSERT INTO hits VALUES(?, ?, ?)", rows))


@pytest.fixture
def opened() -> Iterator[Any]:
    """Make tables, and close them in the end."""
    tables = []

    def make_table(path: object, inner: str = "", form: str = "records", **keywords: Any) -> SqliteTable:
        columns = keywords.pop("columns", None)
        table = SqliteTable(str(path), inner, columns=columns, form=form, options=keywords)
        tables.append(table)
        return table

    yield make_table
    for table in tables:
        table.close()


def i_of(batch: list[dict[str, Any]]) -> list[int]:
    return [row["i"] for row in batch]


# Rows


def test_units_are_rows_in_the_order_of_their_rowids(tmp_path: Path, opened: Any) -> None:
    """They are counted, typed and read from any place."""
    table = opened(numbers(tmp_path / "a.db", 5000))
    facts = table.facts()
    assert (facts.units, facts.ends) == (5000, ())
    assert facts.columns == {"i": "integer", "x": "real", "s": "text"}
    assert i_of(table.read(0, 5000)) == list(range(5000))
    assert table.read(4321, 4322) == [{"i": 4321, "x": 2160.5, "s": "row 4321"}]
    assert table.read(7, 7) == []


@pytest.mark.parametrize("start_rowid", [-3, 0, 2**63 - 4])
def test_rowids_may_begin_anywhere(tmp_path: Path, opened: Any, start_rowid: int) -> None:
    """Also at negative numbers, and up to the very last."""
    rows = [(start_rowid + i, i) for i in range(4)]
    path = make(
        tmp_path / "a.db", "CREATE TABLE t(k INTEGER PRIMARY KEY, i)", rows=("INSERT INTO t VALUES(?, ?)", rows)
    )
    table = opened(path)
    assert table.facts().units == 4
    assert i_of(table.read(0, 4)) == [0, 1, 2, 3]
    assert i_of(table.read(2, 4)) == [2, 3]


def test_rows_between_deleted_ones_are_found_from_any_place(tmp_path: Path, opened: Any) -> None:
    """In order, at random, and by a table that was never asked for its facts."""
    path = numbers(tmp_path / "a.db", 20_000, "DELETE FROM t WHERE i % 3 = 1 OR i BETWEEN 4000 AND 9000")
    left = [i for i in range(20_000) if i % 3 != 1 and not 4000 <= i <= 9000]
    table = opened(path, columns=["i"])
    facts = table.facts()
    assert facts.units == len(left)
    assert facts.ends == (4096, 8192, len(left))
    in_order = [i for start in range(0, len(left), 999) for i in i_of(table.read(start, min(start + 999, len(left))))]
    assert in_order == left
    for start in (0, 1, 4095, 4096, 4097, 8192, len(left) - 1):
        fresh = opened(path, columns=["i"])
        assert i_of(fresh.read(start, min(start + 5, len(left)))) == left[start : start + 5]
        assert i_of(table.read(start, start + 1)) == [left[start]]
    assert table.read(len(left), len(left)) == []


def test_once_looked_up_places_cost_nothing_more(tmp_path: Path, opened: Any) -> None:
    """A read after another, or a second jump, is one query by rowid."""
    path = numbers(tmp_path / "a.db", 10_000, "DELETE FROM t WHERE i = 5")
    table = opened(path)
    table.read(9000, 9001)
    queries: list[str] = []
    table._connection.set_trace_callback(queries.append)
    table.read(9001, 9002)
    table.read(5000, 5001)
    assert [query for query in queries if query not in ("BEGIN", "ROLLBACK")] == [
        query for query in queries if query.startswith("SELECT") and "LIMIT 1 OFFSET" in query and "rowid" in query
    ]
    assert len([query for query in queries if query.startswith("SELECT")]) == 2


def test_a_table_can_be_used_again_after_it_was_closed(tmp_path: Path, opened: Any) -> None:
    """What was counted is kept while the file is the same, and counted again when it is not."""
    path = numbers(tmp_path / "a.db", 100, "DELETE FROM t WHERE i = 5")
    table = opened(path)
    assert i_of(table.read(50, 52)) == [51, 52]
    table.close()
    table.close()
    assert i_of(table.read(52, 54)) == [53, 54]
    table.close()
    make(Path(path), "DELETE FROM t WHERE i < 50")
    os.utime(path, ns=(1, 1))
    assert i_of(table.read(0, 2)) == [50, 51]
    assert table.facts().units == 50


def test_a_table_without_rows_is_no_trouble(tmp_path: Path, opened: Any) -> None:
    """It has no units, and an empty batch has the columns and their types."""
    path = numbers(tmp_path / "a.db", 0)
    assert opened(path).facts().units == 0
    assert opened(path).read(0, 0) == []
    batch = opened(path, form="numpy").read(0, 0)
    assert [(name, batch[name].dtype) for name in batch.names] == [
        ("i", np.dtype("int64")),
        ("x", np.dtype("float64")),
        ("s", np.dtype("O")),
    ]
    assert opened(path, form="awkward").read(0, 0).fields == ["i", "x", "s"]
    assert opened(path, form="awkward", key="i").read(0, 0).fields == ["i", "x", "s"]
    assert opened(path, form="awkward", key="i").facts().units == 0


def test_all_forms_hold_the_same_rows(tmp_path: Path, opened: Any) -> None:
    """Each is as long as the rows that were read."""
    path = numbers(tmp_path / "a.db", 50)
    expected = opened(path).read(10, 20)
    as_rows: dict[str, Callable[[Any], Any]] = {
        "records": lambda batch: batch,
        "numpy": list,
        "pandas": lambda batch: batch.to_dict("records"),
        "arrow": lambda batch: batch.to_pylist(),
        "polars": lambda batch: batch.to_dicts(),
        "awkward": lambda batch: batch.to_list(),
    }
    for form in SqliteTable.forms:
        batch = opened(path, form=form).read(10, 20)
        assert len(batch) == 10
        assert as_rows[form](batch) == expected, form


def test_arrays_have_the_type_that_loses_nothing(tmp_path: Path, opened: Any) -> None:
    """NULL makes integers floats, but not those that would change; text and mixtures are objects."""
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t(a INTEGER, b INTEGER, c INTEGER, d TEXT, e, f REAL, g BLOB, h INTEGER)",
        "INSERT INTO t VALUES(1, 1, 9007199254740993, 'x', 1, 1.5, x'00ff', NULL)",
        "INSERT INTO t VALUES(2, NULL, NULL, NULL, 'two', NULL, NULL, NULL)",
    )
    batch = opened(path, form="numpy").read(0, 2)
    kinds = [batch[name].dtype.char for name in batch.names]
    assert kinds == ["l", "d", "O", "O", "O", "d", "O", "d"]
    assert batch["b"][0] == 1
    assert np.isnan(batch["b"][1])
    assert batch["c"].tolist() == [9007199254740993, None]
    assert batch["e"].tolist() == [1, "two"]
    assert batch["g"].tolist() == [b"\x00\xff", None]
    assert opened(path, form="awkward").read(0, 2).to_list() == opened(path).read(0, 2)
    without_e = list("abcdfgh")
    table = opened(path, form="arrow", columns=without_e)
    assert table.read(0, 2).to_pylist() == opened(path, columns=without_e).read(0, 2)
    assert table.read(1, 2).schema.field("b").type == table.read(0, 1).schema.field("b").type
    with pytest.raises(UsageError, match=r"'e' holds values of several types \(int, str\)"):
        opened(path, form="polars").read(0, 2)


def test_what_is_null_is_missing_in_awkward_arrays(tmp_path: Path, opened: Any) -> None:
    """Whatever the others are: numbers of both kinds, text of any alphabet, bytes, or nothing at all."""
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t(a INTEGER, b NUMERIC, c TEXT, d BLOB, e REAL)",
        "INSERT INTO t VALUES(1, 1, 'gr\u00fc\u00df', x'ff', NULL)",
        "INSERT INTO t VALUES(NULL, NULL, NULL, NULL, NULL), (3, 2.5, '', x'', NULL)",
    )
    table = opened(path, form="awkward")
    assert table.read(0, 3).to_list() == opened(path).read(0, 3)
    assert table.read(0, 1).to_list() + table.read(1, 3).to_list() == opened(path).read(0, 3)
    assert str(table.read(0, 3).a.type) == "3 * ?int64"
    assert str(table.read(0, 3).c.type) == "3 * ?string"


def test_a_real_number_among_integers_is_not_cut_off(tmp_path: Path, opened: Any) -> None:
    """SQLite lets an INTEGER column hold one."""
    path = make(tmp_path / "a.db", "CREATE TABLE t(a INTEGER)", "INSERT INTO t VALUES(1), (2.5)")
    assert opened(path, form="numpy").read(0, 2)["a"].tolist() == [1, 2.5]
    assert opened(path, form="arrow").read(0, 2).to_pylist() == [{"a": 1}, {"a": 2.5}]
    assert opened(path, form="polars").read(1, 2)["a"].to_list() == [2.5]
    make(Path(path), f"INSERT INTO t VALUES({2**53 + 1})")
    assert opened(path, form="numpy").read(0, 3)["a"].tolist() == [1, 2.5, 2**53 + 1]
    with pytest.raises(UsageError, match="several types"):
        opened(path, form="arrow").read(0, 3)


# Names


def test_odd_names_of_files_tables_and_columns_are_no_trouble(tmp_path: Path, opened: Any) -> None:
    """Quotes, spaces, percent signs, question marks, words of SQL."""
    folder = tmp_path / "a?b#c%20 d'e\"f"
    folder.mkdir()
    path = make(
        folder / "100%?mode=memory#.db",
        'CREATE TABLE "select ""from"" t.x"("order" INTEGER, "a ""b""" TEXT, "rowid" INTEGER)',
        'INSERT INTO "select ""from"" t.x" VALUES(1, \'one\', 7), (2, \'two\', 6)',
    )
    table = opened(path, 'select "from" t.x', columns=['a "b"', "rowid"])
    assert table.facts().units == 2
    assert table.read(0, 2) == [{'a "b"': "one", "rowid": 7}, {'a "b"': "two", "rowid": 6}]
    keyed = opened(path, key="order")
    assert keyed.read(1, 2) == [{"order": 2, "rows": [{'a "b"': "two", "rowid": 6}]}]


def test_the_only_table_needs_no_name(tmp_path: Path, opened: Any) -> None:
    """Of several one must be named, in any case; SQLite's own do not count."""
    path = make(tmp_path / "a.db", "CREATE TABLE t(i INTEGER PRIMARY KEY AUTOINCREMENT)", "CREATE VIEW v AS SELECT 1")
    assert opened(path).facts().units == 0
    make(Path(path), "CREATE TABLE muons(x)")
    with pytest.raises(UnreadableTable, match="has 3 tables and views") as caught:
        opened(path).facts()
    assert "t, muons, v" in str(caught.value.advice)
    assert opened(path, "MUONS").facts().units == 0
    with pytest.raises(UnreadableTable, match="has no table 'muon'") as caught:
        opened(path, "muon").facts()
    assert caught.value.advice == "Did you mean muons?"
    empty = make(tmp_path / "empty.db")
    with pytest.raises(UnreadableTable, match="has no tables"):
        opened(empty).facts()


def test_columns_that_are_not_there_are_refused(tmp_path: Path, opened: Any) -> None:
    """Also as a key, which SQLite would take for text."""
    path = numbers(tmp_path / "a.db", 3)
    with pytest.raises(UnreadableTable, match="has no column 'y'"):
        opened(path, columns=["y"]).facts()
    with pytest.raises(UnreadableTable, match="has no column 'event'"):
        opened(path, key="event").read(0, 1)


def test_what_has_no_rowids_needs_a_key(tmp_path: Path, opened: Any) -> None:
    """A view, a table without them, one whose columns hide them."""
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE bare(k INTEGER PRIMARY KEY, x) WITHOUT ROWID",
        "INSERT INTO bare VALUES(5, 'a'), (3, 'b')",
        "CREATE VIEW v AS SELECT k, x FROM bare",
        "CREATE TABLE hidden(rowid, oid, _rowid_)",
    )
    for inner in ("bare", "v", "hidden"):
        with pytest.raises(UnreadableTable, match="has no rowids") as caught:
            opened(path, inner).facts()
        assert "key=" in str(caught.value.advice)
    for inner in ("bare", "v"):
        table = opened(path, inner, key="k")
        assert table.facts().units == 2
        assert table.read(0, 2) == [{"k": 3, "rows": [{"x": "b"}]}, {"k": 5, "rows": [{"x": "a"}]}]


# All rows of a key


def test_with_a_key_a_unit_is_all_rows_that_share_its_value(
    tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the values; within one, in that of the rowids."""
    monkeypatch.setattr(sqlite, "_BLOCK_UNITS", 64)
    random = Random(5)
    sizes = [random.randrange(1, 5) for _ in range(150)]
    path = hits(tmp_path / "a.db", sizes, "CREATE INDEX by_event ON hits(event)")
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT event, n FROM hits ORDER BY event, rowid").fetchall()
    facts = opened(path, key="event").facts()
    assert (facts.units, facts.ends) == (150, (64, 128, 150))
    table = opened(path, key="event", columns=["n"])
    for start in (0, 1, 2, 63, 64, 149, 17):
        (unit,) = table.read(start, start + 1)
        assert unit == {"event": 10 * start, "rows": [{"n": n} for event, n in stored if event == 10 * start]}
    in_order = [unit for start in range(0, 150, 30) for unit in table.read(start, start + 30)]
    assert [unit["event"] for unit in in_order] == list(range(0, 1500, 10))
    assert [(unit["event"], row["n"]) for unit in in_order for row in unit["rows"]] == stored


def test_with_a_key_an_awkward_array_has_a_list_for_each_unit(tmp_path: Path, opened: Any) -> None:
    """The key is flat, and the batch as long as the units."""
    path = hits(tmp_path / "a.db", [2, 1, 3], "CREATE INDEX by_event ON hits(event)")
    batch = opened(path, key="event", form="awkward").read(0, 3)
    assert len(batch) == 3
    assert batch.event.to_list() == [0, 10, 20]
    assert [sorted(pts) for pts in batch.pt.to_list()] == [[0, 1], [100], [200, 201, 202]]
    assert str(batch.type) == "3 * {event: int64, n: var * int64, pt: var * float64}"
    assert pickle.loads(pickle.dumps(batch)).to_list() == batch.to_list()
    only_keys = opened(path, key="event", columns=["event"])
    assert only_keys.read(1, 3) == [{"event": 10, "rows": [{}]}, {"event": 20, "rows": [{}, {}, {}]}]


def test_text_is_a_key_as_sqlite_compares_it(tmp_path: Path, opened: Any) -> None:
    """Where case does not count, it does not divide."""
    path = make(
        tmp_path / "a.db",
        "CREATE TABLE t(name TEXT COLLATE NOCASE, i INTEGER)",
        "CREATE INDEX by_name ON t(name)",
        "INSERT INTO t VALUES('b', 0), ('A', 1), ('a', 2), ('B', 3), ('A', 4)",
    )
    table = opened(path, key="name")
    assert table.facts().units == 2
    assert [[row["i"] for row in unit["rows"]] for unit in table.read(0, 2)] == [[1, 2, 4], [0, 3]]
    assert [row["i"] for row in opened(path, key="name").read(1, 2)[0]["rows"]] == [0, 3]


def test_rows_whose_key_is_null_are_refused(tmp_path: Path, opened: Any) -> None:
    """They belong to no unit; a query leaves them out."""
    path = hits(tmp_path / "a.db", [1, 1], "CREATE INDEX by_event ON hits(event)")
    make(Path(path), "INSERT INTO hits VALUES(NULL, 1, 1), (NULL, 2, 2)")
    with pytest.raises(UnreadableTable, match="has 2 rows whose 'event' is NULL") as caught:
        opened(path, key="event").facts()
    assert "IS NOT NULL" in str(caught.value.advice)
    table = opened(path, key="event", query="SELECT * FROM hits WHERE event IS NOT NULL; ")
    assert table.facts().units == 2
    assert [unit["event"] for unit in table.read(0, 2)] == [0, 10]


def test_a_key_without_an_index_is_refused_where_each_read_would_scan_much(
    tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small table is scanned; of a large one the error says how to make the index."""
    path = hits(tmp_path / "a.db", [3] * 40)
    assert opened(path, key="event").facts().units == 40
    assert [row["n"] for unit in opened(path, key="event").read(39, 40) for row in unit["rows"]] != []
    monkeypatch.setattr(sqlite, "_MOST_SCANNED_ROWS", 100)
    with pytest.raises(UnreadableTable, match="every read would scan 120 rows") as caught:
        opened(path, key="event").facts()
    statement = str(caught.value.advice).partition("sqlite3: ")[2]
    make(Path(path), statement)
    assert opened(path, key="event").facts().units == 40


@pytest.mark.parametrize("index", ["event", "event, pt", "event DESC"])
def test_any_index_that_begins_with_the_key_will_do(
    tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    """Whatever else is in it."""
    monkeypatch.setattr(sqlite, "_MOST_SCANNED_ROWS", 0)
    path = hits(tmp_path / "a.db", [3] * 40, f"CREATE INDEX by_event ON hits({index})")
    assert opened(path, key="event").facts().units == 40
    query = opened(path, key="event", query="SELECT event, pt FROM hits WHERE n < 2")
    assert query.facts().units == 40
    assert sorted(row["pt"] for row in query.read(7, 8)[0]["rows"]) == [700, 701]


def test_a_query_may_join_and_compute(tmp_path: Path, opened: Any) -> None:
    """Its columns are those of a table; a comment at its end does not matter."""
    path = hits(tmp_path / "a.db", [2, 3], "CREATE TABLE runs(event INTEGER PRIMARY KEY, run TEXT)")
    make(Path(path), "INSERT INTO runs VALUES(0, 'early'), (10, 'late')")
    query = "SELECT hits.event AS event, run, pt * 2 AS twice FROM hits JOIN runs USING (event) ORDER BY pt -- all"
    table = opened(path, key="event", query=query, form="awkward")
    assert table.facts().columns == {"event": "integer", "run": "text", "twice": "any"}
    assert table.read(1, 2).to_list() == [{"event": 10, "run": ["late"] * 3, "twice": [200, 202, 204]}]


@pytest.mark.parametrize("query", ["SELECT nothing FROM hits", "DELETE FROM hits", "SELECT 1; SELECT 2", "SELEC 1"])
def test_a_query_that_is_none_is_refused(tmp_path: Path, opened: Any, query: str) -> None:
    """With SQLite's own words; and nothing can be changed."""
    path = hits(tmp_path / "a.db", [2])
    with pytest.raises(UnreadableTable, match="the query is refused: "):
        opened(path, key="event", query=query).facts()
    assert opened(path).facts().units == 2


@pytest.mark.parametrize(
    ("inner", "form", "options", "says"),
    [
        ("", "numpy", {"key": "event"}, "use as_='awkward' or 'records'"),
        ("", "records", {"query": "SELECT 1"}, "query= needs key="),
        ("hits", "records", {"query": "SELECT 1", "key": "a"}, "leave out 'hits'"),
        ("", "records", {"key": ""}, "not empty"),
        ("", "records", {"key": 7}, "not empty"),
        ("", "records", {"key": "rows"}, "as_='awkward'"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_opened(
    inner: str, form: str, options: dict[str, Any], says: str
) -> None:
    """The error says what would."""
    with pytest.raises(UsageError, match=says):
        SqliteTable("/nowhere", inner, form=form, options=options)


# Databases in trouble


def test_what_is_no_database_is_refused(tmp_path: Path, opened: Any) -> None:
    """Text, and a file that is not there."""
    text = tmp_path / "a.db"
    text.write_text("event,pt\n" * 1000)
    with pytest.raises(UnreadableTable, match="is not an SQLite database"):
        opened(text).facts()
    with pytest.raises(UnreadableTable, match="cannot be opened"):
        opened(tmp_path / "none.db").facts()
    assert not (tmp_path / "none.db").exists()
    assert not SqliteTable.looks_like(text.read_bytes()[:100])
    assert SqliteTable.looks_like(Path(numbers(tmp_path / "b.db", 1)).read_bytes()[:100])


def test_a_locked_database_is_said_to_be_locked(tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is opened and when it is read; and it can be read as soon as the lock is gone."""
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.01)
    path = numbers(tmp_path / "a.db", 10)
    before = opened(path)
    assert len(before.read(0, 1)) == 1
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        for table in (before, opened(path)):
            with pytest.raises(UnreadableTable, match="is locked by another process") as caught:
                table.read(1, 3)
            assert "WAL" in str(caught.value.advice)
        with pytest.raises(UnreadableTable, match="is locked"):
            opened(path).facts()
        writer.execute("ROLLBACK")
    assert i_of(before.read(1, 3)) == [1, 2]


def test_a_database_that_is_written_meanwhile_is_read_as_it_is_at_one_moment(tmp_path: Path, opened: Any) -> None:
    """In WAL mode, what is not committed is not seen."""
    path = numbers(tmp_path / "a.db", 10, "PRAGMA journal_mode=WAL")
    table = opened(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE t SET i = -i")
        assert i_of(table.read(0, 10)) == list(range(10))
        writer.execute("COMMIT")
        assert i_of(table.read(0, 3)) == [0, -1, -2]


def test_rows_that_went_away_are_missed(tmp_path: Path, opened: Any) -> None:
    """No other rows are given in their place."""
    path = numbers(tmp_path / "a.db", 10)
    table, keyed = opened(path), opened(path, key="i")
    assert table.facts().units == keyed.facts().units == 10
    make(Path(path), "DELETE FROM t WHERE i >= 8")
    for changed in (table, keyed):
        with pytest.raises(ChangedTable, match="it was changed since") as caught:
            changed.read(6, 10)
        assert caught.value.advice


def test_what_waits_to_be_merged_is_beside_it(tmp_path: Path, opened: Any) -> None:
    """A row may have been committed without a change to the file itself."""
    path = numbers(tmp_path / "a.db", 3, "PRAGMA journal_mode=WAL")
    before = Path(path).read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO t VALUES(3, 1.5, 'row 3')")
        connection.commit()
        assert Path(path).read_bytes() == before
        assert opened(path).facts().units == 4
        (beside,) = SqliteTable.companions(path)
        assert Path(beside).stat().st_size > 0


def test_text_that_is_not_utf8_spoils_only_its_row(tmp_path: Path, opened: Any) -> None:
    """The error says which; the others can be read."""
    path = numbers(tmp_path / "a.db", 3000, "UPDATE t SET s = CAST(x'ff' AS TEXT) WHERE i IN (1234, 1235, 2000)")
    table = opened(path)
    with pytest.raises(BadRows, match="text that is not UTF-8") as caught:
        table.read(0, 3000)
    assert (caught.value.start, caught.value.stop) == (1234, 1236)
    assert i_of(table.read(1236, 2000)) == list(range(1236, 2000))
    assert len(opened(path, columns=["i"]).read(0, 3000)) == 3000


@pytest.mark.parametrize("options", [{}, {"key": "i"}])
def test_a_damaged_page_spoils_only_its_rows(tmp_path: Path, opened: Any, options: dict[str, str]) -> None:
    """Those before and after it can be read."""
    path = Path(numbers(tmp_path / "a.db", 3000, "CREATE INDEX by_i ON t(i)"))
    table = opened(path, **options)
    assert table.facts().units == 3000
    data = bytearray(path.read_bytes())
    page = data.index(b"row 1500") // 4096 * 4096
    data[page : page + 8] = b"\xee" * 8
    path.write_bytes(data)
    table.close()
    fresh = opened(path, **options)
    fresh._identity, fresh._rowids = sqlite._identity_of(str(path)), (3000, 1, 3000)
    with pytest.raises(BadRows, match="is damaged") as caught:
        fresh.read(0, 3000)
    start, stop = caught.value.start, caught.value.stop
    assert 1300 < start <= 1500 < stop < 1700
    assert ".recover" in str(caught.value.advice)
    assert len(fresh.read(0, start)) == start
    assert len(fresh.read(stop, 3000)) == 3000 - stop


def test_a_truncated_database_is_said_to_be_truncated(tmp_path: Path, opened: Any) -> None:
    """With the number of bytes that are missing."""
    path = Path(numbers(tmp_path / "a.db", 3000))
    size = path.stat().st_size
    os.truncate(path, size - 10_000)
    with pytest.raises(UnreadableTable, match="is truncated: 10000 bytes are missing"):
        opened(path).facts()
    os.truncate(path, 50)
    with pytest.raises(UnreadableTable):
        opened(path).facts()
