from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from aliquot.errors import UsageError


def check_split_arguments(count: int, size: int = 1) -> None:
    """Refuse a split that no job could do."""
    if count < 1 or size < 1:
        raise UsageError(f"split(count={count}, size={size}): both must be at least 1")


@dataclass(frozen=True, order=True, slots=True)
class Slice:
    """The units from ``start`` up to, not including, ``stop``."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise UsageError(f"no slice goes from {self.start} to {self.stop}: 0 <= start <= stop must hold")

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"

    def split(self, count: int, size: int | None = None) -> list[Slice]:
        """At most ``count`` slices of ``size`` units, then one with what remains; never an empty one.

        Without ``size``, ``count`` slices that are as equal as possible.

        >>> [str(part) for part in Slice(0, 10).split(2, 4)]
        ['[0, 4)', '[4, 8)', '[8, 10)']
        >>> [str(part) for part in Slice(0, 10).split(3)]
        ['[0, 3)', '[3, 6)', '[6, 10)']
        """
        if size is None:
            check_split_arguments(count)
            count = min(count, len(self))
            edges = [self.start + number * len(self) // count for number in range(count + 1)] if count else []
            return [Slice(start, stop) for start, stop in pairwise(edges)]
        check_split_arguments(count, size)
        end_of_equal = min(self.stop, self.start + count * size)
        parts = [Slice(at, min(at + size, self.stop)) for at in range(self.start, end_of_equal, size)]
        if end_of_equal < self.stop:
            parts.append(Slice(end_of_equal, self.stop))
        return parts

    def join(self, other: Slice) -> list[Slice]:
        """One slice if the two touch, else both in order."""
        first, second = sorted((self, other))
        if first.overlaps(second):
            raise UsageError(f"the slices {first} and {second} overlap and cannot be joined")
        if first.stop == second.start:
            return [Slice(first.start, second.stop)]
        return [first, second]

    def overlaps(self, other: Slice) -> bool:
        """Whether some unit is in both."""
        return self.start < other.stop and other.start < self.stop
