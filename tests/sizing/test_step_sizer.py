from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.sizing import OVERHEAD_SHARE, LinearModel, StepSizer

# Far more units than any step should have: the end of the span is not in sight.
PLENTY_UNITS = 10**13

overheads = st.one_of(st.just(0.0), st.floats(1e-6, 3.0))
per_units = st.floats(1e-8, 0.5)


class Step(NamedTuple):
    units: int
    seconds: float


def run_steps(
    sizer: StepSizer,
    seconds: Callable[[int], float],
    *,
    steps: int = 200,
    remaining_units: int = PLENTY_UNITS,
    peak_bytes: Callable[[int], float] | None = None,
) -> list[Step]:
    """Let a sizer choose steps and learn what each took."""
    taken: list[Step] = []
    while len(taken) < steps and remaining_units:
        units = sizer.choose(remaining_units)
        remaining_units -= units
        sizer.observe(units, seconds(units), None if peak_bytes is None else int(peak_bytes(units)))
        taken.append(Step(units, seconds(units)))
    return taken


@given(overheads, per_units, st.sampled_from([0.1, 1.0, 10.0]))
def test_steps_become_as_long_as_their_overhead_asks(overhead: float, per_unit: float, longest_seconds: float) -> None:
    """A step ends with a small share of overhead, or about as long as a step may be; one unit where that is longer."""
    last = run_steps(StepSizer(longest_seconds=longest_seconds), lambda n: overhead + n * per_unit)[-1]
    is_worth_it = overhead <= 0.06 * last.seconds
    is_long = last.seconds >= 0.5 * longest_seconds
    assert is_worth_it or is_long
    # And no longer than that asks for.
    asked_seconds = max(longest_seconds, (overhead + 1e-4) / 0.05)
    assert last.units == 1 or last.seconds <= 1.1 * asked_seconds


@given(overheads, per_units)
def test_steps_are_no_longer_than_needed(overhead: float, per_unit: float) -> None:
    """Where there is hardly any overhead, a step is short, so that its span can be cut almost anywhere."""
    last = run_steps(StepSizer(), lambda n: overhead + n * per_unit)[-1]
    assert last.units == 1 or last.seconds <= 1.1 * max(0.01, (overhead + 1e-4) / OVERHEAD_SHARE)


def test_who_wants_less_overhead_gets_longer_steps() -> None:
    """As programs do; up to what a step may take."""

    def last_seconds(overhead_share: float) -> float:
        sizer = StepSizer(longest_seconds=4.0, overhead_share=overhead_share)
        return run_steps(sizer, lambda n: 0.005 + n * 1e-5)[-1].seconds

    assert last_seconds(0.01) == pytest.approx(0.5, rel=0.05)
    assert last_seconds(0.0025) == pytest.approx(2.0, rel=0.05)
    assert last_seconds(0.0001) == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("overhead", [0.0, 0.05, 0.3])
def test_no_step_is_as_long_as_one_that_is_stopped(overhead: float) -> None:
    """Also where less of it would be overhead then: a step that is stopped is all lost."""
    steps = run_steps(StepSizer(longest_seconds=0.25, stopped_seconds=1.0), lambda n: overhead + n * 0.0005)
    assert all(step.seconds < 0.5 for step in steps)
    assert steps[-1].seconds > 0.2 or not overhead


@given(st.integers(1, 10**6), overheads, per_units)
def test_any_first_size_ends_with_the_same_step(first_units: int, overhead: float, per_unit: float) -> None:
    """What a user guessed as the size does not matter in the end."""
    guessed = run_steps(StepSizer(first_units=first_units), lambda n: overhead + n * per_unit)[-1]
    unaided = run_steps(StepSizer(), lambda n: overhead + n * per_unit)[-1]
    assert guessed.units == pytest.approx(unaided.units, rel=0.02, abs=1)


