"""What the readers of trees and of RNTuples share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from aliquot.errors import UsageError

KEPT_BYTES = 32 * 1024 * 1024  # of decoded rows that were not asked for yet
FLAT = ("numpy", "pandas")
NOT_THE_FILE = (MemoryError, ImportError, NotImplementedError)
OVERLAP = "the entries overlap"
BROKEN = "Is the file damaged? Get it again from where it came, or read other columns"
OTHERS = "Name the columns to read: columns=[...]"


class Entries(Protocol):
    """The wanted columns of a tree."""

    units: int
    types: dict[str, str]

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
    for number, offsets in enumerate(set(map(tuple, offsets_of_each))):  # mostly all the same
        common = common.intersection(offsets) if number else set(offsets)
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
