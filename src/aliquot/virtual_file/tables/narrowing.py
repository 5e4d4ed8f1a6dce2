from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aliquot.virtual_file.tables.table import BadRows

Batch = TypeVar("Batch")

# How often something is tried, to find where the rows end that cannot be read.
_MOST_TRIES = 4096


def narrowed(read: Callable[[int, int], Batch], start: int, stop: int, stride_rows: int = 1) -> Batch:
    """Read some rows; where that fails, raise `BadRows` for the first ones that fail alone, and only for them.

    Where rows are stored together, so that damage spoils at least ``stride_rows``, that many are tried at once.
    """
    try:
        return read(start, stop)
    except BadRows as fault:
        problem = fault

    def fails(begin: int, end: int) -> bool:
        nonlocal problem
        try:
            read(begin, end)
        except BadRows as fault:
            problem = fault
            return True
        return False

    first, bad = start, stop  # those before `first` can be read; those from there up to `bad` fail together
    while bad - first > 1:
        middle = (first + bad) // 2
        if fails(first, middle):
            bad = middle
        else:
            first = middle
    if not fails(first, first + 1):  # each can be had alone: the fault is not in the rows
        problem.is_certain = False
        raise problem
    found = problem
    end = min(first + stride_rows, stop)
    for _ in range(_MOST_TRIES):
        if end == stop or not fails(end, min(end + stride_rows, stop)):
            break
        end = min(end + stride_rows, stop)
    # The last of them may be good.
    bad, good = max(first, end - stride_rows), end
    while good - bad > 1:
        middle = (good + bad) // 2
        if fails(middle, end):
            bad = middle
        else:
            good = middle
    raise BadRows(found.problem, first, good, found.byte, found.advice)