@pytest.mark.parametrize("first_units", [1, 10, 1000, 10**5, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_no_first_size_ends_in_long_steps_where_costs_scatter(first_units: int, seed: int) -> None:
    """From first sizes of one to a million units, steps come to less than three times the longest that they may be."""
    chance = random.Random(seed)
    sizer = StepSizer(first_units=first_units, longest_seconds=1.0)
    last = run_steps(sizer, lambda n: (0.005 + n * 1e-4) * chance.uniform(0.8, 1.2), steps=1000)[-1]
    assert 0.1 < last.seconds < 3.0


def test_a_step_that_was_too_long_is_not_followed_by_a_longer_one() -> None:
    """When the first guess alone takes longer than a step should, the next sizes that are tried are smaller."""
    sizer = StepSizer(first_units=1000, longest_seconds=1.0)
    first, second, *_ = run_steps(sizer, lambda n: n * 0.1)
    assert first.seconds == pytest.approx(100.0)
    assert second.units < first.units


def test_free_units_go_in_ever_larger_steps() -> None:
    """Units that cost nothing soon go by the million."""
    assert run_steps(StepSizer(), lambda _: 0.0, steps=60)[-1].units > 10**6


def test_units_that_become_dearer_go_in_smaller_steps() -> None:
    """Where each unit takes fifty times as long as at first, steps come back to about the longest that they may be."""
    sizer = StepSizer(longest_seconds=1.0)
    run_steps(sizer, lambda n: 0.001 + n * 1e-4)
    last = run_steps(sizer, lambda n: 50 * (0.001 + n * 1e-4), steps=400)[-1]
    assert last.seconds < 2.0


def test_units_that_become_dearer_go_in_smaller_steps_whatever_others_told() -> None:
    """The same where others told what many small steps took, before the units became dearer."""
    others = LinearModel()
    for units in (1, 2, 4, 8, 16, 32, 64, 128):
        others.observe(units, 0.001 + units * 1e-4, count=32)
    sizer = StepSizer(longest_seconds=1.0)
    sizer.learn([list(seen) for seen in others.summary()], [])
    run_steps(sizer, lambda n: 0.001 + n * 1e-4)
    last = run_steps(sizer, lambda n: 50 * (0.001 + n * 1e-4), steps=400)[-1]
    assert last.seconds < 2.0


def test_what_others_learned_saves_the_trying() -> None:
    """A sizer that was told of the steps of others begins with the step that they ended with."""
    experienced = StepSizer()
    last = run_steps(experienced, lambda n: 0.01 + n * 1e-3)[-1]
    beginner = StepSizer()
    beginner.learn([list(seen) for seen in experienced.time.summary()], [])
    assert beginner.choose(PLENTY_UNITS) == pytest.approx(last.units, rel=0.02)


# Memory


@given(st.floats(0.0, 1e8), st.floats(1.0, 1e7), st.integers(10**8, 10**10), st.integers(0, 1000), per_units)
def test_steps_stay_within_the_allowed_bytes(
    base_bytes: float, unit_bytes: float, allowed_bytes: int, first_units: int, per_unit: float
) -> None:
    """Once some sizes were measured, no step of like units needs more than is allowed, unless it is one unit."""
    sizer = StepSizer(first_units=max(1, first_units), allowed_bytes=allowed_bytes)
    for _ in range(100):
        units = sizer.choose(PLENTY_UNITS)
        peak_bytes = int(base_bytes + units * unit_bytes)
        assert units == 1 or sizer.is_trying or peak_bytes <= allowed_bytes
        sizer.observe(units, 1e-3 + units * per_unit, peak_bytes)


def test_a_step_that_needed_too_much_is_followed_by_a_smaller_one() -> None:
    """Units that need more memory than those before them are noticed at once, after however many steps."""
    sizer = StepSizer(allowed_bytes=10**8)
    run_steps(sizer, lambda n: 0.01 + n * 1e-5, steps=1000, peak_bytes=lambda n: n * 1e3)
    units = sizer.choose(PLENTY_UNITS)
    for _ in range(5):
        sizer.observe(units, 0.01 + units * 1e-5, peak_bytes=2 * 10**8)
    assert sizer.choose(PLENTY_UNITS) < units


def test_a_unit_that_fits_nowhere_still_goes_alone() -> None:
    """Where one unit needs more than is allowed, steps have one unit: somebody has to find out."""
    sizer = StepSizer(allowed_bytes=1000)
    last = run_steps(sizer, lambda n: n * 1e-4, peak_bytes=lambda n: n * 10_000)[-1]
    assert last.units == 1


def fill(sizer: StepSizer, unit_bytes: int, allowed_bytes: int, *, steps: int = 60) -> list[tuple[int, bool]]:
    """Let it choose steps of like units, of which those that hold too much are stopped: each size, and if it was."""
    taken = []
    for _ in range(steps):
        units = sizer.choose(PLENTY_UNITS)
        is_stopped = units * unit_bytes > allowed_bytes
        if is_stopped:
            sizer.exhausted(units)
        else:
            sizer.observe(units, 1e-3 + units * 1e-6, units * unit_bytes)
        taken.append((units, is_stopped))
    return taken


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 5))
def test_after_a_step_that_did_not_fit_the_next_is_half_of_it_at_most(
    first_units: int, unit_bytes: int, known_steps: int
) -> None:
    """Whatever was known before, also nothing: so a step is found that fits, or a single unit, after a few."""
    allowed_bytes = 10**7
    sizer = StepSizer(first_units=first_units, allowed_bytes=allowed_bytes)
    run_steps(sizer, lambda n: 1e-3 + n * 1e-6, steps=known_steps, peak_bytes=lambda n: n)
    taken = fill(sizer, unit_bytes, allowed_bytes)
    for (units, is_stopped), (following, _) in itertools.pairwise(taken):
        assert not is_stopped or following <= max(1, units / 2)
    assert taken[-1][0] == 1 or sum(is_stopped for _, is_stopped in taken[20:]) <= 2


