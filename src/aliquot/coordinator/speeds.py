"""Which workers are fast, told apart from which units are dear.

What a worker reports is both in one. Three things tell them apart:

- units next to each other are alike, and workers next to each other are not: where a whole neighbourhood is slow, the
  units are dear;
- workers differ by some factor, units by any;
- a worker that takes the tail of another's span works on like units: their rates differ as their speeds do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from aliquot.coordinator.rates import UnitSeconds

# So many neighbours on each side make a neighbourhood: enough for a typical speed among them.
_NEIGHBOURS = 3
# A neighbourhood that differs more than this from all is taken for other units, not for other workers.
_OTHER_UNITS_FACTOR = 3.0
# A single worker that differs more than this from its like is taken to be in other units.
_OTHER_WORKERS_FACTOR = 8.0
# Doubts are variances of logarithms: of a speed that nothing is known of, of one measured against many others, and of
# two tails being alike.
_UNKNOWN = 1.0
_MEASURED = 0.1
_ALIKE = 0.01
_UNLIKE_DEVIATIONS = 3.0


class Speed:
    """How much work a worker does in a second, against a typical one; and how much to doubt that."""

    __slots__ = ("doubt", "value")

    def __init__(self, value: float = 1.0, doubt: float = _UNKNOWN) -> None:
        self.value = value
        self.doubt = doubt

    @property
    def is_known(self) -> bool:
        """Whether it was compared with others."""
        return self.doubt < _UNKNOWN


def first_speeds(unit_seconds: Sequence[float]) -> list[Speed]:
    """Speeds by what a unit takes each worker in its first span; in the order of the units."""
    typical = _median(unit_seconds)
    is_other = [
        abs(math.log(_median(unit_seconds[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]) / typical))
        > math.log(_OTHER_UNITS_FACTOR)
        for at in range(len(unit_seconds))
    ]
    usual = [seconds for seconds, other in zip(unit_seconds, is_other, strict=True) if not other]
    reference = _centre(usual) if usual else typical
    speeds: list[Speed] = []
    while len(speeds) < len(unit_seconds):
        start = stop = len(speeds)
        while stop < len(unit_seconds) and is_other[stop] == is_other[start]:
            stop += 1
        region = unit_seconds[start:stop]
        if is_other[start]:
            speeds += _speeds_by(_centre(region), _MEASURED + _UNKNOWN / len(region), region)
        else:
            speeds += _speeds_by(reference, _MEASURED, region)
    return speeds


def _speeds_by(reference: float, doubt: float, unit_seconds: Sequence[float]) -> Iterator[Speed]:
    for seconds in unit_seconds:
        ratio = reference / seconds
        is_plausible = 1 / _OTHER_WORKERS_FACTOR <= ratio <= _OTHER_WORKERS_FACTOR
        yield Speed(ratio, doubt) if is_plausible else Speed()


def _centre(unit_seconds: Sequence[float]) -> float:
    """The mean of logarithms, of all that are plausible.

    Workers are mostly of a few kinds. A median is that of one kind, and in two regions easily of different ones.
    """
    middle = _median(unit_seconds)
    far = math.log(_OTHER_WORKERS_FACTOR)
    errors = [math.log(seconds / middle) for seconds in unit_seconds]
    plausible = [error for error in errors if abs(error) <= far]
    return middle * math.exp(sum(plausible) / len(plausible))


def compare(first: Speed, first_rate: UnitSeconds, second: Speed, second_unit_seconds: float) -> None:
    """Two workers have worked on like units: correct both speeds, the one that is in more doubt by more.

    Where they differ by far more than the doubts allow, the units were not alike, and nothing is said about speeds.
    """
    surprise = math.log(second_unit_seconds * second.value / (first_rate.seconds * first.value))
    doubt = first.doubt + second.doubt + first_rate.doubt + _ALIKE
    if surprise * surprise > _UNLIKE_DEVIATIONS**2 * doubt:
        return
    for speed, error in ((first, surprise), (second, -surprise)):
        weight = speed.doubt / doubt
        speed.value *= math.exp(weight * error)
        speed.doubt *= 1 - weight


def _median(numbers: Sequence[float]) -> float:
    # The one of the standard library imports exact arithmetic and chance, which takes as long as to start a worker.
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
