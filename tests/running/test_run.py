from __future__ import annotations

import operator
from functools import partial
from pathlib import Path

import pytest

import aliquot
from aliquot.running.outcome import NOT_LOOKED_INTO, count_failed
from tests.job.counting import Counting
from tests.running.functions import Letters, allocate, fail_on_any, map_list, scald

TWO = aliquot.sites.Local(cores=2)


def test_a_job_of_five_functions_is_divided_executed_and_joined() -> None:
    """By its own split, execute and join, over all units."""
    outcome = aliquot.run(Counting(0, 10_000), on=TWO)
    assert outcome.value == sum(range(10_000))
    assert outcome.failures == ()


@pytest.mark.parametrize("size", [None, 1, 7, 10**6])
def test_the_parts_of_a_job_are_joined_in_order(size: int | None) -> None:
    """A join that is not commutative gives the same whatever the division."""
    text = "the quick brown fox jumps over the lazy dog " * 30
    assert aliquot.run(Letters(text), size=size, on=TWO).value == text.upper()


def test_a_function_job_is_run() -> None:
    """As map_batches, with a report."""
    job = aliquot.FunctionJob(list, aliquot.open(range(3000)), operator.add)
    outcome = aliquot.run(job, on=TWO)
    assert outcome.value == list(range(3000))
    assert outcome.report.units == 3000


def test_a_job_over_a_part_of_a_file_is_run(tmp_path: Path) -> None:
    """Workers read their own parts."""
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{number}\n" for number in range(1000)))
    job = aliquot.FunctionJob(partial(map_list, int), aliquot.open(path)[200:900])
    assert aliquot.run(job, on=TWO).value == list(range(200, 900))


def test_a_failure_is_in_the_outcome_and_raises_when_the_value_is_asked_for() -> None:
    """The report of a run that failed can be read."""
    outcome = aliquot.run(Counting(0, 100, bad_unit=40), target_seconds=0, on=TWO)
    (failure,) = outcome.failures
    assert (failure.start, failure.stop) == (40, 41)
    assert failure.error == "ValueError: unit 40 is bad"
    assert failure.attempts == 2
    assert "counting.py" in failure.traceback
    assert str(failure) == "unit 40: ValueError: unit 40 is bad"
    assert "1 failures" in repr(outcome)
    for _ in range(2):
        with pytest.raises(ValueError, match="unit 40 is bad"):
            _ = outcome.value


def test_the_note_is_added_once() -> None:
    """However often the value is asked for, the error says once where it comes from."""
    outcome = aliquot.run(Counting(0, 100, bad_unit=40), target_seconds=0, on=TWO)
    for _ in range(3):
        with pytest.raises(ValueError, match="unit 40 is bad") as caught:
            _ = outcome.value
    advice, place = caught.value.__notes__
    assert "max_failures=1.0 (all, and not 1) would set units aside" in advice
    assert "unit 40" in place


def test_where_the_seconds_went_adds_up() -> None:
    """Useful, overhead and idle seconds are cores x wall time, and none is negative."""
    report = aliquot.run(aliquot.FunctionJob(sum, aliquot.open(range(500_000))), on=TWO).report
    spent = report.useful_seconds + report.overhead_seconds + report.idle_seconds
    assert spent == pytest.approx(report.cores * report.wall_seconds)
    assert min(report.useful_seconds, report.overhead_seconds, report.idle_seconds) >= 0
    assert 0 < report.efficiency <= 1
    assert report.cores == 2


def test_the_report_counts_what_was_done() -> None:
    """One step for each unit where that was asked for, and at least one task for each worker."""
    report = aliquot.run(aliquot.FunctionJob(sum, aliquot.open(range(100))), target_seconds=0, on=TWO).report
    assert report.units == 100
    assert report.steps == 100
    assert report.tasks >= 2
    assert report.steals <= report.tasks
    assert report.lost_workers == report.spilled_bytes == 0


def test_the_report_is_a_line() -> None:
    """What a person wants to know of a run."""
    outcome = aliquot.run(Counting(0, 1000), on=TWO)
    assert str(outcome.report).startswith("1,000 units in ")
    assert "on 2 cores" in str(outcome.report)
    assert "% efficient" in str(outcome.report)
    assert str(outcome.report) in repr(outcome)


def test_the_peak_of_a_step_is_in_the_report() -> None:
    """100 MB that a function held for a moment are seen, in whichever worker it ran."""
    small = aliquot.run(aliquot.FunctionJob(partial(map_list, allocate), aliquot.open([1], format="items")), on=TWO)
    large = aliquot.run(
        aliquot.FunctionJob(partial(map_list, allocate), aliquot.open([1, 100_000_000, 1], format="items")),
        target_seconds=0,
        on=TWO,
    )
    assert large.value == [1, 100_000_000, 1]
    assert large.report.peak_bytes - small.report.peak_bytes == pytest.approx(100_000_000, rel=0.05)


def test_fewer_units_than_cores_use_fewer_cores() -> None:
    """No worker is started for nothing."""
    assert aliquot.run(Counting(0, 2), on=aliquot.sites.Local(cores=8)).report.cores == 2


def test_a_job_without_units_has_no_value() -> None:
    """The message says so."""
    with pytest.raises(aliquot.UsageError, match="no units"):
        aliquot.run(Counting(5, 5), on=TWO)


def test_a_job_that_is_done_is_not_run_again() -> None:
    """Its value is there."""
    with pytest.raises(aliquot.UsageError, match=r"its value is job\.result\.value"):
        aliquot.run(Counting(0, 5).attempt(), on=TWO)


def test_an_outcome_of_a_run_that_failed_with_no_exception_to_raise_names_the_units() -> None:
    """The error is aliquot's own, and carries the failures."""
    failures = tuple(aliquot.Failure(number, number + 1, "gone") for number in range(12))
    report = aliquot.run(Counting(0, 5), on=TWO).report
    with pytest.raises(aliquot.UnitsFailedError, match="unit 9: gone\n  and 2 more") as caught:
        _ = aliquot.Outcome(None, report, failures, is_complete=False).value
    with pytest.raises(aliquot.UnitsFailedError, match=r"than max_failures allows \(11\):"):
        _ = aliquot.Outcome(None, report, failures, is_complete=False, max_failures=11).value
    with pytest.raises(aliquot.UnitsFailedError, match=r"than max_failures allows \(0\.01 of all\):"):
        _ = aliquot.Outcome(None, report, failures, is_complete=False, max_failures=0.01).value
    assert caught.value.failures == failures
    assert caught.value.__cause__ is None


def test_functions_that_fail_are_told_apart_from_jobs_that_fail() -> None:
    """The first failed unit is named, whichever call was used."""
    outcome = aliquot.run(aliquot.FunctionJob(partial(map_list, scald), aliquot.open(range(20))), on=TWO)
    (failure,) = outcome.failures
    assert failure.start <= 13 < failure.stop
    assert aliquot.run(aliquot.FunctionJob(fail_on_any, aliquot.open(range(5))), on=TWO).failures


def test_units_of_which_nothing_is_known_are_told_apart() -> None:
    """A step that failed as the run ended was never divided: most of its units may be good."""
    found = aliquot.Failure(7, 8, "ValueError")
    rest = aliquot.Failure(8, 1008, "failed as well", kind=NOT_LOOKED_INTO)
    assert count_failed([found]) == "1 unit failed"
    assert count_failed([found, rest]) == "1 unit failed (and 1,000 more were with them or behind, and not looked into)"
    assert count_failed([rest]) == "1,000 units failed"
