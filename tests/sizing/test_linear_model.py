from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.sizing import LinearModel

SIZES = [1, 3, 9, 30, 100, 400, 1500]
LINES = [(0.0, 1e-3), (0.1, 1e-3), (8.0, 2e-4), (1e-4, 1e-6), (0.5, 2.0)]
overheads = st.one_of(st.just(0.0), st.floats(1e-6, 100.0))
per_units = st.floats(1e-9, 10.0)
costs = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))


def learn(
    overhead: float, per_unit: float, steps: int, noise: Callable[[], float] = lambda: 1.0, *, seed: int = 0
) -> LinearModel:
    """A model that has seen steps of many sizes."""
    random_sizes = random.Random(seed)
    model = LinearModel()
    for _ in range(steps):
        units = random_sizes.choice(SIZES)
        model.observe(units, (overhead + units * per_unit) * noise())
    return model


def worst_error(model: LinearModel, overhead: float, per_unit: float) -> float:
    """The largest relative error of the line, over the sizes that were seen."""
    return max(abs(model.predict(units) / (overhead + units * per_unit) - 1) for units in SIZES)


@given(overheads, per_units)
def test_exact_costs_give_back_their_line(overhead: float, per_unit: float) -> None:
    """Overhead and cost per unit are recovered from costs without noise."""
    model = LinearModel()
    for units in SIZES:
        model.observe(units, overhead + units * per_unit)
    scale = overhead + per_unit
    assert model.overhead == pytest.approx(overhead, rel=1e-4, abs=1e-6 * scale)
    assert model.per_unit == pytest.approx(per_unit, rel=1e-4, abs=1e-6 * scale)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("overhead", "per_unit"), LINES)
def test_noise_of_a_fifth_hardly_moves_the_line(overhead: float, per_unit: float, seed: int) -> None:
    """Costs that scatter by 20 % give a line that is right to 15 % at every size."""
    scatter = random.Random(seed)
    model = learn(overhead, per_unit, 400, lambda: max(0.05, scatter.gauss(1.0, 0.2)), seed=seed)
    assert worst_error(model, overhead, per_unit) < 0.15


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("overhead", "per_unit"), LINES)
def test_rare_giants_hardly_move_the_line(overhead: float, per_unit: float, seed: int) -> None:
    """Two costs in a hundred that are a hundred times too large move the line by less than 10 %."""
    chance = random.Random(seed)

    def noise() -> float:
        return chance.uniform(0.9, 1.1) * (100 if chance.random() < 0.02 else 1)

    model = learn(overhead, per_unit, 1000, noise, seed=seed)
    assert worst_error(model, overhead, per_unit) < 0.1


@pytest.mark.parametrize("before", [50, 1000])
@pytest.mark.parametrize(("overhead", "per_unit"), LINES)
def test_costs_that_double_are_followed(overhead: float, per_unit: float, before: int) -> None:
    """A hundred steps of each size after all costs doubled, the line has doubled, however long it was otherwise."""
    model = learn(overhead, per_unit, before)
    for _ in range(100):
        for units in SIZES:
            model.observe(units, 2 * (overhead + units * per_unit))
    assert worst_error(model, 2 * overhead, 2 * per_unit) < 0.05


def test_costs_that_double_at_the_usual_size_are_followed() -> None:
    """Where only one size still runs, what steps of that size cost is followed all the same."""
    model = LinearModel()
    for units in (1, 4, 16, 64, *[400] * 100):
        model.observe(units, 0.01 + units * 1e-3)
    for _ in range(200):
        model.observe(400, 2 * (0.01 + 400 * 1e-3))
    assert model.predict(400) == pytest.approx(2 * (0.01 + 400 * 1e-3), rel=0.15)


def test_one_size_ten_thousand_times_does_not_wipe_out_the_overhead() -> None:
    """What a few small steps told of the overhead is still known after many large ones."""
    model = LinearModel()
    for units in (1, 4, 16):
        model.observe(units, 0.1 + units * 1e-3)
    for _ in range(10_000):
        model.observe(1000, 0.1 + 1000 * 1e-3)
    assert model.overhead == pytest.approx(0.1, rel=0.01)


def test_like_steps_may_be_told_at_once() -> None:
    """A count of steps that were alike teaches the same as each of them would."""
    one_by_one, at_once = LinearModel(), LinearModel()
    for units in (1, 10, 100):
        at_once.observe(units, 0.5 + units, count=8)
        for _ in range(8):
            one_by_one.observe(units, 0.5 + units)
    assert at_once.observations == one_by_one.observations
    assert at_once.predict(50) == pytest.approx(one_by_one.predict(50))


def test_nothing_seen_costs_nothing() -> None:
    """Before the first step everything is free, and any number of units is within any cost."""
    model = LinearModel()
    assert (model.overhead, model.per_unit, model.predict(10), model.largest_units) == (0.0, 0.0, 0.0, 0.0)
    assert model.units_within(1.0) == float("inf")


