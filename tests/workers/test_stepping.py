from __future__ import annotations

import operator
import pickle
import weakref
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
    StepTimeoutError,
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


def test_a_careful_step_notes_each_unit_before_it_is_begun() -> None:
    """So that it is known where a worker was when it died."""
    noted: list[int] = []
    seen: list[tuple[int, int]] = []
    stepper = EachStepper(lambda number: seen.append((number, noted[-1])), RangeItems(range(1000, 2000)))
    stepper.keep_note(noted.append, of_each=True)
    assert stepper.run(100, 300, patience_seconds=3600) == 300
    assert noted == list(range(100, 300))
    assert seen == [(1000 + unit, unit) for unit in range(100, 300)]


def test_other_steps_note_units_where_it_costs_little() -> None:
    """A long step of many short units is not slowed down; a short one is noted."""
    noted: list[int] = []
    stepper = EachStepper(str, RangeItems(range(6000)))
    stepper.keep_note(noted.append, of_each=False)
    stepper.run(0, 5000, patience_seconds=3600)
    assert noted == []
    stepper.run(5000, 5100, patience_seconds=3600)
    assert noted == list(range(5000, 5100))


def test_the_last_note_is_of_the_unit_that_failed() -> None:
    """Nothing behind it was begun."""
    noted: list[int] = []
    stepper = EachStepper(reciprocal, RangeItems(range(-3, 5)))
    stepper.keep_note(noted.append, of_each=True)
    with pytest.raises(UnitError):
        stepper.run(0, 8, patience_seconds=3600)
    assert noted == [0, 1, 2, 3]


def test_a_careful_step_that_is_left_has_noted_what_it_began() -> None:
    """The rest is another step's."""
    noted: list[int] = []
    stepper = EachStepper(str, RangeItems(range(10)))
    stepper.keep_note(noted.append, of_each=True)
    assert stepper.run(0, 10, patience_seconds=0.0) == 1
    assert noted == [0]


@pytest.mark.parametrize(
    "stepper",
    [BatchStepper(list, RangeItems(range(10)), operator.add), JobStepper(Counting(0, 10))],
    ids=["batch", "job"],
)
def test_units_of_a_batch_are_not_noted(stepper: Any) -> None:
    """All of them are begun at once."""
    noted: list[int] = []
    stepper.keep_note(noted.append, of_each=True)
    assert stepper.run(0, 10) == 10
    assert noted == []


def test_a_note_does_not_travel() -> None:
    """Each worker has its own cell."""
    stepper = EachStepper(str, RangeItems(range(10)))
    stepper.keep_note(lambda unit: None, of_each=True)
    copy: EachStepper = pickle.loads(pickle.dumps(stepper))
    assert copy.run(0, 10, patience_seconds=3600) == 10


class Block:
    """Can be referred to weakly."""


def test_an_error_can_let_go_of_what_its_function_held() -> None:
    """Also where it was raised from another one, or amid its handling: the room is needed for the next step."""
    blocks: list[weakref.ref[Block]] = []

    def fail(number: int) -> None:
        block = Block()
        blocks.append(weakref.ref(block))
        try:
            inner()
        except LookupError:
            raise ValueError("from amid another") from None

    def inner() -> None:
        block = Block()
        blocks.append(weakref.ref(block))
        raise LookupError("the first one")

    stepper = EachStepper(fail, RangeItems(range(3)))
    left: list[list[bool]] = []
    try:
        stepper.run(0, 3)
    except UnitError as error:
        left.append([block() is not None for block in blocks])
        error.forget_frames()
        left.append([block() is not None for block in blocks])
    assert left == [[True, True], [False, False]]


def test_a_window_that_is_not_the_next_one_is_dropped() -> None:
    """It was asked for before the worker went back to smaller ones, and comes again."""
    items = SentItems()
    items.clear(4)
    items.add(6, 8, pack(["six", "seven"]))
    assert items.window_end(4) == 4
    items.add(4, 6, pack(["four", "five"]))
    assert (items.window_end(4), items.get(4, 6)) == (6, ["four", "five"])
    items.add(6, 8, pack(["six", "seven"]))
    assert (items.window_end(6), items.get(6, 8)) == (8, ["six", "seven"])


class LateItems:
    """The time is up when all units are done."""

    def get(self, start: int, stop: int) -> Any:
        return Late(range(start, stop))


class Late:
    def __init__(self, numbers: range) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Any:
        yield from self._numbers
        raise StepTimeoutError("too late")


def test_a_step_whose_time_is_up_at_its_end_is_done() -> None:
    """No unit behind it is to blame. Code in C does not see the signal before it has ended."""
    stepper = EachStepper(str, LateItems())
    assert stepper.run(0, 2, patience_seconds=60.0) == 2
    assert stepper.take() == ["0", "1"]


class Unjoinable(Counting):
    """Parts of it are done, but do not go together."""

    def join(self, other: Any) -> Any:
        raise ValueError("not these")


def test_what_a_failed_join_of_a_job_leaves_is_not_relied_on() -> None:
    """It may have changed the value of earlier steps."""
    stepper = JobStepper(Unjoinable(0, 10))
    stepper.run(0, 5)
    with pytest.raises(UnitError, match="not these") as caught:
        stepper.run(5, 10)
    assert caught.value.spoils_earlier_steps


class Reader:
    """A function that reads by itself, and knows what cannot be had."""

    def __call__(self, numbers: range) -> list[int]:
        bad = [number for number in numbers if 30 <= number < 40]
        if bad:
            raise aliquot.DataError("cannot be read", unit=bad[0], spoiled_units=(0, 1000))
        return list(numbers)

    def spoiled_units(self, error: BaseException) -> tuple[int, int] | None:
        return (30, 40) if isinstance(error, aliquot.DataError) else None


def test_a_function_that_reads_by_itself_tells_what_cannot_be_had() -> None:
    """What comes before that is done; the rest of it would fare no better."""
    stepper = BatchStepper(Reader(), SourceItems(aliquot.open(range(100))), operator.add)
    assert stepper.run(0, 100) == 30
    assert stepper.take() == list(range(30))
    with pytest.raises(UnitError) as caught:
        stepper.run(30, 35)
    failure = caught.value
    assert (failure.start, failure.stop, failure.spoiled) == (30, 35, (30, 40))


def test_what_a_function_raises_tells_nothing_about_its_source() -> None:
    """An error with numbers of units may be about another source that it has read."""
    stepper = BatchStepper(Reader().__call__, SourceItems(aliquot.open(range(100))), operator.add)
    with pytest.raises(UnitError) as caught:
        stepper.run(0, 100)
    assert (caught.value.start, caught.value.stop, caught.value.spoiled) == (0, 100, None)
