"""Axes: where a value goes, and which numbers stand beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high``, with a label at each tick."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a value is, from 0 at ``low`` to 1 at ``high``; what is beyond stays at the border."""
        if self.is_log:
            value = max(value, self.low)
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))


# From so many seconds on: the unit, its seconds, and steps that people count it in.
_TIMES = (
    (3 * 86400.0, "days", 86400.0, (0.5, 1.0, 2.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)),
    (3 * 3600.0, "hours", 3600.0, (0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0)),
    (3 * 60.0, "minutes", 60.0, (0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0)),
    (0.2, "seconds", 1.0, (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0)),
    (0.0, "milliseconds", 0.001, ()),
)


def time_axis(wall_seconds: float) -> Axis:
    """From the beginning of a run to its end, which is the end of the axis."""
    wall_seconds = wall_seconds if wall_seconds > 0 else 1.0
    _, title, unit_seconds, steps = next(entry for entry in _TIMES if wall_seconds >= entry[0])
    wall = wall_seconds / unit_seconds
    step = next((step for step in steps if wall / step <= 7), None) or _nice_step(wall, 6)
    count = math.floor(wall / step + 1e-9)
    ticks = tuple((number * step * unit_seconds, f"{number * step:g}") for number in range(count + 1))
    return Axis(0.0, wall_seconds, ticks, title)


def count_axis(high: float, title: str) -> Axis:
    """From 0 to a little more than ``high``."""
    step = _nice_step(high if high > 0 else 1.0, 4)
    count = max(1, math.ceil(high / step - 1e-9))
    return Axis(
        0.0, count * step, tuple((number * step, format_short(number * step)) for number in range(count + 1)), title
    )


def bytes_axis(high_bytes: float, title: str) -> Axis:
    """From 0 to a little more than ``high_bytes``, in steps that are round in the unit that is shown."""
    unit_bytes, unit = 1, "B"
    for candidate in ("kB", "MB", "GB", "TB", "PB"):
        if high_bytes < 1000 * unit_bytes:
            break
        unit_bytes, unit = unit_bytes * 1000, candidate
    axis = count_axis(high_bytes / unit_bytes, title)
    ticks = tuple((value * unit_bytes, f"{value:g} {unit}" if value else "0") for value, _ in axis.ticks)
    return Axis(0.0, axis.high * unit_bytes, ticks, title)


def log_axis(low: float, high: float, title: str) -> Axis:
    """Around ``low`` to ``high``, both above 0, from one of 1, 2, 5, 10... to another; at least a factor of ten."""
    low, high = _round_down(low), _round_up(high)
    while high / low < 9.9:
        high = _round_up(high * 1.01)
        if high / low < 9.9 and low > 1:
            low = _round_down(low * 0.99)
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    decades = last - first
    # Two decades have room for 1, 2, 5; many have not even room for each power of ten.
    digits = (1, 2, 5) if decades <= 2 else (1,)
    every = 1 + decades // 7
    ticks = tuple(
        (digit * 10.0**power, format_short(digit * 10.0**power))
        for power in range(first, last + 1, every)
        for digit in digits
        if low * 0.999 <= digit * 10.0**power <= high * 1.001
    )
    return Axis(low, high, ticks, title, is_log=True)


def format_short(value: float) -> str:
    """1500 -> '1.5k'; 2000000 -> '2M'."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}"


def _nice_step(high: float, count: int) -> float:
    """1, 2 or 5 times a power of ten, so that ``high`` is about ``count`` of them."""
    rough = high / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.9999)


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return max(factor * power for factor in (1.0, 2.0, 5.0) if factor * power <= value * 1.0001)


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return min(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= value * 0.9999)
