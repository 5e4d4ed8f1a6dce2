"""Archives of numpy arrays, stored or compressed."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

from aliquot.errors import UsageError
from aliquot.virtual_file.tables import npz
from aliquot.virtual_file.tables.npz import NpzTable
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable

ROWS = 5000


def arrays() -> dict[str, numpy.ndarray[Any, Any]]:
    numbers = numpy.arange(ROWS)
    return {
        "n": numbers,
        "noise": numpy.random.default_rng(3).random(ROWS),
        "name": numpy.array([f"row {number}" for number in range(ROWS)]),
        "big": numbers.astype(">i4"),
    }


def made(path: Path, content: dict[str, Any] | None = None, *, compressed: bool = False) -> str:
    save: Any = numpy.savez_compressed if compressed else numpy.savez
    save(path, **(arrays() if content is None else content))
    return str(path)


def member_of(path: str, name: str) -> zipfile.ZipInfo:
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(f"{name}.npy")


def opened(path: str, form: str = "numpy", columns: list[str] | None = None, inner: str = "") -> NpzTable:
    return NpzTable(path, inner, columns=columns, form=form)


@pytest.fixture(params=["stored", "decompressed once", "decompressed by and by"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive, in each of the ways in which one is read."""
    if request.param == "decompressed by and by":
        monkeypatch.setattr(npz, "_KEPT_BYTES", 0)
    return made(tmp_path / "a.npz", compressed=request.param != "stored")


def test_facts_come_from_the_headers(path: str) -> None:
    """Rows and types."""
    facts = opened(path, columns=["name", "n"]).facts()
    assert facts.units == ROWS
    assert facts.columns == {"name": "str", "n": "int64"}


@pytest.mark.parametrize("step", [37, 1000, ROWS])
def test_steps_of_any_size_give_every_row_once(path: str, step: int) -> None:
    """In order, all columns."""
    table = opened(path)
    parts = [table.read(at, min(at + step, ROWS)) for at in range(0, ROWS, step)]
    for name, array in arrays().items():
        together = numpy.concatenate([part[name] for part in parts])
        assert parts[0][name].dtype == array.dtype
        assert numpy.array_equal(together, array)


def test_rows_may_be_asked_for_in_any_order(path: str) -> None:
    """Forwards, backwards, none; and they belong to the caller."""
    table = opened(path, columns=["n"])
    for start, stop in [(4000, 4010), (100, 110), (105, 107), (0, 0), (4999, 5000)]:
        batch = table.read(start, stop)
        assert batch["n"].tolist() == list(range(start, stop))
        batch["n"][:] = 0
    assert table.read(105, 107)["n"].tolist() == [105, 106]


