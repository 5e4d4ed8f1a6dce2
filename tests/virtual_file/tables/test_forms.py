"""What a batch of rows can be, and how one becomes another."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from typing import Any

import numpy
import pytest

from aliquot.errors import MissingExtraError, UsageError
from aliquot.virtual_file.tables.forms import (
    FORMS,
    Columns,
    canonical_form,
    check_content,
    concatenate,
    from_arrow,
    from_numpy,
    needed,
)
from aliquot.virtual_file.tables.table import BadRows

pa: Any = pytest.importorskip("pyarrow")


def arrays(rows: int = 4) -> dict[str, numpy.ndarray[Any, Any]]:
    return {
        "number": numpy.arange(rows, dtype=">i4"),
        "every second": numpy.arange(2 * rows)[::2],
        "text": numpy.array([f"t{row}" for row in range(rows)], dtype="U3"),
        "bytes": numpy.array([b"b"] * rows, dtype="S1"),
        "maybe": numpy.array([None if row == 2 else f"m{row}" for row in range(rows)], dtype=object),
        "flag": numpy.arange(rows) % 2 == 0,
    }


def values(batch: Any, form: str, column: str) -> list[Any]:
    """A column of a batch, as Python's own."""
    found: list[Any]
    if form == "records":
        found = [row[column] for row in batch]
    elif form in ("numpy", "pandas"):
        found = batch[column].tolist()
    elif form == "arrow":
        found = batch[column].to_pylist()
    else:
        found = batch[column].to_list()
    return found


@pytest.mark.parametrize(("told", "meant"), [("ak", "awkward"), ("np", "numpy"), ("pd", "pandas"), ("pa", "arrow")])
def test_forms_have_short_names(told: str, meant: str) -> None:
    """As the libraries are called in scripts."""
    assert canonical_form(told, FORMS, "root") == meant
    assert canonical_form(meant, FORMS, "root") == meant


def test_the_first_form_that_is_offered_is_the_default() -> None:
    """And no other than those offered can be had."""
    assert canonical_form(None, ("numpy", "records"), "x") == "numpy"
    with pytest.raises(UsageError, match=r"sqlite gives no such batches\. Choose one of 'numpy', 'records'"):
        canonical_form("ak", ("numpy", "records"), "sqlite")
    with pytest.raises(UsageError, match="as_='cudf': there is no such form"):
        canonical_form("cudf", FORMS, "parquet")


def test_a_missing_library_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the form is chosen, and when it is made."""
    plain = importlib.util.find_spec
    hidden = {"pandas", "awkward"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in hidden else plain(name))
    with pytest.raises(UsageError, match="as_='pandas' needs pandas: pip install pandas"):
        canonical_form("pd", FORMS, "parquet")
    with pytest.raises(MissingExtraError, match=r"aliquot\[hep\]"):
        canonical_form("ak", FORMS, "parquet")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match="as_='polars' needs polars"):
        from_numpy(arrays(), "polars")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"aliquot\[hdf5\]"):
        needed("h5py", "reading HDF5")
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"aliquot\[arrow\]"):
        needed("pyarrow.parquet", "reading Parquet")


def test_columns_are_arrays_by_name_and_rows_by_number() -> None:
    """Some columns, some rows, one row."""
    batch = Columns(arrays())
    assert len(batch) == 4
    assert batch.names == tuple(arrays())
    assert batch["number"].tolist() == [0, 1, 2, 3]
    assert batch[1:3]["text"].tolist() == ["t1", "t2"]
    assert batch[batch["flag"]]["number"].tolist() == [0, 2]
    assert batch[numpy.array([3, 0])]["number"].tolist() == [3, 0]
    assert batch[["flag", "text"]].names == ("flag", "text")
    assert batch[-1] == {
        "number": 3,
        "every second": 6,
        "text": "t3",
        "bytes": b"b",
        "maybe": "m3",
        "flag": False,
    }
    assert [row["maybe"] for row in batch] == ["m0", "m1", None, "m3"]
    assert "flag" in batch
    assert "none" not in batch
    with pytest.raises(KeyError, match="there are number, "):
        batch["none"]
    with pytest.raises(IndexError):
        batch[4]
    assert len(repr(batch)) < 150


def test_columns_travel_and_may_be_none() -> None:
    """Without columns, rows are still counted; columns of different length are refused."""
    again = pickle.loads(pickle.dumps(Columns(arrays())))
    assert again["maybe"].tolist() == ["m0", "m1", None, "m3"]
    nothing = Columns({}, 3)
    assert (len(nothing), len(nothing[1:]), list(nothing)) == (3, 2, [{}, {}, {}])
    with pytest.raises(UsageError, match="'b' has 3 rows"):
        Columns({"a": numpy.arange(2), "b": numpy.arange(3)})


@pytest.mark.parametrize("form", FORMS)
def test_arrays_become_any_form(form: str) -> None:
    """All kinds of values; and batches can be put together, also with those without rows."""
    batch = from_numpy(arrays(), form)
    assert len(batch) == 4
    assert values(batch, form, "number") == [0, 1, 2, 3]
    assert values(batch, form, "every second") == [0, 2, 4, 6]
    assert values(batch, form, "text") == ["t0", "t1", "t2", "t3"]
    assert values(batch, form, "bytes") == [b"b"] * 4
    assert values(batch, form, "maybe")[3] == "m3"
    assert values(batch, form, "flag") == [True, False, True, False]
    none = from_numpy(arrays(0), form)
    assert len(none) == 0
    together = concatenate([none, batch, batch], form)
    assert len(together) == 8
    assert values(together, form, "text") == ["t0", "t1", "t2", "t3"] * 2
    assert concatenate([batch], form) is batch


def test_times_stay_exact_in_records() -> None:
    """Nanoseconds have no type of Python's own."""
    moments = numpy.array([1, 2], dtype="M8[ns]")
    assert from_numpy({"at": moments}, "records") == [{"at": moments[0]}, {"at": moments[1]}]


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow"])
def test_what_has_no_place_in_a_form_is_refused(form: str) -> None:
    """Columns of several axes, and of fields."""
    with pytest.raises(UsageError, match=r"'grid' has several axes \(float64\[3\]\)"):
        from_numpy({"grid": numpy.zeros((2, 3))}, form)
    with pytest.raises(UsageError, match="'point' has fields"):
        from_numpy({"point": numpy.zeros(2, [("x", "f4")])}, form)


