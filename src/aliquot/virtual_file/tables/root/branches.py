from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import local
from typing import Any, Protocol

from aliquot.virtual_file.tables.root.entries import (
    BROKEN,
    KEPT_BYTES,
    NOT_THE_FILE,
    OVERLAP,
    bad_basket,
    badly_counted,
    baskets_of,
    cannot_decode,
    common_ends,
    first_byte,
    places_of,
    record_array,
)
from aliquot.virtual_file.tables.table import BadRows


class Column(Protocol):
    """A branch, or a group of them."""

    def leaves(self) -> Iterator[Branch]:
        """The branches that have baskets."""

    def array(self, start: int, stop: int) -> Any:
        """These entries of it."""


class Branch:
    """A branch of any kind, as uproot reads it. Its baskets are decoded once, if they are asked for in order."""

    def __init__(self, name: str, branch: Any, library: Any, counter_of: Callable[[Any], Branch]) -> None:
        self.name = name
        self.offsets = [int(offset) for offset in branch.entry_offsets]
        separate = len(self.offsets) - 1 - len(branch.embedded_baskets)
        self.seeks: list[int] = branch.member("fBasketSeek")[:separate].tolist()
        self.sizes: list[int] = branch.member("fBasketBytes")[:separate].tolist()
        self._branch = branch
        self._counter_of = counter_of
        self._library = library
        self._interpretation = branch.interpretation
        # What uproot finds out about objects in the first basket, it uses for the others.
        self._context = {**branch.context, "forth": local()}
        self._decoded: dict[int, tuple[Any, int]] = {}  # with the bytes it takes

    def leaves(self) -> Iterator[Branch]:
        """It is one."""
        yield self

    def array(self, start: int, stop: int) -> Any:
        """From the baskets that hold these entries."""
        numbers = baskets_of(self, start, stop)
        baskets = [self._basket(number) for number in numbers]
        try:
            return self._put_together(baskets, numbers.start, start, stop)
        except (*NOT_THE_FILE, BadRows):
            raise
        except Exception as error:
            # The baskets can be decoded, each by itself.
            problem, byte = cannot_decode(self.name, error), first_byte(self, numbers.start)
            raise BadRows(problem, start, stop, byte, BROKEN, is_certain=False) from error

    def forget(self, stop: int, room_bytes: int) -> int:
        """Keep only the basket that goes on after ``stop``, and only if there is room; say how much it takes."""
        number = bisect_right(self.offsets, stop) - 1
        kept = self._decoded.get(number)
        self._decoded.clear()
        if kept is None or kept[1] > room_bytes or self.offsets[number] == stop:
            return 0
        self._decoded[number] = kept
        return kept[1]

    def _basket(self, number: int) -> Any:
        kept = self._decoded.get(number)
        if kept is None:
            try:
                kept = self._decode(number)
            except NOT_THE_FILE:
                raise
            except BadRows as bad:
                raise badly_counted(bad, self, number) from bad
            except Exception as error:
                self._decoded.clear()
                raise bad_basket(self.name, error, self, number) from error
            self._decoded[number] = kept
        return kept[0]

    def _decode(self, number: int) -> tuple[Any, int]:
        """By uproot, one basket alone."""
        basket = self._branch.basket(number)
        array = self._interpretation.basket_array(
            basket.data,
            self._byte_offsets(basket, number),
            basket,
            self._branch,
            self._context,
            basket.member("fKeylen"),
            self._library,
            {},
        )
        expected = self.offsets[number + 1] - self.offsets[number]
        if len(array) != expected:
            raise ValueError(f"{len(array)} entries instead of {expected}")
        _check_offsets(array)
        return array, basket.uncompressed_bytes

    def _put_together(self, baskets: Sequence[Any], first: int, start: int, stop: int) -> Any:
        """As uproot does it."""
        offsets = self.offsets[first : first + len(baskets) + 1]
        arrays = dict(enumerate(baskets))
        return self._interpretation.final_array(arrays, start, stop, offsets, self._library, self._branch, {})

    def _byte_offsets(self, basket: Any, number: int) -> Any:
        """Where its entries begin, which it may leave to its counter, whose baskets may end elsewhere."""
        import numpy
        from uproot.interpretation.jagged import AsJagged

        given, counting = basket.byte_offsets, self._branch.count_branch
        if given is not None or counting is None or not isinstance(self._interpretation, AsJagged):
            return given
        counts = self._counter_of(counting).array(self.offsets[number], self.offsets[number + 1])
        offsets = numpy.zeros(len(counts) + 1, numpy.int64)
        numpy.cumsum(counts, out=offsets[1:])
        return offsets * self._interpretation.content.from_dtype.itemsize


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
            yield from places_of(leaf, start, stop)


def _check_offsets(array: Any) -> None:
    """Refuse entries that would reach beyond their basket: awkward believes what it is given."""
    from uproot.interpretation.jagged import JaggedArray

    if isinstance(array, JaggedArray):
        offsets = array.offsets
        if len(offsets) and (offsets[0] < 0 or offsets[-1] > len(array.content) or (offsets[1:] < offsets[:-1]).any()):
            raise ValueError(OVERLAP)
