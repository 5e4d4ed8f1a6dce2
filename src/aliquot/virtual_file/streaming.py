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
        self._file = file
        self._records = records
        self.next_unit = next_unit
        self.stop = stop

    def take(self, units: int) -> list[Any]:
        """The next records, fewer only where the parser finds fewer."""
        taken = list(islice(self._records, units))
        self.next_unit += len(taken)
        return taken

    def close(self) -> None:
        """Nothing more is wanted."""
        self._file.close()


class KeptStreams:
    """The streams that were used last, each for the one who comes for its next unit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: list[RecordStream] = []

    def keep(self, stream: RecordStream) -> None:
        """Keep a stream, and close the one that was kept longest if there are too many."""
        if stream.next_unit >= stream.stop:
            stream.close()
            return
        with self._lock:
            self._streams.append(stream)
            dropped = self._streams.pop(0) if len(self._streams) > _MOST_KEPT else None
        if dropped is not None:
            dropped.close()

    def take(self, source: object, start: int, stop: int) -> RecordStream | None:
        """The stream that goes on at a unit and reaches far enough, if one is kept."""
        with self._lock:
            for number, stream in enumerate(self._streams):
                if stream.source is source and stream.next_unit == start and stream.stop >= stop:
                    return self._streams.pop(number)
        return None

    def renew_locks(self) -> None:
        """In a new process, forget them: the old one goes on with them."""
        self._lock = threading.Lock()
        self._streams.clear()
