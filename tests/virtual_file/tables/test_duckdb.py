"""Rows of DuckDB databases."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aliquot.virtual_file.tables.duckdb import DuckdbTable
from aliquot.virtual_file.tables.registry import table_format_by_suffix
from aliquot.virtual_file.tables.table import BadRows, ChangedTable, UnreadableTable

duckdb = pytest.importorskip("duckdb")


def make(path: Path, *statements: str) -> str:
    """A database in which these statements were run."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return str(path)


def numbers(path: Path, count: int, *more: str) -> str:
    """Rows of which each says which it is."""
    columns = "i, i / 2 AS x, 'row ' || i AS s"
    return make(path, f"CREATE TABLE t AS SELECT {columns} FROM range({count}) r(i)", *more)


@pytest.fixture
def opened() -> Iterator[Any]:
    """Make tables, and close them in the end."""
    made = []

    def make_table(path: object, inner: str = "", form: str = "arrow", columns: list[str] | None = None) -> DuckdbTable:
        table = DuckdbTable(str(path), inner, columns=columns, form=form)
        made.append(table)
        return table

    yield make_table
    for table in made:
        table.close()


def i_of(batch: Any) -> list[int]:
    return list(batch.column("i").to_pylist())


def test_units_are_rows_in_the_order_of_their_rowids(tmp_path: Path, opened: Any) -> None:
    """They are counted, typed and read from any place; groups of rows end where DuckDB ends them."""
    table = opened(numbers(tmp_path / "a.duckdb", 130_000))
    facts = table.facts()
    assert (facts.units, facts.ends) == (130_000, (122_880, 130_000))
    assert facts.columns == {"i": "bigint", "x": "double", "s": "varchar"}
    assert i_of(table.read(0, 130_000)) == list(range(130_000))
    assert table.read(122_879, 122_881).to_pylist() == [
        {"i": 122_879, "x": 61_439.5, "s": "row 122879"},
        {"i": 122_880, "x": 61_440.0, "s": "row 122880"},
    ]
    assert table.read(7, 7).column_names == ["i", "x", "s"]


@pytest.mark.parametrize("deleted", ["i % 3 = 1", "i < 5000 OR i = 19999", "i BETWEEN 3000 AND 9000"])
def test_rows_between_deleted_ones_are_found_from_any_place(tmp_path: Path, opened: Any, deleted: str) -> None:
    """Whichever were deleted."""
    path = numbers(tmp_path / "a.duckdb", 20_000, f"DELETE FROM t WHERE {deleted}")
    with duckdb.connect(path, read_only=True, config={"threads": 1}) as connection:
        left = [i for (i,) in connection.execute("SELECT i FROM t ORDER BY rowid").fetchall()]
    assert len(left) < 20_000
    table = opened(path, columns=["i"])
    assert table.facts().units == len(left)
    assert i_of(table.read(0, len(left))) == left
    random = Random(1)
    for _ in range(20):
        start = random.randrange(len(left))
        stop = random.randrange(start, min(len(left), start + 5000) + 1)
        assert i_of(table.read(start, stop)) == left[start:stop]
    assert i_of(table.read(len(left), len(left))) == []


def test_groups_of_rows_end_where_rows_are_left_in_them(tmp_path: Path, opened: Any) -> None:
    """A cut there is one between two groups, however many rows were deleted."""
    path = numbers(tmp_path / "a.duckdb", 300_000, "DELETE FROM t WHERE i BETWEEN 10 AND 1009 OR i % 1000 = 999")
    table = opened(path, columns=["i"])
    facts = table.facts()
    assert facts.ends[-1] == facts.units
    assert [i_of(table.read(end, end + 1)) for end in facts.ends[:-1]] == [[122_880], [245_760]]


def test_all_forms_hold_the_same_rows(tmp_path: Path, opened: Any) -> None:
    """Each is as long as the rows that were read."""
    path = numbers(tmp_path / "a.duckdb", 50)
    expected = [{"i": i, "x": i / 2, "s": f"row {i}"} for i in range(10, 20)]
    as_rows: dict[str, Callable[[Any], Any]] = {
        "records": lambda batch: batch,
        "numpy": list,
        "pandas": lambda batch: batch.to_dict("records"),
        "arrow": lambda batch: batch.to_pylist(),
        "polars": lambda batch: batch.to_dicts(),
        "awkward": lambda batch: batch.to_list(),
    }
    for form in DuckdbTable.forms:
        batch = opened(path, form=form).read(10, 20)
        assert len(batch) == 10
        assert as_rows[form](batch) == expected, form


