from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from threading import local
from typing import Any

from aliquot.virtual_file.tables.root_entries import (
    BROKEN,
    FLAT,
    KEPT_BYTES,
    NOT_THE_FILE,
    OTHERS,
    OVERLAP,
    check_flat,
    record_array,
)
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable, check_columns
from aliquot.virtual_file.tables.wording import one_line


class TreeEntries:
    """The wanted branches of a TTree."""

    def __init__(self, tree: Any, wanted: Sequence[str] | None, form: str) -> None:
        from uproot.interpretation.library import Awkward, NumPy

        self.units = int(tree.num_entries)
        self._numpy = NumPy()
        self._library = self._numpy if form in FLAT else Awkward()
        self._branches: dict[str, _Branch | _Group] = {}
        self._counters: dict[int, _Branch] = {}  # by the branch: one counts the entries of many
        self.types = {}
        for name, branch in _chosen_branches(tree, wanted):
            if form in FLAT:
                check_flat(name, _is_flat(branch.interpretation), form)
            self._branches[name] = self._made(name, branch)
            self.types[name] = str(branch.typename)
        self._leaves = [leaf for branch in self._branches.values() for leaf in branch.leaves()]

    def _made(self, name: str, branch: Any) -> _Branch | _Group:
        from uproot.interpretation.grouped import AsGrouped

        if isinstance(branch.interpretation, AsGrouped):
            return _Group({sub: self._made(f"{name}/{sub}", branch[sub]) for sub in branch.interpretation.subbranches})
        _check_readable(name, branch)
        made = _Branch(name, branch, self._numpy if _is_plain(branch.interpretation) else self._library, self._counter)
        if made.offsets[-1] != self.units:
            raise UnreadableTable(
                f"has {made.offsets[-1]:,} entries of column {name!r}, and {self.units:,} of the tree",
                advice="It cannot be read together with others: leave it out of 'columns'",
            )
        return made

    def ends(self) -> list[int]:
        """Where all wanted branches have baskets that end."""
        common: set[int] | None = None
        for offsets in {tuple(leaf.offsets) for leaf in self._leaves}:  # mostly all the same
            common = set(offsets) if common is None else common.intersection(offsets)
        return sorted(common - {0}) if common else []

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """From the baskets that hold them; the first bad one of all branches is told."""
        first: BadRows | None = None
        arrays = {}
        for name, branch in self._branches.items():
            try:
                arrays[name] = branch.array(start, stop)
            except BadRows as bad:
                first = bad if first is None or bad.start < first.start else first
        room_bytes = KEPT_BYTES
        for leaf in (*self._leaves, *self._counters.values()):
            room_bytes -= leaf.forget(stop, room_bytes)
        if first is not None:
            first.start, first.stop = max(start, first.start), min(stop, first.stop)
            raise first
        return arrays

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Of the baskets, also of those that only count."""
        for leaf in (*self._leaves, *self._counters.values()):
            yield from leaf.places(start, stop)

    def _counter(self, branch: Any) -> _Branch:
        for leaf in self._leaves:
            if leaf.branch is branch:
                return leaf
        if id(branch) not in self._counters:
            self._counters[id(branch)] = _Branch(branch.name, branch, self._numpy, self._counter)
        return self._counters[id(branch)]


class _Group:
    """A branch that is nothing but its branches."""

    def __init__(self, parts: dict[str, _Branch | _Group]) -> None:
        self._parts = parts

    def leaves(self) -> Iterator[_Branch]:
        for part in self._parts.values():
            yield from part.leaves()

    def array(self, start: int, stop: int) -> Any:
        return record_array({name: part.array(start, stop) for name, part in self._parts.items()}, stop - start)


class _Branch:
    """A branch whose baskets are decoded once, if they are asked for in order."""

    def __init__(self, name: str, branch: Any, library: Any, counter_of: Callable[[Any], _Branch]) -> None:
        self._name = name
        self.branch = branch
        self._counter_of = counter_of
        self._library = library
        self._interpretation = branch.interpretation
        # What uproot finds out about objects in the first basket, it uses for the others.
        self._context = {**branch.context, "forth": local()}
        self.offsets: list[int] = [int(offset) for offset in branch.entry_offsets]
        # Those after the last of these are within the tree itself.
        separate = len(self.offsets) - 1 - len(branch.embedded_baskets)
        self._seeks: list[int] = branch.member("fBasketSeek")[:separate].tolist()
        self._sizes: list[int] = branch.member("fBasketBytes")[:separate].tolist()
        self._decoded: dict[int, tuple[Any, int]] = {}  # with the bytes it takes

    def leaves(self) -> Iterator[_Branch]:
        yield self

    def array(self, start: int, stop: int) -> Any:
        baskets = self._baskets(start, stop)
        arrays = {at: self._basket(number) for at, number in enumerate(baskets)}
        try:
            return self._interpretation.final_array(
                arrays, start, stop, self.offsets[baskets.start : baskets.stop + 1], self._library, self.branch, {}
            )
        except NOT_THE_FILE:
            raise
        except Exception as error:
            # The baskets can be decoded, each by itself.
            byte = self._byte(baskets.start)
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
        for number in self._baskets(start, stop):
            if number < len(self._seeks):
                yield self._seeks[number], self._seeks[number] + self._sizes[number]

    def _baskets(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(bisect_right(self.offsets, start) - 1, bisect_left(self.offsets, stop))

    def _basket(self, number: int) -> Any:
        kept = self._decoded.get(number)
        if kept is not None:
            return kept[0]
        try:
            basket = self.branch.basket(number)
            array = self._interpretation.basket_array(
                basket.data,
                self._byte_offsets(basket, number),
                basket,
                self.branch,
                self._context,
                basket.member("fKeylen"),
                self._library,
                {},
            )
            expected = self.offsets[number + 1] - self.offsets[number]
            if len(array) != expected:
                raise ValueError(f"{len(array)} entries instead of {expected}")  # noqa: TRY301  # as uproot's own
            _check_offsets(array)
        except NOT_THE_FILE:
            raise
        except BadRows as bad:  # of its counter: without it, all of the basket is lost
            start, stop = self.offsets[number], self.offsets[number + 1]
            raise BadRows(bad.problem, start, stop, bad.byte, bad.advice, is_certain=bad.is_certain) from bad
        except Exception as error:
            self._decoded.clear()
            start, stop = self.offsets[number], self.offsets[number + 1]
            raise BadRows(self._cannot(error), start, stop, self._byte(number), BROKEN) from error
        self._decoded[number] = (array, basket.uncompressed_bytes)
        return array

    def _byte_offsets(self, basket: Any, number: int) -> Any:
        """Where its entries begin, which it may leave to its counter, whose baskets may end elsewhere."""
        import numpy
        from uproot.interpretation.jagged import AsJagged

        given, counting = basket.byte_offsets, self.branch.count_branch
        if given is not None or counting is None or not isinstance(self._interpretation, AsJagged):
            return given
        counts = self._counter_of(counting).array(self.offsets[number], self.offsets[number + 1])
        offsets = numpy.zeros(len(counts) + 1, numpy.int64)
        numpy.cumsum(counts, out=offsets[1:])
        return offsets * self._interpretation.content.from_dtype.itemsize

    def _cannot(self, error: Exception) -> str:
        return f"has a basket of column {self._name!r} that cannot be decoded ({one_line(error)})"

    def _byte(self, number: int) -> int | None:
        return self._seeks[number] if number < len(self._seeks) else None


def _chosen_branches(tree: Any, wanted: Sequence[str] | None) -> list[tuple[str, Any]]:
    """The wanted branches by name; all that can be read by default, by their short names where these are unique."""
    if wanted is not None:
        within = tree.keys(recursive=True)
        known = set(within)
        short = [name for name in wanted if name not in known and tree.get(name) is not None]
        return [(name, tree[name]) for name in check_columns(wanted, [*within, *short])]
    from uproot.interpretation.grouped import AsGrouped
    from uproot.interpretation.identify import UnknownInterpretation

    every = [
        (path, branch)
        for path, branch in tree.iteritems(recursive=True)
        if not isinstance(branch.interpretation, AsGrouped | UnknownInterpretation)
    ]
    times: dict[str, int] = {}
    for _, branch in every:
        times[branch.name] = times.get(branch.name, 0) + 1
    return [(branch.name if times[branch.name] == 1 else path, branch) for path, branch in every]


def _check_readable(name: str, branch: Any) -> None:
    from uproot.interpretation.identify import UnknownInterpretation
    from uproot.interpretation.objects import AsObjects, CannotBeAwkward

    interpretation = branch.interpretation
    why = ""
    if isinstance(interpretation, UnknownInterpretation):
        why = "uproot does not know its type"
    elif isinstance(interpretation, AsObjects):
        try:
            interpretation.awkward_form(branch.file)
        except CannotBeAwkward as error:
            why = f"its objects do not fit into arrays: {one_line(error)}"
    if why:
        raise UnreadableTable(f"has a column {name!r} that cannot be read ({why})", advice=OTHERS)


def _is_plain(interpretation: Any) -> bool:
    """Whether it is a number for each entry."""
    from uproot.interpretation.numerical import AsDtype

    if type(interpretation) is not AsDtype:
        return False
    return interpretation.to_dtype.names is None and interpretation.to_dtype.shape == ()


def _is_flat(interpretation: Any) -> bool:
    from uproot.interpretation.numerical import Numerical
    from uproot.interpretation.strings import AsStrings

    return isinstance(interpretation, Numerical | AsStrings)


def _check_offsets(array: Any) -> None:
    """Refuse entries that would reach beyond their basket: awkward believes what it is given."""
    from uproot.interpretation.jagged import JaggedArray

    if isinstance(array, JaggedArray):
        offsets = array.offsets
        if len(offsets) and (offsets[0] < 0 or offsets[-1] > len(array.content) or (offsets[1:] < offsets[:-1]).any()):
            raise ValueError(OVERLAP)
