"""Indexes kept in the user's cache directory, so that a file is counted once. One record for each source and format."""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from aliquot.cache import read_record, record_path, remove_record, write_record
from aliquot.virtual_file.index import PackedIndex
from aliquot.virtual_file.storage import Identity


class BadUnit(Struct, frozen=True):
    """What is wrong with a unit that was looked at while units were counted."""

    problem: str
    unit: int
    byte: int
    advice: str | None


class IndexRecord(Struct, frozen=True):
    """What is remembered of a source; ``total_units`` is None where the end has not been seen."""

    identity: Identity
    index: PackedIndex
    total_units: int | None
    storage_state: bytes
    bad_unit: BadUnit | None = None  # the first that was found, where somebody went on nevertheless
    torn_unit: BadUnit | None = None  # the last one, if its end is missing


class IndexCache:
    """Where the index of one source, read in one format, is kept."""

    def __init__(self, source_path: str, how_it_is_read: str) -> None:
        self.path = record_path(f"{os.path.realpath(source_path)}\0{how_it_is_read}", "index")

    def load(self, identity: Identity) -> IndexRecord | None:
        """Find what is known of the source, if it is of this very content."""
        content = read_record(self.path)
        if content is None:
            return None
        try:
            record = msgspec.msgpack.decode(content, type=IndexRecord)
        except msgspec.DecodeError:
            self.remove()
            return None
        return record if record.identity == identity else None

    def stamp(self) -> tuple[int, int] | None:
        """Another one whenever somebody has saved a record."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def save(self, record: IndexRecord) -> bool:
        """Keep a record; False where the cache cannot be written, which only costs time."""
        return write_record(self.path, msgspec.msgpack.encode(record))

    def remove(self) -> None:
        """Forget what is known."""
        remove_record(self.path)
