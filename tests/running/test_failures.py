"""Units that fail for good: how many may, which they are, what is known of them, and that all others are done."""

from __future__ import annotations

import functools
import gzip
import math
import operator
import pickle
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.running.outcome import UnitsSetAsideWarning
from tests.job.counting import Counting
from tests.running.bad_functions import (
    Bad,
    BadBatch,
    Everything,
    NeverFits,
    crash,
    fail_amid_others,
    fail_first_time,
    fail_once_spoilt,
    failures_within,
    kill_itself,
    leave,
    raise_something,
    refuse_texts,
    refuse_texts_of_batch,
    return_a_lock,
)
from tests.running.functions import Letters, calls_in, map_list, note_in
from tests.virtual_file.making import numbered_lines, reads, write

TWO = aliquot.sites.Local(cores=2)
UNITS = 500
BAD = (7, 123, 124, 499)
GOOD = [unit for unit in range(UNITS) if unit not in BAD]

WAYS = pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        (raise_something, "raised", "ValueError: "),
        (return_a_lock, "raised", "TypeError: cannot pickle"),
        (leave, "died", "exit code 3"),
        (crash, "died", "SIGSEGV"),
        (kill_itself, "died", "SIGKILL"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)


def units_of(failures: Any) -> list[int]:
    """The units of failures, each of which is a single one."""
    assert all(failure.stop == failure.start + 1 for failure in failures)
    return [failure.start for failure in failures]


# Every way to fail, by every call


@WAYS
def test_a_list_has_failures_in_place(what: Any, kind: str, words: str) -> None:
    """All other values are right; a warning names the units."""
    with pytest.warns(UnitsSetAsideWarning, match="4 units failed and were set aside") as warned:
        values = aliquot.map(Bad(what, BAD), range(UNITS), max_failures=4, on=TWO)
    assert len(values) == UNITS
    assert [value for value in values if not isinstance(value, aliquot.Failure)] == GOOD
    failures = [values[unit] for unit in BAD]
    assert units_of(failures) == list(BAD)
    assert {failure.kind for failure in failures} == {kind}
    assert all(words in failure.error for failure in failures)
    assert all(f"unit {unit}" in str(warned[0].message) for unit in BAD)
    assert warned[0].filename == __file__


@WAYS
@pytest.mark.parametrize("ordered", [True, False])
def test_a_stream_has_failures_among_its_values(what: Any, kind: str, words: str, ordered: bool) -> None:
    """In order, where the others are."""
    values: list[Any] = list(aliquot.imap(Bad(what, BAD), range(UNITS), ordered=ordered, max_failures=4, on=TWO))
    failures = [value for value in values if isinstance(value, aliquot.Failure)]
    others = [value for value in values if not isinstance(value, aliquot.Failure)]
    assert (others if ordered else sorted(others)) == GOOD
    assert sorted(units_of(failures)) == list(BAD)
    assert {failure.kind for failure in failures} == {kind}
    if ordered:
        assert [values.index(failure) for failure in failures] == list(BAD)


@WAYS
@pytest.mark.parametrize("ordered", [True, False])
def test_a_joined_value_is_that_of_all_others(what: Any, kind: str, words: str, ordered: bool) -> None:
    """Bad units are found within their batches."""
    with pytest.warns(UnitsSetAsideWarning, match="4 units failed"):
        value = aliquot.map_batches(BadBatch(what, BAD), range(UNITS), ordered=ordered, max_failures=4, on=TWO)
    assert (value if ordered else sorted(value)) == GOOD


@WAYS
def test_an_outcome_tells_all_about_failures(what: Any, kind: str, words: str) -> None:
    """Without a warning: they are there to be read."""
    job = aliquot.FunctionJob(BadBatch(what, BAD), aliquot.open(range(UNITS)))
    outcome = aliquot.run(job, max_failures=4, on=TWO)
    assert outcome.value == GOOD
    assert outcome.is_complete
    assert units_of(outcome.failures) == list(BAD)
    for failure in outcome.failures:
        assert failure.kind == kind
        assert words in failure.error
        assert failure.attempts >= 2
        assert failure.worker is not None
    assert outcome.report.failed_units == len(BAD)
    assert outcome.report.units == UNITS - len(BAD)
    assert outcome.report.left_units == 0
    assert "4 units failed" in str(outcome.report)


def test_the_parts_of_a_job_are_joined_around_what_failed() -> None:
    """A job whose join needs neighbours has several results."""
    outcome = aliquot.run(Counting(0, 100, bad_unit=40), max_failures=1, on=TWO)
    assert units_of(outcome.failures) == [40]
    assert outcome.value == [sum(range(40)), sum(range(41, 100))]


