"""Units that are not in a file: numbers and the items of a Python sequence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Self

from aliquot.errors import UsageError
from aliquot.job import Description, decode_value, encode_value
from aliquot.virtual_file.source import ByteRange, Source, concatenate

_BATCH_UNITS = 4096


class RangeSource(Source):
    """The numbers of a `range`. As bytes, one number a line."""

    kind = "range"

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers

    @property
    def known_units(self) -> int:
        """All of them."""
        return len(self._numbers)

    @property
    def complete(self) -> bool:
        """Always."""
        return True

    def records_of(self, start: int, stop: int) -> range:
        """A range again."""
        return self._numbers[start:stop]

    def typical_batch_units(self) -> int:
        """Some thousands."""
        return _BATCH_UNITS

    def header(self, units: int) -> bytes:
        """None."""
        return b""

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """One number a line."""
        for at in range(start, stop, _BATCH_UNITS):
            yield b"".join(b"%d\n" % number for number in self._numbers[at : min(at + _BATCH_UNITS, stop)])

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Not in any file."""
        raise UsageError("a range of numbers is not in a file, so it has no byte range")

    def to_desc(self, start: int, stop: int | None) -> Description:
        """Three numbers."""
        return {"kind": self.kind, "range": [self._numbers.start, self._numbers.stop, self._numbers.step]}

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild the range."""
        return cls(range(*desc["range"]))


class ItemsSource(Source):
    """The items of a sequence, of which this process may hold only some, from ``first`` on.

    ``sequence_id`` tells parts of one sequence, which can be joined again, from those of another.
    """

    kind = "items"

    def __init__(self, items: Sequence[Any], first: int = 0, sequence_id: str | None = None) -> None:
        self._items = items
        self._first = first
        self._sequence_id = sequence_id or os.urandom(8).hex()

    @property
    def first_unit(self) -> int:
        """The first one that is here."""
        return self._first

    @property
    def known_units(self) -> int:
        """All of them."""
        return self._first + len(self._items)

    @property
    def complete(self) -> bool:
        """Always."""
        return True

    def records_of(self, start: int, stop: int) -> Sequence[Any]:
        """A slice of the sequence, of its own type."""
        return self._items[start - self._first : stop - self._first]

    def typical_batch_units(self) -> int:
        """Some thousands."""
        return _BATCH_UNITS

    def header(self, units: int) -> bytes:
        """None."""
        return b""

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Nobody knows how."""
        raise UsageError(
            "the items of a Python sequence have no bytes: use records() or batches(), or write them to a file"
        )

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Not in any file."""
        raise UsageError("the items of a Python sequence are not in a file, so they have no byte range")

    def covering(self, other: Source) -> Source | None:
        """Put two windows of a sequence together again where they touch."""
        if self is other:
            return self
        if not isinstance(other, ItemsSource) or self._sequence_id != other._sequence_id:
            return None
        first, second = sorted((self, other), key=lambda source: source._first)
        overlap = first.known_units - second._first
        if overlap < 0:
            return None
        if overlap >= len(second._items):
            return first
        items = concatenate([first._items, second._items[overlap:]])
        return ItemsSource(items, first._first, self._sequence_id)

    def to_desc(self, start: int, stop: int | None) -> Description:
        """Only the items that are asked for travel."""
        end = self.known_units if stop is None else stop
        begin = max(start, self._first)
        items = encode_value(self.records_of(begin, end))
        return {"kind": self.kind, "sequence": self._sequence_id, "first": begin, "items": items}

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild the window."""
        return cls(decode_value(desc["items"]), desc["first"], desc["sequence"])
