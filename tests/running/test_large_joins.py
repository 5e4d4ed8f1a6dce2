"""Large partial results are joined by workers, small ones where they are."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import aliquot

TWO = aliquot.sites.Local(cores=2)
LARGE, SMALL = 300_000, 10  # numbers of 8 bytes


class Partial:
    """A sum, its weight, and the processes that have joined it."""

    def __init__(self, total: int, weight: int, joined_by: frozenset[int] = frozenset()) -> None:
        self.total = total
        self.weight = np.full(weight, total)
        self.joined_by = joined_by


def large(batch: range) -> Partial:
    return Partial(sum(batch), LARGE)


def small(batch: range) -> Partial:
    return Partial(sum(batch), SMALL)


def join(first: Partial, second: Partial) -> Partial:
    return Partial(first.total + second.total, len(first.weight), first.joined_by | second.joined_by | {os.getpid()})


def refuse(first: Any, second: Any) -> Any:
    raise ValueError("these do not go together")


@pytest.mark.parametrize(("function", "has_joined_here"), [(large, False), (small, True)])
def test_who_joins_depends_on_the_size(function: Any, has_joined_here: bool) -> None:
    """The parent never sees more of large results than the last one."""
    joined = aliquot.map_batches(
        function, range(100), join=join, ordered=False, target_seconds=0, on=TWO, progress=False
    )
    assert joined.total == sum(range(100))
    assert joined.joined_by
    assert (os.getpid() in joined.joined_by) == has_joined_here


@pytest.mark.parametrize("function", [large, small])
def test_what_the_join_raises_is_raised_here(function: Any) -> None:
    """Nothing can be set aside then: there would be no value."""
    with pytest.raises(ValueError, match="do not go together"):
        aliquot.map_batches(
            function, range(100), join=refuse, ordered=False, target_seconds=0, on=TWO, progress=False, max_failures=0.5
        )


def leave(first: Any, second: Any) -> Any:
    if aliquot.workers.inside_worker:
        os._exit(3)
    return first


def test_a_join_that_kills_its_workers_is_told_of() -> None:
    """After the second one."""
    with pytest.raises(aliquot.JobError, match="two results cannot be joined: a worker process ended"):
        aliquot.map_batches(large, range(20), join=leave, ordered=False, target_seconds=0, on=TWO, progress=False)


def heavy_join(first: Partial, second: Partial) -> Partial:
    taken = np.ones(90_000_000 // 8)  # more than a half, less than all
    return Partial(first.total + second.total + int(taken[0]) - 1, LARGE)


def test_a_join_that_does_not_fit_is_tried_with_more_memory() -> None:
    """It cannot be divided, and no part of the work is done again for it."""
    joined = aliquot.map_batches(
        large, range(20), join=heavy_join, ordered=False, target_seconds=0, on=TWO, memory="160MB", progress=False
    )
    assert joined.total == sum(range(20))
