import functools
import math
import statistics
from typing import Any

import numpy as np
import pytest

import aliquot

ONE = aliquot.sites.Local(cores=1)


@pytest.mark.parametrize(
    ("function", "join"),
    [
        (max, "join=max"),
        (min, "join=min"),
        (sorted, "join=lambda a, b: sorted(a + b)"),
        (math.prod, "join=operator.mul"),
        (np.max, "join=max, or numpy.maximum of arrays"),
        (np.nanmin, "join=numpy.fmin"),
        (functools.partial(np.unique, equal_nan=False), "join=numpy.union1d"),
    ],
)
def test_what_is_no_sum_of_its_parts_is_not_added_up(function: Any, join: str) -> None:
    """A sum of maxima would be a number like any other; the error says what to write."""
    with pytest.raises(aliquot.UsageError, match="would be added up") as caught:
        aliquot.map_batches(function, range(100), on=ONE)
    assert join in str(caught.value)


@pytest.mark.parametrize("function", [statistics.mean, np.mean, np.median, np.std, np.argmax])
def test_what_cannot_be_made_of_its_parts_is_refused(function: Any) -> None:
    """Nobody can join two means."""
    with pytest.raises(aliquot.UsageError, match="Return what adds up, such as"):
        aliquot.map_batches({"count": len, "other": function}, range(100), on=ONE)


def test_a_join_of_ones_own_is_believed() -> None:
    """Whoever says how has thought of it."""
    assert aliquot.map_batches(max, range(100), join=max, on=ONE) == 99


def test_a_function_of_ones_own_may_have_any_name() -> None:
    """Only those of libraries are known by theirs."""

    def mean(batch: range) -> int:
        return len(batch)

    assert aliquot.map_batches(mean, range(100), on=ONE) == 100
