"""Batches that hold 20 MB and what each of their units weighs, all at once; a unit takes a millisecond besides.

In a module of its own, as the workers of every library must be able to import it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.units import burn

MB = 1_000_000
_BASE_BYTES = 20 * MB
_UNIT_SECONDS = 1e-3
_LIGHTEST, _HEAVIEST = 1, 30


@dataclass(frozen=True)
class Shape:
    """What a unit of so many weighs."""

    what: str
    function: Callable[[Sequence[int]], int]


def even(units: Sequence[int]) -> int:
    return _hold(units, lambda unit: 1)


def varied(units: Sequence[int]) -> int:
    return _hold(units, lambda unit: random.Random(unit).uniform(_LIGHTEST, _HEAVIEST))


def middle(units: Sequence[int]) -> int:
    return _hold(units, lambda unit: 10 if 1_800 <= unit < 2_200 else 1)


SHAPES = {
    "even": Shape("1 MB each", even),
    "varied": Shape(f"{_LIGHTEST} to {_HEAVIEST} MB, at random", varied),
    "middle": Shape("1 MB, ten times that in the middle", middle),
}


def _hold(units: Sequence[int], megabytes_of: Callable[[int], float]) -> int:
    held = [b"x" * _BASE_BYTES]
    for unit in units:
        held.append(b"x" * int(megabytes_of(unit) * MB))
        burn(_UNIT_SECONDS)
    return sum(units)
