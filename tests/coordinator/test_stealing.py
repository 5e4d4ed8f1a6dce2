"""How much of a span a worker without work gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator.stealing import Cut, Load, Spread, cut, equal_part

SURE = Spread()
# As where a unit takes 3 ms, and differs from its like by 2.4 times that.
UNSURE = Spread(of_work=0.003 * 2.4**2)


def ends_after(
    owner_left: float, speed: float, taker_speed: float, *, level: float, spread: Spread = SURE
) -> tuple[float, float]:
    """When owner and taker end, by what is expected, if all begins now and a start-up takes a second."""
    piece = cut_at(Load(owner_left / speed, speed), taker_speed, level, spread)
    assert piece is not None
    taken = piece.share * owner_left
    assert piece.taken_seconds == pytest.approx(taken / taker_speed)
    return (owner_left - taken) / speed, 1.0 + taken / taker_speed


def cut_at(owner: Load, taker_speed: float, level: float, spread: Spread = SURE) -> Cut | None:
    return cut(owner, taker_speed, ready_seconds=0.0, now_seconds=0.0, startup_seconds=1.0, level=level, spread=spread)


def test_a_taker_fills_its_room_where_the_rest_is_worth_another_start() -> None:
    owner_end, taker_end = ends_after(30.0, 1.0, 1.0, level=10.0)
    assert taker_end == pytest.approx(10.0)
    assert owner_end > 11.0


def test_a_taker_that_can_serve_another_leaves_the_owner_what_it_can_do() -> None:
    owner_end, taker_end = ends_after(11.0, 1.0, 1.0, level=10.0)
    assert owner_end == pytest.approx(10.0)
    assert taker_end < 9.0


@pytest.mark.parametrize("left", [14.7, 15.5, 19.8])
@pytest.mark.parametrize("later", [0.2, -0.2])
def test_what_is_not_worth_another_start_is_shared(left: float, later: float) -> None:
    """Whether the taker has room to spare or the owner too much: nobody else will come for it, or has a use for it."""
    owner_end, taker_end = ends_after(left, 1.0, 1.0, level=(left + 1.0) / 2 + later)
    assert owner_end == pytest.approx(taker_end, rel=1e-3)


@pytest.mark.parametrize(("speed", "taker_speed", "left"), [(0.5, 2.0, 9.4), (1.0, 1.5, 4.2), (1.0, 1.0, 3.0)])
@pytest.mark.parametrize("spread", [UNSURE, Spread(0.0, 0.05), Spread(0.0, 2.0), Spread(100.0, 0.0)])
def test_both_are_equally_unlikely_to_end_late(speed: float, taker_speed: float, left: float, spread: Spread) -> None:
    """By as many deviations of what each will have, however large these are."""
    level = (left + taker_speed) / (speed + taker_speed)
    owner_end, taker_end = ends_after(left, speed, taker_speed, level=level, spread=spread)
    owner_late = spread.late(owner_end * speed) / speed
    taker_late = spread.late((taker_end - 1.0) * taker_speed) / taker_speed
    assert owner_end + owner_late == pytest.approx(taker_end + taker_late, rel=0.02)


def test_a_slow_owner_is_left_with_less_where_units_differ() -> None:
    owner_end, taker_end = ends_after(9.4, 0.5, 2.0, level=4.6, spread=UNSURE)
    assert owner_end < taker_end - 0.3


def test_nothing_is_taken_from_who_ends_before_the_level() -> None:
    assert cut_at(Load(9.9, 1.0), 1.0, 10.0) is None


def test_nothing_is_taken_from_who_ends_before_anybody_could_begin() -> None:
    assert cut_at(Load(0.9, 1.0), 1.0, 0.5) is None


@pytest.mark.parametrize("left", [1.1, 1.5, 2.0, 4.0])
def test_never_more_than_all_is_taken_nor_less_than_nothing(left: float) -> None:
    """However uncertain it is."""
    for spread in (Spread(), *(Spread(of_work, 1.0) for of_work in (0.0, 0.01, 1.0, 100.0))):
        piece = cut_at(Load(left, 1.0), 1.0, 1.0, spread)
        assert piece is None or 0 < piece.share <= 1


@given(st.integers(1, 10**6), st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_all_that_waits_goes_to_those_who_have_less(waiting: int, owned: list[int]) -> None:
    """Filled up to an equal part, those who have less get all that waits, and nobody gives anything."""
    equal = equal_part(waiting, owned)
    assert sum(max(0.0, equal - own) for own in owned) == pytest.approx(waiting)
