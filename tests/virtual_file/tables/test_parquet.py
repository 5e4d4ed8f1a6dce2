"""Parquet: row groups, streams within them, and what is wrong with a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from aliquot.errors import UsageError
from aliquot.virtual_file.tables.parquet import ParquetTable
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")


def made(path: Path, rows: int = 25_000, group: int = 10_000, **options: Any) -> str:
    """A number for each row, its square, and as many of it as its last digit."""
    numbers = numpy.arange(rows)
    offsets = numpy.concatenate([[0], numpy.cumsum(numbers % 10)]).astype("i4")
    table = pa.table(
        {
            "n": numbers,
            "square": numbers.astype(float) ** 2,
            "digits": pa.ListArray.from_arrays(pa.array(offsets), pa.array(numpy.repeat(numbers, numbers % 10))),
            "name": [f"row {number}" for number in numbers.tolist()],
            "both": pa.StructArray.from_arrays([pa.array(numbers), pa.array(-numbers)], ["plus", "minus"]),
        }
    )
    pq.write_table(table, path, row_group_size=group, **options)
    return str(path)


def opened(path: str, form: str = "arrow", columns: list[str] | None = None) -> ParquetTable:
    return ParquetTable(path, columns=columns, form=form)


def numbers_of(table: ParquetTable, start: int, stop: int) -> list[int]:
    found: list[int] = table.read(start, stop)["n"].to_pylist()
    return found


def decoded_batches(table: ParquetTable, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Notes every stream that begins: its row group, and the rows of its batches."""
    begun: list[tuple[int, int]] = []
    plain = ParquetTable._batches

    def noting(self: ParquetTable, group: int, rows: int) -> Any:
        begun.append((group, rows))
        return plain(self, group, rows)

    monkeypatch.setattr(ParquetTable, "_batches", noting)
    return begun


def damage(path: str, at: int, count: int = 64) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(os.urandom(count) if count > 64 else b"\xff" * count)


def test_facts_come_from_the_footer(tmp_path: Path) -> None:
    """Rows, where the row groups end, and the types of the wanted columns."""
    facts = opened(made(tmp_path / "a.parquet"), columns=["digits", "n"]).facts()
    assert facts.units == 25_000
    assert facts.ends == (10_000, 20_000, 25_000)
    assert list(facts.columns) == ["digits", "n"]
    assert facts.columns["n"] == "int64"


