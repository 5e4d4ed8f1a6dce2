"""Units that cannot be read for one reason, as a basket of a tree: told as one failure, however they were divided."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from aliquot.quantities import format_count

if TYPE_CHECKING:
    from aliquot.running.outcome import Failure
    from aliquot.virtual_file import RowRange

_MOST_OVERLAPPING = 1000
# For whoever has not allowed any.
SETTING_ASIDE = (
    "aliquot: max_failures=1.0 (all, and not 1) would set units aside that fail, however many, and do all others"
)


def told_as_one(failures: Iterable[Failure]) -> list[Failure]:
    """The same failures, in order, where neighbours that have one reason are one."""
    failures = sorted(failures, key=lambda failure: failure.start)
    reasons = _Reasons(failures)
    told: list[Failure] = []
    for failure in map(reasons.explain, failures):
        if told and _have_one_reason(told[-1], failure):
            told[-1] = _joined(told[-1], failure)
        else:
            told.append(failure)
    return told


class _Reasons:
    """Why ranges of units cannot be read, as failures tell it."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        by_range = {failure.spoiled: failure for failure in failures if failure.spoiled is not None}
        self._ranges = sorted(by_range)
        self._failures = by_range

    def explain(self, failure: Failure) -> Failure:
        """What was not looked into, because the run was over, has failed for a reason known from its neighbours."""
        if failure.kind != "not looked into":
            return failure
        # Ranges may overlap, as baskets of different columns do, but each is about as long as the next.
        for place in range(bisect_right(self._ranges, (failure.start, sys.maxsize)) - 1, -1, -1)[:_MOST_OVERLAPPING]:
            start, stop = self._ranges[place]
            if start <= failure.start and failure.stop <= stop:
                own = failure._asdict()
                reason = self._failures[start, stop]
                return reason._replace(**{name: own[name] for name in ("start", "stop", "attempts", "places", "rows")})
        return failure


def _have_one_reason(first: Failure, second: Failure) -> bool:
    is_same = first.spoiled is not None and (first.spoiled, first.error) == (second.spoiled, second.error)
    return is_same and first.stop == second.start


def _joined(first: Failure, second: Failure) -> Failure:
    return first._replace(
        stop=second.stop,
        shown=None,  # that was one of them
        attempts=max(first.attempts, second.attempts),
        places=tuple(dict.fromkeys(first.places + second.places)),
        rows=_joined_rows(first.rows, second.rows),
    )


def _joined_rows(first: tuple[RowRange, ...], second: tuple[RowRange, ...]) -> tuple[RowRange, ...]:
    if first and second and (first[-1].path, first[-1].stop) == (second[0].path, second[0].start):
        return (*first[:-1], first[-1]._replace(stop=second[0].stop), *second[1:])
    return first + second


def why_not_enough(failures: Sequence[Failure], max_failures: float | None, units: int | None) -> str:
    """What must be allowed at least, where more units than may fail are lost together; else nothing.

    Of these it is known how many they are, although the run, of so many ``units``, stopped at the first of them.
    """
    lost = _count_together([failure.spoiled for failure in failures if failure.spoiled is not None])
    if max_failures is None or not units or lost < 2:
        return ""
    others = sum(
        failure.stop - failure.start
        for failure in failures
        if failure.spoiled is None and failure.kind != "not looked into"
    )
    needed, is_part = lost + others, 0 < max_failures < 1
    if needed <= (max_failures * units if is_part else max_failures):
        return ""
    more = f" and {format_count(others)} more failed" if others else ""
    told = f"{max_failures:g} of {format_count(units)} units" if is_part else str(int(max_failures))
    # A file that cannot be read at all is one unit. Where there is one, a part is a part of the files.
    are_files_lost = any(failure.spoiled == (failure.start, failure.start + 1) for failure in failures)
    or_a_part = "" if are_files_lost else f", or a part such as {_part(needed, units)}"
    return (
        f"{format_count(lost)} units cannot be read so far{more}, and max_failures is {told}; "
        f"allow at least {needed}{or_a_part}"
    )


def _count_together(ranges: Iterable[tuple[int, int]]) -> int:
    """How many units they are; ranges may overlap, as baskets of different columns do."""
    count = reached = 0
    for start, stop in sorted(ranges):
        count += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return count


def _part(needed: int, units: int) -> float:
    """The least part of all that is enough and has one digit."""
    tens = 10.0 ** -math.floor(math.log10(needed / units))
    digits = math.ceil(needed * tens / units)
    if digits / tens * units < needed:  # 0.7 of 90 is a little less than 63
        digits += 1
    return min(digits / tens, 1.0)