def test_a_job_that_fails_at_its_ends_has_one_result() -> None:
    """Nothing was before the first unit."""
    assert aliquot.run(Counting(0, 100, bad_unit=0), max_failures=1, on=TWO).value == sum(range(1, 100))
    assert aliquot.run(Counting(0, 100, bad_unit=99), max_failures=1, on=TWO).value == sum(range(99))


# What is known of a failure


def test_a_failure_tells_what_was_raised_and_where() -> None:
    """The unit, the exception, the traceback of the worker, and how often it was tried."""
    with pytest.warns(UnitsSetAsideWarning):
        values: list[Any] = aliquot.map(Bad(raise_something, [17]), range(5, 105), max_failures=1, on=TWO)
    failure = values[12]
    assert (failure.start, failure.stop, failure.shown) == (12, 13, "17")
    assert (failure.error, failure.kind) == ("ValueError: 17 is no good", "raised")
    assert isinstance(failure.exception, ValueError)
    assert 'raise ValueError(f"{number} is no good")' in failure.traceback
    assert "bad_functions.py" in failure.traceback
    assert failure.attempts == 2
    assert failure.worker in (0, 1)
    assert (failure.held_bytes, failure.places) == (0, ())
    assert str(failure) == "unit 12 (17): ValueError: 17 is no good"


def test_a_failure_can_be_pickled() -> None:
    """A list with failures in it is kept as any other."""
    with pytest.warns(UnitsSetAsideWarning):
        values: list[Any] = aliquot.map(Bad(raise_something, [17]), range(30), max_failures=1, on=TWO)
    copy = pickle.loads(pickle.dumps(values))
    assert copy[17]._replace(exception=None) == values[17]._replace(exception=None)


def test_a_failure_tells_which_bytes_of_which_file(tmp_path: Path) -> None:
    """They can be cut out and looked at."""
    content = numbered_lines(300)
    path = write(tmp_path / "lines.txt", content)
    with pytest.warns(UnitsSetAsideWarning, match="lines.txt, bytes "):
        values: list[Any] = aliquot.map(functools.partial(refuse_texts, ("77",)), path, max_failures=5, on=TWO)
    failures = [value for value in values if isinstance(value, aliquot.Failure)]
    assert units_of(failures) == [77, 177, 277]
    for failure in failures:
        ((place, start, stop),) = failure.places
        assert place == str(path)
        assert content[start:stop] == content.splitlines(keepends=True)[failure.start]


def test_places_are_those_of_the_source_and_units_those_of_the_view(tmp_path: Path) -> None:
    """Of a part of several files."""
    paths = [write(tmp_path / f"{name}.txt", f"{name}0\n{name}1\n{name}2\n") for name in "abc"]
    with pytest.warns(UnitsSetAsideWarning):
        values = aliquot.map(functools.partial(refuse_texts, ("b1",)), aliquot.open(paths)[2:], max_failures=1, on=TWO)
    failure: Any = values[2]
    assert failure.start == 2
    assert failure.places == ((str(paths[1]), 3, 6),)


# How many may fail


@pytest.mark.parametrize("most", [4, 100, 0.008, 0.5, 1.0, math.inf])
def test_as_many_may_fail_as_are_allowed(most: float) -> None:
    """A number of units, or a part of all."""
    with pytest.warns(UnitsSetAsideWarning):
        values = aliquot.map(Bad(raise_something, BAD), range(UNITS), max_failures=most, on=TWO)
    assert [value for value in values if not isinstance(value, aliquot.Failure)] == GOOD


@pytest.mark.parametrize("most", [0, 3, 0.0, 0.0079])
def test_one_more_ends_the_run(most: float) -> None:
    """What the function raised is raised."""
    with pytest.raises(ValueError, match="is no good") as caught:
        aliquot.map(Bad(raise_something, BAD), range(UNITS), max_failures=most, on=TWO)
    assert any("aliquot: unit " in note for note in caught.value.__notes__)


def test_all_units_may_fail() -> None:
    """There is a list of failures, or no value at all."""
    with pytest.warns(UnitsSetAsideWarning, match="and 20 more"):
        values = aliquot.map(Bad(raise_something, Everything()), range(30), max_failures=1.0, on=TWO)
    assert units_of(values) == list(range(30))
    with pytest.raises(ValueError, match="no good"):
        aliquot.map_batches(BadBatch(raise_something, Everything()), range(30), max_failures=30, on=TWO)


