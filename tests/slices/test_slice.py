from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import UsageError
from aliquot.slices import Slice, find_cover_fault


@st.composite
def slices(draw: st.DrawFn) -> Slice:
    start = draw(st.integers(0, 100))
    return Slice(start, start + draw(st.integers(0, 100)))


@given(slices(), st.integers(1, 20), st.integers(1, 50))
def test_a_split_covers_exactly_in_order(whole: Slice, count: int, size: int) -> None:
    """The parts of a split are the whole, each unit once, and none is empty."""
    parts = whole.split(count, size)
    if len(whole):
        assert find_cover_fault(whole, parts) is None
    else:
        assert parts == []


@given(slices(), st.integers(1, 20), st.integers(1, 50))
def test_a_split_gives_equal_parts_and_one_with_what_remains(whole: Slice, count: int, size: int) -> None:
    """At most count parts of the size, then at most one other."""
    sizes = [len(part) for part in whole.split(count, size)]
    full = min(count, len(whole) // size)
    assert sizes[:full] == [size] * full
    assert len(sizes[full:]) <= 1


@given(slices(), st.integers(1, 20), st.integers(1, 50))
def test_joining_undoes_splitting(whole: Slice, count: int, size: int) -> None:
    """All parts of a split, joined one after the other, are the whole."""
    parts = whole.split(count, size)
    joined = parts[:1]
    for part in parts[1:]:
        joined = joined[0].join(part)
        assert len(joined) == 1
    assert joined == ([whole] if len(whole) else [])


def test_a_slice_is_a_value() -> None:
    """It does not change, can be in a set, and is ordered and matched by where it starts and stops."""
    units: object = Slice(1, 3)
    match units:
        case Slice(start, stop):
            assert (start, stop) == (1, 3)
    with pytest.raises(AttributeError):
        units.start = 5  # type: ignore[attr-defined]
    assert {units, Slice(1, 3)} == {pickle.loads(pickle.dumps(units))}
    assert Slice(0, 9) < Slice(1, 2) <= Slice(1, 3) >= Slice(1, 2)


def test_slices_that_do_not_touch_stay_apart_and_come_in_order() -> None:
    """Joining gives both, the earlier first."""
    assert Slice(7, 9).join(Slice(1, 3)) == [Slice(1, 3), Slice(7, 9)]


def test_slices_that_overlap_are_not_joined() -> None:
    """A unit that is in both is somebody's mistake."""
    with pytest.raises(UsageError, match=r"\[1, 5\) and \[3, 9\) overlap"):
        Slice(3, 9).join(Slice(1, 5))


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
def test_an_impossible_slice_is_refused(start: int, stop: int) -> None:
    """A slice goes forward from 0 or later."""
    with pytest.raises(UsageError, match="no slice goes from"):
        Slice(start, stop)


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 0), (-1, 5)])
def test_an_impossible_split_is_refused(count: int, size: int) -> None:
    """At least one part of at least one unit."""
    with pytest.raises(UsageError, match="both must be at least 1"):
        Slice(0, 10).split(count, size)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ([Slice(0, 4), Slice(5, 10)], "units 4 to 5 are missing"),
        ([Slice(0, 6), Slice(5, 10)], "covered twice"),
        ([Slice(0, 5), Slice(5, 5), Slice(5, 10)], "is empty"),
        ([Slice(0, 5)], "end at unit 5, the whole at 10"),
        ([Slice(5, 10), Slice(0, 5)], "missing"),
    ],
)
def test_a_fault_in_a_cover_is_named(parts: list[Slice], fault: str) -> None:
    """Gaps, overlaps, disorder and emptiness are all seen."""
    found = find_cover_fault(Slice(0, 10), parts)
    assert found is not None
    assert fault in found
