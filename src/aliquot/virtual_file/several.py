"""Several files: one after the other as one stream of units, or side by side, cut at the same units."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Self

from aliquot.errors import DataError, Malformed, MissingExtraError, UsageError
from aliquot.job import Description
from aliquot.virtual_file.file_source import FileSource
from aliquot.virtual_file.source import SEVERAL_SOURCES, ByteRange, RowRange, Source, concatenate


class FilesInOrder(Source):
    """The units of one file after those of another. A file is counted only when its units are wanted.

    ``first`` is how many units come before these files, where only some of a longer list are here.
    """

    kind = "files"

    def __init__(self, files: Sequence[FileSource], first: int = 0) -> None:
        if not files:
            raise UsageError("no files to read one after the other")
        self._files = tuple(files)
        self._first = first
        # Where the first files end among all units: those up to the first that is not complete.
        self._complete_ends: list[int] = []
        model = self._files[0]
        for file in self._files[1:]:
            if file.format != model.format:
                raise UsageError(
                    f"{model} is {model.format.name} and {file} is {file.format.name}: "
                    "files that are one stream of units have one format"
                )
            if file.header(0) != model.header(0):
                raise DataError(
                    f"the header differs from that of {model}",
                    path=file.storage.path,
                    byte=0,
                    advice="Files that are one stream of units need the same header; open them one by one",
                )

    @property
    def first_unit(self) -> int:
        """The first one that is here."""
        return self._first

    @property
    def known_units(self) -> int:
        """Of all files up to and with the first that is not complete."""
        return self._ends()[-1]

    @property
    def complete(self) -> bool:
        """Whether every file is."""
        return len(self._ends()) == len(self._files) and self._files[-1].complete

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Count file after file, as far as needed."""
        before = self._first
        for file in self._files:
            if units is not None and before >= units:
                return
            file.advance(None if units is None else units - before, stop)
            if not file.complete:
                return
            before += file.known_units

    @property
    def can_be_counted_meanwhile(self) -> bool:
        """Whether every file can."""
        return all(file.can_be_counted_meanwhile for file in self._files)

    def share_index(self) -> None:
        """Of every file that is not done with; those that are complete have been saved."""
        for file in self._files:
            if not file.complete:
                file.share_index()
                return

    def expect_bad_units(self) -> None:
        """In any of them."""
        for file in self._files:
            file.expect_bad_units()

    def expected_units(self) -> int:
        """As if the files that nobody has counted yet were like those that somebody has."""
        begun = [file for file in self._files[: len(self._ends())] if file.known_units]
        found = sum(file.expected_units() for file in begun)
        all_bytes, begun_bytes = (
            sum(file.storage.identity.size_bytes for file in files) for files in (self._files, begun)
        )
        return self._first + round(found * all_bytes / max(1, begun_bytes))

    def forget_index(self) -> None:
        """Of every file."""
        for file in self._files:
            file.forget_index()

    def records_of(self, start: int, stop: int) -> Sequence[Any]:
        """The records of each file, put together."""
        parts = [file.records_of(begin, end) for file, begin, end in self._parts(start, stop)]
        return concatenate(parts or [self._files[0].records_of(0, 0)])

    def batches(self, start: int, stop: int, units: int) -> Iterator[Sequence[Any]]:
        """As each file gives them, but for batches that cross files."""
        at = start
        while at < stop:
            file, begin, end = self._parts(at, stop)[0]
            whole = (end - begin) // units * units
            if whole:
                yield from file.batches(begin, begin + whole, units)
                at += whole
            else:
                yield self.records_of(at, min(at + units, stop))
                at += units

    def typical_batch_units(self) -> int:
        """As in the first file that has units."""
        for file in self._files:
            file.advance(1)
            if file.known_units:
                return file.typical_batch_units()
        return 1

    def header(self, units: int) -> bytes:
        """All files have the same."""
        return self._files[0].header(units)

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """File after file; a last unit without its end gets one where another file follows."""
        parts = self._parts(start, stop)
        for number, (file, begin, end) in enumerate(parts):
            yield from file.body_pieces(begin, end)
            if number + 1 < len(parts) and file.ends_without_terminator(end):
                yield file.terminator

    def raw_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """File after file."""
        for file, begin, end in self._parts(start, stop):
            yield from file.raw_pieces(begin, end)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """One range for each file that is touched."""
        return [found for file, begin, end in self._parts(start, stop) for found in file.byte_ranges(begin, end)]

    def reading(self) -> Any:
        """As the first one: all are read alike."""
        return self._files[0].reading()

    def paths(self) -> list[str]:
        """Of every file."""
        return [path for file in self._files for path in file.paths()]

    def check_same(self, records: tuple[Any, ...]) -> None:
        """As their format says."""
        self._files[0].check_same(records)

    def check_ends(self, start: int, stop: int) -> None:
        """Of each file."""
        for file, begin, end in self._parts(start, stop):
            file.check_ends(begin, end)

    def covering(self, other: Source) -> Source | None:
        """Put two parts of a list of files together again where they touch."""
        if self is other or self == other:
            return self
        if not isinstance(other, FilesInOrder):
            return None
        earlier, later = sorted((self, other), key=lambda source: source._first)
        earlier.advance(None)
        begins = [earlier._first, *earlier._ends()]
        for number, begin in enumerate(begins):
            shared = min(len(earlier._files) - number, len(later._files))
            if begin == later._first and earlier._files[number : number + shared] == later._files[:shared]:
                return FilesInOrder(earlier._files + later._files[shared:], earlier._first)
        return None

    def to_desc(self, start: int, stop: int | None) -> Description:
        """Describe the files that hold these units, and how many units come before them."""
        self.advance(max(start + 1, stop or 0))
        ends = self._ends()
        number = min(bisect_right(ends, start), len(self._files) - 1)
        last = len(self._files) - 1 if stop is None else max(number, bisect_left(ends, stop))
        before = ends[number - 1] if number else self._first
        described = [file.to_desc(0, None) for file in self._files[number : last + 1]]
        return {"kind": self.kind, "first": before, "files": described}

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Open the files again."""
        return cls([FileSource.from_desc(file) for file in desc["files"]], desc["first"])

    def _ends(self) -> list[int]:
        """Where the files end among all units, up to and with the first that is not complete."""
        ends = self._complete_ends
        while len(ends) < len(self._files):
            file = self._files[len(ends)]
            longer = [*ends, (ends[-1] if ends else self._first) + file.known_units]
            if not file.complete:
                return longer
            self._complete_ends = ends = longer
        return ends

    def _parts(self, start: int, stop: int) -> list[tuple[FileSource, int, int]]:
        """The files that hold some units, and which of their units these are."""
        self.advance(stop)
        ends = self._ends()
        parts = []
        number = bisect_right(ends, start)
        while start < stop and number < len(ends):
            before = ends[number - 1] if number else self._first
            end = min(stop, ends[number])
            if start < end:
                parts.append((self._files[number], start - before, end - before))
                start = end
            number += 1
        if start < stop:
            raise DataError(
                f"have {self.known_units} units, and unit {stop - 1} was asked for",
                path=str(self),
                advice="Was the view described by hand, or for other files?",
            )
        return parts


class FilesTogether(Source):
    """Several sources with as many units each, such as paired reads. A record is a tuple of their records."""

    kind = "together"

    def __init__(self, sources: Sequence[Source], same_names: bool = True) -> None:
        if len(sources) < 2:
            raise UsageError("together() takes at least two sources")
        self._sources = tuple(sources)
        self._same_names = same_names
        self._agreed = False

    @property
    def known_units(self) -> int:
        """Of the one that is known least."""
        return min(source.known_units for source in self._sources)

    @property
    def complete(self) -> bool:
        """Whether all are, and agree."""
        return self._agreed

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Count all of them; refuse them where one ends before another."""
        for source in self._sources:
            source.advance(units, stop)
        ended = [source for source in self._sources if source.complete]
        if not ended:
            return
        fewest = min(ended, key=lambda source: source.known_units)
        if units is not None and units <= fewest.known_units and len(ended) < len(self._sources):
            return  # the end of the others is not asked for
        for source in self._sources:
            source.advance(fewest.known_units + 1, stop)
        # One that was not complete before may turn out to be even shorter.
        fewest = min((source for source in self._sources if source.complete), key=lambda source: source.known_units)
        longest = max(self._sources, key=lambda source: source.known_units)
        if longest.known_units > fewest.known_units:
            raise DataError(
                f"has no unit that belongs to unit {fewest.known_units} of {longest}: "
                f"it ends after {fewest.known_units} units, and the other one goes on",
                path=str(fewest),
                unit=fewest.known_units,
                advice="Files that are cut at the same units need equally many",
            )
        self._agreed = all(source.complete for source in self._sources)

    @property
    def can_be_counted_meanwhile(self) -> bool:
        """Whether all can."""
        return all(source.can_be_counted_meanwhile for source in self._sources)

    def share_index(self) -> None:
        """Of every source."""
        for source in self._sources:
            source.share_index()

    def expected_units(self) -> int:
        """Of the one with the fewest."""
        return min(source.expected_units() for source in self._sources)

    def forget_index(self) -> None:
        """Of every source."""
        for source in self._sources:
            source.forget_index()

    def records_of(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        """Tuples, checked to belong together where the format knows how."""
        columns = [source.by_unit().records_of(start, stop) for source in self._sources]
        rows = list(zip(*columns, strict=True))
        if self._same_names:
            for number, row in enumerate(rows):
                try:
                    self._sources[0].check_same(row)
                except Malformed as fault:
                    raise DataError(
                        fault.problem,
                        path=", ".join(map(str, self._sources)),
                        unit=start + number,
                        advice=fault.advice,
                    ) from fault
        return rows

    def typical_batch_units(self) -> int:
        """As many as the one with the largest units takes."""
        return min(source.typical_batch_units() for source in self._sources)

    def header(self, units: int) -> bytes:
        """Each has its own."""
        raise UsageError(SEVERAL_SOURCES)

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Each has its own."""
        raise UsageError(SEVERAL_SOURCES)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Of all of them, in order."""
        return [found for source in self._sources for found in source.byte_ranges(start, stop)]

    def row_ranges(self, start: int, stop: int) -> list[RowRange]:
        """Of all of them, in order."""
        return [found for source in self._sources for found in source.row_ranges(start, stop)]

    def paths(self) -> list[str]:
        """Of every source."""
        return [path for source in self._sources for path in source.paths()]

    def covering(self, other: Source) -> Source | None:
        """Where each of them covers its counterpart."""
        if not isinstance(other, FilesTogether) or len(other._sources) != len(self._sources):
            return None
        covered = []
        for mine, theirs in zip(self._sources, other._sources, strict=True):
            both = mine.covering(theirs)
            if both is None:
                return None
            covered.append(both)
        same = all(both is mine for both, mine in zip(covered, self._sources, strict=True))
        return self if same else FilesTogether(covered, self._same_names)

    def check_ends(self, start: int, stop: int) -> None:
        """The first and the last records belong together."""
        for source in self._sources:
            source.check_ends(start, stop)
        with contextlib.suppress(MissingExtraError):
            for unit in {start, stop - 1} if start < stop else ():
                self.records_of(unit, unit + 1)

    def members(self) -> tuple[Source, ...]:
        """The sources that are cut at the same units."""
        return self._sources

    def constituents(self) -> tuple[Source, ...]:
        """Those of all of them."""
        return tuple(part for source in self._sources for part in source.constituents())

    def to_desc(self, start: int, stop: int | None) -> Description:
        """Describe each source."""
        return {
            "kind": self.kind,
            "sources": [source.to_desc(start, stop) for source in self._sources],
            "same_names": self._same_names,
        }

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild each source."""
        return cls([Source.any_from_desc(source) for source in desc["sources"]], desc["same_names"])