def test_large_compressed_arrays_are_decompressed_once_for_consecutive_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream goes on where it was."""
    monkeypatch.setattr(npz, "_KEPT_BYTES", 0)
    table = opened(made(tmp_path / "a.npz", compressed=True), columns=["n"])
    table.facts()
    begun: list[str] = []
    plain = zipfile.ZipFile.open

    def noting(self: zipfile.ZipFile, member: Any, *more: Any) -> Any:
        begun.append(member.filename)
        return plain(self, member, *more)

    monkeypatch.setattr(zipfile.ZipFile, "open", noting)
    for at in range(1000, ROWS, 500):
        table.read(at, at + 500)
    assert begun == ["n.npy"]


@pytest.mark.parametrize("form", NpzTable.forms)
def test_every_form_has_the_rows(path: str, form: str) -> None:
    """Also numbers in the byte order of another machine."""
    batch = opened(path, form).read(20, 30)
    assert len(batch) == 10
    rows = list(batch) if form in ("records", "numpy") else None
    numbers = [row["big"] for row in rows] if rows else list(batch["big"])
    assert [int(str(number)) for number in numbers] == list(range(20, 30))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_of_several_axes_fit_some_forms(tmp_path: Path, order: Any, compressed: bool) -> None:
    """However they lie in memory; others are refused when the file is opened."""
    grid = numpy.asarray(numpy.arange(600).reshape(100, 3, 2), order=order)
    path = made(tmp_path / "a.npz", {"grid": grid}, compressed=compressed)
    assert numpy.array_equal(opened(path).read(30, 50)["grid"], grid[30:50])
    assert opened(path, "records").read(7, 8) == [{"grid": grid[7].tolist()}]
    assert opened(path, "awkward").read(7, 9)["grid"].to_list() == grid[7:9].tolist()
    assert opened(path).facts().columns == {"grid": "int64[3, 2]"}
    for form in ("pandas", "polars", "arrow"):
        with pytest.raises(UsageError, match="'grid' has several axes"):
            opened(path, form).facts()


def test_byte_ranges_hold_the_rows(tmp_path: Path) -> None:
    """Exactly, where they are stored as they are; of compressed arrays, all."""
    path = made(tmp_path / "a.npz")
    (found,) = opened(path, columns=["n"]).byte_ranges(100, 200)
    content = Path(path).read_bytes()
    assert content[found.start : found.stop] == numpy.arange(100, 200).tobytes()
    path = made(tmp_path / "b.npz", compressed=True)
    (found,) = opened(path, columns=["noise"]).byte_ranges(100, 200)
    assert found.stop - found.start == member_of(path, "noise").compress_size
    assert opened(path).byte_ranges(9, 9) == []


def test_one_array_may_be_named_with_the_file(tmp_path: Path) -> None:
    """Its length then is that of the table."""
    path = made(tmp_path / "a.npz", {"a": numpy.arange(3), "b": numpy.arange(4)})
    assert opened(path, inner="b").facts().units == 4
    assert opened(path, inner="b").read(1, 3)["b"].tolist() == [1, 2]
    with pytest.raises(UnreadableTable, match="no array 'c'"):
        opened(path, inner="c").facts()


def test_arrays_without_rows_are_fine(tmp_path: Path) -> None:
    """And so is an archive without arrays."""
    for compressed in (False, True):
        path = made(
            tmp_path / "a.npz", {"a": numpy.zeros(0), "b": numpy.zeros((0, 3), order="F")}, compressed=compressed
        )
        assert opened(path).facts().units == 0
        assert opened(path).read(0, 0)["b"].shape == (0, 3)
    assert opened(made(tmp_path / "b.npz", {})).facts().units == 0


def test_closed_tables_hold_no_file_and_open_again(path: str) -> None:
    """As often as needed."""
    table = opened(path)
    for _ in range(2):
        assert table.read(3, 4)["name"].tolist() == ["row 3"]
        assert is_open(path)
        table.close()
        assert not is_open(path)


def is_open(path: str) -> bool:
    """Whether this process holds the file; what other tests have left behind may go at any time."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return any(os.path.exists(link) and os.path.samefile(link, path) for link in links)


