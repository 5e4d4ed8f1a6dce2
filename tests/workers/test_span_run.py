from __future__ import annotations

from typing import Any

from aliquot.sizing import StepSizer
from aliquot.workers.cell import Cell
from aliquot.workers.span_run import SpanRun


def test_no_step_is_cut_from_the_next_span() -> None:
    """The parent may have begun it as soon as it heard that all of this one is done, far from where that ended."""
    cut: list[tuple[int, int]] = []

    def good_cut(start: int, stop: int) -> int:
        cut.append((start, stop))
        return stop

    def wanted(span: int, start: int) -> Any:
        run = SpanRun.__new__(SpanRun)  # of which only this is asked
        run._cell, run._span, run._sizer = cell, span, StepSizer(first_units=10)
        run._is_end, run._most_units, run._sent, run._good_cut, run._moved_cuts = False, 1000, None, good_cut, 0
        return run._wanted_units(start)

    cell = Cell.create()
    try:
        cell.begin(7, 0, 100)
        assert wanted(7, 0) == 10
        assert wanted(7, 100) == 0
        cell.begin(8, 30, 80)
        assert wanted(7, 100) == 0
        assert wanted(8, 30) == 10
        assert cut == [(0, 10), (30, 40)]
    finally:
        cell.close()
