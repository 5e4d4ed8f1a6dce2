from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from aliquot.errors import DataError, SourceChangedError, UsageError
from aliquot.virtual_file.tables.looking import Known

# A cut is moved to where a group of rows ends if so much of the step is left.
_LEAST_PART = 0.75


class RowsOf(NamedTuple):
    """The rows ``start`` up to ``stop`` of one table."""

    number: int  # of the table, in the order of the source
    start: int
    stop: int


class RowsInOrder(ABC):
    """What sources share whose units are the rows of one table after those of another. Use it before `Source`.

    They have no bytes: rows of tables are read by columns.
    """

    # Where each table ends among all units; of those up to the first that nobody has looked at.
    _ends: list[int]
    _no_bytes = (
        "rows of a table have no bytes of their own, for a program or a copy: use `aliquot map`, "
        "or in Python batches() or a function of batches"
    )

    @abstractmethod
    def _group_ends(self, number: int) -> Sequence[int]:
        """Where the groups of rows of a table end that are stored together."""

    @property
    def known_units(self) -> int:
        """Of the tables up to the first that nobody has looked at."""
        return self._ends[-1] if self._ends else 0

    def parts(self, start: int, stop: int) -> list[RowsOf]:
        """The tables that hold some units, and which of their rows these are."""
        found = []
        at, number = start, bisect_right(self._ends, start)
        while at < stop and number < len(self._ends):
            first, end = self._first_of(number), min(stop, self._ends[number])
            if at < end:
                found.append(RowsOf(number, at - first, end - first))
                at = end
            number += 1
        if at < stop:
            raise DataError(
                f"have {self.known_units} units, and unit {stop - 1} was asked for",
                path=str(self),
                advice="Was the view described by hand, or for other files?",
            )
        return found

    def good_cut(self, start: int, stop: int) -> int:
        """Where a group of rows ends shortly before ``stop``, else there."""
        number = bisect_left(self._ends, stop)
        if number >= len(self._ends):
            return stop
        first, ends = self._first_of(number), self._group_ends(number)
        before = bisect_right(ends, stop - first) - 1
        cut = first + (ends[before] if before >= 0 else 0)
        return cut if cut - start >= _LEAST_PART * (stop - start) else stop

    def header(self, units: int) -> bytes:
        """They have none."""
        raise UsageError(f"{self}: {self._no_bytes}")

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """They have none."""
        raise UsageError(f"{self}: {self._no_bytes}")

    def _first_of(self, number: int) -> int:
        """The unit that a table begins with."""
        return self._ends[number - 1] if number else 0


def check_unchanged(path: str, known: Known, stat: Callable[[], tuple[int, int]]) -> None:
    """Raise if the size and time of a file are not those that it had when it was looked at."""
    try:
        size_bytes, mtime_ns = stat()
    except DataError:
        if os.path.lexists(path):
            raise
        raise SourceChangedError(
            "the file was removed since it was looked at", path=path, advice="Put it back, and run again"
        ) from None
    if (size_bytes, mtime_ns) == (known.size_bytes, known.mtime_ns):
        return
    what = "was rewritten"
    if size_bytes != known.size_bytes:
        what = f"had {known.size_bytes} bytes and now has {size_bytes}"
    raise SourceChangedError(f"the file {what} since it was looked at", path=path, advice="Wait until it is complete")
