from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.reporting.axes import bytes_axis, count_axis, format_short, log_axis, time_axis


@pytest.mark.parametrize(
    ("seconds", "title", "labels"),
    [
        (0.1, "milliseconds", ["0", "20", "40", "60", "80", "100"]),
        (2.0, "seconds", ["0", "0.5", "1", "1.5", "2"]),
        (149.0, "seconds", ["0", "30", "60", "90", "120"]),
        (600.0, "minutes", ["0", "2", "4", "6", "8", "10"]),
        (37 * 3600.0, "hours", ["0", "6", "12", "18", "24", "30", "36"]),
        (9 * 86400.0, "days", ["0", "2", "4", "6", "8"]),
        (0.0, "seconds", ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_time_is_counted_as_people_do(seconds: float, title: str, labels: list[str]) -> None:
    """In steps that are round in the unit that is shown."""
    axis = time_axis(seconds)
    assert axis.title == title
    assert [label for _, label in axis.ticks] == labels


def test_sizes_of_steps_have_a_tick_for_each_power_of_ten() -> None:
    """Or finer where there are few."""
    assert [label for _, label in log_axis(1, 10_000, "").ticks] == ["1", "10", "100", "1k", "10k"]
    assert [label for _, label in log_axis(5, 5, "").ticks] == ["2", "5", "10", "20"]


def test_bytes_are_round_in_their_unit() -> None:
    """Not powers of two, as everywhere in aliquot."""
    assert [label for _, label in bytes_axis(3.1e9, "").ticks] == ["0", "1 GB", "2 GB", "3 GB", "4 GB"]


def test_large_numbers_are_short() -> None:
    """There is little room beside an axis."""
    assert [format_short(value) for value in (0, 0.25, 999.9, 1500, 2e6, 3e12)] == [
        "0",
        "0.25",
        "1k",
        "1.5k",
        "2M",
        "3T",
    ]


@given(st.floats(1e-9, 1e12))
def test_every_axis_reaches_its_highest_value_with_a_few_ticks(high: float) -> None:
    """Whatever the numbers are."""
    for axis in (time_axis(high), count_axis(high, ""), bytes_axis(high, ""), log_axis(high, high * 3, "")):
        assert 2 <= len(axis.ticks) <= 12
        assert axis.high >= high * 0.999
        assert all(0 <= axis.place(value) <= 1 for value, _ in axis.ticks)
        assert math.isfinite(axis.place(high))
        labels = [label for _, label in axis.ticks]
        assert len(set(labels)) == len(labels)
