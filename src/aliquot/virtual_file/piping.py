"""Pipes with a name: a program reads a slice as if it were a file, and the bytes are made just in time.

    thread in this process  --writes-->  named pipe  <--opens and reads--  any program

A program may stop reading early. If the source cannot be read to the end, leaving the `with` block raises, so that a
program that saw too little is never taken for one that saw all.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator

Pieces = Callable[[], Iterator[bytes | memoryview]]


@contextlib.contextmanager
def named_pipes(contents: list[Pieces]) -> Iterator[list[str]]:
    """Make a named pipe for each content; paths to read them from."""
    directory = tempfile.mkdtemp(prefix="aliquot-pipe-")
    feeders: list[_Feeder] = []
    try:
        for number, pieces in enumerate(contents):
            path = os.path.join(directory, str(number))
            os.mkfifo(path, 0o600)
            feeders.append(_Feeder(path, pieces))
        yield [feeder.path for feeder in feeders]
    finally:
        for feeder in feeders:
            feeder.stop()
        shutil.rmtree(directory, ignore_errors=True)
    for feeder in feeders:
        if feeder.error is not None:
            raise feeder.error


class _Feeder:
    """A thread that writes some content into a named pipe as fast as it is read."""

    def __init__(self, path: str, pieces: Pieces) -> None:
        self.path = path
        self.error: Exception | None = None
        self._pieces = pieces
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._feed, name=f"aliquot feeds {path}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, whatever it waits for."""
        os.write(self._stop_write, b"x")
        # A pipe that nobody has opened yet keeps the thread waiting until somebody does.
        with contextlib.suppress(OSError):
            os.close(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK))
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def _feed(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY)
            try:
                os.set_blocking(descriptor, False)
                for piece in self._pieces():
                    self._write(descriptor, memoryview(piece))
            finally:
                os.close(descriptor)
        except (BrokenPipeError, _StoppedError):
            pass  # the reader has seen enough
        except Exception as error:  # raised again where the pipe is left
            self.error = error

    def _write(self, descriptor: int, view: memoryview) -> None:
        while view:
            ready, _, _ = select.select([self._stop_read], [descriptor], [])[0:3]
            if ready:
                raise _StoppedError
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(descriptor, view) :]


class _StoppedError(Exception):
    """The pipe was left before all was read."""
