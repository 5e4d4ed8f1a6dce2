"""Indexing in a thread while the front of the source is already being worked on."""

from __future__ import annotations

import atexit
import contextlib
import threading

from aliquot.errors import AliquotError
from aliquot.virtual_file.source import Source

_running: set[_Indexing] = set()


class _Indexing(threading.Thread):
    def __init__(self, source: Source) -> None:
        super().__init__(name="aliquot indexes", daemon=True)
        self._source = source
        self.stop = threading.Event()

    def run(self) -> None:
        # Whoever needs the units that cannot be found is told by the same error, in its own thread.
        try:
            with contextlib.suppress(AliquotError):
                self._source.advance(None, self.stop)
        finally:
            _running.discard(self)


def index_in_background(source: Source) -> None:
    """Look through a source without waiting for it. Stops with the program."""
    indexing = _Indexing(source)
    _running.add(indexing)
    indexing.start()


@atexit.register
def _stop_all() -> None:
    for indexing in list(_running):
        indexing.stop.set()
        indexing.join()