def test_steps_grow_again_after_one_that_did_not_fit() -> None:
    """One heavy place does not make all steps small for ever."""
    sizer = StepSizer(allowed_bytes=10**7)
    usual = fill(sizer, 1000, 10**7)[-1][0]
    sizer.exhausted(usual)
    assert sizer.choose(PLENTY_UNITS) <= usual / 2
    assert fill(sizer, 1000, 10**7)[-1][0] >= 0.8 * usual


def test_who_may_hold_more_takes_more() -> None:
    """And less where less is allowed, from the next step on."""
    sizer = StepSizer(allowed_bytes=10**7)
    usual = fill(sizer, 1000, 10**7)[-1][0]
    sizer.allow(10**6)
    assert sizer.choose(PLENTY_UNITS) <= 1000
    sizer.allow(2 * 10**7)
    assert fill(sizer, 1000, 2 * 10**7)[-1][0] >= 1.5 * usual
    sizer.begin_span(1, 10**6)
    assert sizer.allowed_bytes == 10**6
    assert sizer.choose(PLENTY_UNITS) <= 1000


def test_the_target_holds_where_more_is_allowed() -> None:
    """The smaller of the two is the limit, and a target needs no allowance."""
    for allowed_bytes in (None, 10**9):
        sizer = StepSizer(allowed_bytes=allowed_bytes, target_bytes=10**6)
        last = run_steps(sizer, lambda n: 1e-3 + n * 1e-6, peak_bytes=lambda n: 1000 * n)[-1]
        assert 500 <= last.units <= 1000
    sizer = StepSizer(allowed_bytes=10**5, target_bytes=10**6)
    assert run_steps(sizer, lambda n: 1e-3 + n * 1e-6, peak_bytes=lambda n: 1000 * n)[-1].units <= 100


def test_two_sizes_that_are_far_apart_are_enough() -> None:
    """A third one between them would tell nothing new, and a program would be started once more for it."""
    near, far = StepSizer(), StepSizer()
    for sizer, larger in ((near, 256), (far, 4096)):
        for units in (64, larger):
            sizer.observe(units, 0.014 + units * 45e-6)
    assert near.is_trying
    assert not far.is_trying
    assert far.choose(PLENTY_UNITS) == pytest.approx((1.0 - 0.014) / 45e-6, rel=0.1)


def test_what_others_tell_does_not_make_a_step_that_would_be_stopped() -> None:
    """One of two sizes was slow to start, so that all that others saw looks like overhead."""
    sizer = StepSizer(longest_seconds=4.0, stopped_seconds=5.0)
    sizer.learn([(1, 2.0, 1), (64, 0.25, 1)], [])
    assert sizer.choose(PLENTY_UNITS) * 0.25 / 64 < 5.0


@pytest.mark.parametrize(("overhead", "per_unit"), [(0.0, 0.05), (0.0, 0.3), (0.5, 0.001), (0.2, 0.02)])
@pytest.mark.parametrize("first_units", [1, 4, 8])
def test_sizes_are_not_tried_that_would_be_stopped(first_units: int, overhead: float, per_unit: float) -> None:
    """Whatever is overhead: nobody knows at first."""
    sizer = StepSizer(first_units=first_units, longest_seconds=4.0, stopped_seconds=1.0)
    steps = run_steps(sizer, lambda units: overhead + units * per_unit, steps=60)
    late = [step for step in steps[1:] if step.seconds > 1.0]
    assert not late
    assert steps[-1].seconds > 0.35 or not overhead