def damaged(path: Path) -> tuple[str, numpy.ndarray[Any, Any]]:
    """A compressed array with some other bytes in its middle."""
    noise = numpy.random.default_rng(3).random(ROWS * 8)
    made(path, {"noise": noise}, compressed=True)
    (place,) = opened(str(path)).byte_ranges(0, 1)
    with open(path, "r+b") as file:
        file.seek((place.start + place.stop) // 2)
        file.write(b"\0" * 500)
    return str(path), noise


def read_to_the_damage(table: NpzTable, step: int) -> int:
    """The first row that could not be had."""
    for at in range(0, ROWS * 8, step):
        try:
            table.read(at, min(at + step, ROWS * 8))
        except BadRows as error:
            return error.start
    raise AssertionError("all rows could be had")


def test_no_row_of_a_damaged_array_is_given_where_the_damage_is_known(tmp_path: Path) -> None:
    """It was decompressed as a whole, and where it begins to be wrong nobody can tell."""
    path, _ = damaged(tmp_path / "a.npz")
    table = opened(path)
    for start, stop in [(0, 10), (5, 4000), (30_000, 30_001)]:
        with pytest.raises(BadRows, match="'noise' cannot be decompressed") as caught:
            table.read(start, stop)
        assert (caught.value.start, caught.value.stop) == (start, stop)


def test_a_large_damaged_array_fails_from_the_same_row_whatever_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed on the way; the rows well before it can be had."""
    monkeypatch.setattr(npz, "_KEPT_BYTES", 0)
    path, noise = damaged(tmp_path / "a.npz")
    firsts = set()
    for step in (300, 7000, ROWS * 8):
        table = opened(path)
        first = read_to_the_damage(table, step)
        firsts.add(first)
        assert len(table.read(first - 100, first)) == 100
        assert numpy.array_equal(table.read(0, 19_000)["noise"], noise[:19_000])
        with pytest.raises(BadRows) as caught:
            table.read(first - 1, first + 3)
        assert (caught.value.start, caught.value.stop) == (first, first + 3)
        assert "may be wrong too" in str(caught.value.advice)
    assert len(firsts) == 1


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    """Where the bytes can be decompressed, and are others."""
    path = made(tmp_path / "a.npz", {"n": numpy.arange(9000)}, compressed=True)
    content = Path(path).read_bytes()
    checksum = member_of(path, "n").CRC.to_bytes(4, "little")
    assert content.count(checksum) == 2
    Path(path).write_bytes(content.replace(checksum, b"\1\2\3\4"))
    with pytest.raises(BadRows, match="CRC"):
        opened(path).read(0, 9000)


def archive_of(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def saved(array: numpy.ndarray[Any, Any]) -> bytes:
    content = io.BytesIO()
    numpy.save(content, array)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"n,square\n1,1\n", "not a numpy archive"),
        (archive_of(a=saved(numpy.arange(1000)))[:4000], "no list of its arrays"),
        (archive_of(a=b"no header"), "header of array 'a'"),
        (archive_of(a=b""), "header of array 'a'"),
        (archive_of(a=saved(numpy.arange(10))[:-8]), "announces 208 bytes, and has 200"),
        (archive_of(a=saved(numpy.array(5))), "single value"),
        (archive_of(a=saved(numpy.array([{}, None]))), "Python objects"),
        (archive_of(a=saved(numpy.arange(3)), b=saved(numpy.arange(4))), "'a' has 3 rows, and 'b' has 4"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """By what is wrong with it."""
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(UnreadableTable, match=said):
        opened(str(path)).facts()


def test_missing_columns_and_files_are_told(tmp_path: Path) -> None:
    """And only the wanted arrays must be sound."""
    path = made(tmp_path / "a.npz", {"a": numpy.arange(3), "b": numpy.array([None]), "c": numpy.arange(4)})
    with pytest.raises(UnreadableTable, match="has no column 'd'"):
        opened(path, columns=["d"]).facts()
    assert opened(path, columns=["a"]).read(0, 3)["a"].tolist() == [0, 1, 2]
    with pytest.raises(UnreadableTable, match="cannot be opened"):
        opened(str(tmp_path / "none.npz")).facts()


def test_an_archive_is_known_by_its_first_member(tmp_path: Path) -> None:
    """Other zip archives are not taken for one."""
    assert NpzTable.looks_like(Path(made(tmp_path / "a.npz")).read_bytes()[:64])
    assert not NpzTable.looks_like(b"PK\x03\x04" + bytes(60))
    assert not NpzTable.looks_like(b"PK\x03\x04")


def test_the_length_of_text_is_no_part_of_its_type(tmp_path: Path) -> None:
    """Files whose longest texts differ belong together."""
    types = []
    for name, longest in (("a", 2), ("b", 3)):
        fields = numpy.zeros(4, [("key", f"S{longest}"), ("pair", "f4", (2,))])
        numpy.savez(tmp_path / f"{name}.npz", text=numpy.array(["x" * longest] * 4), fields=fields)
        types.append(opened(str(tmp_path / f"{name}.npz")).facts().columns)
    assert types[0] == types[1] == {"text": "str", "fields": "{key: bytes, pair: float32[2]}"}
