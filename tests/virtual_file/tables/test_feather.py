"""Arrow IPC files, which Feather is another name of."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy
import pytest

from aliquot.virtual_file.tables.feather import FeatherTable
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable

pa: Any = pytest.importorskip("pyarrow")


def made(path: Path, rows: int = 2500, batch: int = 1000, compression: str | None = None) -> str:
    numbers = numpy.arange(rows)
    table = pa.table(
        {
            "n": numbers,
            "square": numbers.astype(float) ** 2,
            "name": [f"row {number}" for number in numbers.tolist()],
            "kind": pa.array([("odd" if number % 2 else "even") for number in range(rows)]).dictionary_encode(),
        }
    )
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)
    return str(path)


def opened(path: str, form: str = "arrow", columns: list[str] | None = None) -> FeatherTable:
    return FeatherTable(path, columns=columns, form=form)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_record_batches_are_known_without_reading_them(tmp_path: Path, compression: str | None) -> None:
    """And their bytes, which follow each other."""
    path = made(tmp_path / "a.feather", compression=compression)
    table = opened(path, columns=["name", "n"])
    facts = table.facts()
    assert (facts.units, facts.ends) == (2500, (1000, 2000, 2500))
    assert facts.columns == {"name": "string", "n": "int64"}
    (whole,) = table.byte_ranges(0, 2500)
    assert table.byte_ranges(0, 1)[0].start == whole.start
    assert table.byte_ranges(1000, 2000)[0].start == table.byte_ranges(0, 1000)[0].stop
    assert table.byte_ranges(2499, 2500)[0].stop == whole.stop
    assert table.byte_ranges(3, 3) == []
    assert 0 < whole.start < whole.stop < os.path.getsize(path)


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("step", [7, 1000, 1300, 2500])
def test_steps_of_any_size_give_every_row_once(tmp_path: Path, step: int, compression: str | None) -> None:
    """In order, compressed or not."""
    table = opened(made(tmp_path / "a.arrow", compression=compression), columns=["kind", "n"])
    parts = [table.read(at, min(at + step, 2500)) for at in range(0, 2500, step)]
    assert [number for part in parts for number in part["n"].to_pylist()] == list(range(2500))
    assert parts[-1].column_names == ["kind", "n"]


def test_a_compressed_record_batch_is_decompressed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps its rows are read in."""
    table = opened(made(tmp_path / "a.arrow", compression="lz4"))
    table.facts()
    reader = table._reader
    numbers: list[int] = []

    class Noting:
        def get_batch(self, number: int) -> Any:
            numbers.append(number)
            return reader.get_batch(number)

    monkeypatch.setattr(table, "_reader", Noting())
    for at in range(0, 2500, 100):
        table.read(at, at + 100)
    assert numbers == [0, 1, 2]


@pytest.mark.parametrize("form", FeatherTable.forms)
def test_every_form_has_the_rows(tmp_path: Path, form: str) -> None:
    """Also across record batches, and where there are none."""
    table = opened(made(tmp_path / "a.feather"), form)
    batch = table.read(900, 1100)
    assert len(batch) == 200
    kinds = [row["kind"] for row in batch] if form in ("records", "numpy") else list(batch["kind"])
    assert [str(kind) for kind in kinds[150:152]] == ["even", "odd"]
    assert len(table.read(5, 5)) == 0


def test_rows_outlive_the_table(tmp_path: Path) -> None:
    """A closed table holds no file, and opens again; what it gave stays."""
    table = opened(made(tmp_path / "a.feather"))
    before = len(os.listdir("/proc/self/fd"))
    rows = table.read(10, 20)
    table.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert rows["n"].to_pylist() == list(range(10, 20))
    assert table.read(2400, 2401)["name"].to_pylist() == ["row 2400"]
    table.close()


def test_a_table_without_rows_is_fine(tmp_path: Path) -> None:
    """Without record batches, or with empty ones among others."""
    path = str(tmp_path / "a.feather")
    schema = pa.schema({"n": pa.int64()})
    with pa.ipc.new_file(path, schema):
        pass
    assert opened(path).facts().units == 0
    assert opened(path).read(0, 0).num_rows == 0
    with pa.ipc.new_file(path, schema) as writer:
        for rows in (0, 2, 0, 3):
            writer.write_batch(pa.record_batch({"n": list(range(rows))}, schema=schema))
    assert opened(path).facts().ends == (2, 5)
    assert opened(path).read(1, 4)["n"].to_pylist() == [1, 0, 1]


def test_a_damaged_record_batch_is_told_alone(tmp_path: Path) -> None:
    """By all its rows, also those that nobody asked for, and where it is."""
    path = made(tmp_path / "a.feather", compression="zstd")
    place = opened(path).byte_ranges(1000, 2000)[0]
    with open(path, "r+b") as file:
        file.seek((place.start + place.stop) // 2)
        file.write(b"\xff" * ((place.stop - place.start) // 2 - 8))
    table = opened(path)
    for start, stop in [(0, 2500), (500, 1500), (1200, 1300)]:
        with pytest.raises(BadRows, match="record batch 1") as caught:
            table.read(start, stop)
        assert (caught.value.start, caught.value.stop, caught.value.byte) == (1000, 2000, place.start)
    assert table.read(0, 1000).num_rows == 1000
    assert table.read(2000, 2500).num_rows == 500


def test_a_wrong_offset_is_told_and_does_not_end_the_process(tmp_path: Path) -> None:
    """Nothing but a look at the content finds it in a mapped file."""
    path = made(tmp_path / "a.feather", 300, 300)
    content = Path(path).read_bytes()
    at = content.index(struct.pack("<4i", 0, 5, 10, 15))  # the lengths of "row 0", "row 1", ...
    wrong = content[: at + 400] + struct.pack("<i", 2**30) + content[at + 404 :]
    Path(path).write_bytes(wrong)
    with pytest.raises(BadRows, match="a value cannot be what it is") as caught:
        opened(path, "records").read(0, 300)
    # A row ends where the next begins: the wrong one is both.
    assert (caught.value.start, caught.value.stop) == (99, 101)
    assert opened(path, "records").read(0, 90)[89]["name"] == "row 89"


def old_version() -> bytes:
    """The beginning of a file that no writer of today makes."""
    return b"FEA1" + bytes(60)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"n,square\n1,1\n", "not an Arrow file"),
        (old_version(), "version 1"),
        (b"\xff\xff\xff\xff" + bytes(60), "stream"),
        (b"ARROW1\0\0" + bytes(60), "not complete"),
        (b"ARROW1", "not complete"),
        (b"ARROW1\0\0" + bytes(60) + b"\x20\0\0\0ARROW1", "footer"),
        (b"ARROW1\0\0" + b"\xff" * 60 + b"\xff\xff\xff\x7fARROW1", "footer"),
    ],
)
def test_what_is_not_a_whole_arrow_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """By what is wrong with it."""
    path = tmp_path / "a.feather"
    path.write_bytes(content)
    with pytest.raises(UnreadableTable, match=said):
        opened(str(path)).facts()


def test_truncated_and_missing_are_told(tmp_path: Path) -> None:
    """A file without its end, a column, a file."""
    path = made(tmp_path / "a.feather")
    with pytest.raises(UnreadableTable, match="has no column 'm'"):
        opened(path, columns=["m"]).read(0, 1)
    os.truncate(path, os.path.getsize(path) - 100)
    with pytest.raises(UnreadableTable, match="not complete"):
        opened(path).facts()
    with pytest.raises(UnreadableTable, match="cannot be opened"):
        opened(str(tmp_path / "none.arrow")).facts()
