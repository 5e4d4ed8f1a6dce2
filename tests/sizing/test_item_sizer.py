from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.sizing import ItemSizer


def settle(sizer: ItemSizer, unit_seconds: float, steps: int = 40) -> int:
    """Run steps of equal units, far from the end of a span; the size of the last."""
    units = 0
    for _ in range(steps):
        units = sizer.choose(10**9)
        sizer.observe(units, units * unit_seconds)
    return units


@pytest.mark.parametrize("unit_seconds", [1e-7, 1e-4, 1e-3])
def test_a_step_takes_about_a_twentieth_of_a_second(unit_seconds: float) -> None:
    """However cheap a unit is."""
    sizer = ItemSizer()
    assert settle(sizer, unit_seconds) * unit_seconds == pytest.approx(0.05, rel=0.1)


def test_dear_units_go_one_by_one() -> None:
    """A step has at least one unit, however long that takes."""
    assert settle(ItemSizer(), 3.0) == 1


def test_units_that_become_dearer_are_noticed_at_once() -> None:
    """After two steps, as the average forgets."""
    sizer = ItemSizer()
    before = settle(sizer, 1e-4)
    for _ in range(2):
        sizer.observe(4, 4 * 5e-3)
    assert sizer.choose(10**9) < before / 10


def test_one_unit_a_step_if_the_user_wishes() -> None:
    """With no time for a step, nothing is put together."""
    sizer = ItemSizer(longest_seconds=0)
    sizer.observe(1, 1e-7)
    assert sizer.is_one_by_one
    assert sizer.choose(10**6) == 1


def test_steps_shrink_at_the_end_of_a_span() -> None:
    """So that what is left can be given to others."""
    sizer = ItemSizer()
    settle(sizer, 1e-3)
    assert sizer.choose(30) == 10
    assert sizer.choose(3) <= 2


def test_what_others_learned_is_a_beginning() -> None:
    """A worker that has done nothing begins with the size that suits by what others measured."""
    sizer = ItemSizer()
    sizer.learn([(1.0, 0.001, 2.0), (25.0, 0.025, 2.0)], [])
    assert sizer.choose(10**6) == 50


def test_after_a_unit_that_did_not_fit_steps_grow_anew() -> None:
    """Its units come one after the other: what they hold limits no step, but the next one is small."""
    sizer = ItemSizer()
    sizer.observe(1000, 1e-3)
    sizer.observe_memory(1000, 10**9)
    usual = sizer.choose(10**6)
    sizer.exhausted(1000)
    assert sizer.choose(10**6) < usual / 10
    sizer.observe(1000, 1e-3)
    assert sizer.choose(10**6) == usual


@given(
    remaining=st.integers(1, 10**6),
    first=st.integers(1, 10**6),
    steps=st.lists(st.tuples(st.integers(1, 10**5), st.floats(0, 100)), max_size=8),
)
def test_a_step_is_never_empty_and_never_more_than_is_left(
    remaining: int, first: int, steps: list[tuple[int, float]]
) -> None:
    """Whatever was seen."""
    sizer = ItemSizer()
    sizer.begin_span(first)
    for units, seconds in steps:
        sizer.observe(units, seconds)
    assert 1 <= sizer.choose(remaining) <= remaining
