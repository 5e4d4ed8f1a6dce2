from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.virtual_file.tables.root.baskets import Branch, TreeEntries
from aliquot.virtual_file.tables.root.blocks import decompressed
from aliquot.virtual_file.tables.root.entries import OVERLAP, check_flat
from aliquot.virtual_file.tables.root.keys import KEY
from aliquot.virtual_file.tables.root.layout import BranchLayout, TreeLayout

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_BASKET = Struct(">hiiiib")  # the last of its key: version, room, entry size, entries, where the content ends, a flag


def plain_entries(file: int, layout: TreeLayout, wanted: Sequence[str], form: str) -> TreeEntries:
    """The wanted branches of a tree whose file is open."""
    types = types_of(layout, wanted, form)
    numbers: dict[str, _Numbers] = {}
    counters: list[Branch] = []

    def counter(name: str) -> _Numbers:
        """Made when a branch leaves it to it where its entries begin, which most do not."""
        if name not in numbers:
            numbers[name] = _Numbers(name, file, layout.branches[name])
            counters.append(numbers[name])
        return numbers[name]

    columns: dict[str, Branch] = {}
    shared: dict[str, dict[tuple[int, int], Array]] = {}
    for name in wanted:
        branch = layout.branches[name]
        if branch.counter is None:
            columns[name] = numbers[name] = _Numbers(name, file, branch)
        else:
            alike = shared.setdefault(branch.counter, {})
            columns[name] = _Lists(name, file, branch, partial(counter, branch.counter), alike)
    return TreeEntries(layout.entries, types, columns, counters)


def types_of(layout: TreeLayout, wanted: Sequence[str], form: str) -> dict[str, str]:
    """What the wanted branches hold; refused where that does not go into the form."""
    types = {}
    for name in wanted:
        branch = layout.branches[name]
        check_flat(name, branch.counter is None, form)
        types[name] = _type_name(branch.dtype, branch.counter is not None)
    return types


@cache
def _type_name(dtype: str, is_list: bool) -> str:
    """As uproot says it, who may have looked at other files."""
    import uproot

    kind = uproot.AsDtype(dtype)
    return str((uproot.AsJagged(kind) if is_list else kind).typename)


@cache
def _dtypes(name: str) -> tuple[Any, Any]:
    """As they are in the file, and as this machine has them."""
    import numpy

    dtype = numpy.dtype(name)
    return dtype, dtype.newbyteorder("=")


