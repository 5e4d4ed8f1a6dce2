"""Streams of records that go on from one slice to the next.

Work on a file mostly goes forward: the next slice begins where the last one ended. A stream that was not read to its
end is kept for a while, so that such a slice needs no look-up, no opening and, in a compressed file, no decoding again.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

_MOST_KEPT = 4


class RecordStream:
    """The records of consecutive units of one source, up to ``stop``, of which ``next_unit`` comes next."""

    def __init__(self, source: object, file: io.RawIOBase, records: Iterator[Any], next_unit: int, stop: int) -> None:
        self.source = source
        self.file = file
        self._records = records
        self.next_unit = next_unit
        self.stop = stop

    def batches(self, stop: int, units: int) -> Iterator[list[Any]]:
        """The records up to a unit, so many at a time. No loop over records is in Python."""
        whole_batches, rest = divmod(stop - self.next_unit, units)
        for batch in islice(zip(*[self._records] * units, strict=False), whole_batches):
            self.next_unit += units
            yield list(batch)
        last = list(islice(self._records, rest))
        # Fewer are no batch: the parser does not agree with the index about where a unit ends.
        if rest and len(last) == rest:
            self.next_unit += rest
            yield last

    def close(self) -> None:
        """Nothing more is wanted."""
        self.file.close()


class KeptStreams:
    """The streams that were used last, each for the one who comes for its next unit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: list[RecordStream] = []

    def keep(self, stream: RecordStream) -> bool:
        """Keep a stream unless it is at its end, and close the one that was kept longest if there are too many."""
        if stream.next_unit >= stream.stop:
            return False
        with self._lock:
            self._streams.append(stream)
            dropped = self._streams.pop(0) if len(self._streams) > _MOST_KEPT else None
        if dropped is not None:
            dropped.close()
        return True

    def take(self, source: object, start: int, stop: int) -> RecordStream | None:
        """The stream that goes on at a unit and reaches far enough, if one is kept."""
        with self._lock:
            for number, stream in enumerate(self._streams):
                if stream.source is source and stream.next_unit == start and stream.stop >= stop:
                    return self._streams.pop(number)
        return None

    def renew_locks(self) -> None:
        """In a new process, give them up: the old one goes on with them."""
        self._lock = threading.Lock()
        self.close_all()

    def close_all(self) -> None:
        """Keep none any longer."""
        while self._streams:
            self._streams.pop().close()