def table() -> Any:
    return pa.table(
        {
            "number": pa.array([1, None, 3], pa.int32()),
            "list": [[1.5], [], [2.5, 3.5]],
            "text": ["a", None, "c"],
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "point": [{"x": 1, "y": [1]}, {"x": 2, "y": []}, {"x": 3, "y": [3]}],
            "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
        }
    )


@pytest.mark.parametrize("form", [form for form in FORMS if form != "numpy"])
def test_arrow_tables_become_any_form(form: str) -> None:
    """Nested ones too; in one piece, in several, and without rows."""
    batch = from_arrow(table(), form)
    assert len(batch) == 3
    assert [list(row) for row in values(batch, form, "list")] == [[1.5], [], [2.5, 3.5]]
    assert values(batch, form, "kind") == ["x", "y", "x"]
    assert values(batch, form, "text")[::2] == ["a", "c"]
    pieces = from_arrow(pa.concat_tables([table()[2:], table()[:0], table()[:1]]), form)
    assert values(pieces, form, "kind") == ["x", "x"]
    none = from_arrow(pa.Table.from_batches([], table().schema), form)
    assert len(none) == 0
    assert len(concatenate([batch, none, pieces], form)) == 5


def test_arrow_tables_become_numpy_arrays() -> None:
    """Of their own; missing numbers are NaN; lists of one length are a second axis."""
    source = table().drop_columns(["list"])
    batch = from_arrow(source, "numpy")
    assert batch["pair"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert batch["kind"].tolist() == ["x", "y", "x"]
    assert numpy.isnan(batch["number"][1])
    batch["pair"][:] = 0
    assert source["pair"].to_pylist() == [[1, 2], [3, 4], [5, 6]]
    assert from_arrow(source[:0], "numpy")["pair"].shape == (0, 2)


def test_ragged_columns_are_refused_as_numpy() -> None:
    """With what to do."""
    with pytest.raises(UsageError, match=r"'list' is ragged \(list.*as_='awkward' or 'arrow'"):
        from_arrow(table(), "numpy")


def test_frames_keep_an_index_that_means_something() -> None:
    """One that only counts goes on counting."""
    pandas: Any = pytest.importorskip("pandas")
    counted = pandas.DataFrame({"x": [1, 2]})
    named = pandas.DataFrame({"x": [1, 2]}, index=["a", "b"])
    assert list(concatenate([counted, counted], "pandas").index) == [0, 1, 2, 3]
    assert list(concatenate([named, named], "pandas").index) == ["a", "b", "a", "b"]


def test_columns_may_be_in_another_order_in_the_next_file() -> None:
    """They are put together by name."""
    there, here = from_numpy(arrays(), "arrow").select(["flag", "number"]), arrays()
    for form in FORMS:
        first = from_numpy({"number": here["number"], "flag": here["flag"]}, form)
        assert values(concatenate([first, from_arrow(there, form)], form), form, "number") == [0, 1, 2, 3] * 2


def test_the_first_row_with_bad_content_is_found() -> None:
    """Wherever it is, and in a table of one row; sound ones pass."""
    for row in (0, 1, 6):
        texts = [b"ok"] * 7
        texts[row] = b"\xff"
        bad = pa.table({"text": pa.array(texts).view(pa.string())})
        with pytest.raises(BadRows, match="UTF8") as caught:
            check_content(bad, 100)
        assert (caught.value.start, caught.value.stop) == (100 + row, 101 + row)
        with pytest.raises(BadRows):
            check_content(bad[row : row + 1], 0)
    neighbours = pa.table({"text": pa.array([b"ok", b"\xff", b"\xfe", b"ok", b"\xff"]).view(pa.string())})
    with pytest.raises(BadRows) as caught:
        check_content(neighbours, 0)
    assert (caught.value.start, caught.value.stop) == (1, 3)
    check_content(table(), 0)
    check_content(table()[:0], 0)