@pytest.mark.parametrize("step", [1, 999, 4096, 10_000, 12_345, 25_000])
def test_steps_of_any_size_give_every_row_once(tmp_path: Path, step: int) -> None:
    """Within row groups, across them, and as a whole."""
    rows = 25_000 if step > 1 else 50
    table = opened(made(tmp_path / "a.parquet", rows, max(rows * 2 // 5, 1)))
    found = [number for at in range(0, rows, step) for number in numbers_of(table, at, min(at + step, rows))]
    assert found == list(range(rows))


def test_small_steps_decode_a_row_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream for each row group, however many steps."""
    table = opened(made(tmp_path / "a.parquet"))
    begun = decoded_batches(table, monkeypatch)
    for at in range(0, 25_000, 700):
        table.read(at, min(at + 700, 25_000))
    assert [group for group, _ in begun] == [0, 1, 2]


def test_a_step_that_is_tried_again_in_parts_is_not_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was just decoded is kept within a bound."""
    table = opened(made(tmp_path / "a.parquet"))
    begun = decoded_batches(table, monkeypatch)
    table.read(5000, 6000)
    assert numbers_of(table, 5000, 5500) + numbers_of(table, 5500, 6000) == list(range(5000, 6000))
    assert len(begun) == 1


def test_a_range_may_begin_in_the_middle_of_a_row_group(tmp_path: Path) -> None:
    """As a tail does that was taken from another worker; rows before it may be asked for later."""
    table = opened(made(tmp_path / "a.parquet"))
    assert numbers_of(table, 17_001, 21_000) == list(range(17_001, 21_000))
    assert numbers_of(table, 21_000, 21_003) == [21_000, 21_001, 21_002]
    assert numbers_of(table, 100, 103) == [100, 101, 102]


def test_a_row_group_may_be_read_in_any_order(tmp_path: Path) -> None:
    """Rows that were skipped are not taken for kept ones."""
    table = opened(made(tmp_path / "a.parquet", 20_000, 20_000), columns=["n"])
    for start, stop in [(0, 100), (9000, 9100), (4000, 5100), (4096, 4100), (19_000, 20_000), (0, 20_000)]:
        assert numbers_of(table, start, stop) == list(range(start, stop))


def test_rows_that_are_not_all_there_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the library gives instead of them; which are missing, nobody knows."""
    table = opened(made(tmp_path / "a.parquet", 100, 100), columns=["n"])
    plain = ParquetTable._read_groups
    monkeypatch.setattr(ParquetTable, "_read_groups", lambda self, first, last: plain(self, first, last).slice(1))
    with pytest.raises(BadRows, match="100 rows were to be decoded, and 99 were") as caught:
        table.read(0, 100)
    assert not caught.value.is_certain


@pytest.mark.parametrize("step", [300, 1000])
def test_what_fails_once_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The search finds nothing bad: so it is not certain that the rows are lost."""
    table = opened(made(tmp_path / "a.parquet", 1000, 1000), columns=["n"])
    table.facts()

    class FailsOnce:
        def __init__(self, file: Any) -> None:
            self.file, self.failed = file, False

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def fail_once(self) -> None:
            if not self.failed:
                self.failed = True
                raise OSError("the network is away")

        def read_row_groups(self, *told: Any, **named: Any) -> Any:
            self.fail_once()
            return self.file.read_row_groups(*told, **named)

        def iter_batches(self, *told: Any, **named: Any) -> Any:
            self.fail_once()
            yield from self.file.iter_batches(*told, **named)

    monkeypatch.setattr(table, "_file", FailsOnce(table._file))
    with pytest.raises(BadRows, match="the network is away") as caught:
        table.read(0, step)
    assert not caught.value.is_certain
    assert numbers_of(table, 0, step) == list(range(step))


def test_what_values_in_lists_are_called_is_no_part_of_a_type(tmp_path: Path) -> None:
    """Writers call them item or element, and promise or do not promise that none is missing."""
    types = []
    for number, field in enumerate([pa.field("item", pa.string()), pa.field("element", pa.large_string(), False)]):
        inner = pa.struct([("list", pa.list_(field)), ("map", pa.map_(pa.string(), pa.list_(field)))])
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"nested": pa.array([], inner), "plain": pa.array([], pa.list_(field))}), path)
        types.append(opened(str(path)).facts().columns)
    nested = "struct<list: list<string>, map: map<string, list<string>>>"
    assert types[0] == types[1] == {"nested": nested, "plain": "list<string>"}


def test_few_rows_of_a_large_row_group_do_not_hold_it(tmp_path: Path) -> None:
    """Neither decoded as a whole, nor read into memory as a whole."""
    path = tmp_path / "a.parquet"
    rows = 1_000_000
    random = numpy.random.default_rng(5)
    pq.write_table(pa.table({name: random.random(rows) for name in "abc"}), path, row_group_size=rows)
    table = opened(str(path))
    table.facts()
    before = pa.total_allocated_bytes()
    held = table.read(300_000, 310_000)
    assert held.num_rows == 10_000
    # 24 MB when decoded, and about as much as it is stored.
    assert pa.total_allocated_bytes() - before < 16_000_000
    table.close()


def test_only_wanted_columns_are_there_in_the_wanted_order(tmp_path: Path) -> None:
    """Nested ones by the name of the outermost."""
    table = opened(made(tmp_path / "a.parquet"), columns=["both", "n"])
    assert table.read(3, 5).to_pylist() == [
        {"both": {"plus": 3, "minus": -3}, "n": 3},
        {"both": {"plus": 4, "minus": -4}, "n": 4},
    ]
    assert table.read(0, 25_000).column_names == ["both", "n"]
    assert table.read(7, 7).column_names == ["both", "n"]


