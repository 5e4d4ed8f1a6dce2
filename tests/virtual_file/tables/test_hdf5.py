"""HDF5: datasets and groups as tables, and what is wrong with a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from aliquot.errors import UsageError
from aliquot.virtual_file.tables import hdf5
from aliquot.virtual_file.tables.hdf5 import Hdf5Table
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable

h5py: Any = pytest.importorskip("h5py")

ROWS = 5000


def made(path: Path, **options: Any) -> str:
    """A group with columns, a dataset with fields, one of several axes, and a single value beside them."""
    numbers = numpy.arange(ROWS)
    options = {"chunks": (700,), "compression": "gzip", **options}
    with h5py.File(path, "w") as file:
        file.create_dataset("events/n", data=numbers, **options)
        file.create_dataset("events/noise", data=numpy.random.default_rng(3).random(ROWS), **options)
        file.create_dataset("events/name", data=[f"röw {number}" for number in range(ROWS)])
        file.create_dataset("events/version", data=7)
        fields = numpy.zeros(ROWS, [("x", "f4"), ("y", ">i4"), ("label", h5py.string_dtype())])
        fields["x"], fields["y"], fields["label"] = numbers / 2, -numbers, [f"l{number}" for number in range(ROWS)]
        file.create_dataset("points", data=fields, chunks=(1000,))
        file.create_dataset("other/grid", data=numbers.reshape(-1, 5, 2), chunks=(100, 2, 2))
        file.create_dataset("other/plain", data=numbers)
    return str(path)


def opened(path: str, inner: str = "", form: str = "numpy", columns: list[str] | None = None) -> Hdf5Table:
    return Hdf5Table(path, inner, columns=columns, form=form)


def test_a_group_is_a_table_whose_columns_are_datasets(tmp_path: Path) -> None:
    """Those without rows are left out; chunks are what it is stored in."""
    table = opened(made(tmp_path / "a.h5"), "events")
    facts = table.facts()
    assert facts.units == ROWS
    assert facts.columns == {"n": "int64", "name": "object", "noise": "float64"}
    assert facts.ends == (*range(700, ROWS, 700), ROWS)
    assert table.read(10, 12)["name"].tolist() == ["röw 10", "röw 11"]


def test_a_dataset_with_fields_is_a_table(tmp_path: Path) -> None:
    """Only the wanted fields are read, in the wanted order."""
    table = opened(made(tmp_path / "a.h5"), "/points", "records", ["label", "x"])
    assert table.read(3, 5) == [{"label": "l3", "x": 1.5}, {"label": "l4", "x": 2.0}]
    assert list(table.facts().columns) == ["label", "x"]
    assert table.facts().ends == (1000, 2000, 3000, 4000, 5000)


def test_a_dataset_without_fields_is_one_column(tmp_path: Path) -> None:
    """By its own name."""
    table = opened(made(tmp_path / "a.h5"), "other/plain")
    assert table.facts().columns == {"plain": "int64"}
    assert table.facts().ends == ()
    assert table.read(4990, ROWS)["plain"].tolist() == list(range(4990, ROWS))


def test_without_a_name_the_table_is_what_is_outermost(tmp_path: Path) -> None:
    """The only dataset, or all of them."""
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file["points"] = numpy.zeros(3, [("x", "f4"), ("y", "f4")])
    assert list(opened(path).facts().columns) == ["x", "y"]
    with h5py.File(path, "w") as file:
        file["a"], file["b"] = numpy.arange(3), numpy.arange(3)
    assert list(opened(path).facts().columns) == ["a", "b"]


@pytest.mark.parametrize("inner", ["events", "points"])
@pytest.mark.parametrize("step", [99, 700, ROWS])
def test_steps_of_any_size_give_every_row_once(tmp_path: Path, inner: str, step: int) -> None:
    """In order."""
    table = opened(made(tmp_path / "a.h5"), inner)
    column, sign = ("n", 1) if inner == "events" else ("y", -1)
    parts = [table.read(at, min(at + step, ROWS))[column] for at in range(0, ROWS, step)]
    assert (numpy.concatenate(parts) * sign).tolist() == list(range(ROWS))


@pytest.mark.parametrize("form", Hdf5Table.forms)
def test_every_form_has_the_rows(tmp_path: Path, form: str) -> None:
    """Also text, and numbers in the byte order of another machine."""
    table = opened(made(tmp_path / "a.h5"), "points", form)
    batch = table.read(20, 30)
    assert len(batch) == 10
    rows = list(batch) if form in ("records", "numpy") else None
    labels = [row["label"] for row in rows] if rows else list(batch["label"])
    assert [str(label) for label in labels] == [f"l{number}" for number in range(20, 30)]
    assert len(table.read(5, 5)) == 0


def test_datasets_of_several_axes_fit_some_forms(tmp_path: Path) -> None:
    """Others are refused when the file is opened."""
    path = made(tmp_path / "a.h5")
    assert opened(path, "other/grid").read(3, 4)["grid"].tolist() == [[[30 + 2 * n, 31 + 2 * n] for n in range(5)]]
    with pytest.raises(UsageError, match="'grid' has several axes"):
        opened(path, "other/grid", "pandas").facts()


def test_ends_are_not_more_than_are_useful(tmp_path: Path) -> None:
    """Of many small chunks, only every so manieth is told."""
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("n", shape=(1_000_000,), dtype="f4", chunks=(10,))
    ends = opened(path).facts().ends
    assert 1000 < len(ends) <= 2000
    assert all(end % 10 == 0 for end in ends)
    assert ends[-1] == 1_000_000


def test_byte_ranges_hold_the_rows(tmp_path: Path) -> None:
    """Exactly, of a dataset in one piece; by chunks otherwise."""
    path = made(tmp_path / "a.h5", compression=None)
    content = Path(path).read_bytes()
    (found,) = opened(path, "other/plain").byte_ranges(100, 200)
    assert content[found.start : found.stop] == numpy.arange(100, 200).tobytes()
    chunks = opened(path, "events", columns=["n"]).byte_ranges(650, 710)
    stored = b"".join(content[chunk.start : chunk.stop] for chunk in chunks)
    assert numpy.arange(0, 700).tobytes() in stored
    assert numpy.arange(700, 1400).tobytes() in stored
    assert len(stored) == 2 * 700 * 8
    grid = opened(path, "other/grid").byte_ranges(0, 100)
    assert sum(chunk.stop - chunk.start for chunk in grid) == 3 * 100 * 2 * 2 * 8
    assert opened(path, "events").byte_ranges(7, 7) == []


def test_tables_without_rows_are_fine(tmp_path: Path) -> None:
    """Chunked or not."""
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("a", shape=(0,), dtype="f4", maxshape=(None,), chunks=(10,))
        file.create_dataset("b", shape=(0, 3), dtype="f4")
    table = opened(path)
    assert (table.facts().units, table.facts().ends) == (0, ())
    assert table.read(0, 0)["b"].shape == (0, 3)


def test_closed_tables_hold_no_file_and_open_again(tmp_path: Path) -> None:
    """As often as needed."""
    table = opened(made(tmp_path / "a.h5"), "events")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert table.read(3, 4)["n"].tolist() == [3]
        table.close()
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("filters", [{}, {"compression": None, "fletcher32": True}])
def test_a_damaged_chunk_is_told_alone(tmp_path: Path, filters: dict[str, Any]) -> None:
    """By its rows among those asked for, and where it is."""
    path = made(tmp_path / "a.h5", **filters)
    place = opened(path, "events", columns=["noise"]).byte_ranges(1400, 2100)[0]
    with open(path, "r+b") as file:
        file.seek(place.start + 100)
        file.write(b"\xff" * 1000)
    table = opened(path, "events")
    for start, stop, bad in [(0, ROWS, (1400, 2100)), (1500, 1600, (1500, 1600)), (2000, 3000, (2000, 2100))]:
        with pytest.raises(BadRows, match="chunk of dataset '/events/noise'") as caught:
            table.read(start, stop)
        assert (caught.value.start, caught.value.stop, caught.value.byte) == (*bad, place.start)
    assert len(table.read(0, 1400)) == 1400
    assert len(table.read(2100, ROWS)) == ROWS - 2100
    assert len(opened(path, "events", columns=["n"]).read(0, ROWS)) == ROWS


@pytest.mark.parametrize("chunks", [None, (3,)])
def test_text_that_is_not_utf8_is_told_by_its_row(tmp_path: Path, chunks: Any) -> None:
    """The other rows can be had."""
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        names = file.create_dataset("name", shape=(10,), dtype=h5py.string_dtype(), chunks=chunks)
        names[:] = [b"a"] * 7 + [b"\xff\xfe"] + [b"b"] * 2
    table = opened(path)
    with pytest.raises(BadRows, match="not UTF-8") as caught:
        table.read(1, 10)
    assert (caught.value.start, caught.value.stop) == (7, 8)
    assert table.read(8, 10)["name"].tolist() == ["b", "b"]


@pytest.mark.parametrize("chunks", [None, (50,)])
def test_a_damaged_value_of_any_length_spoils_only_its_row(tmp_path: Path, chunks: Any) -> None:
    """What a chunk holds of it is only where it is."""
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        texts = [f"row {row}" for row in range(100)]
        names = file.create_dataset("name", data=texts, dtype=h5py.string_dtype(), chunks=chunks)
        place = names.id.get_offset() if chunks is None else names.id.get_chunk_info(0).byte_offset
    with open(path, "r+b") as file:
        for row in (7, 8):
            file.seek(place + row * 16 + 12)  # its number in a heap, after its length and where the heap is
            file.write(b"\xff\xff")
    table = opened(path)
    with pytest.raises(BadRows, match="dataset '/name' cannot be read") as caught:
        table.read(0, 100)
    assert (caught.value.start, caught.value.stop, caught.value.is_certain) == (7, 9, True)
    assert table.read(9, 100)["name"].tolist() == texts[9:]


def test_chunks_that_can_be_read_alone_are_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows may do."""
    plain = hdf5._read

    def read(dataset: Any, start: int, stop: int, fields: tuple[str, ...]) -> Any:
        if stop - start > 700:
            raise OSError("too many")
        return plain(dataset, start, stop, fields)

    monkeypatch.setattr(hdf5, "_read", read)
    for column in ("n", "name"):
        with pytest.raises(BadRows, match="too many") as caught:
            opened(made(tmp_path / "a.h5"), "events", columns=[column]).read(0, 2000)
        assert not caught.value.is_certain