@pytest.mark.parametrize("warm_seconds", [0.0, 0.5])
@pytest.mark.parametrize("overhead", [4.0, 6.0])
def test_an_overhead_of_half_of_what_a_step_may_take_does_not_hold_steps_small(
    overhead: float, warm_seconds: float
) -> None:
    """Whether the first step takes longer or not."""
    for seed in range(10):
        chance = random.Random(seed)
        sizer = StepSizer(longest_seconds=5.0, stopped_seconds=10.0)
        done, steps = 0, 0
        while done < 100_000 and steps < 100:
            units = sizer.choose(100_000 - done)
            seconds = (overhead + units * 1e-4) * chance.uniform(0.97, 1.03) + (0 if steps else warm_seconds)
            sizer.observe(units, seconds)
            done, steps = done + units, steps + 1
        assert steps < 30


def test_sizes_that_take_too_long_are_tried_no_further() -> None:
    """The rest of a span is not done one by one for it."""
    sizer = StepSizer(longest_seconds=4.0, overhead_share=0.0025)
    steps = run_steps(sizer, lambda units: 1.0 + units, steps=20, remaining_units=25)
    assert len(steps) <= 5


def test_the_first_step_of_those_that_have_a_target_is_a_small_part() -> None:
    """Whatever the guess: what is known of memory comes only with it."""
    for is_end in (True, False):
        assert StepSizer(first_units=10**6, target_bytes=10**8).choose(6400, is_end=is_end) == 25


# Remaining units


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 50), per_units)
def test_a_step_is_part_of_what_remains(
    remaining_units: int, first_units: int, known_steps: int, per_unit: float
) -> None:
    """Never more than what remains, and never nothing when something does."""
    sizer = StepSizer(first_units=first_units)
    run_steps(sizer, lambda n: 0.01 + n * per_unit, steps=known_steps)
    assert min(1, remaining_units) <= sizer.choose(remaining_units) <= remaining_units


@given(st.integers(1, 10**4), overheads, per_units, st.integers(1, 1000))
def test_a_span_comes_to_its_end(remaining_units: int, overhead: float, per_unit: float, first_units: int) -> None:
    """The steps of a span add up to it exactly."""
    sizer = StepSizer(first_units=first_units)
    steps = run_steps(sizer, lambda n: overhead + n * per_unit, steps=10**6, remaining_units=remaining_units)
    assert sum(step.units for step in steps) == remaining_units


def test_steps_shrink_towards_the_end() -> None:
    """The last steps of a span are smaller than those in its middle, so that its end can be given to others."""
    sizer = StepSizer()
    run_steps(sizer, lambda n: n * 1e-4 + 0.005)
    usual_units = sizer.choose(PLENTY_UNITS)
    steps = run_steps(sizer, lambda n: n * 1e-4 + 0.005, steps=10**4, remaining_units=20 * usual_units)
    sizes = [step.units for step in steps]
    # To the last digit, what is preferred may change; the very last step may be larger by what is left.
    assert all(later <= 1.001 * earlier for earlier, later in itertools.pairwise(sizes[:-1]))
    assert sizes[-1] < usual_units / 5


def test_the_end_is_not_cut_to_pieces() -> None:
    """Not so small that the last steps are mostly overhead."""
    sizer = StepSizer()
    run_steps(sizer, lambda n: n * 1e-4 + 0.005)
    usual_units = sizer.choose(PLENTY_UNITS)
    steps = run_steps(sizer, lambda n: n * 1e-4 + 0.005, steps=10**4, remaining_units=20 * usual_units)
    assert len(steps) < 20 + 5 * math.log2(usual_units)


def test_the_first_step_is_a_small_part_of_the_span() -> None:
    """While nothing is known, a step takes a sixteenth of the span at most, whatever size was guessed."""
    assert StepSizer(first_units=10**6).choose(1600) == 100


