from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.virtual_file.tables.root.blocks import decompressed
from aliquot.virtual_file.tables.root.entries import (
    FLAT,
    KEPT_BYTES,
    NOT_THE_FILE,
    OVERLAP,
    bad_basket,
    badly_counted,
    baskets_of,
    check_flat,
    common_ends,
    places_of,
)
from aliquot.virtual_file.tables.root.layout import BranchLayout, TreeLayout
from aliquot.virtual_file.tables.root.pieces import Lists, Pieces, check_apart, shift_of
from aliquot.virtual_file.tables.table import BadRows

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_BASKET_KEY = Struct(">i2xi4xh")  # bytes of it all, of the content, of the key
_BASKET = Struct(">10xiix")  # the last of the key: entries, where the content ends


class Basket(NamedTuple):
    """What is in it."""

    numbers: Array  # as they are in the file
    begins: Array | None  # the byte where those of each entry begin, and one more, which says nothing
    origin: int  # what these are counted from
    end: int  # the bytes of the numbers
    size_bytes: int  # of it all


class PlainEntries:
    """The wanted branches of a tree of numbers, in a file that is open.

    There is one of these for each file, and it reads a few baskets of each branch, mostly one: so nothing is made for
    a branch that can be done without.
    """

    def __init__(self, file: int, layout: TreeLayout, wanted: Sequence[str], form: str) -> None:
        self.units = layout.entries
        self._file = file
        self._branches = layout.branches
        self._wanted = wanted
        self._read = [*wanted]  # the branches that are, with the counters that are needed
        self._decoded: dict[tuple[str, int], Basket] = {}  # by branch and number
        if form in FLAT:
            for name in wanted:
                check_flat(name, layout.branches[name].counter is None, form)

    @property
    def types(self) -> dict[str, str]:
        """What the branches hold."""
        branches = {name: self._branches[name] for name in self._wanted}
        return {name: _type_name(branch.dtype, branch.counter is not None) for name, branch in branches.items()}

    def ends(self) -> list[int]:
        """Where all wanted branches have baskets that end."""
        return common_ends(self._branches[name].offsets for name in self._wanted)

    def columns(self, start: int, stop: int) -> dict[str, Pieces]:
        """Decode the baskets that hold them; the first bad one of all branches is told."""
        bad: BadRows | None = None
        columns = {}
        try:
            for name in self._wanted:
                try:
                    columns[name] = self._pieces(name, start, stop)
                except BadRows as fault:
                    bad = fault if bad is None or fault.start < bad.start else bad
        except BaseException:
            self._decoded.clear()  # those that are wanted whole are not checked yet
            raise
        self._forget(stop)
        if bad is not None:
            raise bad
        return columns

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Of the baskets, also of those that only count, once they are known to be needed."""
        for name in self._read:
            yield from places_of(self._branches[name], start, stop)

    def _pieces(self, name: str, start: int, stop: int) -> Pieces:
        branch = self._branches[name]
        offsets = branch.offsets
        dtype, native, shift = _kind(branch.dtype)
        numbers: list[Array] = []
        lists: list[Lists] = []
        for number in baskets_of(branch, start, stop):
            before, after = offsets[number], offsets[number + 1]
            if before == after:
                continue  # there is nothing, and where that begins says nothing either
            is_whole = start <= before and after <= stop
            basket = self._decoded.get((name, number)) or self._decode(name, branch, number, dtype, is_whole=is_whole)
            content, begins, origin, end_byte, _ = basket
            first, end = (0, after - before) if is_whole else (max(start - before, 0), min(stop, after) - before)
            if begins is None:
                numbers.append(content if is_whole else content[first:end])
                continue
            last_byte = end_byte if before + end == after else int(begins[end]) - origin
            first_number, end_number = (int(begins[first]) - origin) >> shift, last_byte >> shift
            if not 0 <= first_number <= end_number <= len(content):
                raise bad_basket(name, ValueError(OVERLAP), branch, number)
            numbers.append(content[first_number:end_number])
            lists.append(Lists(begins[first:end], origin, first_number, end_number, branch, number))
        return Pieces(name, native, branch.counter, numbers, lists)

    def _decode(self, name: str, branch: BranchLayout, number: int, dtype: Any, *, is_whole: bool) -> Basket:
        """A basket; checked, unless that is done with others, because all of it is wanted."""
        start, stop = branch.offsets[number], branch.offsets[number + 1]
        try:
            basket = read_basket(self._file, branch.seeks[number], branch.sizes[number], stop - start, dtype)
            if branch.counter is None:
                basket = _one_each(basket, stop - start)
            elif basket.begins is None:
                basket = self._counted(basket, branch.counter, start, stop, dtype)
            if not is_whole and basket.begins is not None:
                check_apart(basket.begins, basket.origin, basket.end, shift_of(dtype))
        except NOT_THE_FILE:
            raise
        except BadRows as bad:
            raise badly_counted(bad, branch, number) from bad
        except Exception as error:
            raise bad_basket(name, error, branch, number) from error
        self._decoded[name, number] = basket
        return basket

    def _counted(self, basket: Basket, counter: str, start: int, stop: int, dtype: Any) -> Basket:
        """A basket that leaves it to another branch where its entries begin, whose baskets may end elsewhere."""
        import numpy

        if counter not in self._read:
            self._read.append(counter)
        counts = self._pieces(counter, start, stop).array()
        begins = numpy.zeros(len(counts) + 1, numpy.int64)
        numpy.cumsum(counts, out=begins[1:])
        if begins.min() < 0 or begins.max() > len(basket.numbers):
            raise ValueError(OVERLAP)
        begins *= dtype.itemsize
        return basket._replace(begins=begins.astype(numpy.int32), origin=0, end=int(begins[-1]))

    def _forget(self, stop: int) -> None:
        """Keep only baskets that go on after ``stop``, while there is room."""
        if stop == self.units:
            self._decoded.clear()
            return
        kept = {}
        room_bytes = KEPT_BYTES
        for name in self._read:
            offsets = self._branches[name].offsets
            number = bisect_right(offsets, stop) - 1
            basket = self._decoded.get((name, number))
            if basket is not None and basket.size_bytes <= room_bytes and offsets[number] != stop:
                kept[name, number] = basket
                room_bytes -= basket.size_bytes
        self._decoded = kept


def read_basket(file: int, seek: int, size: int, entries: int, dtype: Any) -> Basket:
    """Raise a `ValueError`, or whatever decompressing raises, where it is not as it should be."""
    import numpy

    data = memoryview(os.pread(file, size, seek))
    total_bytes, content_bytes, key_bytes = _BASKET_KEY.unpack_from(data)
    there, last = _BASKET.unpack_from(data, key_bytes - _BASKET.size)
    if total_bytes != len(data) or not key_bytes <= last <= key_bytes + content_bytes:
        raise ValueError("it does not begin as baskets do")
    if there != entries:
        raise ValueError(f"{there} entries instead of {entries}")
    content = decompressed(data[key_bytes:], content_bytes)
    end = last - key_bytes
    numbers = numpy.frombuffer(content, dtype, end // dtype.itemsize)
    begins = None
    if end < content_bytes:
        begins = numpy.frombuffer(content, ">i4", offset=end + 4)  # how many there are comes first
        if len(begins) != entries + 1:
            raise ValueError(f"it says where {len(begins) - 1} entries begin, and has {entries}")
    return Basket(numbers, begins, key_bytes, end, content_bytes)


def _one_each(basket: Basket, entries: int) -> Basket:
    """A basket that has a number for each entry."""
    if len(basket.numbers) != entries:
        raise ValueError(f"{len(basket.numbers)} entries instead of {entries}")
    return basket if basket.begins is None else basket._replace(begins=None)


@cache
def _type_name(dtype: str, is_list: bool) -> str:
    """As uproot says it, who may have looked at other files."""
    import uproot

    kind = uproot.AsDtype(dtype)
    return str((uproot.AsJagged(kind) if is_list else kind).typename)


@cache
def _kind(name: str) -> tuple[Any, Any, int]:
    """Numbers as they are in the file, as this machine has them, and how far to shift from bytes to numbers."""
    import numpy

    dtype = numpy.dtype(name)
    return dtype, dtype.newbyteorder("="), shift_of(dtype)