def test_the_length_of_text_is_no_part_of_its_type(tmp_path: Path) -> None:
    """Files whose longest texts differ belong together."""
    types = []
    for longest in (10, 12):
        with h5py.File(tmp_path / f"{longest}.h5", "w") as file:
            file.create_dataset("key", data=numpy.array([b"k" * longest]))
            file.create_dataset("grid", data=numpy.zeros((1, 3), "i4"))
        types.append(opened(str(tmp_path / f"{longest}.h5")).facts().columns)
    assert types[0] == types[1] == {"grid": "int32[3]", "key": "bytes"}


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"n,square\n1,1\n", "cannot be opened"), (b"\x89HDF\r\n\x1a\n", "cannot be opened")],
)
def test_what_is_not_hdf5_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """By what is wrong with it."""
    path = tmp_path / "a.h5"
    path.write_bytes(content)
    with pytest.raises(UnreadableTable, match=said):
        opened(str(path)).facts()


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """At once."""
    path = made(tmp_path / "a.h5")
    os.truncate(path, os.path.getsize(path) // 2)
    with pytest.raises(UnreadableTable, match="truncated"):
        opened(path, "events").facts()


def test_what_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    """A table, a column, rows, a file."""
    path = made(tmp_path / "a.h5")
    with pytest.raises(UnreadableTable, match="no dataset or group 'event'") as caught:
        opened(path, "event").facts()
    assert "events/n" in str(caught.value.advice)
    with pytest.raises(UnreadableTable, match="has no column 'm'"):
        opened(path, "events", columns=["m"]).facts()
    with pytest.raises(UnreadableTable, match="single value"):
        opened(path, "events/version").facts()
    with pytest.raises(UnreadableTable, match="'/other/grid' has 500 rows, and '/other/plain' has 5000"):
        opened(path, "other").facts()
    with pytest.raises(UnreadableTable, match="cannot be opened"):
        opened(str(tmp_path / "none.h5")).facts()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_group("empty")
    with pytest.raises(UnreadableTable, match="'empty' holds no datasets"):
        opened(str(tmp_path / "b.h5"), "empty").facts()
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["data/x"] = [1, 2]
    with pytest.raises(UnreadableTable, match="its outermost group holds no datasets") as caught:
        opened(str(tmp_path / "c.h5")).facts()
    assert caught.value.advice == "It has the datasets data/x: say c.h5:data, for example"
