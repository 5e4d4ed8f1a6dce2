from __future__ import annotations

import operator
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from aliquot.workers.packing import pack
from aliquot.workers.stepping import (
    BatchStepper,
    EachStepper,
    JobStepper,
    RangeItems,
    SentItems,
    SourceItems,
    UnitError,
    bounded_repr,
    joined_job,
    part_of,
)
from tests.job.counting import Counting


def reciprocal(number: int) -> float:
    return 1 / number


def windows(values: Sequence[Any], cuts: list[int]) -> SentItems:
    items = SentItems()
    items.clear(0)
    for start, stop in zip([0, *cuts], [*cuts, len(values)], strict=True):
        packed = pack(values[start:stop])
        items.add(start, stop, packed)
        packed.close()
    return items


def test_values_are_kept_until_they_are_taken() -> None:
    """Those of several steps, in order."""
    stepper = EachStepper(str, RangeItems(range(10)))
    stepper.run(0, 3)
    stepper.run(3, 5)
    assert stepper.take() == ["0", "1", "2", "3", "4"]
    stepper.run(5, 6)
    assert stepper.take() == ["5"]
    assert stepper.take() == []


def test_what_came_before_a_failed_unit_is_kept() -> None:
    """It need not be done again."""
    stepper = EachStepper(reciprocal, RangeItems(range(-3, 5)))
    with pytest.raises(UnitError) as caught:
        stepper.run(0, 8)
    assert (caught.value.start, caught.value.stop, caught.value.shown) == (3, 4, "0")
    assert isinstance(caught.value.error, ZeroDivisionError)
    assert stepper.take() == [reciprocal(number) for number in (-3, -2, -1)]


def test_a_function_that_stops_iteration_fails() -> None:
    """And does not end the step before its end."""

    def stop(number: int) -> int:
        if number == 2:
            raise StopIteration
        return number

    stepper = EachStepper(stop, RangeItems(range(5)))
    with pytest.raises(UnitError, match="StopIteration") as caught:
        stepper.run(0, 5)
    assert (caught.value.start, caught.value.stop, caught.value.shown) == (2, 3, "2")


def test_batches_are_joined_in_order() -> None:
    """Those of several steps are one value."""
    stepper = BatchStepper(list, RangeItems(range(10)), operator.add)
    stepper.run(0, 3)
    stepper.run(3, 5)
    assert stepper.take() == [0, 1, 2, 3, 4]
    stepper.run(5, 7)
    assert stepper.take() == [5, 6]


def test_a_failed_batch_keeps_what_was_joined_before() -> None:
    """The failed units are those of its step."""
    stepper = BatchStepper(lambda batch: [1 / number for number in batch], RangeItems(range(5, -5, -1)), operator.add)
    stepper.run(0, 5)
    with pytest.raises(UnitError) as caught:
        stepper.run(5, 8)
    assert (caught.value.start, caught.value.stop, caught.value.shown) == (5, 8, None)
    assert len(stepper.take()) == 5


def test_a_job_is_stepped_by_its_own_split_and_join() -> None:
    """From wherever its span begins."""
    stepper = JobStepper(Counting(0, 100))
    stepper.run(40, 45)
    stepper.run(45, 60)
    assert stepper.take() == sum(range(40, 60))
    stepper.run(0, 10)
    assert stepper.take() == sum(range(10))
    stepper.run(90, 100)
    assert stepper.take() == sum(range(90, 100))


def test_a_failed_step_of_a_job_can_be_tried_again() -> None:
    """What was joined before it is not lost."""
    stepper = JobStepper(Counting(0, 100, bad_unit=50))
    stepper.run(40, 50)
    with pytest.raises(UnitError, match="unit 50 is bad"):
        stepper.run(50, 60)
    assert stepper.take() == sum(range(40, 50))
    with pytest.raises(UnitError, match="unit 50 is bad"):
        stepper.run(50, 60)
    stepper.run(60, 100)
    assert stepper.take() == sum(range(60, 100))


def test_a_stepper_travels_without_what_it_has_done() -> None:
    """Each worker begins with nothing."""
    stepper = JobStepper(Counting(0, 100))
    stepper.run(0, 10)
    assert pickle.loads(pickle.dumps(stepper)).take() is None
    each = EachStepper(str, windows([1, 2, 3], []))
    assert pickle.loads(pickle.dumps(each.items)).available_to == 0


@given(st.lists(st.integers(0, 30), min_size=30, max_size=30), st.sets(st.integers(1, 29)), st.data())
def test_a_step_within_a_window_gets_its_units(values: list[int], cuts: set[int], data: st.DataObject) -> None:
    """The units are those that were asked for; a step ends where its window does."""
    items = windows(values, sorted(cuts))
    at = 0
    while at < 30:
        stop = data.draw(st.integers(at + 1, items.window_end(at)))
        assert list(items.get(at, stop)) == values[at:stop]
        at = stop
    assert items.window_end(30) == 30


@pytest.mark.parametrize("values", [np.arange(8), np.ma.masked_less(np.arange(8), 4), b"12345678"], ids=repr)
def test_a_batch_is_of_the_type_that_was_given(values: Any) -> None:
    """A masked array keeps its mask, and bytes stay bytes."""
    items = windows(values, [4])
    assert items.window_end(0) == 4
    assert type(items.get(1, 4)) is type(values)
    assert str(items.get(1, 4)) == str(values[1:4])


def test_units_that_cannot_be_unpickled_fail_where_they_are_used() -> None:
    """The error says which step wanted them, and that it was unpickling."""
    packed = pack([1, 2, 3])
    packed.inline = b"broken"
    items = SentItems()
    items.clear(0)
    items.add(0, 3, packed)
    with pytest.raises(UnitError) as caught:
        EachStepper(str, items).run(0, 2)
    assert isinstance(caught.value.error, pickle.UnpicklingError)
    assert "could not be unpickled in the worker" in caught.value.error.__notes__[0]


def test_a_source_that_gives_too_few_units_is_an_error() -> None:
    """A unit is never skipped without a word."""
    with pytest.raises(UnitError, match="5 units were wanted, and the source gave 3"):
        EachStepper(str, RangeItems(range(3))).run(0, 5)


def test_units_of_a_view_are_counted_from_its_beginning() -> None:
    """Not from that of its source."""
    view = aliquot.open(range(100))[20:50]
    assert list(SourceItems(view).get(3, 6)) == [23, 24, 25]


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (0, 3), (4, 7), (8, 10), (9, 10)])
def test_a_part_of_a_job_is_cut_by_its_split(start: int, stop: int) -> None:
    """From a unit up to a unit."""
    part = part_of(Counting(100, 110), start, stop)
    assert isinstance(part, Counting)
    assert (part.start, part.stop) == (100 + start, 100 + stop)


def test_parts_that_do_not_join_are_the_jobs_fault() -> None:
    """The message names them."""
    with pytest.raises(aliquot.JobError, match=r"are neighbours, but join\(\) did not make one of them"):
        joined_job(Counting(0, 5).attempt(), Counting(6, 9).attempt())


class Shy:
    def __repr__(self) -> str:
        raise ValueError("not to be shown")


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ("short", "'short'"),
        ("x" * 1000, "'" + "x" * 199 + "... (1,002 characters)"),
        (np.arange(10), "array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])"),
        (Shy(), "(no repr: ValueError)"),
    ],
    ids=["short", "long", "array", "shy"],
)
def test_a_unit_is_shown_in_a_line(item: Any, shown: str) -> None:
    """Whatever it is."""
    assert bounded_repr([item], 0) == shown
