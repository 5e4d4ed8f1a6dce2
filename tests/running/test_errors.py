from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import aliquot
from tests.running.functions import (
    Huge,
    MuteError,
    Shy,
    TeapotError,
    UnrebuildableValue,
    calls_in,
    double,
    exit_at,
    fail_at,
    fail_on_any,
    fail_once,
    fail_one_way,
    fail_silently,
    fail_unpicklably,
    generator_at_7,
    kill_itself_once,
    map_list,
    note_in,
    raise_from_a_cause,
    recurse,
    return_odd_error_at_7,
    scald,
)

TWO = aliquot.sites.Local(cores=2)


def notes_of(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def test_the_exception_is_the_one_that_the_function_raised() -> None:
    """Its type, message and attributes are kept, so that `except` works as around a loop."""
    with pytest.raises(TeapotError, match="too hot") as caught:
        aliquot.map(scald, range(20), on=TWO)
    assert caught.value.temperature == 99


def test_a_note_names_the_unit() -> None:
    """By its number, and by what it is."""
    with pytest.raises(TeapotError) as caught:
        aliquot.map(scald, [number - 3 for number in range(20)], on=TWO)
    assert "unit 16 (13)" in notes_of(caught.value)


def test_nothing_is_suggested_that_the_value_does_not_have() -> None:
    """Python would look for it in what it is raised by here."""
    with pytest.raises(AttributeError, match="has no attribute 'valu'") as caught:
        aliquot.map(lambda word: word.valu, ["a"], on=TWO)
    assert caught.value.name is None


def test_the_cause_is_the_traceback_of_the_worker() -> None:
    """It shows the line of the function that raised."""
    with pytest.raises(TeapotError) as caught:
        aliquot.map(scald, range(20), on=TWO)
    assert 'raise TeapotError("too hot", 99)' in str(caught.value.__cause__)
    assert "functions.py" in str(caught.value.__cause__)


def test_the_traceback_of_the_worker_shows_causes_too() -> None:
    """An exception that was raised from another is shown with it."""
    with pytest.raises(ValueError, match="nothing there") as caught:
        aliquot.map(raise_from_a_cause, range(3), on=TWO)
    assert "IndexError" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("item", "shown"), [(Huge(), "xxx... (10,000,000 characters)"), (Shy(), "(no repr: ValueError)")]
)
def test_a_unit_is_shown_in_a_line_whatever_it_is(item: object, shown: str) -> None:
    """One whose repr has 10 MB, or none, does not hide the error."""
    with pytest.raises(KeyError) as caught:
        aliquot.map(fail_on_any, [item], on=TWO)
    assert shown in notes_of(caught.value)
    assert len(notes_of(caught.value)) < 1000


@pytest.mark.parametrize("function", [fail_one_way, fail_unpicklably], ids=["not rebuilt", "not pickled"])
def test_an_exception_that_cannot_travel_is_told_in_words(function: Any) -> None:
    """Its type, message and traceback arrive as text, in an error of aliquot."""
    with pytest.raises(aliquot.UnitsFailedError, match=r"unit 7 \(7\): (OneWay|Unpicklable)Error: ") as caught:
        aliquot.map(function, range(10), on=TWO)
    assert "functions.py" in str(caught.value.__cause__)
    assert caught.value.failures[0].start == 7


def test_an_exception_without_words_names_its_unit() -> None:
    """One whose own str() raises is still an error of the function, and ends no worker."""
    with pytest.raises((MuteError, aliquot.UnitsFailedError)) as caught:
        aliquot.map(fail_silently, range(10), on=TWO)
    # Its own words cannot be asked for.
    shown = notes_of(caught.value) or str(caught.value.args)
    assert "unit 7 (7)" in shown
    assert "MuteError" in shown


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt("no"), GeneratorExit("no"), StopIteration(5)], ids=repr
)
def test_what_would_end_a_program_without_a_word_is_an_error(error: BaseException) -> None:
    """A function that exits or stops iteration fails as one that raises anything else."""
    with pytest.raises((aliquot.UnitsFailedError, RuntimeError), match=type(error).__name__) as caught:
        aliquot.map(functools.partial(fail_at, 7, error), range(10), on=TWO)
    assert "unit 7 (7)" in f"{caught.value} {notes_of(caught.value)}"


