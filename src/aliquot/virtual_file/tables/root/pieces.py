"""Numbers of some entries, as they are in the baskets of one file or of several, and the arrays that are made of them.

Most of what has to be done for a basket can be done for all baskets of a batch at once, which matters where they are
small: a call of numpy takes a microsecond, however few numbers it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.virtual_file.tables.root.entries import OVERLAP, bad_basket
from aliquot.virtual_file.tables.root.layout import BranchLayout
from aliquot.virtual_file.tables.table import BadRows

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


class Lists(NamedTuple):
    """Where the numbers of some entries of a basket are."""

    begins: Array  # the byte where those of each entry begin
    origin: int  # what these are counted from
    first: int  # of the numbers of the basket
    end: int
    branch: BranchLayout
    basket: int


class _Offsets(NamedTuple):
    """Where entries begin among all numbers of a batch, and what that was made of."""

    index: Any
    bounds: list[tuple[int, int, int]]
    begins: Array


class Pieces:
    """Some entries of a column: made an array once, all together."""

    def __init__(self, name: str, dtype: Any, counter: str | None, numbers: list[Array], lists: list[Lists]) -> None:
        self._name = name
        self._dtype = dtype
        self._counter = counter  # what says how many numbers an entry has; one, if there is none
        self._numbers = numbers
        self._lists = lists  # for each piece, if something counts them

    @classmethod
    def together(cls, several: Sequence[Pieces]) -> Pieces:
        """Those of one after those of the other."""
        first = several[0]
        numbers = [*chain.from_iterable([pieces._numbers for pieces in several])]
        lists = [*chain.from_iterable([pieces._lists for pieces in several])]
        return cls(first._name, first._dtype, first._counter, numbers, lists)

    def array(self, known: dict[str, _Offsets] | None = None) -> Any:
        """Of numpy, or of awkward if an entry has any number of them. Raise `BadRows` where entries overlap.

        Columns with the same counter have their entries begin at the same places, mostly: what is ``known`` is not made
        again.
        """
        import numpy

        content = numpy.empty(sum(map(len, self._numbers)), self._dtype)
        if self._numbers:
            numpy.concatenate(self._numbers, out=content)
        if self._counter is None:
            return content
        import awkward

        index = self._index(self._counter, {} if known is None else known)
        return awkward.Array(awkward.contents.ListOffsetArray(index, awkward.contents.NumpyArray(content)))

    def _index(self, counter: str, known: dict[str, _Offsets]) -> Any:
        import awkward
        import numpy

        bounds = [(lists.first, lists.end, len(lists.begins)) for lists in self._lists]
        entries = [count for *_, count in bounds]
        begins = numpy.empty(sum(entries), numpy.int32)
        if bounds:
            numpy.concatenate([lists.begins for lists in self._lists], out=begins)
        begins -= _for_each([lists.origin for lists in self._lists], entries)
        begins >>= shift_of(self._dtype)
        shared = known.get(counter)
        if shared is not None and shared.bounds == bounds and numpy.array_equal(shared.begins, begins):
            return shared.index
        moved = []
        numbers = 0
        for first, end, _ in bounds:
            moved.append(numbers - first)
            numbers += end - first
        offsets = numpy.empty(len(begins) + 1, numpy.int64)
        numpy.add(begins, _for_each(moved, entries), out=offsets[:-1], dtype=numpy.int64)
        offsets[-1] = numbers
        if (offsets[1:] < offsets[:-1]).any():
            raise self._overlap()
        made = _Offsets(awkward.index.Index64(offsets), bounds, begins)
        known.setdefault(counter, made)
        return made.index

    def _overlap(self) -> BadRows:
        """Of the first basket with such entries."""
        for lists in self._lists:
            begins = [(int(begin) - lists.origin) >> shift_of(self._dtype) for begin in lists.begins]
            if sorted(begins) != begins or begins[-1:] > [lists.end]:
                return bad_basket(self._name, ValueError(OVERLAP), lists.branch, lists.basket)
        raise AssertionError("entries overlap, but not those of any basket")


def check_apart(begins: Array, origin: int, end: int, shift: int) -> None:
    """Refuse entries of a basket that overlap, or reach beyond it. ``begins`` has one more than there are entries."""
    offsets = (begins[:-1] - origin) >> shift
    if len(offsets) and (offsets[0] < 0 or offsets[-1] > end >> shift or (offsets[1:] < offsets[:-1]).any()):
        raise ValueError(OVERLAP)


def shift_of(dtype: Any) -> int:
    """From bytes to numbers: much faster than a division."""
    return int(dtype.itemsize).bit_length() - 1


def _for_each(values: list[int], times: list[int]) -> Any:
    """Each as many times as that; just the one, where all are the same."""
    import numpy

    if len(set(values)) == 1:
        return values[0]
    return numpy.repeat(numpy.array(values, numpy.int64), times)
