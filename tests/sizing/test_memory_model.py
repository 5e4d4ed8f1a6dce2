from __future__ import annotations

import pytest

from aliquot.sizing.memory_model import MemoryModel


def test_steps_far_below_the_limit_may_grow_fast() -> None:
    """Nothing is seen of what units hold; were it the least that can be seen, many times as many would still fit."""
    model = MemoryModel()
    for units in (1, 4, 16):
        model.observe(units, 50e6)
    assert model.units_within(10e9) == pytest.approx(16 * 64)
    assert model.units_within(1e9) == pytest.approx(16 * 200e6 / (4 << 20))


def test_what_is_seen_of_units_holds_growth_back() -> None:
    """To where they would take a quarter of the limit."""
    model = MemoryModel()
    for units in (1, 4, 16):
        model.observe(units, 50e6 + 2e6 * units)
    assert model.units_within(1e9) == pytest.approx(16 * 200e6 / 32e6)


def test_what_is_held_without_a_step_is_not_what_units_weigh() -> None:
    """So that the second step can be large."""
    model = MemoryModel()
    model.floor_bytes = 90_000_000
    model.observe(1, 100e6)
    assert model.units_within(1e9) == pytest.approx((940e6 - 90e6) / 10e6)


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


def test_units_that_change_while_sizes_are_tried_say_nothing_of_the_base() -> None:
    """A line through heavy units of small steps and light ones of large steps would take what units hold for it."""
    model = MemoryModel()
    model.floor_bytes = 20_000_000
    for units, each in ((4, 10e6), (8, 10e6), (16, 1e6)):
        model.observe(units, 40e6 + units * each)
    assert not model.is_certain
    assert model.base_bytes == 20e6