@pytest.mark.parametrize("most", [0, 10])
@pytest.mark.parametrize("make", [Bad, BadBatch])
@pytest.mark.parametrize("what", [raise_something, return_a_lock], ids=lambda what: what.__name__)
def test_a_function_that_always_fails_ends_the_run_with_a_short_list(most: int, make: Any, what: Any) -> None:
    """It is seen after a few units of a million that nothing works."""
    calls = aliquot.imap if make is Bad else aliquot.map_batches
    with pytest.raises((ValueError, TypeError), match=r"no good|cannot pickle"):
        list(calls(make(what, Everything()), range(1_000_000), max_failures=most, on=TWO))
    job = aliquot.FunctionJob(BadBatch(what, Everything()), aliquot.open(range(1_000_000)))
    outcome = aliquot.run(job, max_failures=most, on=TWO)
    assert not outcome.is_complete
    assert most < len(outcome.failures) < 200
    assert outcome.report.tasks < 400
    assert outcome.report.units == 0


def test_the_rest_is_not_begun_when_too_many_have_failed(tmp_path: Path) -> None:
    """What was under way is finished and counted, and the report says how much was left."""
    function = functools.partial(map_list, functools.partial(fail_amid_others, str(tmp_path)))
    outcome = aliquot.run(aliquot.FunctionJob(function, aliquot.open(range(2000))), target_seconds=0, on=TWO)
    report = outcome.report
    assert not outcome.is_complete
    assert units_of(outcome.failures) == [0]
    assert report.units == calls_in(str(tmp_path)) > 0
    assert report.left_units > 0
    assert report.units + report.left_units + report.failed_units == 2000
    assert "units not begun" in str(report)


def test_an_ordered_stream_gives_all_that_comes_before_the_failure() -> None:
    """And then raises it."""
    values = aliquot.imap(Bad(raise_something, [300]), range(UNITS), on=TWO)
    assert [next(values) for _ in range(300)] == list(range(300))
    with pytest.raises(ValueError, match="300 is no good"):
        next(values)
    with pytest.raises(StopIteration):
        next(values)


def test_an_ordered_stream_gives_failures_until_one_too_many() -> None:
    """The units before the last one are there, done or not."""
    values: Any = aliquot.imap(Bad(raise_something, [3, 300]), range(UNITS), max_failures=1, on=TWO)
    got: list[Any] = []
    with pytest.raises(ValueError, match="no good"):
        got.extend(values)
    assert [value for value in got if not isinstance(value, aliquot.Failure)] == [
        unit for unit in range(len(got)) if unit != 3
    ]


def test_units_may_fail_in_a_run_within_a_worker() -> None:
    """Which goes on there, with the same result."""
    assert aliquot.map(failures_within, range(1), on=TWO) == [["int", "int", "Failure", "int"]]


# Units that fail once, workers that go bad


def test_a_step_that_fails_once_is_in_the_report(tmp_path: Path) -> None:
    """All values are there; the report says that something was flaky."""
    function = functools.partial(map_list, functools.partial(fail_first_time, str(tmp_path), (100, 400)))
    outcome = aliquot.run(aliquot.FunctionJob(function, aliquot.open(range(UNITS))), on=TWO)
    assert outcome.value == list(range(UNITS))
    assert outcome.failures == ()
    assert 1 <= outcome.report.flaky_steps <= 2
    assert "steps failed once" in str(outcome.report)


def test_a_worker_that_goes_bad_is_replaced(tmp_path: Path) -> None:
    """Its steps are finished by others, and it is given nothing more."""
    function = functools.partial(map_list, functools.partial(fail_once_spoilt, str(tmp_path)))
    outcome = aliquot.run(aliquot.FunctionJob(function, aliquot.open(range(3000))), target_seconds=0, on=TWO)
    assert outcome.value == list(range(3000))
    assert outcome.report.suspended_workers == 1
    assert outcome.report.flaky_steps >= 3
    assert "1 worker suspended" in str(outcome.report)


# Input that is set aside


def test_bad_lines_are_set_aside_as_they_are(tmp_path: Path) -> None:
    """In a file that can be mended and run again."""
    path = write(tmp_path / "lines.txt", numbered_lines(300))
    with pytest.warns(UnitsSetAsideWarning):
        aliquot.map(
            functools.partial(refuse_texts, ("77",)), path, max_failures=5, set_aside=tmp_path / "bad.txt", on=TWO
        )
    assert (tmp_path / "bad.txt").read_bytes() == b"77\n177xx\n277xxxx\n"
    assert sorted(child.name for child in tmp_path.iterdir()) == ["bad.txt", "lines.txt"]
    with pytest.warns(UnitsSetAsideWarning):
        again = aliquot.map(functools.partial(refuse_texts, ("177",)), tmp_path / "bad.txt", max_failures=5, on=TWO)
    assert again[0] == "77"


