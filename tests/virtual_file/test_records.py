"""JSON lines, records of a fixed size and numpy arrays."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import aliquot

from .making import write
from .refusals import refused


@pytest.mark.parametrize(
    ("bad", "says"),
    [(b"{'a': 1}\n", "not JSON"), (b"\n", "blank"), (b"1 2\n", "not JSON"), (b'{"a": \n', "not JSON")],
    ids=["quotes", "blank", "two values", "torn"],
)
def test_a_line_that_is_not_json_is_refused(tmp_path: Path, bad: bytes, says: str) -> None:
    """With its unit and its byte; those around it can be read."""
    before = b'{"a": 1}\n[2, 3]\n'
    path = write(tmp_path / "a.jsonl", before + bad + b"4\n")
    vf = aliquot.open(path)
    assert len(vf) == 4
    with refused(says, path=path, unit=2, byte=len(before)):
        list(vf)
    assert (vf[0], vf[1], vf[3]) == ({"a": 1}, [2, 3], 4)


def test_json_lines_without_a_known_name_are_known_by_their_first_line(tmp_path: Path) -> None:
    """If it is an object or an array."""
    assert list(aliquot.open(write(tmp_path / "data", b'{"a": 1}\n{"a": 2}\n'))) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("options", [{"record_bytes": 8}, {"dtype": "<f8"}])
def test_a_torn_last_record_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """With its unit, its byte, and how much of it there is."""
    path = write(tmp_path / "a.bin", bytes(8 * 5 + 3))
    with refused("3 of 8 bytes", path=path, unit=5, byte=40):
        len(aliquot.open(path, "fixed", **options))


def test_fixed_records_are_bytes_or_arrays(tmp_path: Path) -> None:
    """Bytes for record_bytes, an array for dtype; slices are the bytes of the file."""
    numbers = np.arange(100, dtype="<i4")
    path = write(tmp_path / "a.bin", numbers.tobytes())
    vf = aliquot.open(path, "fixed", record_bytes=4)
    assert (vf[7], len(vf)) == (numbers[7:8].tobytes(), 100)
    arrays = aliquot.open(path, "fixed", dtype="<i4")
    (batch,) = arrays[10:20].batches()
    assert isinstance(batch, np.ndarray)
    assert batch.tolist() == list(range(10, 20))
    assert arrays[10:20].read() == numbers[10:20].tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.dtype("<f8"), float])
def test_a_dtype_may_be_given_as_numpy_users_give_it(tmp_path: Path, dtype: Any) -> None:
    """As a dtype or a type, not only as its name."""
    vf = aliquot.open(write(tmp_path / "a.bin", np.arange(3.0).tobytes()), "fixed", dtype=dtype)
    assert list(vf) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"record_bytes": 0},
        {"record_bytes": -1},
        {"record_bytes": 4, "dtype": "<i4"},
        {"dtype": "no dtype"},
        {"dtype": "O"},
        {"dtype": "V0"},
        {"dtype": "(2,)<f4"},
        {"dtype": np.dtype(("<f4", (2, 3)))},
    ],
)
def test_records_without_a_size_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    """Exactly one of record_bytes and dtype must give one."""
    with pytest.raises(aliquot.UsageError):
        aliquot.open(write(tmp_path / "a.bin", bytes(16)), "fixed", **options)


ARRAYS: dict[str, NDArray[Any]] = {
    "1-d": np.arange(1000, dtype=np.float32),
    "2-d": np.arange(3000, dtype=np.int16).reshape(1000, 3),
    "3-d": np.arange(8000, dtype="<i8").reshape(1000, 2, 4),
    "structured": np.array([(n, n / 2, f"n{n}") for n in range(1000)], dtype=[("a", "<i4"), ("b", "<f8"), ("c", "U5")]),
    "text": np.array([f"n{n}" for n in range(1000)]),
    "big-endian": np.arange(1000, dtype=">u2"),
    "booleans": np.arange(1000) % 3 == 0,
    "no rows": np.zeros((0, 3)),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_rows_of_an_array_are_units(tmp_path: Path, kind: str) -> None:
    """Batches of them are arrays of the same type, and make the whole again."""
    array = ARRAYS[kind]
    np.save(tmp_path / "a.npy", array)
    vf = aliquot.open(tmp_path / "a.npy")
    assert len(vf) == len(array)
    batches = [np.asarray(batch) for batch in vf.batches(37)]
    assert all(batch.dtype == array.dtype for batch in batches)
    assert np.array_equal(np.concatenate([array[:0], *batches]), array)


@pytest.mark.parametrize("kind", ARRAYS)
def test_a_slice_of_an_array_is_loaded_by_numpy(tmp_path: Path, kind: str) -> None:
    """It is a .npy file with its own number of rows."""
    array = ARRAYS[kind]
    np.save(tmp_path / "a.npy", array)
    view = aliquot.open(tmp_path / "a.npy")[200:450]
    view.instantiate(tmp_path / "part.npy")
    found = np.load(tmp_path / "part.npy")
    assert found.dtype == array.dtype
    assert np.array_equal(found, array[200:450])
    assert np.array_equal(np.load(io.BytesIO(view.read())), array[200:450])


def test_an_array_by_columns_is_refused(tmp_path: Path) -> None:
    """Its rows are not in one place; the message says how to save it."""
    np.save(tmp_path / "a.npy", np.asfortranarray(np.arange(6).reshape(2, 3)))
    with refused("ascontiguousarray", path=tmp_path / "a.npy"):
        aliquot.open(tmp_path / "a.npy")


def test_an_array_of_objects_is_refused(tmp_path: Path) -> None:
    """Pickled objects have no fixed size, and unpickling them would run code."""
    np.save(tmp_path / "a.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    with refused("objects", path=tmp_path / "a.npy"):
        aliquot.open(tmp_path / "a.npy")


@pytest.mark.parametrize("array", [np.array(5), np.zeros((3, 0))], ids=["a number", "empty rows"])
def test_an_array_without_rows_to_divide_is_refused(tmp_path: Path, array: NDArray[Any]) -> None:
    """With what to save instead."""
    np.save(tmp_path / "a.npy", array)
    with refused("rows", path=tmp_path / "a.npy"):
        aliquot.open(tmp_path / "a.npy")


@pytest.mark.parametrize("missing_bytes", [1, 8, 12, 400])
def test_a_truncated_array_is_refused(tmp_path: Path, missing_bytes: int) -> None:
    """Whether it is cut inside a row or between two."""
    np.save(tmp_path / "a.npy", np.arange(100, dtype="<f8"))
    whole = (tmp_path / "a.npy").read_bytes()
    path = write(tmp_path / "cut.npy", whole[:-missing_bytes])
    for _ in range(2):
        with refused("header announces 100 rows|middle of a record", path=path):
            len(aliquot.open(path))


@pytest.mark.parametrize("kept_bytes", [0, 5, 9, 40])
def test_an_array_without_its_whole_header_is_refused(tmp_path: Path, kept_bytes: int) -> None:
    """Also one that is empty."""
    np.save(tmp_path / "a.npy", np.arange(100))
    path = write(tmp_path / "cut.npy", (tmp_path / "a.npy").read_bytes()[:kept_bytes])
    with refused("header", path=path, byte=0):
        aliquot.open(path)


def test_bytes_behind_an_array_are_refused(tmp_path: Path) -> None:
    """Two arrays in one file are not one array."""
    np.save(tmp_path / "a.npy", np.arange(100, dtype="<f8"))
    path = write(tmp_path / "two.npy", (tmp_path / "a.npy").read_bytes() * 2)
    with refused("header announces 100 rows|middle of a record", path=path):
        list(aliquot.open(path))
