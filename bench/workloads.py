"""What is to be done, the same for every library: a function, its items, and what must come out."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.units import burn, burn_batch, burn_on_own_core, make_array, same, square

# Of its core, what the slowed one of two workers has.
SLOWED_SHARE = 1 / 4
ARRAYS = 12

_UNIT_SECONDS = 1e-3
_TOTAL_SECONDS = 8
_LAST_SHARE, _LAST_TIMES_DEARER = 0.02, 50
_PARETO_ALPHA, _PARETO_SCALE_SECONDS, _PARETO_CAP_SECONDS = 1.3, 0.4e-3, 0.5


@dataclass(frozen=True)
class Workload:
    """``check`` raises if a result is wrong, and gives the ideal seconds where the result tells them."""

    function: Callable[[Any], Any]
    items: Sequence[Any]
    check: Callable[[Any], float | None]


def units(*, quick: bool) -> int:
    return 3_000 if quick else 8_000


def squares(*, quick: bool) -> int:
    return 200_000 if quick else 1_000_000


def tasks(*, quick: bool) -> int:
    return 10_000 if quick else 50_000


def equal(*, quick: bool) -> Workload:
    return _burning([_UNIT_SECONDS] * units(quick=quick))


def heavy_tailed(*, quick: bool) -> Workload:
    chance = random.Random(1)
    return _burning(
        [
            min(_PARETO_SCALE_SECONDS * chance.paretovariate(_PARETO_ALPHA), _PARETO_CAP_SECONDS)
            for _ in range(units(quick=quick))
        ]
    )


def dear_at_the_end(*, quick: bool) -> Workload:
    """Cheap units, and a last few that take half of the time: whoever learned from the first is wrong."""
    count = units(quick=quick)
    dear = int(count * _LAST_SHARE)
    total_seconds = _TOTAL_SECONDS * count / units(quick=False)
    cheap_seconds = total_seconds / (count - dear + dear * _LAST_TIMES_DEARER)
    return _burning([cheap_seconds] * (count - dear) + [cheap_seconds * _LAST_TIMES_DEARER] * dear)


def few_dear(*, quick: bool) -> Workload:
    chance = random.Random(1)
    return _burning([chance.uniform(0.05, 0.6) for _ in range(10 if quick else 40)])


def squares_of_range(*, quick: bool) -> Workload:
    return _squaring(range(squares(quick=quick)))


def squares_of_list(*, quick: bool) -> Workload:
    return _squaring(list(range(squares(quick=quick))))


def batches(*, quick: bool) -> Workload:
    """The equal units, for a function that takes many at once and has its price for each call."""
    items = [_UNIT_SECONDS] * units(quick=quick)

    def check(burned_seconds: float) -> None:
        assert burned_seconds >= sum(items), f"{burned_seconds} s burned instead of at least {sum(items)} s"

    return Workload(burn_batch, items, check)


def one_by_one(*, quick: bool) -> Workload:
    items = range(tasks(quick=quick))

    def check(results: list[int]) -> None:
        assert sorted(results) == list(items), f"{len(results)} results, not each of {len(items)} items once"

    return Workload(same, items, check)


def slowed(*, quick: bool) -> Workload:
    """The equal units, for two workers on cores of their own, one of which has only a part of its core."""
    return _burning([_UNIT_SECONDS] * units(quick=quick), burn_on_own_core, cores=1 + SLOWED_SHARE)


def arrays(*, quick: bool) -> Workload:
    # Reading numpy from disk is nothing that a library should be measured by.
    import numpy as np

    items = range(4 if quick else ARRAYS)

    def check(results: list[Any]) -> None:
        for number, result in zip(items, results, strict=True):
            assert np.all(result == number), f"array {number} is not what was sent"

    return Workload(make_array, items, check)


WORKLOADS = {
    make.__name__: make
    for make in (
        equal,
        heavy_tailed,
        dear_at_the_end,
        few_dear,
        squares_of_range,
        squares_of_list,
        batches,
        one_by_one,
        slowed,
        arrays,
    )
}


def _burning(
    costs_seconds: list[float], function: Callable[[float], float] = burn, *, cores: float | None = None
) -> Workload:
    """``cores`` are those that the workers have together; all that there are, if it is not said."""

    def check(burned: list[float]) -> float:
        assert len(burned) == len(costs_seconds), f"{len(burned)} results instead of {len(costs_seconds)}"
        assert all(map(float.__ge__, burned, costs_seconds)), "results are not in the order of their items"
        return sum(burned) / (cores or os.cpu_count() or 1)

    return Workload(function, costs_seconds, check)


def _squaring(numbers: Sequence[int]) -> Workload:
    def check(results: list[int]) -> None:
        assert results == [number * number for number in numbers], "a square is wrong, or in the wrong place"

    return Workload(square, numbers, check)