def test_lists_stay_lists(tmp_path: Path, opened: Any) -> None:
    """A row may hold several values."""
    path = make(tmp_path / "a.duckdb", "CREATE TABLE t AS SELECT range(i) AS pts, {'a': i} AS s FROM range(4) r(i)")
    batch = opened(path, form="awkward").read(1, 4)
    assert batch.pts.to_list() == [[0], [0, 1], [0, 1, 2]]
    assert opened(path, form="records").read(2, 3) == [{"pts": [0, 1], "s": {"a": 2}}]


def test_a_table_can_be_used_again_after_it_was_closed(tmp_path: Path, opened: Any) -> None:
    """And nobody is kept from writing meanwhile."""
    path = numbers(tmp_path / "a.duckdb", 100)
    table = opened(path)
    assert i_of(table.read(0, 1)) == [0]
    table.close()
    table.close()
    make(Path(path), "INSERT INTO t VALUES(100, 50, 'new')")
    assert i_of(table.read(99, 101)) == [99, 100]
    assert table.facts().units == 101


def test_a_table_without_rows_is_no_trouble(tmp_path: Path, opened: Any) -> None:
    """It has no units, and an empty batch has the columns."""
    table = opened(numbers(tmp_path / "a.duckdb", 0))
    assert (table.facts().units, table.facts().ends) == (0, ())
    assert table.read(0, 0).column_names == ["i", "x", "s"]
    all_deleted = opened(numbers(tmp_path / "b.duckdb", 10, "DELETE FROM t"))
    assert all_deleted.facts().units == 0
    assert len(all_deleted.read(0, 0)) == 0


def test_odd_names_are_no_trouble(tmp_path: Path, opened: Any) -> None:
    """Quotes, spaces, words of SQL; tables of another schema are named with it."""
    path = make(
        tmp_path / "a?b 'c'%.duckdb",
        'CREATE SCHEMA "my schema"',
        'CREATE TABLE "my schema"."select ""t"""("order" INTEGER, "a ""b""" TEXT)',
        'INSERT INTO "my schema"."select ""t""" VALUES(1, \'one\')',
        "CREATE TABLE plain(x INTEGER)",
    )
    table = opened(path, 'my schema.select "t"', form="records")
    assert table.read(0, 1) == [{"order": 1, 'a "b"': "one"}]
    assert opened(path, "main.plain").facts().units == opened(path, "plain").facts().units == 0


def test_a_table_must_be_there_and_be_chosen(tmp_path: Path, opened: Any) -> None:
    """Of several, one is named; columns too."""
    path = numbers(tmp_path / "a.duckdb", 3, "CREATE TABLE muons(pt DOUBLE)")
    for inner, columns, says, advice in (
        ("", None, "has 2 tables, and none was chosen", "It has muons, t"),
        ("muon", None, "has no table 'muon'", "Did you mean muons"),
        ("xyz", None, "has no table 'xyz'", "It has muons, t"),
        ("muons", ["eta"], "has no column 'eta'", "It has pt"),
    ):
        with pytest.raises(UnreadableTable, match=says) as caught:
            opened(path, inner, columns=columns).facts()
        assert advice in str(caught.value.advice)
    with pytest.raises(UnreadableTable, match="has no tables"):
        opened(make(tmp_path / "empty.duckdb")).facts()


def test_rows_without_numbers_are_refused(tmp_path: Path, opened: Any) -> None:
    """Those of a view, and of a table in which a column hides them."""
    path = numbers(tmp_path / "a.duckdb", 3, "CREATE VIEW v AS FROM t", "CREATE TABLE hidden(rowid INTEGER)")
    with pytest.raises(UnreadableTable, match="'v' is a view") as caught:
        opened(path, "v").facts()
    assert "Parquet" in str(caught.value.advice)
    with pytest.raises(UnreadableTable, match="called 'rowid'"):
        opened(path, "hidden").facts()


def test_a_database_that_another_process_writes_is_said_to_be_locked(tmp_path: Path, opened: Any) -> None:
    """With the number of the process."""
    path = numbers(tmp_path / "a.duckdb", 3)
    program = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(UnreadableTable, match=f"is locked by process {writer.pid}") as caught:
            opened(path).facts()
        assert "Wait" in str(caught.value.advice)
    assert opened(path).facts().units == 3


def test_a_database_that_is_open_in_this_process_is_refused_with_the_reason(tmp_path: Path, opened: Any) -> None:
    """DuckDB allows no second way to open it."""
    path = numbers(tmp_path / "a.duckdb", 3)
    with duckdb.connect(path), pytest.raises(UnreadableTable, match="open in this process already"):
        opened(path).facts()
    assert opened(path).facts().units == 3