@pytest.mark.parametrize("call", ["imap", "imap unordered", "map_batches", "map_batches unordered", "run"])
def test_every_call_sets_aside(tmp_path: Path, call: str) -> None:
    """The same units, in order."""
    path = write(tmp_path / "lines.txt", numbered_lines(300))
    each, batch = (functools.partial(function, ("77",)) for function in (refuse_texts, refuse_texts_of_batch))
    told: Any = {"max_failures": 5, "set_aside": str(tmp_path / "bad.txt"), "on": TWO}
    if call.startswith("imap"):
        assert len(list(aliquot.imap(each, path, ordered=call == "imap", **told))) == 300
    elif call == "run":
        assert aliquot.run(aliquot.FunctionJob(batch, aliquot.open(path)), **told).value == 297
    else:
        with pytest.warns(UnitsSetAsideWarning):
            assert aliquot.map_batches(batch, path, ordered=call == "map_batches", **told) == 297
    assert (tmp_path / "bad.txt").read_bytes() == b"77\n177xx\n277xxxx\n"


def test_a_run_that_ends_early_sets_aside_what_has_failed(tmp_path: Path) -> None:
    """The unit that was one too many is there, too."""
    path = write(tmp_path / "lines.txt", numbered_lines(300))
    with pytest.raises(ValueError, match="cannot be read"):
        aliquot.map(functools.partial(refuse_texts, ("177",)), path, set_aside=tmp_path / "bad.txt", on=TWO)
    assert (tmp_path / "bad.txt").read_bytes() == b"177xx\n"


def test_nothing_is_written_when_nothing_fails(tmp_path: Path) -> None:
    """There is no file."""
    path = write(tmp_path / "lines.txt", numbered_lines(300))
    aliquot.map(functools.partial(refuse_texts, ("no such",)), path, set_aside=tmp_path / "bad.txt", on=TWO)
    assert not (tmp_path / "bad.txt").exists()


def test_rows_of_a_table_are_set_aside_with_its_header(tmp_path: Path) -> None:
    """Once."""
    path = write(tmp_path / "table.csv", "name,count\n" + "".join(f"n{number},{number}\n" for number in range(300)))
    with pytest.warns(UnitsSetAsideWarning):
        aliquot.map(
            functools.partial(refuse_texts, ("n77'", "n200'")),
            path,
            max_failures=2,
            set_aside=tmp_path / "bad.csv",
            on=TWO,
        )
    assert (tmp_path / "bad.csv").read_text() == "name,count\nn77,77\nn200,200\n"


def test_reads_are_set_aside_as_reads(tmp_path: Path) -> None:
    """From a compressed file, uncompressed."""
    path = write(tmp_path / "reads.fastq.gz", gzip.compress(reads(200)))
    with pytest.warns(UnitsSetAsideWarning, match=r"reads.fastq.gz, bytes"):
        aliquot.map(
            functools.partial(refuse_texts, ("read77'", "read120'")),
            path,
            max_failures=2,
            set_aside=tmp_path / "bad.fastq",
            on=TWO,
        )
    names = [record.name for record in aliquot.open(tmp_path / "bad.fastq")]
    assert names == ["read77", "read120"]


def test_mates_are_set_aside_in_two_files(tmp_path: Path) -> None:
    """Which are mates again."""
    paths = [write(tmp_path / f"reads{number}.fastq", reads(200, f"/{number}")) for number in (1, 2)]
    with pytest.warns(UnitsSetAsideWarning):
        values = aliquot.map(
            functools.partial(refuse_texts, ("read77/", "read120/")),
            aliquot.together(*paths),
            max_failures=2,
            set_aside=tmp_path / "bad.fastq",
            on=TWO,
        )
    failure: Any = values[77]
    assert [place[0] for place in failure.places] == list(map(str, paths))
    mates = aliquot.together(tmp_path / "bad-1.fastq", tmp_path / "bad-2.fastq")
    assert [(first.name, second.name) for first, second in mates] == [
        ("read77/1", "read77/2"),
        ("read120/1", "read120/2"),
    ]


