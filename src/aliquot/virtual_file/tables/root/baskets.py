from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from aliquot.virtual_file.tables.root.entries import BROKEN, KEPT_BYTES, NOT_THE_FILE, common_ends, record_array
from aliquot.virtual_file.tables.table import BadRows
from aliquot.virtual_file.tables.wording import one_line


class Column(Protocol):
    """A branch, or a group of them."""

    def leaves(self) -> Iterator[Branch]:
        """The branches that have baskets."""

    def array(self, start: int, stop: int) -> Any:
        """These entries of it, or pieces of which that is made."""


class Branch(ABC):
    """A branch whose baskets are decoded once, if they are asked for in order."""

    def __init__(self, name: str, offsets: Sequence[int], seeks: Sequence[int], sizes: Sequence[int]) -> None:
        self.name = name
        self.offsets = offsets  # the first entry of each basket, and the end of the last
        # Those after the last of these are within the tree itself.
        self._seeks = seeks
        self._sizes = sizes
        self._decoded: dict[int, tuple[Any, int]] = {}  # with the bytes it takes

    @abstractmethod
    def decode(self, number: int) -> tuple[Any, int]:
        """What a basket holds, as `put_together` takes it, and the bytes it takes. May raise anything."""

    @abstractmethod
    def put_together(self, baskets: Sequence[Any], first: int, start: int, stop: int) -> Any:
        """Some entries as an array or as pieces of one, from the baskets that hold them; the first by its number."""

    def leaves(self) -> Iterator[Branch]:
        """It is one."""
        yield self

    def array(self, start: int, stop: int) -> Any:
        """From the baskets that hold these entries."""
        numbers = self._numbers(start, stop)
        baskets = [self._basket(number) for number in numbers]
        try:
            return self.put_together(baskets, numbers.start, start, stop)
        except (*NOT_THE_FILE, BadRows):
            raise
        except Exception as error:
            # The baskets can be decoded, each by itself.
            byte = self._byte(numbers.start)
            raise BadRows(self._cannot(error), start, stop, byte, BROKEN, is_certain=False) from error

    def forget(self, stop: int, room_bytes: int) -> int:
        """Keep only the basket that goes on after ``stop``, and only if there is room; say how much it takes."""
        number = bisect_right(self.offsets, stop) - 1
        kept = self._decoded.get(number)
        self._decoded.clear()
        if kept is None or kept[1] > room_bytes or self.offsets[number] == stop:
            return 0
        self._decoded[number] = kept
        return kept[1]

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Where the baskets of these entries are."""
        for number in self._numbers(start, stop):
            if number < len(self._seeks):
                yield self._seeks[number], self._seeks[number] + self._sizes[number]

    def _numbers(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(bisect_right(self.offsets, start) - 1, bisect_left(self.offsets, stop))

    def _basket(self, number: int) -> Any:
        kept = self._decoded.get(number)
        if kept is None:
            start, stop = self.offsets[number], self.offsets[number + 1]
            try:
                kept = self.decode(number)
            except NOT_THE_FILE:
                raise
            except BadRows as bad:  # of its counter: without it, all of the basket is lost
                raise BadRows(bad.problem, start, stop, bad.byte, bad.advice, is_certain=bad.is_certain) from bad
            except Exception as error:
                self._decoded.clear()
                raise BadRows(self._cannot(error), start, stop, self._byte(number), BROKEN) from error
            self._decoded[number] = kept
        return kept[0]

    def _cannot(self, error: Exception) -> str:
        return f"has a basket of column {self.name!r} that cannot be decoded ({one_line(error)})"

    def _byte(self, number: int) -> int | None:
        return self._seeks[number] if number < len(self._seeks) else None


class Group:
    """A branch that is nothing but its branches."""

    def __init__(self, parts: Mapping[str, Column]) -> None:
        self._parts = parts

    def leaves(self) -> Iterator[Branch]:
        """Of all its parts."""
        for part in self._parts.values():
            yield from part.leaves()

    def array(self, start: int, stop: int) -> Any:
        """Records."""
        return record_array({name: part.array(start, stop) for name, part in self._parts.items()}, stop - start)


class TreeEntries:
    """The wanted branches of a tree. Counters are branches that were not asked for, but say where entries begin."""

    def __init__(
        self, units: int, types: dict[str, str], columns: Mapping[str, Column], counters: Sequence[Branch]
    ) -> None:
        self.units = units
        self.types = types
        self._columns = columns
        self._leaves = [leaf for column in columns.values() for leaf in column.leaves()]
        self._counters = counters

    def ends(self) -> list[int]:
        """Where all wanted branches have baskets that end."""
        return common_ends(leaf.offsets for leaf in self._leaves)

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """From the baskets that hold them; the first bad one of all branches is told."""
        first: BadRows | None = None
        arrays = {}
        for name, column in self._columns.items():
            try:
                arrays[name] = column.array(start, stop)
            except BadRows as bad:
                first = bad if first is None or bad.start < first.start else first
        room_bytes = KEPT_BYTES
        for leaf in (*self._leaves, *self._counters):
            room_bytes -= leaf.forget(stop, room_bytes)
        if first is not None:
            raise first
        return arrays

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Of the baskets, also of those that only count, once they are known to be needed."""
        for leaf in (*self._leaves, *self._counters):
            yield from leaf.places(start, stop)
