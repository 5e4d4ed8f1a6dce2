from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from tests.job.counting import Counting


def bundle_of(*starts_and_stops: tuple[int, int], bad_unit: int | None = None) -> aliquot.Bundle:
    return aliquot.Bundle(
        aliquot.Part(aliquot.Slice(start, stop), Counting(start, stop, bad_unit)) for start, stop in starts_and_stops
    )


def slices_of(bundle: aliquot.Bundle) -> list[tuple[int, int]]:
    return [(part.where.start, part.where.stop) for part in bundle.parts]


def test_a_bundle_sorts_and_joins_what_touches() -> None:
    """Parts that touch become one; the others stay apart, in order."""
    assert slices_of(bundle_of((6, 8), (0, 2), (2, 5))) == [(0, 5), (6, 8)]


def test_a_bundle_is_split_by_units_across_its_slices() -> None:
    """A cut falls where the units say, whatever slices they lie in."""
    parts = bundle_of((0, 3), (10, 12), (20, 30)).split(2, 4)
    assert [slices_of(part) for part in parts] == [[(0, 3), (10, 11)], [(11, 12), (20, 23)], [(23, 30)]]


def test_parts_that_overlap_are_refused() -> None:
    """A unit is in a bundle once."""
    with pytest.raises(aliquot.UsageError, match=r"overlap: \[0, 5\) and \[4, 8\)"):
        bundle_of((0, 5), (4, 8))


def test_a_part_must_be_as_large_as_its_slice() -> None:
    """A job of another size than its slice is somebody's mistake."""
    with pytest.raises(aliquot.UsageError, match="holds a job of 3 units"):
        aliquot.Bundle([aliquot.Part(aliquot.Slice(0, 5), Counting(0, 3))])


def test_a_bundle_groups_by_state() -> None:
    """One part fails, the others are done, and what was not run is still there."""
    whole = bundle_of((0, 10), bad_unit=4)
    first, second, third = whole.split(2, 3)
    mixed = first.attempt().join(second.attempt())[0].join(third)[0]
    assert slices_of(mixed.done) == [(0, 3)]
    assert slices_of(mixed.failed) == [(3, 6)]
    assert slices_of(mixed.not_run) == [(6, 10)]
    assert mixed.size == 10


def test_failures_stay_apart() -> None:
    """Two failed neighbours keep their own errors."""
    failed = bundle_of((0, 4), bad_unit=1).attempt().join(bundle_of((4, 8), bad_unit=5).attempt())[0]
    assert slices_of(failed) == [(0, 4), (4, 8)]


def test_a_failed_part_can_be_bisected() -> None:
    """Splitting what failed gives parts that are not run, down to the bad unit alone."""
    bundle = bundle_of((0, 64), bad_unit=37).attempt()
    while bundle.failed.size > 1:
        halves = bundle.failed.split(1, bundle.failed.size // 2)
        assert all(slices_of(half.not_run) == slices_of(half) for half in halves)
        rest = bundle.done
        for half in halves:
            (rest,) = rest.join(half.attempt())
        bundle = rest
    assert slices_of(bundle.failed) == [(37, 38)]
    assert sum(bundle.done.values()) == sum(range(64)) - 37


def test_a_done_part_is_never_cut() -> None:
    """Its value belongs to all of its units."""
    done = bundle_of((0, 10)).attempt()
    with pytest.raises(aliquot.JobStateError, match=r"bundle\.not_run\.split"):
        done.split(1, 3)
    assert [slices_of(part) for part in done.split(1, 10)] == [[(0, 10)]]


def test_small_slices_are_packed_together_without_cutting() -> None:
    """Packing fills bundles up to the size; a larger part is alone."""
    packed = bundle_of((0, 2), (3, 5), (6, 7), (10, 30), (40, 41)).pack(5)
    assert [slices_of(part) for part in packed] == [[(0, 2), (3, 5), (6, 7)], [(10, 30)], [(40, 41)]]


def test_executing_a_bundle_with_a_bad_unit_says_where() -> None:
    """The slice and the error of the first failure are in the message."""
    with pytest.raises(aliquot.JobStateError, match=r"1 of 1 parts failed, the first at units \[0, 8\): ValueError"):
        bundle_of((0, 8), bad_unit=3).execute()


def test_an_empty_bundle_is_possible() -> None:
    """No parts, no units, nothing to do."""
    empty = aliquot.Bundle.of(Counting(0, 0))
    assert (empty.size, empty.split(3, 3), empty.execute()) == (0, [], [])


@st.composite
def mixed_bundles(draw: st.DrawFn) -> aliquot.Bundle:
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=12)))
    parts = []
    for start, stop in pairwise(edges):
        state = draw(st.sampled_from(["absent", "not run", "done", "failed"]))
        if state != "absent":
            job = Counting(start, stop, bad_unit=start if state == "failed" else None)
            parts.append(aliquot.Part(aliquot.Slice(start, stop), job if state == "not run" else job.attempt()))
    return aliquot.Bundle(parts)


@given(mixed_bundles(), mixed_bundles().map(lambda bundle: bundle.not_run), st.integers(1, 5), st.integers(1, 20))
def test_splitting_a_bundle_loses_nothing(
    bundle: aliquot.Bundle, waiting: aliquot.Bundle, count: int, size: int
) -> None:
    """All units of what is not run are in the parts of its split, once; groups by state are the whole."""
    parts = waiting.split(count, size)
    assert sum(part.size for part in parts) == waiting.size
    assert all(part.size == size for part in parts[:-1])
    rejoined = aliquot.Bundle([])
    for part in parts:
        (rejoined,) = rejoined.join(part)
    assert rejoined == waiting
    (regrouped,) = bundle.done.join(bundle.failed)[0].join(bundle.not_run)
    assert regrouped == bundle


@given(mixed_bundles())
def test_a_bundle_describes_itself_in_any_state(bundle: aliquot.Bundle) -> None:
    """States, values and errors come back from JSON."""
    assert aliquot.Bundle.from_desc(json.loads(json.dumps(bundle.to_desc()))) == bundle


def test_values_are_given_only_where_all_parts_are_done() -> None:
    """A part that is missing is named; what there is can be had."""
    first, second = bundle_of((0, 10)).split(1, 4)
    (mixed,) = first.attempt().join(second)
    with pytest.raises(aliquot.JobStateError, match=r"\[4, 10\) are not run: bundle\.done\.values\(\)"):
        mixed.values()
    assert mixed.done.values() == [sum(range(4))]
    with pytest.raises(aliquot.JobStateError, match="are failed"):
        bundle_of((0, 10), bad_unit=3).attempt().values()


def refuse_to_join(first: int, second: int) -> int:
    raise ArithmeticError(f"{first} and {second} do not go together")


def test_values_are_kept_where_joining_them_raises() -> None:
    """Work that was done is not lost by a fault in the join; a warning says what happened."""
    whole = aliquot.Bundle.of(aliquot.FunctionJob(sum, range(10), refuse_to_join))
    first, second = (part.attempt() for part in whole.split(1, 4))
    with pytest.warns(RuntimeWarning, match=r"\[0, 4\) and \[4, 10\) stay apart.*ArithmeticError: 6 and 39"):
        (both,) = first.join(second)
    assert slices_of(both) == [(0, 4), (4, 10)]
    with pytest.warns(RuntimeWarning, match="stay apart"):
        assert both.done.values() == [6, 39]