def test_an_earlier_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Nothing of it is left."""
    path = write(tmp_path / "lines.txt", numbered_lines(300))
    target = write(tmp_path / "bad.txt", "something old\n" * 100)
    with pytest.warns(UnitsSetAsideWarning):
        aliquot.map(functools.partial(refuse_texts, ("177",)), path, max_failures=1, set_aside=target, on=TWO)
    assert target.read_bytes() == b"177xx\n"


# What is refused


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_failures": -1}, "max_failures=-1: how many units may fail"),
        ({"max_failures": 1.5}, r"max_failures=1\.5: a part of all units is at most 1\.0"),
        ({"max_failures": True}, "max_failures=True"),
        ({"max_failures": "x"}, "max_failures='x'"),
        ({"max_failures": math.nan}, "max_failures=nan"),
        ({"wall_seconds": 0}, "wall_seconds=0: after how long a step is stopped"),
        ({"wall_seconds": -2.0}, r"wall_seconds=-2\.0"),
        ({"wall_seconds": "soon"}, "wall_seconds='soon'"),
        ({"wall_seconds": math.inf}, "wall_seconds=inf"),
        ({"memory": "0"}, "a worker needs"),
        ({"memory": -5}, "a worker needs"),
        ({"memory": "much"}, "'much' is not an amount of memory"),
        ({"memory": math.inf}, "inf is not an amount of memory"),
        ({"target_bytes": "few"}, "'few' is not an amount of memory"),
    ],
    ids=str,
)
def test_a_wrong_limit_is_refused_before_anything_runs(wrong: dict[str, Any], message: str, tmp_path: Path) -> None:
    """The message names the argument; the function was never called."""
    function = functools.partial(note_in, str(tmp_path))
    for call in (aliquot.map, aliquot.imap, aliquot.map_batches):
        with pytest.raises(aliquot.UsageError, match=message):
            call(function, range(5), **wrong)
    with pytest.raises(aliquot.UsageError, match=message):
        aliquot.run(aliquot.FunctionJob(function, aliquot.open(range(5))), **wrong)
    assert calls_in(str(tmp_path)) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/bad.txt", "there is no folder"),
        ("lines.txt", "is the source itself"),
        ("bad.txt.gz", "written uncompressed"),
        ("", "is a directory"),
    ],
)
def test_a_wrong_file_to_set_aside_is_refused_before_anything_runs(tmp_path: Path, name: str, message: str) -> None:
    """Not after hours, when the units have failed; the source is as it was."""
    path = write(tmp_path / "lines.txt", "one\ntwo\n")
    function = functools.partial(note_in, str(tmp_path))
    told: Any = {"set_aside": tmp_path / name, "max_failures": 1, "on": TWO}
    for call in (aliquot.map, aliquot.map_batches):
        with pytest.raises(aliquot.UsageError, match=message):
            call(function, path, **told)
    with pytest.raises(aliquot.UsageError, match=message):
        list(aliquot.imap(function, path, **told))
    with pytest.raises(aliquot.UsageError, match=message):
        aliquot.run(aliquot.FunctionJob(function, aliquot.open(path), operator.add), **told)
    assert calls_in(str(tmp_path)) == 0
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("source", [[1, 2, 3], range(3), (number for number in range(3))], ids=["list", "range", "gen"])
def test_what_is_not_from_a_file_cannot_be_set_aside(source: Any, tmp_path: Path) -> None:
    """There is nothing that could be copied."""
    with pytest.raises(aliquot.UsageError, match="the units are not from a file"):
        aliquot.map(str, source, set_aside=tmp_path / "bad.txt", on=TWO)


def test_a_job_of_ones_own_cannot_be_set_aside(tmp_path: Path) -> None:
    """Nobody knows where its units come from."""
    with pytest.raises(aliquot.UsageError, match="the units are not from a file"):
        aliquot.run(Letters("abc"), set_aside=tmp_path / "bad.txt", on=TWO)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("bad", [0, 3, 4900])
def test_an_item_that_never_fits_is_not_tried_for_ever(bad: int, cores: int, tmp_path: Path) -> None:
    """Of a list, more items come with it the next time unless it is seen to that: it was never alone."""
    with pytest.warns(UnitsSetAsideWarning, match=f"unit {bad} "):
        values = aliquot.map(
            NeverFits(str(tmp_path), bad),
            list(range(5000)),
            on=aliquot.sites.Local(cores=cores),
            size=8,
            max_failures=1,
            progress=False,
        )
    assert values[:bad] + values[bad + 1 :] == [number for number in range(5000) if number != bad]
    assert calls_in(str(tmp_path)) <= 8
