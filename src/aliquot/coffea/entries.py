from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import msgspec

from aliquot.coffea.counting import CountedTree
from aliquot.errors import DataError
from aliquot.job import Description
from aliquot.virtual_file.source import ByteRange, Source
from aliquot.virtual_file.tables.looking import stat_of
from aliquot.virtual_file.tables.rows_in_order import RowsInOrder


class EntriesOf(NamedTuple):
    """Some entries of one tree."""

    number: int  # of its file, in the fileset
    tree: CountedTree
    first_unit: int  # that of the tree's first entry
    start: int
    stop: int

    def __str__(self) -> str:
        return f"the entries {self.start} to {self.stop - 1} of {self.tree.path}"


class Entries(Sequence[str]):
    """Some units: which entries of which trees they are. Nothing of them has been read."""

    def __init__(self, units: int, parts: list[EntriesOf]) -> None:
        self._units = units
        self.parts = parts

    def __len__(self) -> int:
        return self._units

    def __getitem__(self, where: Any) -> Any:
        """Tell which one it is, for those who read about a failure."""
        at = range(self._units)[where]
        for part in self.parts:
            units = max(1, part.stop - part.start)
            if at < units:
                return f"entry {part.start + at} of {part.tree.name} in {part.tree.path}"
            at -= units
        raise IndexError(where)


class EntriesSource(RowsInOrder, Source):
    """The entries of trees, one after the other. A tree without entries, or that cannot be read, is one unit."""

    kind = "coffea entries"
    _no_bytes = "entries of ROOT files have no bytes of their own: they cannot be written to a file"

    def __init__(self, trees: Sequence[CountedTree]) -> None:
        self._trees = tuple(trees)
        self._ends = list(accumulate(max(1, tree.entries) for tree in self._trees))

    @property
    def complete(self) -> bool:
        """Always: they were counted before."""
        return True

    def records_of(self, start: int, stop: int) -> Entries:
        """Which entries they are: reading them is left to coffea, which reads only what is used."""
        parts = []
        for number, begin, end in self.parts(start, stop):
            tree, first = self._trees[number], self._first_of(number)
            if tree.known.facts.problem:
                raise DataError(tree.known.facts.problem, path=tree.path, spoiled_units=(first, first + 1))
            parts.append(EntriesOf(number, tree, first, begin, min(end, tree.entries)))
        return Entries(stop - start, parts)

    def _group_ends(self, number: int) -> Sequence[int]:
        return self._trees[number].known.facts.ends

    def typical_batch_units(self) -> int:
        """As many as Runner takes by default."""
        return 100_000

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Whole files: which columns will be read, nobody knows."""
        trees = (self._trees[part.number] for part in self.parts(start, stop))
        return [ByteRange(tree.path, 0, stat_of(tree.path)[0]) for tree in trees if tree.is_local]

    def reading(self) -> Any:
        """Which tree of each file."""
        return [tree.name for tree in self._trees]

    def paths(self) -> list[str]:
        """Each file once, but for those that are far away."""
        return list(dict.fromkeys(os.path.abspath(tree.path) for tree in self._trees if tree.is_local))

    def to_desc(self, start: int, stop: int | None) -> Description:
        """All trees, and what is known of them."""
        return {"kind": self.kind, "trees": msgspec.to_builtins(self._trees)}

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild it; a file that has changed is noticed when it is read."""
        return cls(msgspec.convert(desc["trees"], list[CountedTree]))
