"""Where a tree says that its baskets are, if it is a plain one.

To open a tree, uproot makes an object of each branch: milliseconds for ten branches, a second for NanoAOD's. Of many
small files that would take longer than all else. Nearly all trees of numbers are laid out in one way, and everything in
a file says how long it is: so the wanted branches are found by leaping from one to the next. Whatever is not as
expected here is left to uproot, damage too: it is the one that knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from struct import Struct
from typing import NamedTuple

from aliquot.virtual_file.tables.root.keys import NotPlainError, text_at

_TREE = Struct(">qqqqqdiiiiIqqqqqq")
_CLUSTER_RANGES_AT = Struct(">qqqqqdiiii").size  # how many, among the numbers of the tree
_TREE_VERSION = 20
_BRANCH = Struct(">iiiiq")
_BASKETS_AT = Struct(">iii").size  # how many it has
_BRANCH_AFTER = Struct(">iIiqqqq")
_ENTRIES_AT = Struct(">iIi").size  # how many, and the first one
_BRANCH_VERSION = 13
_LEAF = Struct(">iii??")
_LEAF_VERSION = 2
_COUNTED, _NEW_CLASS, _KNOWN_CLASS = 0x40000000, 0xFFFFFFFF, 0x80000000
_REFERENCED = 0x10  # has two bytes more
_MAP_OFFSET = 2
_INT = Struct(">I")
_COUNT_AND_VERSION = Struct(">IH")
_TWO = Struct(">II")
_OBJECT = Struct(">HII")
_ARRAY = Struct(">IHHIIBII")  # a TObjArray, a TObject, the bytes of its name, how many, a lower bound
_BRANCH_HEAD = Struct(">IHIHHII")  # up to its name: a TBranch, a TNamed, a TObject
# How many are kept: of trees that are written in different ways, and of each by how many baskets there are. Of 1,500
# branches, what unpacks their numbers takes 0.3 MB.
_MOST_FORMS = 16
_MOST_NUMBERS = 4
# What a branch with one basket says: how many entries it has, the first, a size, two offsets, a seek.
_NUMBERS_OF_ONE = 6
_NAMED_BRANCH = b"\xff\xff\xff\xffTBranch\0"
# numpy's name of what a leaf holds, signed and not.
_KINDS = {
    b"TLeafO": (">?", ">?"),
    b"TLeafB": (">i1", ">u1"),
    b"TLeafS": (">i2", ">u2"),
    b"TLeafI": (">i4", ">u4"),
    b"TLeafL": (">i8", ">u8"),
    b"TLeafG": (">i8", ">u8"),
    b"TLeafF": (">f4", ">f4"),
    b"TLeafD": (">f8", ">f8"),
}
_ITEM_BYTES = {leaf: int(signed[2:] or 1) for leaf, (signed, _) in _KINDS.items()}

_Part = tuple[int, str, int]  # where it begins, what it is, and how many bytes it has


class BranchLayout(NamedTuple):
    """The baskets of a branch, and what is in them."""

    dtype: str  # as numpy says it
    counter: str | None  # the branch that says how many numbers an entry has; one, if there is none
    offsets: tuple[int, ...]  # the first entry of each basket, and the end of the last
    seeks: tuple[int, ...]
    sizes: tuple[int, ...]


class TreeLayout(NamedTuple):
    """The wanted branches, and those that count for them."""

    entries: int
    branches: dict[str, BranchLayout]


class _Place(NamedTuple):
    """What a tree says of a branch in all files that are like it, and where it says the rest."""

    dtype: str
    counter: str | None
    leaf_at: int
    counter_at: int  # the leaf that counts, if one does
    baskets_at: int  # how many there are
    entries_at: int  # how many it has, and which is the first
    sizes_at: int  # of the baskets, then their first entries, then where they are; a byte before each
    room: int  # for so many baskets


class _Form(NamedTuple):
    """How a tree is written, but for numbers: files that were made alike have it alike, and it is made out once."""

    places: dict[str, _Place]
    in_order: tuple[tuple[str, _Place], ...]  # as they follow each other in the tree
    parts: Struct  # of the tree: all bytes that were looked at to find this out
    content: tuple[bytes, ...]  # of these parts
    counts: Struct  # how many entries the tree has, and how many baskets each branch, in that order
    numbers: dict[tuple[int, ...], Struct]  # what each branch says of its baskets, by how many there are

    def fits(self, data: bytes) -> bool:
        return self.parts.unpack_from(data) == self.content

    def numbers_of(self, baskets: tuple[int, ...]) -> Struct:
        """What unpacks them all at once. Files that are alike, and small, mostly have one basket in each branch."""
        found = self.numbers.get(baskets)
        if found is None:
            parts: list[_Part] = []
            for (_, place), count in zip(self.in_order, baskets, strict=True):
                if not 0 <= count < place.room:
                    raise NotPlainError
                offsets_at = place.sizes_at + 4 * place.room + 1
                seeks_at = offsets_at + 8 * place.room + 1
                parts.append((place.entries_at, "qq", 16))
                parts.append((place.sizes_at, f"{count}i", 4 * count))
                parts.append((offsets_at, f"{count + 1}q", 8 * (count + 1)))
                parts.append((seeks_at, f"{count}q", 8 * count))
            if len(self.numbers) >= _MOST_NUMBERS:
                self.numbers.clear()
            found = self.numbers[baskets] = _unpacking(parts)
        return found


_forms: dict[tuple[int, int, tuple[str, ...] | None], _Form] = {}


class PlainTree:
    """What a tree was written as. Positions are in its bytes; those that it has itself count its key too."""

    def __init__(self, data: bytes, key_bytes: int, file_bytes: int) -> None:
        self._data = data
        self._key_bytes = key_bytes
        self._file_bytes = file_bytes
        self._seen: list[tuple[int, int]] = []  # the bytes that tell its form
        self._places: dict[bytes, int] = {}  # of the branches
        self._counters: dict[int, bytes] = {}  # the names of leaves by their places

    def layout(self, wanted: Sequence[str] | None) -> TreeLayout:
        """Of the wanted branches, or of all."""
        key = (len(self._data), self._key_bytes, None if wanted is None else tuple(wanted))
        form = _forms.get(key)
        if form is None or not form.fits(self._data):
            form = self._form(wanted)
            if len(_forms) >= _MOST_FORMS:
                _forms.clear()
            _forms[key] = form
        entries, *baskets = form.counts.unpack_from(self._data)
        numbers = form.numbers_of(tuple(baskets)).unpack_from(self._data)
        if {*baskets} == {1}:
            branches = _one_basket_each(form, entries, numbers, self._file_bytes)
        else:
            branches = _any_baskets(form, entries, baskets, numbers, self._file_bytes)
        return TreeLayout(entries, {name: branches[name] for name in form.places})

    # Its form

    def _form(self, wanted: Sequence[str] | None) -> _Form:
        at = self._begin(0, _TREE_VERSION)
        for _ in ("TNamed", "TAttLine", "TAttFill", "TAttMarker"):
            at = self._after(at)
        entries_at = at
        ranges_at = at + _CLUSTER_RANGES_AT
        self._see(ranges_at, ranges_at + 4)
        at += _TREE.size + 2 * (1 + 8 * _INT.unpack_from(self._data, ranges_at)[0])
        at = self._after(at)  # its features
        found = list(self._branches(at))
        self._places = dict(found)
        if len(self._places) < len(found):
            raise NotPlainError  # which of two is meant?
        if wanted is None:
            wanted = [name.decode() for name in self._places]
        places = {name: self._place(name) for name in wanted}
        for place in [*places.values()]:
            counter = place.counter
            if counter is None:
                continue
            if counter not in places:
                places[counter] = self._place(counter)
            counting = places[counter]
            if counting.leaf_at != place.counter_at or counting.counter or counting.dtype[1] not in "iu":
                raise NotPlainError
        parts = _unpacking([(start, f"{stop - start}s", stop - start) for start, stop in _merged(self._seen)])
        in_order = tuple(sorted(places.items(), key=lambda named: named[1].baskets_at))
        counts = _unpacking([(entries_at, "q", 8), *((place.baskets_at, "i", 4) for _, place in in_order)])
        return _Form(places, in_order, parts, parts.unpack_from(self._data), counts, {})

    def _branches(self, at: int) -> Iterator[tuple[bytes, int]]:
        """The name of each, and where it is."""
        data = self._data
        at, count, _ = self._array(at)
        known = -1
        for _ in range(count):
            length, tag = _TWO.unpack_from(data, at)
            branch_at = at + 8
            if data.startswith(_NAMED_BRANCH, at + 4):
                branch_at = at + 4 + len(_NAMED_BRANCH)
            elif tag != known:
                kind, branch_at = self._object(at)
                if kind != b"TBranch":
                    raise NotPlainError  # it may have branches itself
                known = tag
            *_, version, _, bits = _BRANCH_HEAD.unpack_from(data, branch_at)
            if not length & _COUNTED or version != 1 or bits & _REFERENCED:
                raise NotPlainError
            name, end = text_at(data, branch_at + _BRANCH_HEAD.size)
            self._see(at, end)
            yield name, branch_at
            at += 4 + (length ^ _COUNTED)

    def _place(self, name: str) -> _Place:
        data = self._data
        at = self._places.get(name.encode())
        if at is None or name.startswith("/"):  # a path, to uproot
            raise NotPlainError
        at = self._begin(at, _BRANCH_VERSION)
        baskets_at = self._after(self._after(at))  # behind TNamed and TAttFill
        entries_at = self._after(baskets_at + _BRANCH.size)
        _, room, *_ = _BRANCH_AFTER.unpack_from(data, entries_at)
        self._see(entries_at, entries_at + 8)
        _, subbranches, end = self._array(entries_at + _BRANCH_AFTER.size)
        leaf_at, leaves, end = self._array(end)
        if subbranches or leaves != 1:
            raise NotPlainError
        dtype, counter, counter_at = self._leaf(leaf_at)
        at, _, end = self._array(end)
        named_at = end + 3 + (4 + 8 + 8) * room
        if any(data[at:end]) or data[named_at]:  # baskets within the tree itself, or in another file
            raise NotPlainError
        self._see(at, end)
        self._see(named_at, named_at + 1)
        return _Place(
            dtype, counter, leaf_at, counter_at, baskets_at + _BASKETS_AT, entries_at + _ENTRIES_AT, end + 1, room
        )

    def _leaf(self, at: int) -> tuple[str, str | None, int]:
        """What it holds; the name of the leaf that counts, and its place."""
        kind, at = self._object(at)
        kinds = _KINDS.get(kind)
        if kinds is None:
            raise NotPlainError
        at = self._begin(self._begin(at, 1), _LEAF_VERSION)
        name, title_at = self._name(at)
        title, end = text_at(self._data, title_at)
        self._see(title_at, end)
        at = self._after(at)
        length, item_bytes, _, _, is_unsigned = _LEAF.unpack_from(self._data, at)
        reference_at = at + _LEAF.size
        self._see(at, reference_at + 4)
        reference = _INT.unpack_from(self._data, reference_at)[0]
        counter, counter_at = None, 0
        if reference:
            is_here = reference & _COUNTED
            counter_at = reference_at if is_here else reference - _MAP_OFFSET - self._key_bytes
            counter = self._counter(counter_at)
        if item_bytes != _ITEM_BYTES[kind]:
            raise NotPlainError  # one of the two is damaged
        if length != 1 or b"[" in name or title != (name if counter is None else name + b"[" + counter + b"]"):
            raise NotPlainError  # an entry has several, or it is not certain
        return kinds[is_unsigned], None if counter is None else counter.decode(), counter_at

    def _counter(self, at: int) -> bytes:
        """The name of a leaf: one counts for many."""
        if at not in self._counters:
            _, leaf_at = self._object(at)
            self._counters[at], _ = self._name(self._begin(self._begin(leaf_at, 1), _LEAF_VERSION))
        return self._counters[at]

    # What everything is made of

    def _see(self, start: int, stop: int) -> None:
        """Note what the form depends on."""
        self._seen.append((start, stop))

    def _begin(self, at: int, version: int) -> int:
        """Behind the length and the version of something, which must be that one."""
        count, found = _COUNT_AND_VERSION.unpack_from(self._data, at)
        if not count & _COUNTED or found != version:
            raise NotPlainError
        self._see(at, at + _COUNT_AND_VERSION.size)
        return at + _COUNT_AND_VERSION.size

    def _after(self, at: int) -> int:
        """Behind something that says how long it is."""
        count: int = _INT.unpack_from(self._data, at)[0]
        if not count & _COUNTED:
            raise NotPlainError
        self._see(at, at + 4)
        return at + 4 + (count ^ _COUNTED)

    def _name(self, at: int) -> tuple[bytes, int]:
        """Of a TNamed, and where its title is."""
        name, end = text_at(self._data, self._after_object(at + _COUNT_AND_VERSION.size))
        self._see(at, end)
        return name, end

    def _after_object(self, at: int) -> int:
        """Behind a TObject."""
        version, _, bits = _OBJECT.unpack_from(self._data, at)
        if version != 1 or bits & _REFERENCED:
            raise NotPlainError
        return at + _OBJECT.size

    def _array(self, at: int) -> tuple[int, int, int]:
        """Where the objects of a TObjArray begin, how many there are, and where it ends."""
        length, _, version, _, bits, name_bytes, count, _ = _ARRAY.unpack_from(self._data, at)
        if not length & _COUNTED or version != 1 or bits & _REFERENCED or name_bytes:
            raise NotPlainError
        self._see(at, at + _ARRAY.size)
        return at + _ARRAY.size, count, at + 4 + (length ^ _COUNTED)

    def _object(self, at: int) -> tuple[bytes, int]:
        """The class of an object, and where its content begins."""
        data = self._data
        count, tag = _TWO.unpack_from(data, at)
        if not count & _COUNTED or not tag & _KNOWN_CLASS:
            raise NotPlainError
        named_at = body_at = at + 8
        if tag != _NEW_CLASS:
            # It refers to where the class was named first.
            named_at = (tag ^ _KNOWN_CLASS) - _MAP_OFFSET - self._key_bytes + 4
            if named_at < 4 or data[named_at - 4 : named_at] != b"\xff\xff\xff\xff":
                raise NotPlainError
        ends_at = data.index(0, named_at)
        if tag == _NEW_CLASS:
            body_at = ends_at + 1
        self._see(at, body_at)
        self._see(named_at - 4, ends_at + 1)
        return data[named_at:ends_at], body_at


def _one_basket_each(form: _Form, entries: int, numbers: tuple[int, ...], file_bytes: int) -> dict[str, BranchLayout]:
    """As `_any_baskets`, all branches at once: where files are many they are mostly small."""
    counts, firsts, sizes, begins, ends, seeks = (numbers[at::_NUMBERS_OF_ONE] for at in range(_NUMBERS_OF_ONE))
    if entries < 0 or {*counts, *ends} != {entries} or {*firsts, *begins} != {0}:
        raise NotPlainError
    if min(seeks) <= 0 or min(sizes) < 0 or max(map(add, seeks, sizes)) > file_bytes:
        raise NotPlainError
    offsets = (0, entries)
    return {
        name: BranchLayout(place.dtype, place.counter, offsets, (seek,), (size,))
        for (name, place), seek, size in zip(form.in_order, seeks, sizes, strict=True)
    }


def _any_baskets(
    form: _Form, entries: int, baskets: Sequence[int], numbers: tuple[int, ...], file_bytes: int
) -> dict[str, BranchLayout]:
    """What the branches say of their baskets, if it can be."""
    branches: dict[str, BranchLayout] = {}
    known_offsets: tuple[int, ...] = ()  # those of most branches are those of the one before
    at = 0
    for (name, place), count in zip(form.in_order, baskets, strict=True):
        offsets_at = at + 2 + count
        seeks_at = offsets_at + count + 1
        if numbers[at] != entries or numbers[at + 1]:
            raise NotPlainError
        sizes, seeks = numbers[at + 2 : offsets_at], numbers[seeks_at : seeks_at + count]
        offsets = numbers[offsets_at:seeks_at]
        if offsets == known_offsets:
            offsets = known_offsets
        elif offsets[0] or offsets[-1] != entries or sorted(offsets) != list(offsets):
            raise NotPlainError
        for seek, size in zip(seeks, sizes, strict=True):
            if not 0 < seek <= seek + size <= file_bytes:  # at zero: it is in another file
                raise NotPlainError
        branches[name] = BranchLayout(place.dtype, place.counter, offsets, seeks, sizes)
        known_offsets, at = offsets, seeks_at + count
    return branches


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes, in order, each once."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def _unpacking(parts: list[_Part]) -> Struct:
    """What unpacks some parts, and passes over all else.

    Of a damaged tree, parts may overlap, or not be in order: the number of bytes to pass over is then negative, which
    `Struct` refuses with its own error, as it does where bytes are missing.
    """
    reached = 0
    formats = [">"]
    for at, kind, size in parts:
        formats.append(f"{at - reached}x{kind}")
        reached = at + size
    return Struct("".join(formats))
