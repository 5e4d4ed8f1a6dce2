"""Several datasets, each with a name, as one stream of units: one run over all of them tells them apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Self

from aliquot.errors import DataError, UsageError
from aliquot.job import Description
from aliquot.virtual_file.source import ByteRange, RowRange, Source
from aliquot.virtual_file.virtual_file import VirtualFile


class Parts(Sequence[Any]):
    """Records of neighbouring units, as a batch for each dataset that they are of: ``parts`` has its name and those."""

    __slots__ = ("_units", "parts")

    def __init__(self, parts: Sequence[tuple[Any, Sequence[Any]]]) -> None:
        self.parts = tuple(parts)
        self._units = sum(len(batch) for _, batch in parts)

    def __len__(self) -> int:
        return self._units

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, slice):
            return [self[number] for number in range(*where.indices(len(self)))]
        number = where + len(self) if where < 0 else where
        for _, batch in self.parts:
            if 0 <= number < len(batch):
                return batch[number]
            number -= len(batch)
        raise IndexError(f"there is no record {where}: there are {len(self)}")


class Datasets(Source):
    """The units of one dataset after those of another. A batch is `Parts`."""

    kind = "datasets"

    def __init__(self, views: Mapping[Any, VirtualFile]) -> None:
        if not views:
            raise UsageError("there are no datasets: give a dict that has a source for each name")
        for name, view in views.items():
            if not len(view):
                raise UsageError(
                    f"the dataset {name!r} has no units, and so there is no value for it: leave it out ({view!r})"
                )
        self._views = dict(views)
        self._names = tuple(self._views)
        self._ends = list(accumulate(len(view) for view in self._views.values()))

    @property
    def units_by_name(self) -> dict[Any, int]:
        """How many units each dataset has."""
        return {name: len(view) for name, view in self._views.items()}

    @property
    def known_units(self) -> int:
        """All of them."""
        return self._ends[-1]

    @property
    def complete(self) -> bool:
        """Always: they were counted."""
        return True

    def forget_index(self) -> None:
        """Of every dataset."""
        for view in self._views.values():
            view.source.forget_index()

    def records_of(self, start: int, stop: int) -> Parts:
        """Those of each dataset by themselves."""
        return Parts([self._batch(*part) for part in self._parts(start, stop)])

    def _batch(self, name: Any, view: VirtualFile, begin: int, end: int) -> tuple[Any, Sequence[Any]]:
        try:
            return name, view.source.records_of(begin, end)
        except DataError as error:
            spoiled = getattr(error, "spoiled_units", None)
            if spoiled is not None:
                # Numbered as here, and not beyond this dataset.
                before = self._ends[self._names.index(name)] - view.stop
                first, last = max(spoiled[0], view.start), min(spoiled[1], view.stop)
                error.spoiled_units = (before + first, before + last)
            raise

    def by_unit(self) -> Source:
        """With records that can be taken one by one, in each dataset."""
        views = {name: view.by_unit() for name, view in self._views.items()}
        return self if all(views[name] is view for name, view in self._views.items()) else Datasets(views)

    def good_cut(self, start: int, stop: int) -> int:
        """As the dataset says that a step ends in."""
        _, view, begin, end = self._parts(start, stop)[-1]
        cut: int = view.source.good_cut(begin, end)
        return stop - (end - cut)

    def read_ahead(self, start: int, stop: int) -> None:
        """In each dataset."""
        for _, view, begin, end in self._parts(start, stop):
            view.source.read_ahead(begin, end)

    def constituents(self) -> tuple[Source, ...]:
        """Those of all datasets."""
        return tuple(part for view in self._views.values() for part in view.source.constituents())

    def typical_batch_units(self) -> int:
        """As many as the one with the largest units takes."""
        units: int = min(view.source.typical_batch_units() for view in self._views.values())
        return units

    def header(self, units: int) -> bytes:
        """Where all have the same."""
        headers: dict[Any, bytes] = {name: view.source.header(units) for name, view in self._views.items()}
        first = next(iter(headers))
        for name, header in headers.items():
            if header != headers[first]:
                raise UsageError(
                    f"the files of the datasets {first!r} and {name!r} begin differently: units of both cannot be "
                    "written to one file"
                )
        return headers[first]

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Dataset after dataset."""
        for _, view, begin, end in self._parts(start, stop):
            yield from view.source.body_pieces(begin, end)

    def raw_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Dataset after dataset."""
        for _, view, begin, end in self._parts(start, stop):
            yield from view.source.raw_pieces(begin, end)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Those of each dataset that is touched."""
        parts = self._parts(start, stop)
        return [found for _, view, begin, end in parts for found in view.source.byte_ranges(begin, end)]

    def row_ranges(self, start: int, stop: int) -> list[RowRange]:
        """Those of each dataset that is touched."""
        parts = self._parts(start, stop)
        return [found for _, view, begin, end in parts for found in view.source.row_ranges(begin, end)]

    def paths(self) -> list[str]:
        """Of every dataset."""
        return [path for view in self._views.values() for path in view.source.paths()]

    def to_desc(self, start: int, stop: int | None) -> Description:
        """Describe the view of each dataset."""
        return {"kind": self.kind, "datasets": [[name, view.to_desc()] for name, view in self._views.items()]}

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild each view."""
        return cls({name: VirtualFile.from_desc(view) for name, view in desc["datasets"]})

    def _parts(self, start: int, stop: int) -> list[tuple[Any, VirtualFile, int, int]]:
        """The datasets that hold some units, and which of the units of their sources these are."""
        parts = []
        number = bisect_right(self._ends, start)
        while start < stop and number < len(self._ends):
            name, end = self._names[number], min(stop, self._ends[number])
            view = self._views[name]
            # Where unit 0 of its source would be.
            origin = self._ends[number] - view.stop
            parts.append((name, view, start - origin, end - origin))
            start, number = end, number + 1
        return parts


def open_datasets(told: Mapping[Any, Any]) -> dict[Any, VirtualFile]:
    """The views of named datasets; each is a view already, or anything that `aliquot.open` opens."""
    from aliquot.virtual_file.opening import open

    views = {}
    for name, source in told.items():
        if not isinstance(name, str | int | float | None) or name != name:  # noqa: PLR0124  # as nan is not
            raise UsageError(f"{name!r:.200} is not the name of a dataset: text or a number is")
        try:
            views[name] = source if isinstance(source, VirtualFile) else open(source)
        except UsageError as error:
            error.add_note(f"aliquot: this is about the dataset {name!r}")
            raise
    return views