@pytest.mark.parametrize("form", ParquetTable.forms)
def test_every_form_has_the_rows(tmp_path: Path, form: str) -> None:
    """And no rows, where none are asked for."""
    path = made(tmp_path / "a.parquet", 2000, 600)
    table = opened(path, form, columns=["n", "name"])
    batch = table.read(500, 700)
    assert len(batch) == 200
    names = [row["name"] for row in batch] if form in ("records", "numpy") else list(batch["name"])
    assert str(names[150]) == "row 650"
    assert len(table.read(600, 600)) == 0


def test_ragged_columns_are_refused_as_numpy_when_the_file_is_opened(tmp_path: Path) -> None:
    """With the forms that have a place for them."""
    path = made(tmp_path / "a.parquet", 100)
    with pytest.raises(UsageError, match=r"'digits' is ragged .*as_='awkward' or 'arrow'"):
        opened(path, "numpy").facts()
    assert opened(path, "awkward").read(12, 14)["digits"].to_list() == [[12] * 2, [13] * 3]


def test_a_table_within_a_parquet_file_is_refused(tmp_path: Path) -> None:
    """There is only one."""
    with pytest.raises(UsageError, match="holds one table"):
        ParquetTable(made(tmp_path / "a.parquet", 10), "events", form="arrow")


def test_an_index_that_pandas_wrote_is_an_index_again(tmp_path: Path) -> None:
    """Also where only some of its rows are read; without its column there is none."""
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": range(100)}, index=[f"k{number}" for number in range(100)])
    path = str(tmp_path / "a.parquet")
    frame.to_parquet(path)
    assert opened(path, "pandas").read(10, 20).equals(frame[10:20])
    assert list(opened(path, "pandas", ["x"]).read(10, 20)["x"]) == list(range(10, 20))


