from __future__ import annotations

import pytest

from aliquot.coordinator.speeds import first_speeds

KINDS = (0.5, 1.0, 1.5, 2.0)


def test_workers_in_dear_units_are_compared_as_those_in_cheap_ones_are() -> None:
    """Of a few kinds of workers, the dear units of the last eight say nothing about which kind is fast."""
    speeds = [KINDS[number % 4] for number in range(160)]
    unit_seconds = [(50.0 if number >= 152 else 1.0) / speed for number, speed in enumerate(speeds)]
    found = [speed.value for speed in first_speeds(unit_seconds)]
    for number in range(152, 160):
        alike = number - 152
        assert found[number] == pytest.approx(found[alike], rel=0.1)
    assert found[3] / found[0] == pytest.approx(4.0)


def test_one_that_is_stuck_in_a_dear_unit_is_no_slow_worker() -> None:
    found = first_speeds([1.0, 1.0, 100.0, 1.0, 1.0, 1.0])
    assert found[2].value == 1.0
    assert found[2].doubt > found[0].doubt