def test_one_size_is_taken_as_cost_per_unit() -> None:
    """Steps of a single size tell nothing of the overhead: all is laid to the units."""
    model = LinearModel()
    for _ in range(10):
        model.observe(100, 5.0)
    assert model.overhead == 0.0
    assert model.per_unit == pytest.approx(0.05)
    assert model.size_classes == 1


def test_costs_of_zero_give_a_line_of_zero() -> None:
    """Units that cost nothing at any size are free."""
    model = LinearModel()
    for units in SIZES:
        model.observe(units, 0.0)
    assert model.predict(1e6) == 0.0
    assert model.units_within(0.0) == float("inf")


def test_one_cost_of_zero_does_not_make_all_units_free() -> None:
    """A step that was too short or too small to be measured says little about those that were measured."""
    model = LinearModel()
    model.observe(1, 0.0)
    for units in (4, 16, 64, 256):
        model.observe(units, units * 1e6)
    assert model.predict(256) == pytest.approx(256e6, rel=0.5)


def test_steps_of_no_units_teach_nothing() -> None:
    """A step without units is not an observation."""
    model = LinearModel()
    model.observe(0, 5.0)
    assert model.observations == 0


@given(st.lists(st.tuples(st.integers(1, 10**6), costs, st.integers(1, 1000)), max_size=30))
def test_no_part_is_ever_negative(observations: list[tuple[int, float, int]]) -> None:
    """Whatever was seen, neither overhead nor cost per unit is below zero, nor is a prediction above its upper one."""
    model = LinearModel()
    model.observe_all(observations)
    assert model.overhead >= 0
    assert model.per_unit >= 0
    assert 0 <= model.predict(1000) <= model.predict_upper(1000)


def test_a_falling_line_has_no_slope() -> None:
    """Where larger steps cost less, the cost is taken as overhead alone."""
    model = LinearModel()
    for units in SIZES:
        model.observe(units, 10 / units)
    assert model.per_unit == 0.0
    assert model.overhead > 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", [0.05, 0.2, 0.6])
def test_the_upper_prediction_covers_nineteen_of_twenty(spread: float, seed: int) -> None:
    """About 95 % of the steps cost less than the upper prediction made before them."""
    chance = random.Random(seed)
    model = LinearModel()
    covered = 0
    for number in range(3000):
        units = chance.choice(SIZES)
        cost = (0.1 + units * 1e-2) * chance.lognormvariate(0.0, spread)
        if number >= 1000:
            covered += cost <= model.predict_upper(units)
        model.observe(units, cost)
    assert 0.92 < covered / 2000 < 0.98


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(1e-9, 1e9)), min_size=1, max_size=30), st.floats(1e-9, 1e12))
def test_units_within_a_cost_are_within_it(observations: list[tuple[int, float]], cost: float) -> None:
    """So many units as are within a cost are predicted, at worst, to cost just that."""
    model = LinearModel()
    for units, seen in observations:
        model.observe(units, seen)
    units_within = model.units_within(cost)
    if 0 < units_within < float("inf"):
        assert model.predict_upper(units_within) == pytest.approx(cost)


@given(st.lists(st.tuples(st.integers(1, 10**6), costs, st.integers(1, 100)), max_size=30))
def test_a_model_survives_json(observations: list[tuple[int, float, int]]) -> None:
    """A model kept as JSON has the same sizes and costs when it is rebuilt, and the same share above the line."""
    model = LinearModel()
    model.observe_all(observations)
    rebuilt = LinearModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert [seen[:2] for seen in rebuilt.summary()] == [seen[:2] for seen in model.summary()]
    upper_ratio = model.to_dict()["upper_ratio"]
    assert rebuilt.predict_upper(1000) == pytest.approx(rebuilt.predict(1000) * upper_ratio)


@given(overheads, per_units)
def test_a_line_survives_json(overhead: float, per_unit: float) -> None:
    """What costs without noise taught is the same after it was kept as JSON."""
    model = LinearModel()
    for units in SIZES:
        model.observe(units, overhead + units * per_unit)
    rebuilt = LinearModel.from_dict(json.loads(json.dumps(model.to_dict())))
    for units in SIZES:
        assert rebuilt.predict(units) == pytest.approx(model.predict(units))


def test_what_one_model_learned_teaches_another() -> None:
    """The summary of a model, observed by a new one, gives the same line."""
    model = learn(0.1, 1e-3, 300)
    other = LinearModel()
    other.observe_all(model.summary())
    assert other.overhead == pytest.approx(model.overhead)
    assert other.per_unit == pytest.approx(model.per_unit)


def test_a_hint_gives_way_to_the_first_that_is_seen() -> None:
    """Of its size; it is not averaged with it. And what was seen does not give way to a hint."""
    model = LinearModel()
    model.take_hints([(100, 50.0, 2), (1000, 60.0, 2)])
    assert model.measured(100) == 50.0
    model.observe(100, 1.0)
    assert (model.measured(100), model.measured(1000)) == (1.0, 60.0)
    model.take_hints([(100, 70.0, 2)])
    assert model.measured(100) == 1.0
