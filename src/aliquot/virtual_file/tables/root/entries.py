"""What the readers of trees and of RNTuples share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from aliquot.errors import UsageError
from aliquot.virtual_file.tables.table import BadRows
from aliquot.virtual_file.tables.wording import one_line

KEPT_BYTES = 32 * 1024 * 1024  # of decoded rows that were not asked for yet
FLAT = ("numpy", "pandas")
NOT_THE_FILE = (MemoryError, ImportError, NotImplementedError)
OVERLAP = "the entries overlap"
BROKEN = "Is the file damaged? Get it again from where it came, or read other columns"
OTHERS = "Name the columns to read: columns=[...]"


class Baskets(Protocol):
    """Of a branch: where they are. Those after the last of ``seeks`` are within the tree itself."""

    @property
    def offsets(self) -> Sequence[int]:
        """The first entry of each, and the end of the last."""

    @property
    def seeks(self) -> Sequence[int]:
        """The bytes they begin with."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many bytes each has."""


def baskets_of(branch: Baskets, start: int, stop: int) -> range:
    """The numbers of those that hold some entries."""
    if start >= stop:
        return range(0)
    return range(bisect_right(branch.offsets, start) - 1, bisect_left(branch.offsets, stop))


def places_of(branch: Baskets, start: int, stop: int) -> list[tuple[int, int]]:
    """The bytes of those that hold some entries."""
    numbers = [number for number in baskets_of(branch, start, stop) if number < len(branch.seeks)]
    return [(branch.seeks[number], branch.seeks[number] + branch.sizes[number]) for number in numbers]


def bad_basket(name: str, error: Exception, branch: Baskets, number: int) -> BadRows:
    """All of its entries are lost."""
    start, stop = branch.offsets[number : number + 2]
    return BadRows(cannot_decode(name, error), start, stop, first_byte(branch, number), BROKEN)


def badly_counted(bad: BadRows, branch: Baskets, number: int) -> BadRows:
    """Without what counts them, all entries of a basket are lost."""
    start, stop = branch.offsets[number : number + 2]
    return BadRows(bad.problem, start, stop, bad.byte, bad.advice, is_certain=bad.is_certain)


def first_byte(branch: Baskets, number: int) -> int | None:
    """Of a basket, if it has a place of its own."""
    return branch.seeks[number] if number < len(branch.seeks) else None


def cannot_decode(name: str, error: Exception) -> str:
    """In words."""
    return f"has a basket of column {name!r} that cannot be decoded ({one_line(error)})"


class Entries(Protocol):
    """The wanted columns of a tree."""

    units: int

    @property
    def types(self) -> dict[str, str]:
        """What they hold, as uproot says it."""

    def ends(self) -> list[int]:
        """Where it costs nothing to cut."""

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """An array for each column: numpy's for the flat forms; for the others awkward's, or numpy's with one axis.

        Of plain trees, the pieces of which such an array is made.
        """

    def places(self, start: int, stop: int) -> Iterable[tuple[int, int]]:
        """The bytes of these entries, in any order."""


def check_flat(name: str, flat: bool, form: str) -> None:
    """Refuse lists where a form has no place for them."""
    if form in FLAT and not flat:
        raise UsageError(
            f"column {name!r} has no fixed number of values in each entry, and as_={form!r} has no place for them: "
            "open with as_='awkward', or name other columns"
        )


def common_ends(offsets_of_each: Iterable[Sequence[int]]) -> list[int]:
    """Where all branches have baskets that end, by the first entries of their baskets."""
    common: set[int] = set()
    seen: Sequence[int] | None = None
    for offsets in offsets_of_each:
        if offsets != seen:  # mostly all are the same
            common = set(offsets) if seen is None else common.intersection(offsets)
            seen = offsets
    return sorted(common - {0})


def record_array(columns: Mapping[str, Any], units: int) -> Any:
    """The columns side by side, as an awkward array."""
    import awkward

    # Much cheaper than to let awkward find out what they are.
    layouts = [
        array.layout if isinstance(array, awkward.Array) else awkward.contents.NumpyArray(array)
        for array in columns.values()
    ]
    return awkward.Array(awkward.contents.RecordArray(layouts, list(columns), length=units))
