"""What SQLite's rows become: columns, whose values may be of any type, and batches of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import accumulate, repeat
from typing import Any

import numpy as np

from aliquot.errors import UsageError
from aliquot.virtual_file.tables.forms import from_arrow, from_numpy, needed

# Small enough for the caches: takes about a quarter less time than all rows at once.
_ROWS_AT_ONCE = 1024
_LARGEST_EXACT_FLOAT = 2.0**53
# What columns hold in which there is nothing, or only NULL.
_KINDS: dict[str, type] = {"integer": int, "real": float, "numeric": float}


def columns_of(cursor: sqlite3.Cursor, width: int) -> list[list[Any]]:
    """The values of each column, from rows that are fetched some at a time."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.extend(values)
    return columns


def dicts(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """A dictionary for each row, made without a line of Python for each."""
    return map(dict, map(zip, repeat(tuple(columns)), zip(*columns.values(), strict=True)))


def batch_of(columns: Mapping[str, list[Any]], types: Mapping[str, str], form: str) -> Any:
    """Rows in any form but records, from the values of each column and its declared type."""
    if form == "awkward":
        return ragged(columns, [], {}, types)
    if form in ("arrow", "polars"):
        arrow = needed("pyarrow", f"as_={form!r} of SQLite tables")
        return from_arrow(
            arrow.table({name: _arrow_array(name, values, types[name], arrow) for name, values in columns.items()}),
            form,
        )
    return from_numpy({name: _numpy_array(values, types[name]) for name, values in columns.items()}, form)


def ragged(
    flat: Mapping[str, list[Any]], counts: list[int], listed: Mapping[str, list[Any]], types: Mapping[str, str]
) -> Any:
    """An awkward array of records: some fields have a value for each, others a list of as many as are counted."""
    awkward = needed("awkward", "as_='awkward'")
    contents = {name: _awkward_layout(values, types[name], awkward) for name, values in flat.items()}
    offsets = awkward.index.Index64(np.fromiter(accumulate(counts, initial=0), dtype=np.int64))
    for name, values in listed.items():
        content = _awkward_layout(values, types[name], awkward)
        contents[name] = awkward.contents.ListOffsetArray(offsets, content)
    rows = len(next(iter(flat.values())))
    return awkward.Array(awkward.contents.RecordArray(list(contents.values()), list(contents), length=rows))


def _numpy_array(values: list[Any], declared: str) -> np.ndarray[Any, Any]:
    kinds = set(map(type, values))
    has_nulls = type(None) in kinds
    kinds.discard(type(None))
    affinity = _affinity(declared)
    if not kinds:
        kinds = {_KINDS.get(affinity, object)}
    if kinds == {int} and not has_nulls:
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float}:
        floats = np.array(values, dtype=np.float64)
        if kinds == {float} or not (np.abs(floats) >= _LARGEST_EXACT_FLOAT).any():
            return floats
    return np.array(values, dtype=object)


def _awkward_layout(values: list[Any], declared: str, awkward: Any) -> Any:
    contents = awkward.contents
    kinds = set(map(type, values))
    if type(None) in kinds and len(kinds) == 2:
        (kind,) = kinds - {type(None)}
        is_null = np.fromiter((value is None for value in values), dtype=np.int8, count=len(values))
        present = _awkward_layout([kind() if value is None else value for value in values], declared, awkward)
        return contents.ByteMaskedArray(awkward.index.Index8(is_null), present, valid_when=False)
    if kinds == {str}:
        encoded = list(map(str.encode, values))  # awkward itself takes each by itself: twenty times as long
        ends = np.fromiter(accumulate(map(len, encoded), initial=0), dtype=np.int64, count=len(encoded) + 1)
        characters = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return contents.ListOffsetArray(
            awkward.index.Index64(ends),
            contents.NumpyArray(characters, parameters={"__array__": "char"}),
            parameters={"__array__": "string"},
        )
    if type(None) not in kinds:
        array = _numpy_array(values, declared)
        if array.dtype.kind in "if":
            return contents.NumpyArray(array)
    return awkward.from_iter(values, highlevel=False)


def _arrow_array(name: str, values: list[Any], declared: str, arrow: Any) -> Any:
    """Of the declared type where that fits, so that all batches have the same."""
    kinds = set(map(type, values)) - {type(None)}
    # Not left to arrow, which cuts the fraction off a number that should be an integer.
    fitting = {"integer": (int, arrow.int64()), "real": (float, arrow.float64()), "text": (str, arrow.string())}
    expected, arrow_type = fitting.get(_affinity(declared), (None, None))
    if not kinds <= {expected}:
        arrow_type = None
    if len(kinds) <= 1 or kinds == {int, float}:
        try:
            return arrow.array(values, type=arrow_type)
        except arrow.ArrowInvalid:  # an integer that is too large to be among floats
            pass
    raise UsageError(
        f"column {name!r} holds values of several types ({', '.join(sorted(kind.__name__ for kind in kinds))}), "
        "which arrow has no place for: use as_='records', 'numpy' or 'awkward', or leave the column out"
    )


def _affinity(declared: str) -> str:
    """What a column prefers to hold, by SQLite's rules for the text of its declaration."""
    upper = declared.upper()
    for affinity, words in (
        ("integer", ("INT",)),
        ("text", ("CHAR", "CLOB", "TEXT")),
        ("blob", ("BLOB",)),
        ("real", ("REAL", "FLOA", "DOUB")),
    ):
        if any(word in upper for word in words):
            return affinity
    return "numeric" if upper else "blob"
