from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.sizing import ReportPacer


def due_after_seconds(pacer: ReportPacer, since_seconds: float) -> float:
    """How long after a time the next report is due, to a millisecond."""
    return next(after for after in range(100_000) if pacer.is_due(since_seconds + after / 1000)) / 1000


def test_the_first_report_comes_soon() -> None:
    """Rates are known after some hundredths of a second, wherever the clock began."""
    for began_seconds in (0.0, 1234.5):
        pacer = ReportPacer(began_seconds)
        assert not pacer.is_due(began_seconds)
        assert due_after_seconds(pacer, began_seconds) < 0.05


def test_reports_become_rarer_up_to_half_a_second() -> None:
    """Each interval is no shorter than the one before, and none is longer than that."""
    pacer = ReportPacer(0.0)
    now_seconds, intervals = 0.0, []
    for _ in range(20):
        intervals.append(due_after_seconds(pacer, now_seconds))
        now_seconds += intervals[-1]
        pacer.reported(now_seconds, took_seconds=0.0)
    assert all(later >= earlier - 0.001 for earlier, later in pairwise(intervals))
    assert intervals[-1] == pytest.approx(0.5, abs=0.0011)
    # Once workers have died, what is not sent up is better not much.
    assert not pacer.is_due(now_seconds + 0.04, is_wary=True)
    assert pacer.is_due(now_seconds + 0.06, is_wary=True)


@given(st.floats(0.0, 0.3))
def test_reporting_costs_a_fiftieth_at_most(took_seconds: float) -> None:
    """However long a report takes, the time until the next one is fifty times as long."""
    pacer = ReportPacer(0.0)
    for now_seconds in range(100, 3000, 100):
        assert pacer.is_due(now_seconds)
        pacer.reported(now_seconds, took_seconds)
    assert due_after_seconds(pacer, now_seconds) >= min(0.5, took_seconds * 50 - 0.001)
    assert due_after_seconds(pacer, now_seconds) <= max(0.5, took_seconds * 50 + 0.001)


def test_results_that_fill_memory_go_up_at_once() -> None:
    """Some tens of megabytes of results do not wait for their time."""
    pacer = ReportPacer(0.0)
    assert not pacer.is_due(0.0, grown_bytes=1 << 20)
    assert pacer.is_due(0.0, grown_bytes=1 << 30)


def test_every_step_may_be_reported() -> None:
    """Where asked for, a report is due after every step, at any time."""
    pacer = ReportPacer(0.0, after_every_step=True)
    assert pacer.is_due(0.0)
    pacer.reported(0.0, took_seconds=10.0)
    assert pacer.is_due(0.0)
