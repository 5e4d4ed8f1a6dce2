from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np

from aliquot.errors import UsageError


class UnitCosts(Protocol):
    """How many seconds units take a worker of speed 1."""

    def __len__(self) -> int: ...

    def seconds(self, start: int, stop: int) -> float:
        """The sum over some units."""


class UnitBytes(Protocol):
    """How many bytes units hold, besides what every step does."""

    def held(self, start: int, stop: int) -> int:
        """The sum over some units, which a step of them holds at once."""


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

    @classmethod
    def recorded(cls, costs: Iterable[tuple[int, int, float]]) -> GivenCosts:
        """Those of a real run, as its ``report.costs`` tells them: within a piece, all units count alike."""
        seconds: list[float] = []
        for start, stop, taken in sorted(costs):
            if start != len(seconds):
                raise UsageError(f"the recorded costs do not say what unit {len(seconds)} took")
            seconds += [taken / (stop - start)] * (stop - start)
        return cls(seconds)

    def __len__(self) -> int:
        return len(self._sums) - 1

    def seconds(self, start: int, stop: int) -> float:
        """The sum over some units."""
        return self._sums[stop] - self._sums[start]


class GivenBytes:
    """Each unit holds its own number of bytes."""

    def __init__(self, held: Sequence[int]) -> None:
        self._sums = [0, *accumulate(held)]

    def held(self, start: int, stop: int) -> int:
        """The sum over some units."""
        return self._sums[stop] - self._sums[start]