def test_what_is_no_database_is_refused(tmp_path: Path, opened: Any) -> None:
    """Text, half a database, and a file that is not there."""
    path = Path(numbers(tmp_path / "a.duckdb", 300_000))
    data = path.read_bytes()
    assert DuckdbTable.looks_like(data[:64])
    text = tmp_path / "text.duckdb"
    text.write_text("event,pt\n" * 1000)
    assert not DuckdbTable.looks_like(text.read_bytes()[:64])
    cut = tmp_path / "cut.duckdb"
    cut.write_bytes(data[: len(data) // 2])
    for bad, says in (
        (text, "is not a DuckDB database"),
        (cut, "is truncated"),
        (tmp_path / "none.duckdb", "does not exist"),
    ):
        with pytest.raises(UnreadableTable, match=says) as caught:
            opened(bad).facts()
        assert caught.value.advice


def test_a_damaged_block_spoils_only_its_rows(tmp_path: Path, opened: Any) -> None:
    """The error names the byte; the rows before and after can be read."""
    # What cannot be compressed fills one block after the other: 32,768 rows each.
    path = Path(make(tmp_path / "a.duckdb", "CREATE TABLE t AS SELECT hash(i) AS h FROM range(200000) r(i)"))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = b"\xee" * 64
    path.write_bytes(data)
    table = opened(path)
    assert table.facts().units == 200_000
    with pytest.raises(BadRows, match=r"is damaged .*checksum") as caught:
        table.read(0, 200_000)
    start, stop, byte = caught.value.start, caught.value.stop, caught.value.byte
    assert 0 < start < stop < 200_000
    assert stop - start < 50_000
    assert byte is not None
    assert byte <= middle < byte + 262_144
    assert table.read(0, start).num_rows == start
    for near in (start, stop - 1):
        with pytest.raises(BadRows):
            table.read(near, near + 1)
    assert table.read(stop, 200_000).num_rows == 200_000 - stop


@pytest.mark.parametrize("deleted", ["false", "i < 10"])
def test_rows_that_went_away_are_missed(tmp_path: Path, opened: Any, deleted: str) -> None:
    """That is no damage to the rows that were asked for."""
    table = opened(numbers(tmp_path / "a.duckdb", 100, f"DELETE FROM t WHERE {deleted}"))
    units = table.facts().units
    table.close()
    make(tmp_path / "a.duckdb", "DELETE FROM t WHERE i >= 80")
    with pytest.raises(ChangedTable, match="it was changed meanwhile") as caught:
        table.read(units - 30, units)
    assert caught.value.advice


def test_what_waits_to_be_merged_is_beside_it(tmp_path: Path, opened: Any) -> None:
    """A process that ends without merging leaves rows there."""
    path = numbers(tmp_path / "a.duckdb", 3)
    code = (
        f"import duckdb, os\nconnection = duckdb.connect({path!r})\n"
        "connection.execute('INSERT INTO t VALUES (3, 1.5, NULL)')\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    (beside,) = DuckdbTable.companions(path)
    assert Path(beside).stat().st_size > 0
    assert opened(path).facts().units == 4


def test_a_database_may_have_a_name_that_is_mostly_sqlites(tmp_path: Path) -> None:
    """Then its first bytes decide; where there are none, its name."""
    assert table_format_by_suffix(numbers(tmp_path / "a.db", 3)) == "duckdb"
    with contextlib.closing(sqlite3.connect(tmp_path / "b.DB")) as connection:
        connection.execute("CREATE TABLE t(i)")
    assert table_format_by_suffix(str(tmp_path / "b.DB")) == "sqlite"
    assert table_format_by_suffix(str(tmp_path / "none.db")) == "sqlite"


def test_rows_that_come_in_another_order_are_put_in_order(tmp_path: Path, opened: Any) -> None:
    """DuckDB promises the order of storage only by its settings."""
    path = numbers(tmp_path / "a.duckdb", 100, "CREATE TABLE turned AS SELECT 99 - i AS i FROM t")
    table = opened(path, "turned")
    table.facts()
    real = table._connection

    class Backwards:
        def sql(self, query: str) -> Any:
            return real.sql(f"{query} ORDER BY rowid DESC")

        def close(self) -> None:
            real.close()

    table._connection = Backwards()
    assert i_of(table.read(10, 20)) == list(range(89, 79, -1))
