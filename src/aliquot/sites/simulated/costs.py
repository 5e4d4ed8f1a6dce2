from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class UnitCosts(Protocol):
    """How many seconds units take a worker of speed 1."""

    def __len__(self) -> int: ...

    def seconds(self, start: int, stop: int) -> float:
        """The sum over some units."""


class EqualCosts:
    """Every unit takes the same: any number of them at no memory."""

    def __init__(self, units: int, seconds_each: float) -> None:
        self._units = units
        self._seconds_each = seconds_each

    def __len__(self) -> int:
        return self._units

    def seconds(self, start: int, stop: int) -> float:
        """The sum over some units."""
        return (stop - start) * self._seconds_each


class GivenCosts:
    """Each unit has its own cost: drawn from a distribution, or recorded in a run."""

    def __init__(self, seconds: Sequence[float] | np.ndarray) -> None:
        self._sums: list[float] = np.concatenate([[0.0], np.cumsum(seconds)]).tolist()

    def __len__(self) -> int:
        return len(self._sums) - 1

    def seconds(self, start: int, stop: int) -> float:
        """The sum over some units."""
        return self._sums[stop] - self._sums[start]
