from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Self

from aliquot.errors import AliquotError, DataError, Malformed
from aliquot.job import Description
from aliquot.virtual_file import forking
from aliquot.virtual_file.boundaries import EqualSizes, EveryLines
from aliquot.virtual_file.formats.format import Format
from aliquot.virtual_file.formats.registry import describe_format, format_from_desc
from aliquot.virtual_file.index_cache import IndexCache
from aliquot.virtual_file.scanning import ScannedUnits
from aliquot.virtual_file.source import ByteRange, Source
from aliquot.virtual_file.storage import Identity, Storage, open_storage
from aliquot.virtual_file.streaming import KeptStreams, RecordStream
from aliquot.virtual_file.units import EqualUnits, Units

# Large enough to make up for looking up where a batch begins, small enough for the caches of a core.
_BATCH_BYTES = 256 * 1024
# A stream looks nothing up, and its records are best when they fit into the smallest cache.
_STREAMED_BATCH_BYTES = 40 * 1024
_SAMPLE_BYTES = 4 * 1024

_kept_streams = KeptStreams()
forking.renew_locks_after_fork(_kept_streams)
atexit.register(_kept_streams.close_all)


class FileSource(Source):
    """The units of one file: its storage gives bytes, its format says what a unit is, its index where each one is."""

    kind = "file"

    def __init__(self, storage: Storage, format: Format) -> None:
        self.storage = storage
        self.format = format
        # Whether the format has a stream of its own: asked before a file is opened for one.
        self._streams = type(format).stream is not Format.stream
        self._header = format.read_header(storage)
        boundaries = format.boundaries_for(self._header)
        self.terminator = boundaries.terminator
        self._are_lines = isinstance(boundaries, EveryLines) and boundaries.starts_per_unit == 1
        how_it_is_read = [storage.compression, describe_format(format), len(self._header), boundaries.identity()]
        self._index_cache = IndexCache(storage.path, json.dumps(how_it_is_read, default=repr))
        self._units: Units
        if isinstance(boundaries, EqualSizes):
            self._units = EqualUnits(storage, len(self._header), boundaries.unit_bytes, self._index_cache)
        else:
            self._units = ScannedUnits(storage, len(self._header), boundaries, format.check, self._index_cache)
        self._total_checked = False
        if self._units.complete:
            self._units.advance(0)  # refuses a torn end, but no file for one of its units
            self._check_total()

    @property
    def known_units(self) -> int:
        """As far as it was indexed."""
        return self._units.known

    @property
    def complete(self) -> bool:
        """Whether it was indexed to the end."""
        return self._units.complete and self._total_checked

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Index further."""
        if self.complete:
            self._units.refuse_bad_unit(units)
            return
        self._units.advance(units, stop)
        if self._units.complete:
            self._check_total()

    def _check_total(self) -> None:
        if not self._total_checked:
            try:
                self.format.check_total(self._header, self._units.known)
            except Malformed as fault:
                raise self._explained(fault, 0) from fault
            self._total_checked = True

    @property
    def can_be_counted_meanwhile(self) -> bool:
        """Not what has to be decompressed for it: all cores do that faster than one."""
        return self.storage.compression == "none"

    def share_index(self) -> None:
        """Through the user's cache."""
        self._units.share()

    def expect_bad_units(self) -> None:
        """As long as it is certain where they end."""
        self._units.expect_bad_units()

    def expected_units(self) -> int:
        """By the size of those that are known."""
        if self.complete or not self.known_units or self.storage.known_size_bytes is None:
            return self.known_units
        return max(self.known_units, round(self.storage.known_size_bytes / self._units.bytes_per_unit))

    def forget_index(self) -> None:
        """Remove the index from the user's cache."""
        self._index_cache.remove()

    def records_of(self, start: int, stop: int) -> Sequence[Any]:
        """Read and parse."""
        if start >= stop:
            return self.format.parse(b"", self._header)
        begin, end = self._range(start, stop)
        self._units.check_whole(stop)
        data = self.storage.read_at(begin, end - begin)
        try:
            records = self.format.parse(data, self._header)
        except Malformed as fault:
            raise self._explained(fault, start, begin) from fault
        if len(records) != stop - start:
            raise self._miscounted(start, stop, f"were parsed as {len(records)} records")
        return records

    def batches(self, start: int, stop: int, units: int) -> Iterator[Sequence[Any]]:
        """From one stream over all units, as far as its parser likes them; the others are parsed by themselves."""
        at = start
        stream = self._stream_at(start, stop)
        if stream is not None:
            born_in = forking.generation
            kept = False
            streamed_to = min(stop, self._units.whole)
            try:
                for batch in stream.batches(streamed_to, units):
                    at += len(batch)
                    if at == streamed_to:
                        self.storage.check_opened(stream.file)
                        kept = _kept_streams.keep(stream)
                    yield batch
                    if forking.generation != born_in:
                        break  # two processes must not read on from one place
            except AliquotError:
                raise
            except Exception:
                _log_failure("a stream of %s ended at unit %d", self, at)
            finally:
                if not kept:
                    stream.close()
        yield from super().batches(at, stop, units)

    def _stream_at(self, start: int, stop: int) -> RecordStream | None:
        """A stream from a unit on, kept or new; None where the format or the unit is not for one."""
        if not self._streams:
            return None
        try:
            return _kept_streams.take(self, start, stop) or self._open_stream(start, stop)
        except AliquotError:
            raise
        except Exception:
            _log_failure("no stream of %s begins at unit %d", self, start)
            return None

    def _open_stream(self, start: int, stop: int) -> RecordStream | None:
        begin, _ = self._range(start, stop)
        file = self.storage.open_from(begin)
        try:
            records = self.format.stream(file)
        except BaseException:
            file.close()
            raise
        if records is None:
            file.close()
            return None
        return RecordStream(self, file, records, start, self._units.whole)

    def typical_batch_units(self) -> int:
        """As many as are quick to read and to work on."""
        self.advance(1)
        return max(1, int((_STREAMED_BATCH_BYTES if self._streams else _BATCH_BYTES) / self._units.bytes_per_unit))

    def header(self, units: int) -> bytes:
        """As the format repeats it."""
        return self.format.header_for(self._header, units)

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Straight from the storage."""
        begin, end = self._checked_range(start, stop)
        return self.storage.pieces(begin, end)

    def raw_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Without a look at them."""
        return self.storage.pieces(*self._range(start, stop))

    def copy_body(self, descriptor: int, start: int, stop: int) -> None:
        """In the kernel, where the storage can."""
        begin, end = self._checked_range(start, stop)
        if begin < end:
            self.storage.copy_to(descriptor, begin, end)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """One range."""
        return [ByteRange(self.storage.path, *self._range(start, stop))]

    def reading(self) -> Any:
        """The format and its options."""
        return describe_format(self.format)

    def paths(self) -> list[str]:
        """One."""
        return [self.storage.path]

    def check_same(self, records: tuple[Any, ...]) -> None:
        """As the format says."""
        self.format.check_same(records)

    def check_ends(self, start: int, stop: int) -> None:
        """The last one has an end, and none is known to be bad."""
        self.advance(stop)
        self._check_copied(start, stop)

    def ends_without_terminator(self, stop: int) -> bool:
        """Whether these units end with the file, and the file ends without what ends a unit."""
        terminator = self.terminator
        if not (terminator and self.complete and stop == self.known_units):
            return False
        end = self._units.byte_of(stop)
        return self.storage.read_at(end - len(terminator), len(terminator)) != terminator

    def to_desc(self, start: int, stop: int | None) -> Description:
        """The path, how to read it, and what it must look like."""
        return {
            "kind": self.kind,
            "path": self.storage.path,
            "compression": self.storage.compression,
            "format": describe_format(self.format),
            "identity": self.storage.identity._asdict(),
        }

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Open the file again; refused if it changed."""
        expected = Identity(**desc["identity"])
        storage = open_storage(desc["path"], desc["compression"], expected)
        source = cls(storage, format_from_desc(desc["format"]))
        source.expect_bad_units()  # whoever has described it has looked at it
        return source

    def _range(self, start: int, stop: int) -> tuple[int, int]:
        """The bytes of some units, indexed as far as needed."""
        self.advance(stop)
        if stop > self.known_units:
            raise DataError(
                f"has {self.known_units} units, and units {start} to {stop} were asked for",
                path=self.storage.path,
                advice="Was the view described by hand, or for another format?",
            )
        return self._units.byte_of(start), self._units.byte_of(stop)

    def _checked_range(self, start: int, stop: int) -> tuple[int, int]:
        begin, end = self._range(start, stop)
        self._check_copied(start, stop)
        # A line cannot begin in the wrong place: what is in it is for whoever reads it.
        if begin < end and not (self._are_lines and start > 0):
            try:
                self.format.check(self.storage.read_at(begin, min(_SAMPLE_BYTES, end - begin)))
            except Malformed as fault:
                raise self._explained(fault, start, begin) from fault
        return begin, end

    def _check_copied(self, start: int, stop: int) -> None:
        """Units that nobody parses here."""
        self._units.check_whole(stop)
        if not self._are_lines:
            self._units.check_good(start, stop)

    def _miscounted(self, start: int, stop: int, problem: str) -> DataError:
        begin, end = self._range(start, stop)
        return DataError(
            f"{stop - start} units up to byte {end} {problem}",
            path=self.storage.path,
            unit=start,
            byte=begin,
            advice="Are there carriage returns without newlines in it, or is it of another format?",
        )

    def _explained(self, fault: Malformed, start: int, begin: int | None = None) -> DataError:
        unit = start + fault.unit_within
        if fault.byte_within is not None and begin is not None:
            byte = begin + fault.byte_within
        else:
            byte = self._units.byte_of(min(unit, self.known_units))
        return DataError(fault.problem, path=self.storage.path, unit=unit, byte=byte, advice=fault.advice)


def _log_failure(message: str, source: FileSource, unit: int) -> None:
    import logging

    logging.getLogger(__name__).debug(message, source, unit, exc_info=True)
