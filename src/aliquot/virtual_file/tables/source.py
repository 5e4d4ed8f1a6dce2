from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from aliquot.errors import DataError, SourceChangedError, UsageError
from aliquot.job import Description
from aliquot.virtual_file.source import ByteRange, Source
from aliquot.virtual_file.tables.forms import concatenate
from aliquot.virtual_file.tables.looking import HowRead, Known, TablePlace, look, recall, remember, stat_of
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable

_MOST_OPEN = 2
_TYPICAL_BATCH_UNITS = 50_000
# A cut is moved to where a group of rows ends if so much of the step is left.
_LEAST_PART = 0.75
# What the kernel is asked for in advance, at most.
_AHEAD_BYTES = 64 << 20
_NO_BYTES = "rows of a table have no bytes of their own: use batches(), or a function of batches"


class RowsOf(NamedTuple):
    """The rows ``start`` up to ``stop`` of one table."""

    number: int  # of the table, in the order of the source
    place: TablePlace
    start: int
    stop: int


class TablesSource(Source):
    """The rows of one table after those of another, read by columns.

    A table is looked at when somebody wants to know where its rows are. Before a run, many workers may look at many
    tables: see `unknown` and `learn`. A table that cannot be read, or is not like the first, is one unit, which fails.
    """

    kind = "tables"

    def __init__(self, how: HowRead, places: Sequence[TablePlace], known: Sequence[Known] | None = None) -> None:
        if not places:
            raise UsageError("no files to read one after the other")
        self.how = how
        self.places = tuple(places)
        self._known: list[Known | None] = [*known] if known is not None else self._recalled()
        self._ends: list[int] = []  # among all units, of the tables up to the first that nobody has looked at
        self._model: tuple[TablePlace, Facts] | None = None  # the first that can be read
        self._open: dict[int, Table] = {}
        self._asked_to = 0
        self._settle()

    def _recalled(self) -> list[Known | None]:
        """What earlier processes found, where the files are still the same."""
        stats = [stat_of(place.path) for place in self.places]
        found = recall(self.how, self.places)
        remembered = [found.get(place) for place in self.places]
        return [
            known if known is not None and (known.size_bytes, known.mtime_ns) == stat else None
            for known, stat in zip(remembered, stats, strict=True)
        ]

    # How many units

    @property
    def known_units(self) -> int:
        """Of the tables up to the first that nobody has looked at."""
        return self._ends[-1] if self._ends else 0

    @property
    def complete(self) -> bool:
        """Whether all tables are known."""
        return len(self._ends) == len(self.places)

    def unknown(self) -> list[int]:
        """The numbers of the tables that nobody has looked at."""
        return [number for number, known in enumerate(self._known) if known is None]

    def learn(self, found: dict[int, Known]) -> None:
        """Take what somebody has found, and remember it."""
        for number, known in found.items():
            self._known[number] = known
        remember(self.how, {self.places[number]: known for number, known in found.items()})
        self._settle()

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Look at table after table, as far as needed; refuse tables of which not one can be read."""
        found: dict[int, Known] = {}
        units_before = self.known_units
        for number in range(len(self._ends), len(self.places)):
            if (units is not None and units_before >= units) or (stop is not None and stop.is_set()):
                break
            known = self._known[number] or look(self.how, self.places[number])
            found[number] = known
            units_before += known.facts.units
        if found:
            self.learn(found)
        if self.complete and self._model is None:
            place, problem = self.problems()[0]
            raise DataError(problem, path=place.path)

    def forget_index(self) -> None:
        """Look at all of them again."""
        self.learn({number: look(self.how, place) for number, place in enumerate(self.places)})

    def problems(self) -> list[tuple[TablePlace, str]]:
        """The tables that cannot be read, and why."""
        return [
            (place, known.facts.problem)
            for place, known in zip(self.places, self._known, strict=True)
            if known is not None and known.facts.problem
        ]

    def _settle(self) -> None:
        """Count on, up to the first table that nobody has looked at; compare each with the first."""
        for number in range(len(self._ends), len(self.places)):
            known = self._known[number]
            if known is None:
                return
            if not known.facts.problem:
                if self._model is None:
                    self._model = (self.places[number], known.facts)
                problem = _difference(known.facts, self._model)
                if problem:
                    known = self._known[number] = msgspec.structs.replace(known, facts=Facts(1, (1,), {}, problem))
            self._ends.append(self.known_units + known.facts.units)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, and their types."""
        self.advance(1)
        return {} if self._model is None else self._model[1].columns

    # Reading

    def parts(self, start: int, stop: int) -> list[RowsOf]:
        """The tables that hold some units, and which of their rows these are."""
        self.advance(stop)
        found = []
        number = bisect_right(self._ends, start)
        while start < stop and number < len(self._ends):
            first, end = self._first_of(number), min(stop, self._ends[number])
            if start < end:
                found.append(RowsOf(number, self.places[number], start - first, end - first))
                start = end
            number += 1
        if start < stop:
            raise DataError(
                f"have {self.known_units} units, and unit {stop - 1} was asked for",
                path=str(self),
                advice="Was the view described by hand, or for other files?",
            )
        return found

    def records_of(self, start: int, stop: int) -> Sequence[Any]:
        """A batch of the form that was asked for."""
        parts = [self._read(rows) for rows in self.parts(start, stop)]
        return concatenate(parts or [self._read_nothing()], self.how.form)  # type: ignore[no-any-return]  # any form

    def _read_nothing(self) -> Any:
        self.advance(1)
        readable = (number for number, known in enumerate(self._known) if known is not None and not known.facts.problem)
        number = next(readable, 0)
        return self._read(RowsOf(number, self.places[number], 0, 0))

    def _read(self, rows: RowsOf) -> Any:
        number, place, start, stop = rows
        first, facts = self._first_of(number), self._facts_of(number)
        if facts.problem:
            raise DataError(facts.problem, path=place.path, spoiled_units=(first, first + 1))
        try:
            batch = self._table(number).read(start, stop)
        except BadRows as fault:
            raise DataError(
                fault.problem,
                path=place.path,
                unit=fault.start,
                byte=fault.byte,
                advice=fault.advice,
                spoiled_units=(first + fault.start, first + fault.stop),
            ) from fault
        except UnreadableTable as fault:
            self._check_unchanged(number)
            raise DataError(fault.problem, path=place.path, byte=fault.byte, advice=fault.advice) from fault
        self._check_unchanged(number)
        return batch

    def by_unit(self) -> TablesSource:
        """Rows as dicts; of awkward arrays, their records."""
        if self.how.form in ("records", "awkward"):
            return self
        self.advance(None)
        known = [known for known in self._known if known is not None]
        return TablesSource(msgspec.structs.replace(self.how, form="records"), self.places, known)

    def typical_batch_units(self) -> int:
        """Some ten thousands."""
        return _TYPICAL_BATCH_UNITS

    def good_cut(self, start: int, stop: int) -> int:
        """Where a group of rows ends shortly before ``stop``, else there."""
        number = bisect_left(self._ends, stop)
        if number >= len(self._ends):
            return stop
        first, ends = self._first_of(number), self._facts_of(number).ends
        before = bisect_right(ends, stop - first) - 1
        cut = first + (ends[before] if before >= 0 else 0)
        return cut if cut - start >= _LEAST_PART * (stop - start) else stop

    def read_ahead(self, start: int, stop: int) -> None:
        """Ask the kernel for the bytes of units that will be read next: it reads them while something else is done."""
        start, stop = max(start, self._asked_to), min(stop, self.known_units)
        if start >= stop:
            return
        self._asked_to = stop
        left_bytes = _AHEAD_BYTES
        for rows in self.parts(start, stop):
            if self._facts_of(rows.number).problem:
                continue
            with open(rows.place.path, "rb") as file:
                for piece in self._table(rows.number).byte_ranges(rows.start, rows.stop):
                    os.posix_fadvise(file.fileno(), piece.start, piece.stop - piece.start, os.POSIX_FADV_WILLNEED)
                    left_bytes -= piece.stop - piece.start
                    if left_bytes <= 0:
                        return

    def _table(self, number: int) -> Table:
        """The table, opened by nobody else; the one that was used longest ago is closed."""
        table = self._open.pop(number, None)
        if table is None:
            self._check_unchanged(number)
            columns = self.how.columns
            if columns is None and self._model is not None:
                columns = tuple(self._model[1].columns)
            table = msgspec.structs.replace(self.how, columns=columns).table(self.places[number])
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
        self._open[number] = table
        return table

    def _check_unchanged(self, number: int) -> None:
        known, place = self._known[number], self.places[number]
        assert known is not None
        size_bytes, mtime_ns = stat_of(place.path)
        if (size_bytes, mtime_ns) != (known.size_bytes, known.mtime_ns):
            what = "was rewritten"
            if size_bytes != known.size_bytes:
                what = f"had {known.size_bytes} bytes and now has {size_bytes}"
            raise SourceChangedError(
                f"the file {what} since it was looked at", path=place.path, advice="Wait until it is complete"
            )

    def _first_of(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _facts_of(self, number: int) -> Facts:
        known = self._known[number]
        assert known is not None
        return known.facts

    # Bytes

    def header(self, units: int) -> bytes:
        """They have none."""
        raise UsageError(_NO_BYTES)

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """They have none."""
        raise UsageError(_NO_BYTES)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Of the columns that are read; the whole file where nobody can tell."""
        found: list[ByteRange] = []
        for rows in self.parts(start, stop):
            ranges: list[ByteRange] = []
            if not self._facts_of(rows.number).problem:
                try:
                    ranges = self._table(rows.number).byte_ranges(rows.start, rows.stop)
                except UnreadableTable as fault:
                    raise DataError(fault.problem, path=rows.place.path, byte=fault.byte) from fault
            found += ranges or [ByteRange(rows.place.path, 0, stat_of(rows.place.path)[0])]
        return found

    def paths(self) -> list[str]:
        """Each file once."""
        return list(dict.fromkeys(place.path for place in self.places))

    # Describing

    def to_desc(self, start: int, stop: int | None) -> Description:
        """All tables, and what is known of them, so that nobody need look again."""
        self.advance(None)
        return {
            "kind": self.kind,
            "how": msgspec.to_builtins(self.how),
            "places": msgspec.to_builtins(self.places),
            "known": msgspec.to_builtins(self._known),
        }

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild it; a file that has changed is noticed when it is read."""
        how = msgspec.convert(desc["how"], HowRead)
        places = msgspec.convert(desc["places"], tuple[TablePlace, ...])
        return cls(how, places, msgspec.convert(desc["known"], list[Known]))


def _difference(facts: Facts, model: tuple[TablePlace, Facts]) -> str:
    """Why a table cannot be read as the first one is, if it cannot."""
    place, expected = model
    for column, kind in expected.columns.items():
        if column not in facts.columns:
            return f"has no column {column!r}, which {place.path} has. Name the columns that you want with columns="
        if facts.columns[column] != kind:
            return (
                f"its column {column!r} is of type {facts.columns[column]}, and in {place.path} of type {kind}. "
                "Open it by itself, or as a dataset of its own"
            )
    return ""
