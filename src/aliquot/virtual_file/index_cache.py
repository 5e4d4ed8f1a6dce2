"""Indexes kept in the user's cache directory, so that a file is counted once. One record for each source and format."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from aliquot.cache import read_record, record_path, remove_record, write_record
from aliquot.virtual_file.index import PackedIndex
from aliquot.virtual_file.storage import Identity


class BadUnit(NamedTuple):
    """What is wrong with a unit that was looked at while units were counted."""

    problem: str
    unit: int
    byte: int
    advice: str | None


class IndexRecord(NamedTuple):
    """What is remembered of a source; ``total_units`` is None where the end has not been seen."""

    identity: Identity
    packed: PackedIndex
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
            record = _unpack(content)
        except (ValueError, TypeError, RecursionError):  # of a release that wrote it otherwise
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
        return write_record(self.path, _pack(record))

    def remove(self) -> None:
        """Forget what is known."""
        remove_record(self.path)


def _pack(record: IndexRecord) -> bytes:
    """A line of JSON, and behind it the bytes that are not JSON."""
    block_bytes, block_count, counts, states, next_state = record.packed
    index = [block_bytes, block_count, len(counts), len(states), next_state]
    line = json.dumps([record.identity, index, record.total_units, record.bad_unit, record.torn_unit])
    return line.encode() + b"\n" + counts + states + record.storage_state


def _unpack(content: bytes) -> IndexRecord:
    line, _, rest = content.partition(b"\n")
    identity, (block_bytes, block_count, counts_end, states_bytes, next_state), total_units, *units = json.loads(line)
    states_end = counts_end + states_bytes
    index = PackedIndex(block_bytes, block_count, rest[:counts_end], rest[counts_end:states_end], next_state)
    bad_unit, torn_unit = (None if unit is None else BadUnit(*unit) for unit in units)
    if not isinstance(total_units, int | None) or isinstance(total_units, bool):
        raise TypeError
    for unit in (bad_unit, torn_unit):
        if unit is not None and not all(map(isinstance, unit, (str, int, int, str | None))):
            raise TypeError
    return IndexRecord(Identity(*identity), index, total_units, rest[states_end:], bad_unit, torn_unit)