@given(st.integers(1, 1000), st.integers(1, 10**6), per_units)
def test_one_unit_at_a_time_where_asked(remaining_units: int, first_units: int, per_unit: float) -> None:
    """With a longest step of no seconds, every step is one unit, from the first to the last."""
    sizer = StepSizer(first_units=first_units, longest_seconds=0)
    steps = run_steps(sizer, lambda n: 0.1 + n * per_unit, steps=1000, remaining_units=remaining_units)
    assert {step.units for step in steps} == {1}


def test_a_program_that_takes_long_to_start_gets_large_steps_soon() -> None:
    """Though its spans are short at first: what waits behind them is not the end."""
    sizer = StepSizer(first_units=1)
    for _ in range(6):
        units = sizer.choose(1000, is_end=False)
        sizer.observe(units, 0.3 + 1e-5 * units)
    assert sizer.choose(1000, is_end=False) == 1000


def test_no_step_is_longer_by_what_the_largest_took_than_steps_may_be() -> None:
    """Small steps that were dear by chance look like an overhead, and a unit of larger ones like next to nothing."""
    sizer = StepSizer(longest_seconds=1.0)
    for units in (1, 4, 16):
        sizer.observe(units, 0.1, count=8)
    sizer.observe(256, 1.6)
    assert sizer.time.predict(256) < 0.5
    assert sizer.choose(PLENTY_UNITS) * 1.6 / 256 < 2.5


@pytest.mark.parametrize("hinted_seconds", [0.001, 0.7, 7.7])
def test_hints_do_not_hold_steps_small(hinted_seconds: float) -> None:
    """A first step that took long by chance makes others look dear: what is seen of larger ones counts, not hints.

    Each step costs 7 ms and next to nothing for a unit, so that few are wanted.
    """
    sizer = StepSizer()
    sizer.observe(4, 0.036)
    sizer.learn([(1, 0.009, 1), (15, 0.02, 1), (861, hinted_seconds, 1)], [])
    left, steps = 2_000_000, 0
    while left:
        units = sizer.choose(left)
        sizer.observe(units, 0.007 + units * 3e-7)
        left, steps = left - units, steps + 1
    assert steps < 30


@pytest.mark.parametrize("seed", range(200))
def test_no_beginning_holds_steps_small(seed: int) -> None:
    """Whatever the first steps took, here and elsewhere, on a machine that is sometimes four times as slow.

    Hints come as the coordinator gives them: at the rate of the units that were done here.
    """
    chance = random.Random(seed)
    overhead = chance.uniform(0.001, 0.008)

    def cost(units: int, late_seconds: float = 0.0) -> float:
        return (overhead + units * 3e-7) * chance.choice((1, 1, 1, 1.3, 2, 4)) + chance.uniform(0, late_seconds)

    others = LinearModel()
    for units, late_seconds in ((1, 0.05), (chance.choice((8, 15)), 0.0), (chance.choice((300, 861)), 0.0)):
        others.observe(units, cost(units, late_seconds))
    sizer = StepSizer(first_units=4)
    left, done = 2_000_000, []
    for late_seconds in (0.05, 0.0)[: chance.choice((1, 2))]:
        units = sizer.choose(left)
        done.append((units, cost(units, late_seconds)))
        sizer.observe(*done[-1])
        others.observe(*done[-1])
    unit_seconds = sum(seconds for _, seconds in done) / sum(units for units, _ in done)
    sizer.learn([(units, others.overhead + units * unit_seconds, steps) for units, _, steps in others.summary()], [])
    steps = 0
    while left:
        units = sizer.choose(left)
        sizer.observe(units, cost(units))
        left, steps = left - units, steps + 1
    assert steps < 60


def learned(overhead: float, per_unit: float, sizes: tuple[int, ...]) -> StepSizer:
    """A sizer that has seen steps of these sizes, where steps may take four seconds, as those of programs."""
    sizer = StepSizer(longest_seconds=4.0, overhead_share=0.0025)
    for units in sizes:
        sizer.observe(units, overhead + units * per_unit)
    return sizer


def test_the_rest_of_a_span_is_no_step_of_its_own() -> None:
    """Where more waits behind a span, what would be left of it is done with its last step, if it is little."""
    sizer = learned(0.014, 45e-6, (1, 64, 4096, 40_000))
    preferred = sizer.choose(PLENTY_UNITS, is_end=False)
    assert sizer.choose(int(1.2 * preferred), is_end=False) == int(1.2 * preferred)
    assert sizer.choose(2 * preferred, is_end=False) == preferred


