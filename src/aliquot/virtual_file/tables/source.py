from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from aliquot.errors import DataError, SourceChangedError, UsageError
from aliquot.job import Description
from aliquot.virtual_file.source import ByteRange, RowRange, Source
from aliquot.virtual_file.tables.looking import HowRead, Known, TablePlace, look, recall, remember, stat_of
from aliquot.virtual_file.tables.ranges import possible_byte
from aliquot.virtual_file.tables.registry import find_table_class
from aliquot.virtual_file.tables.rows_in_order import RowsInOrder, RowsOf, check_unchanged
from aliquot.virtual_file.tables.table import BadRows, ChangedTable, Facts, Table, UnreadableTable

_MOST_OPEN = 2
_TYPICAL_BATCH_UNITS = 50_000
# What the kernel is asked for in advance, at most.
_AHEAD_BYTES = 64 << 20


class TablesSource(RowsInOrder, Source):
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
        self._by_unit: TablesSource | None = None
        self._settle()

    def _recalled(self) -> list[Known | None]:
        """What earlier processes found, where the files are still the same."""
        stats = [self.how.stat(place) for place in self.places]
        found = recall(self.how, self.places)
        remembered = [found.get(place) for place in self.places]
        return [
            known if known is not None and (known.size_bytes, known.mtime_ns) == stat else None
            for known, stat in zip(remembered, stats, strict=True)
        ]

    # How many units

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

    def look_here(self, seconds: float) -> None:
        """Look at tables for so long, or at all if the rest is as quick, where the library for it is imported."""
        library = find_table_class(self.how.format).library
        if library and library not in sys.modules:
            return
        began, unknown = time.monotonic(), self.unknown()
        found: dict[int, Known] = {}
        with _without_collecting():
            for number in unknown:
                took_seconds = time.monotonic() - began
                # To go on elsewhere takes a while too.
                left = len(unknown) - len(found)
                if took_seconds >= seconds and took_seconds * left > seconds * len(found):
                    break
                found[number] = look(self.how, self.places[number])
        if found:
            self.learn(found)

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
            path, problem = self.problems()[0]
            raise DataError(problem, path=path)

    def forget_index(self) -> None:
        """Look at all of them again."""
        self.close()
        self._ends.clear()
        self._model = None
        self._by_unit = None
        self.learn({number: look(self.how, place) for number, place in enumerate(self.places)})

    def problems(self, start: int = 0, stop: int = sys.maxsize) -> list[tuple[str, str]]:
        """The files that cannot be read, and why, among those of some units."""
        return [
            (self.places[number].path, self._facts_of(number).problem)
            for number, end in enumerate(self._ends)
            if self._facts_of(number).problem and start < end <= stop
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

    # Reading

    def parts(self, start: int, stop: int) -> list[RowsOf]:
        """The tables that hold some units, and which of their rows these are."""
        self.advance(stop)
        return super().parts(start, stop)

    def records_of(self, start: int, stop: int) -> Sequence[Any]:
        """A batch of the form that was asked for."""
        parts = self.parts(start, stop) or [self._nothing()]
        together, form = find_table_class(self.how.format).put_together, self.how.form
        with contextlib.suppress(BadRows):
            return together([self._read(rows) for rows in parts], form)  # type: ignore[no-any-return]  # of any form
        # Some of one of them are bad. What was read is let go before all are read again.
        return together([self._read(rows, checked=True) for rows in parts], form)  # type: ignore[no-any-return]

    def _nothing(self) -> RowsOf:
        """No rows, of a table that can be read."""
        self.advance(1)
        readable = (number for number, known in enumerate(self._known) if known is not None and not known.facts.problem)
        return RowsOf(next(readable, 0), 0, 0)

    def _read(self, rows: RowsOf, *, checked: bool = False) -> Any:
        number, start, stop = rows
        place, first, facts = self.places[number], self._first_of(number), self._facts_of(number)
        if facts.problem:
            raise DataError(facts.problem, path=place.path, spoiled_units=(first, first + 1))
        try:
            table = self._table(number)
            pieces = table.pieces(start, stop, checked=True) if checked else table.pieces(start, stop)
        except BadRows as fault:
            self._check_unchanged(number)
            raise DataError(
                fault.problem,
                path=place.path,
                unit=fault.start,
                unit_name=self._row_range(RowsOf(number, fault.start, fault.stop)).name,
                byte=self._possible_byte(number, fault.byte),
                advice=fault.advice,
                spoiled_units=(first + fault.start, first + fault.stop) if fault.is_certain else None,
            ) from fault
        except ChangedTable as fault:
            raise SourceChangedError(str(fault), path=place.path, advice="Wait until it is complete") from fault
        except UnreadableTable as fault:
            self._check_unchanged(number)
            byte = self._possible_byte(number, fault.byte)
            raise DataError(fault.problem, path=place.path, byte=byte, advice=fault.advice) from fault
        self._check_unchanged(number)
        return pieces

    def row_ranges(self, start: int, stop: int) -> list[RowRange]:
        """Of each table; nobody knows the rows of one that cannot be read."""
        return [self._row_range(rows) for rows in self.parts(start, stop) if not self._facts_of(rows.number).problem]

    def _row_range(self, rows: RowsOf) -> RowRange:
        place = self.places[rows.number]
        return RowRange(place.path, rows.start, rows.stop, self.how.table(place).unit_word)

    def by_unit(self) -> TablesSource:
        """Rows as dicts; of awkward arrays, their records."""
        if self.how.form in ("records", "awkward"):
            return self
        if self._by_unit is None:
            self.advance(None)
            known = [known for known in self._known if known is not None]
            self._by_unit = TablesSource(msgspec.structs.replace(self.how, form="records"), self.places, known)
        return self._by_unit

    def typical_batch_units(self) -> int:
        """Some ten thousands."""
        return _TYPICAL_BATCH_UNITS

    def _group_ends(self, number: int) -> Sequence[int]:
        return self._facts_of(number).ends

    def read_ahead(self, start: int, stop: int) -> None:
        """Ask the kernel for the bytes of units that will be read next: it reads them while something else is done.

        Of tables that are open. What goes wrong here is told by whoever reads them.
        """
        try:
            for rows in self.parts(start, min(stop, self.known_units)):
                if rows.number in self._open:
                    _ask_for(self._open[rows.number].byte_ranges(rows.start, rows.stop))
        except Exception:
            return

    def close(self) -> None:
        """Let go of all files."""
        while self._open:
            self._open.popitem()[1].close()

    def _table(self, number: int) -> Table:
        """The table, opened by nobody else; the one that was used longest ago is closed."""
        table = self._open.pop(number, None)
        if table is None:
            self._check_unchanged(number)
            how, detail = self.how, self._facts_of(number).detail
            if how.columns is None and self._model is not None:
                how, detail = msgspec.structs.replace(how, columns=tuple(self._model[1].columns)), b""
            table = how.table(self.places[number], detail)
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
        self._open[number] = table
        return table

    def _check_unchanged(self, number: int) -> None:
        known, place = self._known[number], self.places[number]
        assert known is not None
        check_unchanged(place.path, known, lambda: self.how.stat(place))

    def _possible_byte(self, number: int, byte: int | None) -> int | None:
        known = self._known[number]
        assert known is not None
        return possible_byte(byte, known.size_bytes)

    def _facts_of(self, number: int) -> Facts:
        known = self._known[number]
        assert known is not None
        return known.facts

    # Bytes

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Of the columns that are read; the whole file where nobody can tell."""
        found: list[ByteRange] = []
        for rows in self.parts(start, stop):
            ranges: list[ByteRange] = []
            if not self._facts_of(rows.number).problem:
                try:
                    ranges = self._table(rows.number).byte_ranges(rows.start, rows.stop)
                except UnreadableTable as fault:
                    byte = self._possible_byte(rows.number, fault.byte)
                    raise DataError(fault.problem, path=self.places[rows.number].path, byte=byte) from fault
            found += ranges or [ByteRange(self.places[rows.number].path, 0, stat_of(self.places[rows.number].path)[0])]
        return found

    def reading(self) -> Any:
        """The format, the columns, the tables."""
        return msgspec.to_builtins([self.how, [place.inner for place in self.places]])

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


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Nearly all that is found stays: to look for garbage in it takes a sixth of the time.

    Other threads would have none collected either, and might fork, or decide about it themselves.
    """
    is_paused = gc.isenabled() and threading.active_count() == 1
    if is_paused:
        gc.disable()
    try:
        yield
    finally:
        if is_paused:
            gc.enable()


def _ask_for(ranges: Sequence[ByteRange]) -> None:
    """Have the kernel read some bytes of one file, not too many."""
    if not ranges:
        return
    left_bytes = _AHEAD_BYTES
    with open(ranges[0].path, "rb") as file:
        for piece in ranges:
            os.posix_fadvise(file.fileno(), piece.start, piece.stop - piece.start, os.POSIX_FADV_WILLNEED)
            left_bytes -= piece.stop - piece.start
            if left_bytes <= 0:
                return


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