@pytest.mark.parametrize(
    "error", [MemoryError("no"), OSError(2, "no such thing"), UnicodeDecodeError("utf-8", b"x", 0, 1, "no")], ids=repr
)
def test_any_error_is_kept(error: Exception) -> None:
    """Also those that are not a message only."""
    with pytest.raises(type(error)) as caught:
        aliquot.map(functools.partial(fail_at, 7, error), range(10), on=TWO)
    assert str(caught.value) == str(error)
    assert "unit 7 (7)" in notes_of(caught.value)


def test_endless_recursion_is_an_error() -> None:
    """The worker's stack is as deep as any other's."""
    with pytest.raises(RecursionError):
        aliquot.map(recurse, range(3), on=TWO)


def test_several_exceptions_at_once_are_told_apart() -> None:
    """A group of exceptions arrives with all of its members."""
    group = ExceptionGroup("several", [ValueError("one"), KeyError("two")])
    with pytest.raises(ExceptionGroup) as caught:
        aliquot.map(functools.partial(fail_at, 7, group), range(10), on=TWO)
    assert [type(member) for member in caught.value.exceptions] == [ValueError, KeyError]


def test_a_value_that_cannot_be_pickled_names_its_unit() -> None:
    """The message says which unit, what its value is and that it is the value."""
    with pytest.raises(TypeError, match="cannot pickle") as caught:
        aliquot.map(generator_at_7, range(10), on=TWO)
    assert "unit 7" in notes_of(caught.value)
    assert "its value is <generator" in notes_of(caught.value)
    assert "what the function returned cannot be sent" in notes_of(caught.value)


def test_a_value_that_cannot_be_rebuilt_is_an_error() -> None:
    """It is pickled in the worker, and cannot be unpickled here."""
    with pytest.raises(LookupError, match="not here"):
        aliquot.map(type.__call__, [UnrebuildableValue] * 3, on=TWO)


def test_an_item_that_cannot_be_pickled_names_its_unit() -> None:
    """Nothing is wrong with the function, and the message says so."""
    items = [0, 1, 2, threading.Lock(), 4]
    with pytest.raises(aliquot.UsageError, match="unit 3 cannot be sent to a worker process: TypeError: cannot pickle"):
        aliquot.map(str, items, on=TWO)


def test_an_item_that_cannot_be_rebuilt_in_the_worker_is_an_error() -> None:
    """It is pickled here, and cannot be unpickled there."""
    with pytest.raises(LookupError, match="not here") as caught:
        aliquot.map(str, [UnrebuildableValue()], on=TWO)
    assert "could not be unpickled in the worker" in notes_of(caught.value)