def test_the_rest_is_left_where_it_does_not_fit() -> None:
    """Memory is more important than a step less."""
    sizer = StepSizer(longest_seconds=1.0, allowed_bytes=10**9)
    run_steps(sizer, lambda units: 0.1 + units * 1e-6, peak_bytes=lambda units: 10**8 + units * 10**5, steps=50)
    fitting = int(sizer.fitting_units)
    assert sizer.choose(int(1.1 * fitting), is_end=False) <= fitting


@pytest.mark.parametrize("guess", [1, 10, 100, 1000, 8000])
def test_any_guess_is_as_good(guess: int) -> None:
    """Calls of 2 ms and 1 ms a unit, costs that differ: no guess makes for many more calls than another."""
    chance = random.Random(guess)
    sizer = StepSizer(first_units=guess)
    taken = run_steps(sizer, lambda units: 0.002 + units * 0.001 * chance.gauss(1, 0.1), remaining_units=4000)
    assert sum(step.units for step in taken) == 4000
    assert len(taken) <= 25


def test_few_units_are_not_done_one_by_one() -> None:
    """Where only single units were tried and few are left, the next step has as many as may be, not one again."""
    sizer = StepSizer()
    sizer.observe(1, 0.5)
    assert sizer.choose(24) > 1


def test_a_larger_step_is_learned_from_at_once() -> None:
    """After the first step of a size, the next one is as large as that allows, not as large as that one."""
    sizer = learned(0.014, 45e-6, (1, 16, 256))
    first = sizer.choose(PLENTY_UNITS, is_end=False)
    sizer.observe(first, 0.014 + first * 45e-6)
    assert sizer.choose(PLENTY_UNITS, is_end=False) > 1.5 * first


def test_a_step_is_as_long_as_it_may_be_once_sizes_are_known() -> None:
    """Many more units than were tried, where these took a twentieth of that; no more than last as long as they may."""
    sizer = learned(0.014, 45e-6, (1, 64, 4096))
    units = sizer.choose(PLENTY_UNITS, is_end=False)
    assert 3.5 < 0.014 + units * 45e-6 < 4.1


@pytest.mark.parametrize("base_bytes", [30e6, 60e6, 90e6])
def test_a_large_base_does_not_hold_steps_at_one_unit(base_bytes: float) -> None:
    """Of one unit nobody knows what is base: two are tried, though they might not fit."""
    sizer = StepSizer(allowed_bytes=100_000_000)
    for _ in range(12):
        units = sizer.choose(PLENTY_UNITS)
        sizer.observe(units, 0.05 + units * 1e-4, peak_bytes=int(base_bytes + units * 100))
    assert sizer.choose(PLENTY_UNITS) > 100


def test_what_is_tried_in_vain_is_not_tried_again() -> None:
    """Two units that do not fit are not tried a second time."""
    sizer = StepSizer(allowed_bytes=100_000_000)
    chosen = []
    for _ in range(20):
        units = sizer.choose(PLENTY_UNITS)
        chosen.append(units)
        if units > 1:
            sizer.exhausted(units)
        else:
            sizer.observe(1, 0.05, peak_bytes=70_000_000)
    assert chosen == [1, 2] + 18 * [1]


def test_what_was_tried_in_vain_is_tried_again_where_more_is_allowed() -> None:
    """It may have been the base that did not fit."""
    sizer = StepSizer(allowed_bytes=100_000_000)
    sizer.observe(1, 0.05, peak_bytes=70_000_000)
    assert sizer.choose(PLENTY_UNITS) == 2
    sizer.exhausted(2)
    assert sizer.choose(PLENTY_UNITS) == 1
    sizer.allow(110_000_000)
    assert sizer.choose(PLENTY_UNITS) == 2


def test_a_step_that_was_stopped_elsewhere_does_not_hide_the_base() -> None:
    """What it is said to have held gives way to the first that is seen of such a size."""
    sizer = StepSizer(allowed_bytes=200_000_000)
    sizer.learn([], [(1.0, 100e6, 2.0)])
    for _ in range(12):
        units = sizer.choose(PLENTY_UNITS)
        sizer.observe(units, 0.05 + units * 1e-4, peak_bytes=int(150e6 + units * 100))
    assert sizer.choose(PLENTY_UNITS) > 100
