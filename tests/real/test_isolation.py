"""Units that hang, take all memory or end their worker, among many that do not: found, set aside, all others done."""

from __future__ import annotations

import functools
import operator
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.running.outcome import Outcome, UnitsSetAsideWarning
from aliquot.workers.nursery import the_nursery
from tests.real.processes import children_of, wait_until
from tests.running.bad_functions import (
    Bad,
    BadBatch,
    EndlessWords,
    Everything,
    ManyBads,
    ask_for_all_memory,
    crash,
    fail_at_endless_words,
    fail_first_time,
    fill_memory,
    hang,
    hang_busily,
    hang_deaf,
    hang_stubbornly,
    kill_itself,
    leave,
    overflow_the_stack,
    raise_something,
    recurse_without_end,
    return_a_lock,
)
from tests.running.functions import map_list

TWO = aliquot.sites.Local(cores=2, memory="400MB")
MILLION = 1_000_000
WALL_SECONDS = 0.4

FEW_WAYS = [
    (hang, "hung", "longer than wall_seconds"),
    (fill_memory, "exhausted", "MemoryError"),
    (overflow_the_stack, "died", "SIGSEGV"),
]
MORE_WAYS = [
    (hang_busily, "hung", "longer than wall_seconds"),
    (hang_deaf, "hung", "longer than wall_seconds"),
    (hang_stubbornly, "hung", "longer than wall_seconds"),
    (recurse_without_end, "raised", "RecursionError"),
]


