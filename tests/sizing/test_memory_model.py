from __future__ import annotations

import pytest

from aliquot.sizing.memory_model import MemoryModel


def test_steps_far_below_the_limit_may_grow_fast() -> None:
    """Were all that a step holds from its units, many times as many would still fit."""
    model = MemoryModel()
    for units in (1, 4, 16):
        model.observe(units, 50e6)
    assert model.units_within(10e9) == pytest.approx(16 * 8)
    assert model.units_within(1e9) == pytest.approx(16 * 5)


def test_steps_near_the_limit_grow_slowly() -> None:
    """Units may have become heavier than all before."""
    model = MemoryModel()
    for units in (1, 4, 16):
        model.observe(units, 50e6)
    assert model.units_within(100e6) == 32


def test_a_step_that_did_not_fit_is_followed_by_a_small_one() -> None:
    """Also where nobody knows what it was allowed."""
    model = MemoryModel()
    for units in (1, 4, 16):
        model.observe(units, 50e6)
    model.exhausted(1000, 0)
    assert model.units_within(1e9) < 1000 / 16 * 8
