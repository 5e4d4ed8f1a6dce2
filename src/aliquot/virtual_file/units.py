"""Where the units of a file begin: by multiplication where all have the same size, else see `scanning`."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod

from aliquot.errors import DataError
from aliquot.virtual_file.index import BlockIndex
from aliquot.virtual_file.index_cache import IndexCache, IndexRecord
from aliquot.virtual_file.storage import Storage


class Units(ABC):
    """Where the units of one file begin."""

    @property
    @abstractmethod
    def known(self) -> int:
        """How many units are known to be there."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether all units are known."""

    @abstractmethod
    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Look further, until that many units are known or the end is reached; None: to the end.

        Another thread may set ``stop`` to end it early.
        """

    def share(self) -> None:
        """Let other processes know what is known here, if that is for them to use."""

    def expect_bad_units(self) -> None:
        """Do not refuse the file for what is in one of its units."""

    def refuse_bad_unit(self, units: int | None) -> None:
        """Raise if one of the first ``units`` is known to be bad, and none is expected to be."""

    @property
    def whole(self) -> int:
        """How many of those that are known have an end: all, or all but the last."""
        return self.known

    def check_whole(self, stop: int) -> None:
        """Raise if one before ``stop`` has no end: nobody is given it, also where bad ones are expected."""

    def check_good(self, start: int, stop: int) -> None:
        """Raise if one of these is known to be bad, also where bad ones are expected."""

    @abstractmethod
    def byte_of(self, unit: int) -> int:
        """Where a known unit begins; one past the last unit is the end of the content."""

    @property
    @abstractmethod
    def bytes_per_unit(self) -> float:
        """About how large a unit is, by what is known."""


class EqualUnits(Units):
    """Units of one size."""

    def __init__(self, storage: Storage, content_start: int, unit_bytes: int, cache: IndexCache) -> None:
        self._storage = storage
        self._content_start = content_start
        self._unit_bytes = unit_bytes
        self._cache = cache
        # How much of a compressed file was read to learn its size.
        self._seen_bytes = 0
        self._is_saved = self.complete
        if not self.complete:
            record = cache.load(storage.identity)
            if record is not None:
                storage.restore_state(record.storage_state)
                self._is_saved = True

    @property
    def known(self) -> int:
        """All of them, or as many as were looked at where the file is compressed."""
        size = self._storage.known_size_bytes
        seen = self._seen_bytes if size is None else size
        return max(0, seen - self._content_start) // self._unit_bytes

    @property
    def complete(self) -> bool:
        """Whether the size of the content is known."""
        return self._storage.known_size_bytes is not None

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Only a compressed file has to be read to learn its size."""
        if not self._is_saved:
            at = self._seen_bytes
            for piece in self._storage.pieces(at, threads=os.cpu_count() or 1):
                at += len(piece)
                # Several threads may read at once: none adds to what another has seen.
                self._seen_bytes = max(self._seen_bytes, at)
                if (units is not None and self.known >= units) or (stop is not None and stop.is_set()):
                    return
            self._cache.save(
                IndexRecord(
                    identity=self._storage.identity,
                    packed=BlockIndex().pack(),
                    total_units=self.known,
                    storage_state=self._storage.saved_state(),
                )
            )
            self._is_saved = True
        size = self._storage.known_size_bytes
        assert size is not None
        excess = (size - self._content_start) % self._unit_bytes
        if excess:
            raise DataError(
                f"ends in the middle of a record: the last one has {excess} of {self._unit_bytes} bytes",
                path=self._storage.path,
                unit=(size - self._content_start) // self._unit_bytes,
                byte=size - excess,
                advice="Is it complete, and is the size of a record right?",
            )

    def byte_of(self, unit: int) -> int:
        """A multiplication."""
        return self._content_start + unit * self._unit_bytes

    @property
    def bytes_per_unit(self) -> float:
        """Exact."""
        return self._unit_bytes