def test_byte_ranges_are_those_of_the_wanted_columns(tmp_path: Path) -> None:
    """To overwrite all others changes nothing."""
    path = made(tmp_path / "a.parquet")
    table = opened(path, columns=["square"])
    wanted = table.byte_ranges(12_000, 25_000)
    assert len(wanted) == 2
    content = bytearray(Path(path).read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    kept = bytearray(footer)
    for found in wanted:
        kept[found.start : found.stop] = content[found.start : found.stop]
    kept[:4] = b"PAR1"
    Path(path).write_bytes(bytes(kept) + bytes(content[footer:]))
    again = opened(path, columns=["square"])
    assert again.read(12_000, 25_000)["square"].to_pylist() == [float(n) ** 2 for n in range(12_000, 25_000)]
    assert table.byte_ranges(5, 5) == []


def test_a_table_without_rows_is_fine(tmp_path: Path) -> None:
    """And row groups without rows are passed over."""
    path = tmp_path / "a.parquet"
    schema = pa.schema({"n": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        pass
    assert opened(str(path)).facts().units == 0
    assert opened(str(path)).read(0, 0).num_rows == 0
    with pq.ParquetWriter(path, schema) as writer:
        for rows in (0, 3, 0, 0, 2, 0):
            writer.write_table(pa.table({"n": list(range(rows))}, schema=schema), row_group_size=10)
    table = opened(str(path))
    assert table.facts().ends == (3, 5)
    assert numbers_of(table, 0, 5) == [0, 1, 2, 0, 1]
    assert numbers_of(table, 1, 4) == [1, 2, 0]


def test_closed_tables_hold_no_file_and_open_again(tmp_path: Path) -> None:
    """As often as needed."""
    table = opened(made(tmp_path / "a.parquet"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert numbers_of(table, 50, 52) == [50, 51]
        table.close()
        assert len(os.listdir("/proc/self/fd")) == before
    table.close()


@pytest.mark.parametrize("step", [1500, 10_000, 25_000])
def test_a_damaged_row_group_fails_from_the_same_row_whatever_the_step(tmp_path: Path, step: int) -> None:
    """The other row groups, and the rows before the damage, can be had."""
    path = made(tmp_path / "a.parquet", write_page_checksum=True, data_page_size=4096, use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(1).column(1)
    damage(path, chunk.data_page_offset + chunk.total_compressed_size // 2)
    table = opened(path)
    good: list[int] = []
    bad: list[BadRows] = []
    for at in range(0, 25_000, step):
        stop = min(at + step, 25_000)
        while at < stop:
            try:
                good += numbers_of(table, at, stop)
                at = stop  # noqa: PLW2901  # the step is done
            except BadRows as error:
                good += numbers_of(table, at, max(at, error.start))
                bad.append(error)
                at = error.stop  # noqa: PLW2901  # the rest of the step is tried
    assert all("row group 1" in error.problem and error.byte is not None for error in bad)
    first = bad[0].start
    assert 13_000 < first < 16_000
    assert first % 1024 == 10_000 % 1024
    assert bad[-1].stop == 20_000
    assert good == [*range(first), *range(20_000, 25_000)]


def test_damage_in_a_column_that_is_not_wanted_does_not_matter(tmp_path: Path) -> None:
    """It is not read."""
    path = made(tmp_path / "a.parquet", write_page_checksum=True)
    chunk = pq.read_metadata(path).row_group(1).column(1)
    damage(path, chunk.data_page_offset + 100)
    assert numbers_of(opened(path, columns=["n"]), 0, 25_000) == list(range(25_000))


def test_text_that_is_not_utf8_is_told_by_its_row(tmp_path: Path) -> None:
    """Where it would be decoded."""
    path = tmp_path / "a.parquet"
    names = pa.array([b"a", b"b", b"\xff\xfe", b"d"]).view(pa.string())
    pq.write_table(pa.table({"name": names}), path)
    with pytest.raises(BadRows) as caught:
        opened(str(path), "records").read(1, 4)
    assert (caught.value.start, caught.value.stop) == (2, 3)
    assert opened(str(path), "records").read(3, 4) == [{"name": "d"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"n,square\n1,1\n", "not a Parquet file"),
        (b"PAR1", "not complete"),
        (b"PAR1" + bytes(100), "not complete"),
        (b"PAR1" + b"\xff" * 100 + b"\x10\0\0\0PAR1", "footer"),
        (b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1", "footer"),
        (b"PARE" + bytes(100), "encrypted"),
    ],
)
def test_what_is_not_a_whole_parquet_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """By what is wrong with it."""
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(UnreadableTable, match=said):
        opened(str(path)).facts()


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """At once, not when its last rows are read."""
    path = made(tmp_path / "a.parquet")
    os.truncate(path, os.path.getsize(path) * 2 // 3)
    for look in (ParquetTable.facts, lambda table: table.read(0, 1), lambda table: table.byte_ranges(0, 1)):
        with pytest.raises(UnreadableTable, match="not complete"):
            look(opened(path))


def test_missing_columns_and_files_are_told(tmp_path: Path) -> None:
    """With what is near."""
    path = made(tmp_path / "a.parquet")
    with pytest.raises(UnreadableTable, match="has no column 'squares'") as caught:
        opened(path, columns=["squares"]).facts()
    assert "square" in str(caught.value.advice)
    with pytest.raises(UnreadableTable, match="cannot be opened"):
        opened(str(tmp_path / "none.parquet")).facts()


def test_two_columns_of_one_name_are_refused_only_where_wanted(tmp_path: Path) -> None:
    """No form could hold both."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "n"]), path)
    with pytest.raises(UnreadableTable, match="two columns 'a'"):
        opened(str(path)).facts()
    assert numbers_of(opened(str(path), columns=["n"]), 0, 1) == [3]