class _Plain(Branch):
    """A branch of numbers."""

    def __init__(self, name: str, file: int, layout: BranchLayout) -> None:
        super().__init__(name, layout.offsets, layout.seeks, layout.sizes)
        self._file = file
        self._dtype, self._native = _dtypes(layout.dtype)

    def _content(self, number: int) -> tuple[Array, Array | None, int]:
        """The numbers of a basket, the byte where each entry begins if it says so, and the bytes it takes."""
        import numpy

        entries = self.offsets[number + 1] - self.offsets[number]
        data = memoryview(os.pread(self._file, self._sizes[number], self._seeks[number]))
        total_bytes, _, content_bytes, _, key_bytes, _ = KEY.unpack_from(data)
        *_, there, last, _ = _BASKET.unpack_from(data, key_bytes - _BASKET.size)
        if total_bytes != len(data) or not key_bytes <= last <= key_bytes + content_bytes:
            raise ValueError("it does not begin as baskets do")
        if there != entries:
            raise ValueError(f"{there} entries instead of {entries}")
        content = decompressed(data[key_bytes:], content_bytes)
        end = last - key_bytes
        numbers = numpy.frombuffer(content, self._dtype, end // self._dtype.itemsize)
        begins = None
        if end < content_bytes:
            begins = numpy.frombuffer(content, ">i4", offset=end)[1:].astype(numpy.int32)
            if len(begins) != entries + 1:
                raise ValueError(f"it says where {len(begins) - 1} entries begin, and has {entries}")
            begins -= key_bytes
            begins[-1] = end
        return numbers, begins, content_bytes


class _Numbers(_Plain):
    """One for each entry."""

    def decode(self, number: int) -> tuple[Array, int]:
        """As they are in the file."""
        numbers, _, size_bytes = self._content(number)
        entries = self.offsets[number + 1] - self.offsets[number]
        if len(numbers) != entries:
            raise ValueError(f"{len(numbers)} entries instead of {entries}")
        return numbers, size_bytes

    def put_together(self, baskets: Sequence[Array], first: int, start: int, stop: int) -> Pieces:
        """Those of some entries."""
        begins = self.offsets[first : first + len(baskets)]
        pieces = [basket[max(start - begin, 0) : stop - begin] for basket, begin in zip(baskets, begins, strict=True)]
        return Pieces(self._native, pieces, None)


class _Lists(_Plain):
    """Any number for each entry, which another branch counts.

    Branches with the same counter have their entries begin at the same places. These are kept once for all of them:
    they take as much memory as the numbers themselves.
    """

    def __init__(
        self,
        name: str,
        file: int,
        layout: BranchLayout,
        counter: Callable[[], _Numbers],
        shared: dict[tuple[int, int], Array],
    ) -> None:
        super().__init__(name, file, layout)
        self._counter = counter
        self._shared = shared  # where entries begin, by the first of a basket and the end of the last
        self._shift = self._dtype.itemsize.bit_length() - 1  # from bytes to numbers, much faster than a division

    def decode(self, number: int) -> tuple[tuple[Array, Array], int]:
        """The numbers as they are in the file, and where those of each entry begin among them."""
        import numpy

        numbers, begins, size_bytes = self._content(number)
        start, stop = self.offsets[number], self.offsets[number + 1]
        if begins is None:
            counts = self._counter().array(start, stop).array()
            offsets = numpy.zeros(len(counts) + 1, numpy.int64)
            numpy.cumsum(counts, out=offsets[1:])
        else:
            offsets = begins >> self._shift
        shared = self._shared.get((start, stop))
        if shared is not None and len(shared) == len(offsets) and (shared == offsets).all():
            offsets = shared
        elif offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(OVERLAP)
        if offsets[-1] > len(numbers):
            raise ValueError(OVERLAP)
        if shared is None:
            self._shared[start, stop] = offsets
        return (numbers, offsets), size_bytes

    def put_together(self, baskets: Sequence[tuple[Array, Array]], first: int, start: int, stop: int) -> Pieces:
        """Those of some entries."""
        numbers, lists = [], []
        for at, (content, offsets) in enumerate(baskets, first):
            begin = self.offsets[at]
            part = ListsOf(offsets, max(start - begin, 0), min(stop - begin, len(offsets) - 1))
            numbers.append(content[offsets[part.first] : offsets[part.end]])
            lists.append(part)
        return Pieces(self._native, numbers, lists)

    def forget(self, stop: int, room_bytes: int) -> int:
        """Also what others may have alike."""
        self._shared.clear()
        return super().forget(stop, room_bytes)


class ListsOf(NamedTuple):
    """Some entries of a basket: the offsets of all, and the numbers of these."""

    offsets: Array
    first: int
    end: int


class Pieces:
    """Numbers of some entries, as they are in baskets, of one file or of several: made an array once, all together."""

    def __init__(self, dtype: Any, numbers: list[Array], lists: list[ListsOf] | None) -> None:
        self._dtype = dtype
        self._numbers = numbers
        self._lists = lists  # for each piece, where entries begin

    def __add__(self, other: Pieces) -> Pieces:
        lists = None if self._lists is None else self._lists + (other._lists or [])
        return Pieces(self._dtype, self._numbers + other._numbers, lists)

    def array(self, known: dict[tuple[tuple[int, int, int], ...], Any] | None = None) -> Any:
        """Of numpy, or of awkward if an entry has any number of them; then offsets that are ``known`` are not made."""
        import numpy

        content = numpy.empty(sum(map(len, self._numbers)), self._dtype)
        if self._numbers:
            numpy.concatenate(self._numbers, out=content)
        if self._lists is None:
            return content
        import awkward

        known = {} if known is None else known
        key = tuple((id(offsets), first, end) for offsets, first, end in self._lists)
        if key not in known:
            known[key] = awkward.index.Index64(self._offsets()), self._lists  # or others may get the same id
        layout = awkward.contents.ListOffsetArray(known[key][0], awkward.contents.NumpyArray(content))
        return awkward.Array(layout)

    def _offsets(self) -> Array:
        import numpy

        lists = self._lists or []
        together = numpy.zeros(1 + sum(end - first for _, first, end in lists), numpy.int64)
        at = numbers = 0
        for offsets, first, end in lists:
            after = at + end - first
            before = numbers - int(offsets[first])
            numpy.add(offsets[first + 1 : end + 1], before, out=together[at + 1 : after + 1], dtype=numpy.int64)
            at, numbers = after, int(together[after])
        return together
