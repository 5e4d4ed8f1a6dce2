"""Units that are not in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aliquot


@pytest.mark.parametrize("numbers", [range(0), range(10), range(5, 100, 7), range(10, -10, -3)])
def test_a_range_is_divided_as_it_is(numbers: range) -> None:
    """Its records are its numbers, its bytes one number a line."""
    vf = aliquot.open(numbers)
    assert len(vf) == len(numbers)
    assert list(vf) == list(numbers)
    assert list(vf[2:5]) == list(numbers[2:5])
    assert vf.read() == "".join(f"{number}\n" for number in numbers).encode()
    assert aliquot.VirtualFile.from_desc(json.loads(json.dumps(vf[2:5].to_desc()))) == vf[2:5]


def test_a_huge_range_costs_nothing() -> None:
    """It is never counted through."""
    vf = aliquot.open(range(10**15))
    assert vf[10**14 : 10**14 + 3].read() == b"100000000000000\n100000000000001\n100000000000002\n"
    assert [len(part) for part in vf.split(2, 10**14)] == [10**14, 10**14, 8 * 10**14]


@pytest.mark.parametrize("items", [[3, 1, 2], (3, 1, 2), np.array([3, 1, 2])])
def test_the_items_of_a_sequence_are_units(items: Any) -> None:
    """Of a list, a tuple and an array; a batch has the type of the sequence."""
    vf = aliquot.open(items)
    assert len(vf) == 3
    assert [int(item) for item in vf] == [3, 1, 2]
    assert vf[-1] == 2
    (batch,) = vf[1:].batches()
    assert type(batch) is type(items)


def test_an_empty_sequence_has_no_units() -> None:
    """Neither a list nor a tuple nor an array."""
    empty: list[Any] = [[], (), np.empty(0)]
    for items in empty:
        assert list(aliquot.open(items)) == []


def test_strings_are_paths_unless_they_are_said_to_be_items() -> None:
    """A list of strings with format='items' is not looked for on the disk."""
    with pytest.raises(aliquot.DataError, match="no such file"):
        aliquot.open(["no such", "files"])
    assert list(aliquot.open(["no such", "files"], "items")) == ["no such", "files"]


def test_items_have_no_bytes() -> None:
    """What has no file is not made into one by guessing."""
    vf = aliquot.open([1, 2])
    for operation in (vf.read, vf.byte_range):
        with pytest.raises(aliquot.UsageError, match="items of a Python sequence"):
            operation()
    with pytest.raises(aliquot.UsageError, match="items of a Python sequence"), vf.pipe():
        pass


@pytest.mark.parametrize("what", [5, None, {"a": 1}, {1, 2}, iter([1])])
def test_what_is_not_a_sequence_is_refused(what: Any) -> None:
    """With what can be opened instead."""
    with pytest.raises(aliquot.UsageError, match="give a path"):
        aliquot.open(what)


def test_sequences_take_no_options() -> None:
    """They have no format."""
    with pytest.raises(aliquot.UsageError, match="no format"):
        aliquot.open(range(3), "csv")
    with pytest.raises(aliquot.UsageError, match="no format"):
        aliquot.open([1, 2], delimiter=";")


def test_only_the_items_of_a_slice_travel() -> None:
    """A description of three of a million items is small, and its units keep their numbers."""
    vf = aliquot.open(list(range(1_000_000)))[500_000:500_003]
    text = json.dumps(vf.to_desc())
    assert len(text) < 500
    travelled = aliquot.VirtualFile.from_desc(json.loads(text))
    assert (travelled.start, travelled.stop, list(travelled)) == (500_000, 500_003, [500_000, 500_001, 500_002])


@pytest.mark.parametrize("items", [[3, 1, 2, 5], (3, 1, 2, 5), np.array([3, 1, 2, 5])], ids=["list", "tuple", "array"])
def test_slices_of_a_sequence_that_travelled_are_joined_again(items: Any) -> None:
    """As one window of the same type."""
    halves = [
        aliquot.VirtualFile.from_desc(json.loads(json.dumps(half.to_desc())))
        for half in aliquot.open(items).split(1, 2)
    ]
    (whole,) = halves[1].join(halves[0])
    (batch,) = whole.batches()
    assert type(batch) is type(items)
    assert list(batch) == [3, 1, 2, 5]


def through_json(vf: aliquot.VirtualFile) -> aliquot.VirtualFile:
    return aliquot.VirtualFile.from_desc(json.loads(json.dumps(vf.to_desc())))


def as_it_is(vf: aliquot.VirtualFile) -> aliquot.VirtualFile:
    return vf


@pytest.mark.parametrize("travel", [as_it_is, through_json])
def test_views_of_two_lists_are_never_joined(travel: Callable[[aliquot.VirtualFile], aliquot.VirtualFile]) -> None:
    """Though their numbers touch, and though the lists are equal, each keeps its own items."""
    for other in ([7, 8, 9], [1, 2, 3]):
        first, second = travel(aliquot.open([1, 2, 3])[:2]), travel(aliquot.open(other)[2:])
        assert [list(view) for view in first.join(second)] == [[1, 2], [other[2]]]
        assert [list(view) for view in second.join(first)] == [[1, 2], [other[2]]]


@pytest.mark.parametrize("travel", [as_it_is, through_json])
def test_views_of_one_list_are_joined(travel: Callable[[aliquot.VirtualFile], aliquot.VirtualFile]) -> None:
    """Where they touch; also one that travelled with one that stayed."""
    vf = aliquot.open([1, 2, 3, 4, 5])
    for first, second in ((travel(vf[:2]), travel(vf[2:])), (travel(vf[:2]), vf[2:]), (vf[:2], travel(vf[2:]))):
        assert [list(view) for view in first.join(second)] == [[1, 2, 3, 4, 5]]
    assert [list(view) for view in travel(vf[:2]).join(travel(vf[3:]))] == [[1, 2], [4, 5]]
