"""Baskets as no library writes them, but files may have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("uproot")
pytest.importorskip("awkward")

import numpy

from aliquot.virtual_file.tables.root import plain
from aliquot.virtual_file.tables.root.layout import BranchLayout, TreeLayout
from aliquot.virtual_file.tables.root.plain import Basket, PlainEntries
from aliquot.virtual_file.tables.table import BadRows

KEY_BYTES = 70


def lists(numbers: Sequence[int], begins: Sequence[int]) -> Basket:
    """Numbers of four bytes, and where each entry begins among them; the last number of the basket says nothing."""
    content = numpy.array(numbers, ">i4")
    told = numpy.array([*(KEY_BYTES + 4 * begin for begin in begins), 0], ">i4")
    return Basket(content, told, KEY_BYTES, content.nbytes, content.nbytes)


def without_begins(numbers: Sequence[int], dtype: str = ">i4") -> Basket:
    content = numpy.array(numbers, dtype)
    return Basket(content, None, KEY_BYTES, content.nbytes, content.nbytes)


@pytest.fixture
def entries_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tree of branches ``name: (counter, offsets, baskets)``, whose baskets may raise."""

    def made(dtype: str = ">i4", **branches: tuple[str | None, tuple[int, ...], list[Any]]) -> PlainEntries:
        baskets: list[Any] = []
        layouts = {}
        for name, (counter, offsets, held) in branches.items():
            seeks = tuple(range(len(baskets), len(baskets) + len(held)))
            kind = ">i4" if counter else dtype
            layouts[name] = BranchLayout(kind, counter, offsets, seeks, (0,) * len(held))
            baskets += held

        def read_basket(file: int, seek: int, *more: Any) -> Basket:
            found = baskets[seek]
            if isinstance(found, list):  # one after the other
                found = found.pop(0)
            if isinstance(found, BaseException):
                raise found
            assert isinstance(found, Basket)
            return found

        monkeypatch.setattr(plain, "read_basket", read_basket)
        layout = TreeLayout(max(layout.offsets[-1] for layout in layouts.values()), layouts)
        return PlainEntries(-1, layout, [name for name in layouts if name != "n"], "awkward")

    return made


def read(entries: PlainEntries, start: int, stop: int, name: str = "x") -> Any:
    return entries.columns(start, stop)[name].array().to_list()


def test_what_was_not_checked_is_not_used_after_an_error(entries_of: Any) -> None:
    """As where memory ran out in the next column, and the step is done again with half of its entries."""
    overlapping = lists([0, 1, 2, 3], [0, 1, 3, 2])
    good = lists([0, 1, 2, 3], [0, 1, 2, 3])
    entries = entries_of(x=("n", (0, 4), [overlapping]), y=("n", (0, 4), [[MemoryError(), good]]))
    with pytest.raises(MemoryError):
        entries.columns(0, 4)
    with pytest.raises(BadRows) as caught:
        entries.columns(0, 2)
    assert (caught.value.start, caught.value.stop) == (0, 4)


def test_a_basket_without_entries_is_nothing(entries_of: Any) -> None:
    """Also if it has numbers, which are nobody's."""
    baskets = [lists([0, 1, 2, 3], [0, 1, 3]), lists([8, 9], []), lists([4, 5], [0, 2])]
    entries = entries_of(x=("n", (0, 3, 3, 5), baskets))
    expected = [[0], [1, 2], [3], [4, 5], []]
    assert read(entries, 0, 5) == expected
    assert read(entries, 2, 4) == expected[2:4]


@pytest.mark.parametrize(
    "counts", [[1, 2, 2], [3, -1, 1], [2**30, 1 - 2**30, 1], [2**62, 2**62, 2**62], [-1, 1, 1]], ids=str
)
@pytest.mark.parametrize("stop", [2, 3])
def test_counters_that_do_not_fit_are_noticed(entries_of: Any, counts: list[int], stop: int) -> None:
    """Whether all of the basket is wanted, or a part."""
    counter = without_begins(counts, ">i8")
    entries = entries_of(">i8", x=("n", (0, 3), [without_begins([7, 8, 9])]), n=(None, (0, 3), [counter]))
    with pytest.raises(BadRows) as caught:
        read(entries, 0, stop)
    assert (caught.value.start, caught.value.stop) == (0, 3)


def test_baskets_may_be_counted_from_different_places(entries_of: Any) -> None:
    """As before and behind two gigabytes of a file, where keys are longer."""
    begins = numpy.array([KEY_BYTES + 8, KEY_BYTES + 16, 0], ">i4")
    far = lists([4, 5], [0, 2])._replace(begins=begins, origin=KEY_BYTES + 8)
    entries = entries_of(x=("n", (0, 2, 4), [lists([0, 1, 2], [0, 1]), far]))
    assert read(entries, 0, 4) == [[0], [1, 2], [4, 5], []]
    assert read(entries, 1, 3) == [[1, 2], [4, 5]]