def ways_to_fail(ways: list[tuple[Any, str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("what", "kind", "words"), ways, ids=lambda value: getattr(value, "__name__", ""))


def wall_for(kind: str) -> float | None:
    """Only for what hangs: on a busy machine, anything may take long."""
    return WALL_SECONDS if kind == "hung" else None


def run_each(function: Any, units: int, **told: Any) -> Outcome:
    """As `aliquot.map`, with its report."""
    from aliquot.running import one_run, options, planning

    return one_run.run_plan(planning.plan_each(function, range(units), options.make_options(on=TWO, **told)))


def assert_only_unit_failed(values: list[Any], units: int, bad: int) -> None:
    assert [value for value in values if not isinstance(value, aliquot.Failure)] == [
        unit for unit in range(units) if unit != bad
    ]


@ways_to_fail(FEW_WAYS)
def test_a_list_has_all_other_values(what: Any, kind: str, words: str) -> None:
    """And a failure that says what the unit did."""
    with pytest.warns(UnitsSetAsideWarning, match="unit 123"):
        values: list[Any] = aliquot.map(
            Bad(what, [123]), range(1000), max_failures=1, wall_seconds=wall_for(kind), on=TWO
        )
    assert_only_unit_failed(values, 1000, 123)
    failure = values[123]
    assert (failure.start, failure.stop, failure.kind) == (123, 124, kind)
    assert words in failure.error
    assert (failure.held_bytes > 300_000_000) == (kind == "exhausted")


@ways_to_fail(FEW_WAYS)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_stream_gives_all_other_values(what: Any, kind: str, words: str, ordered: bool) -> None:
    """With the failure among them."""
    values: list[Any] = list(
        aliquot.imap(Bad(what, [123]), range(300), ordered=ordered, max_failures=1, wall_seconds=wall_for(kind), on=TWO)
    )
    (failure,) = (value for value in values if isinstance(value, aliquot.Failure))
    assert (failure.start, failure.kind) == (123, kind)
    values.remove(failure)
    assert_only_unit_failed(values if ordered else sorted(values), 300, 123)


@ways_to_fail(FEW_WAYS)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_joined_value_is_that_of_all_others(what: Any, kind: str, words: str, ordered: bool) -> None:
    """The unit is found by halving the batch that it was in."""
    with pytest.warns(UnitsSetAsideWarning, match="unit 77"):
        value = aliquot.map_batches(
            BadBatch(what, [77]), range(150), ordered=ordered, max_failures=1, wall_seconds=wall_for(kind), on=TWO
        )
    assert_only_unit_failed(value if ordered else sorted(value), 150, 77)


@ways_to_fail(FEW_WAYS + MORE_WAYS)
def test_an_outcome_names_the_unit(what: Any, kind: str, words: str) -> None:
    """And says how it was found out."""
    job = aliquot.FunctionJob(BadBatch(what, [77]), aliquot.open(range(150)))
    outcome = aliquot.run(job, max_failures=1, wall_seconds=wall_for(kind), on=TWO)
    assert_only_unit_failed(outcome.value, 150, 77)
    (failure,) = outcome.failures
    assert (failure.start, failure.stop, failure.kind) == (77, 78, kind)
    assert words in failure.error


def test_seven_bad_units_of_a_million_are_found_and_all_others_are_right() -> None:
    """Each is bad in its own way. What has to be done again is little."""
    whats: dict[int, Any] = {
        1_000: raise_something,
        123_456: crash,
        250_000: leave,
        499_999: hang,
        600_001: ask_for_all_memory,
        777_777: return_a_lock,
        999_999: overflow_the_stack,
    }
    outcome = run_each(ManyBads(whats), MILLION, max_failures=1e-5, wall_seconds=2.0, progress=False)
    assert outcome.is_complete
    assert [(failure.start, failure.stop) for failure in outcome.failures] == [(unit, unit + 1) for unit in whats]
    kinds = ["raised", "died", "died", "hung", "exhausted", "raised", "died"]
    assert [failure.kind for failure in outcome.failures] == kinds
    values = outcome.value
    assert len(values) == MILLION
    assert [unit for unit, value in enumerate(values) if value != unit] == list(whats)
    assert outcome.report.units == MILLION - len(whats)
    assert outcome.report.failed_units == len(whats)
    # Every failure is followed by a span or two, and the rest are those of a run without failures.
    assert outcome.report.tasks < 60


@pytest.mark.parametrize("what", [leave, crash, kill_itself, hang, fill_memory], ids=lambda what: what.__name__)
@pytest.mark.parametrize("make", [Bad, BadBatch])
def test_a_function_that_is_bad_at_every_unit_ends_the_run(what: Any, make: Any) -> None:
    """After a few units of a million, with a few of them named; the workers are gone."""
    told: Any = {"max_failures": 2, "wall_seconds": 0.2, "on": TWO}
    function = make(what, Everything())
    if make is Bad:
        outcome = run_each(function, MILLION, **{key: told[key] for key in ("max_failures", "wall_seconds")})
    else:
        outcome = aliquot.run(aliquot.FunctionJob(function, aliquot.open(range(MILLION))), **told)
    assert not outcome.is_complete
    assert 2 < len(outcome.failures) < 60
    assert outcome.report.units == 0
    assert outcome.report.tasks < 100
    wait_until(lambda: children_of(the_nursery()._process) == [], "no worker is left")


def test_many_bad_units_are_all_found(tmp_path: Path) -> None:
    """Fifty that raise and one in a thousand that end their worker, in batches."""
    raising, leaving = set(range(0, 5000, 100)), {777, 2777, 4777}
    function = ManyBads(dict.fromkeys(raising, raise_something) | dict.fromkeys(leaving, leave))
    job = aliquot.FunctionJob(functools.partial(map_list, function), aliquot.open(range(5000)), operator.add)
    outcome = aliquot.run(job, max_failures=0.02, on=TWO)
    bad = sorted(raising | leaving)
    assert [failure.start for failure in outcome.failures] == bad
    assert outcome.value == [unit for unit in range(5000) if unit not in raising | leaving]


def test_every_unit_may_fail_once(tmp_path: Path) -> None:
    """Nothing is set aside, and nobody is blamed for ever."""
    function = functools.partial(fail_first_time, str(tmp_path), range(100))
    outcome = run_each(function, 100, target_seconds=0)
    assert outcome.value == list(range(100))
    assert outcome.failures == ()
    assert outcome.report.flaky_steps > 0


def test_a_unit_that_hangs_ends_a_run_that_allows_no_failure() -> None:
    """With the unit in the message."""
    with pytest.raises(aliquot.UnitsFailedError, match=r"unit 123.*longer than wall_seconds"):
        aliquot.map(Bad(hang, [123]), range(1000), wall_seconds=WALL_SECONDS, on=TWO)


def test_steps_are_kept_short_enough_for_wall_seconds() -> None:
    """A unit takes no time, all of them far longer than a step may: nothing is stopped."""
    job = aliquot.FunctionJob(sum, aliquot.open(range(8_000_000)), operator.add)
    outcome = aliquot.run(job, wall_seconds=0.2, on=TWO)
    assert outcome.value == sum(range(8_000_000))
    assert outcome.failures == ()


def test_a_unit_that_cannot_be_shown_in_time_is_no_other_failure(capfd: pytest.CaptureFixture[str]) -> None:
    """What the function raised is told, or that it took too long; no worker ends with a traceback of ours."""
    units = [0, 1, EndlessWords(), 3]
    with pytest.warns(UnitsSetAsideWarning):
        values: list[Any] = aliquot.map(fail_at_endless_words, units, max_failures=1, wall_seconds=0.3, on=TWO)
    assert values[2].kind in ("raised", "hung")
    assert "Traceback" not in capfd.readouterr().err