def test_a_function_that_cannot_be_pickled_is_explained() -> None:
    """A lock in a closure is the usual mistake, and the message says what to do."""
    lock = threading.Lock()
    with pytest.raises(aliquot.UsageError, match=r"the function cannot be sent to a worker process.*Open files"):
        aliquot.map(lambda number: (lock, number), range(3), on=TWO)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 0}, "size=0: a first guess is at least one unit"),
        ({"size": -5}, "size=-5"),
        ({"size": 2.5}, "size=2.5"),
        ({"target_seconds": -1}, "target_seconds=-1"),
        ({"target_seconds": float("nan")}, "target_seconds=nan"),
        ({"target_seconds": float("inf")}, "target_seconds=inf"),
        ({"target_seconds": "soon"}, "target_seconds='soon'"),
        ({"on": 3}, "on=3 is not a site"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_before_anything_runs(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The message names the argument; the function was never called."""
    function = functools.partial(note_in, str(tmp_path))
    for call in (aliquot.map, aliquot.imap, aliquot.map_batches):
        with pytest.raises(aliquot.UsageError, match=message):
            call(function, range(5), **wrong)
    with pytest.raises(aliquot.UsageError, match=message):
        aliquot.run(aliquot.FunctionJob(function, aliquot.open(range(5))), **wrong)
    assert calls_in(str(tmp_path)) == 0


def test_a_guess_may_be_a_number_of_numpy() -> None:
    """A guess that was worked out is often one."""
    size: Any = np.int64(2)
    assert aliquot.map(double, range(5), size=size, on=TWO) == [0, 2, 4, 6, 8]


def test_something_that_is_no_function_is_refused() -> None:
    """By every call."""
    for call in (aliquot.map, aliquot.imap, aliquot.map_batches):
        with pytest.raises(aliquot.UsageError, match="3 is not a function"):
            call(3, range(5))  # type: ignore[arg-type]
    with pytest.raises(aliquot.UsageError, match="is not a function: it makes one value of two"):
        aliquot.map_batches(sum, range(5), join=3)  # type: ignore[arg-type]
    with pytest.raises(aliquot.UsageError, match="is not a job"):
        aliquot.run(sum)  # type: ignore[arg-type]


def test_a_unit_that_ends_its_worker_every_time_is_an_error() -> None:
    """The message names the unit and the exit code."""
    with pytest.raises(aliquot.UnitsFailedError, match=r"unit 5.*exit code 3"):
        aliquot.map(functools.partial(exit_at, 5, 3), range(10), target_seconds=0, on=TWO)


def test_a_worker_that_is_killed_once_costs_nothing(tmp_path: Path) -> None:
    """All values arrive, each once."""
    function = functools.partial(kill_itself_once, str(tmp_path), 40)
    assert aliquot.map(function, range(100), on=TWO) == list(range(100))


def test_a_worker_that_is_killed_is_in_the_report(tmp_path: Path) -> None:
    """A run that went well in the end says what went wrong on its way."""
    function = functools.partial(kill_itself_once, str(tmp_path), 40)
    job = aliquot.FunctionJob(functools.partial(map_list, function), aliquot.open(range(100)))
    outcome = aliquot.run(job, on=TWO)
    assert outcome.value == list(range(100))
    assert outcome.report.lost_workers == 1


def test_a_function_that_fails_once_succeeds(tmp_path: Path) -> None:
    """A unit is tried again before it is given up."""
    function = functools.partial(fail_once, str(tmp_path), 40)
    assert aliquot.map(function, range(100), on=TWO) == list(range(100))


def test_a_failing_run_keeps_nothing_of_what_it_learned(own_cache: Path) -> None:
    """The times of a run that failed are not those of one that works."""
    with pytest.raises(TeapotError):
        aliquot.map(scald, range(20), on=TWO)
    assert list(own_cache.rglob("*.json")) == []


def test_the_next_run_after_a_failure_works() -> None:
    """An error leaves nothing broken behind."""
    for _ in range(3):
        with pytest.raises(TeapotError):
            aliquot.map(scald, range(20), on=TWO)
        assert aliquot.map(double, range(20), on=TWO) == list(range(0, 40, 2))


def test_an_error_can_be_raised_on_one_core() -> None:
    """With one worker, a unit is tried twice by the same one."""
    with pytest.raises(TeapotError) as caught:
        aliquot.map(scald, range(20), on=aliquot.sites.Local(cores=1))
    assert "unit 13 (13)" in notes_of(caught.value)


@pytest.mark.parametrize("call", [aliquot.map, aliquot.imap, aliquot.map_batches])
@pytest.mark.parametrize("option", ["columns", "as_", "format", "compression", "delimiter", "record_bytes", "query"])
def test_how_a_file_is_read_is_told_to_open(call: Any, option: str) -> None:
    """Whoever tells it to a call that runs something is told where to write it."""
    with pytest.raises(aliquot.UsageError) as caught:
        call(len, "events.root", **{option: "x"})
    told = str(caught.value)
    assert told.startswith(f"aliquot.{call.__name__} does not take {option}=")
    assert told.endswith(f"aliquot.{call.__name__}(function, aliquot.open(source, {option}=...))")


def test_an_argument_that_nothing_has_is_refused_as_by_any_function() -> None:
    """And those that it has may be given by name, as ever."""
    with pytest.raises(TypeError, match=r"map\(\) got an unexpected keyword argument 'colour'"):
        aliquot.map(len, ["a"], colour=3)  # type: ignore[call-arg]
    assert aliquot.map(function=len, items=["a"], progress=False) == [1]


@pytest.mark.parametrize("call", [aliquot.map, aliquot.imap, aliquot.map_batches, aliquot.run])
@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("chunksize", "size="),
        ("n_jobs", "on=aliquot.sites.Local(cores=...)"),
        ("wall", "wall_seconds="),
        ("keep_going", "max_failures=1.0"),
    ],
)
def test_what_others_call_it_is_answered_with_what_to_write(call: Any, argument: str, written: str) -> None:
    """Whoever comes from another library, or from the command line, need not search for it."""
    with pytest.raises(aliquot.UsageError) as caught:
        call(len, **{argument: 2})
    told = str(caught.value)
    assert told.startswith(f"aliquot.{call.__name__} does not take {argument}=")
    assert told.endswith(written)


def test_where_no_unit_was_done_the_function_is_suspected() -> None:
    """To set all units aside would help nobody."""
    with pytest.raises(AttributeError) as caught:
        aliquot.map(lambda number: number.valu, range(100), on=TWO)
    assert "the function or command itself may be at fault" in notes_of(caught.value)
    assert "max_failures" not in notes_of(caught.value)


def test_where_some_were_done_the_others_may_be_set_aside() -> None:
    """It is told how."""
    with pytest.raises(TeapotError) as caught:
        aliquot.map(scald, range(20), on=aliquot.sites.Local(cores=1))
    assert "max_failures=1.0" in notes_of(caught.value)
    assert "at fault" not in notes_of(caught.value)


@pytest.mark.parametrize("call", [aliquot.map, aliquot.imap])
def test_a_frame_is_not_taken_for_its_columns(call: Any) -> None:
    """To iterate over it gives their names, which nobody wants; the error says how to have its rows."""
    frame = pandas.DataFrame({"price": [1, 2, 3]})
    with pytest.raises(aliquot.UsageError, match=r"map over frame\.itertuples\(\)"):
        call(str, frame)
    assert aliquot.map(lambda row: row.price + 1, frame.itertuples(), on=TWO) == [2, 3, 4]
    assert aliquot.map_batches(lambda part: int(part.price.sum()), frame, on=TWO) == 6


def test_an_exception_that_cannot_be_unpickled_is_one_bad_value() -> None:
    """It is often returned, and takes other arguments than it passes on: its unit is named, all others are done."""
    with pytest.warns(aliquot.UnitsSetAsideWarning, match="unit 7"):
        values = aliquot.map(return_odd_error_at_7, range(20), on=TWO, max_failures=1)
    assert [value for value in values if isinstance(value, int)] == [*range(7), *range(8, 20)]
    with pytest.warns(aliquot.UnitsSetAsideWarning, match="unit 7"):
        aliquot.map(return_odd_error_at_7, np.arange(20.0), on=TWO, max_failures=1)
    with pytest.raises(TypeError) as caught:
        aliquot.map(return_odd_error_at_7, range(20), on=TWO)
    assert "unit 7 (its value is OddError" in notes_of(caught.value)


def test_exceptions_may_be_values() -> None:
    """As long as they can be sent."""
    values = aliquot.map(KeyError, range(5), on=TWO)
    assert [repr(value) for value in values] == [f"KeyError({number})" for number in range(5)]


def test_how_many_failed_is_told_beside_how_many_may() -> None:
    """And that 1.0 is not 1."""
    one = aliquot.sites.Local(cores=1)
    with pytest.raises(ZeroDivisionError) as caught:
        aliquot.map(lambda number: 1 / (number - 30) / (number - 60), range(100), max_failures=1, on=one)
    assert "2 units failed, more than max_failures allows (1)" in notes_of(caught.value)
    assert "max_failures=1.0 (all, and not 1)" in notes_of(caught.value)
