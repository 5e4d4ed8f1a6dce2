"""Pipes with a name: a program reads a slice as if it were a file, and the bytes are made just in time.

    thread in this process  --writes-->  named pipe  <--opens and reads--  any program

A program may stop reading early. If the source cannot be read to the end, leaving the `with` block raises, so that a
program that saw too little is never taken for one that saw all.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator

from aliquot.errors import UsageError

Pieces = Callable[[], Iterator[bytes | memoryview]]


@contextlib.contextmanager
def named_pipes(contents: list[Pieces]) -> Iterator[list[str]]:
    """Make a named pipe for each content; paths to read them from."""
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="aliquot-pipe-")
    feeders: list[_Feeder] = []
    try:
        for number, pieces in enumerate(contents):
            path = os.path.join(directory, str(number))
            os.mkfifo(path, 0o600)
            feeders.append(_Feeder(path, pieces))
        yield [feeder.path for feeder in feeders]
    except BaseException as error:
        for fault in _stop_all(feeders):
            error.add_note(f"the pipe could not be fed to its end: {fault}")
        raise
    else:
        for fault in _stop_all(feeders):
            raise fault
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _stop_all(feeders: list[_Feeder]) -> list[Exception]:
    for feeder in feeders:
        feeder.stop()
    return [feeder.error for feeder in feeders if feeder.error is not None]


class _Feeder:
    """A thread that writes some content into a named pipe as fast as it is read."""

    def __init__(self, path: str, pieces: Pieces) -> None:
        self.path = path
        self.error: Exception | None = None
        self._pieces = pieces
        self._opened = threading.Event()
        self._abandoned = False
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._feed, name=f"aliquot feeds {path}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, whatever it waits for."""
        os.write(self._stop_write, b"x")
        # A pipe that nobody has opened yet keeps the thread waiting until somebody does.
        opened_here = None
        if not self._opened.is_set():
            self._abandoned = True
            opened_here = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._thread.join()
        for descriptor in (opened_here, self._stop_read, self._stop_write):
            if descriptor is not None:
                os.close(descriptor)

    def _feed(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY)
            self._opened.set()
            try:
                os.set_blocking(descriptor, False)
                for piece in self._pieces():
                    self._write(descriptor, memoryview(piece))
            finally:
                os.close(descriptor)
        except BrokenPipeError:
            pass  # the reader has seen enough
        except Exception as error:  # raised again where the pipe is left
            self.error = error

    def _write(self, descriptor: int, view: memoryview) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        poll.register(self._stop_read, select.POLLIN)
        while view:
            ready = dict(poll.poll())
            if ready.get(descriptor, 0) & select.POLLERR:
                raise BrokenPipeError
            if self._abandoned:
                raise BrokenPipeError
            if self._stop_read in ready:
                raise UsageError(
                    "a pipe was left while a program was still reading it, which so saw only a part: "
                    "wait for the program inside the with block"
                )
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(descriptor, view) :]
