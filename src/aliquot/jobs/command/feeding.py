"""A named pipe that a program reads, and the units that go into it: as many bytes at a time as the pipe takes.

    ranges of units  --read from the source as they are needed-->  pipe  <--opened and read--  program

Nothing here waits: `aliquot.jobs.command.stream` does, for several pipes at once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import termios
from collections import deque
from collections.abc import Generator, Iterator
from itertools import chain

from aliquot.errors import UsageError
from aliquot.virtual_file import Source
from aliquot.virtual_file.file_source import FileSource
from aliquot.virtual_file.several import FilesInOrder

# For each core that a program has: large enough that neither side waits for the other all the time, small enough that
# what is in the pipe is soon worked on. Beyond the largest, Linux asks for privileges, unless it is set up otherwise.
_PIPE_BYTES, _LARGEST_PIPE_BYTES = 256 << 10, 1 << 20
# When the pipes of a user may hold twice as much, Linux makes each new one tiny, those of other programs too.
_ALL_PIPES_BYTES = 32 << 20
_LONGEST_TERMINATOR_BYTES = 16
# Many programs read a few kB at a time. To be woken and to refill that much costs more than the copy, on both sides: a
# program that has begun to read from a full pipe is left to read about half of it first. Not where a pipe is so small
# that it would be empty before the shortest sleep is over.
_FIRST_PAUSE_SECONDS, _SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1e-4, 5e-5, 5e-3
_LITTLE_READ_PART, _MUCH_READ_PART = 0.4, 0.7
_LEAST_PAUSED_BYTES = 128 << 10
# One that reads so fast that the shortest sleep is too long is written to at once, so often.
_WRITES_UNTIL_TRIED_AGAIN = 1000
# What sendfile says where a file system or a kind of pipe is not for it.
_NOT_FOR_SENDFILE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK, errno.EPERM}


def first_pipe_bytes(cores: int) -> int:
    """How much a pipe to a program should hold, which has so many cores, before it is known how fast it reads."""
    return min(_PIPE_BYTES * cores, _LARGEST_PIPE_BYTES)


def large_pipe_bytes(cores: int, pipes: int = 1) -> int:
    """How much it should hold where programs like it, with so many pipes each, read fast and are on all cores."""
    share_bytes = _ALL_PIPES_BYTES * cores // ((os.cpu_count() or 1) * pipes)
    # Linux rounds up to a power of two.
    share_bytes = 1 << max(share_bytes, 1).bit_length() - 1
    return max(first_pipe_bytes(cores), min(share_bytes, _LARGEST_PIPE_BYTES))


def next_pause_seconds(pause_seconds: float, read_part: float) -> float:
    """How long to leave a program alone next time, which has read that part of its pipe meanwhile; 0.0: not at all."""
    if read_part < _LITTLE_READ_PART:
        return min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
    if read_part > _MUCH_READ_PART:
        return pause_seconds / 2 if pause_seconds >= 2 * _SHORTEST_PAUSE_SECONDS else 0.0
    return pause_seconds


def terminator_of(source: Source) -> bytes:
    """What the last unit of a file may lack, where the units of another file follow; nothing where none can."""
    return source._files[0].terminator if isinstance(source, FilesInOrder) else b""


def check_can_be_streamed(name: str, source: Source) -> None:
    """Refuse a format that begins with how many units there are, which a stream does not know."""
    if source.header(1) != source.header(2):
        raise UsageError(
            f"{{{name}}} cannot be a pipe: files of its format begin with how many units they have, which is not known "
            f"when the command starts. Use {{{name}}} without '<' or ':pipe', which is a file"
        )


class FedPipe:
    """A named pipe with what is to be written into it."""

    def __init__(self, name: str, path: str, source: Source, *, holds_bytes: int) -> None:
        self.name = name
        self._holds_bytes = holds_bytes
        self.descriptor = -1  # until a program has opened the other end
        self._place = -1  # the pipe itself, neither read nor written
        self.is_ended = False  # no more is written: all has been, or the reader has closed its end
        self.path = path
        self._source = source
        self._ranges: deque[tuple[int, int]] = deque()
        self._content: _Pieces | _FileRange | None = None
        self._terminator = terminator_of(source)
        self._is_unterminated = False
        self._stop = 0  # of the last range
        self._capacity_bytes = 0  # of the pipe; not known before it is open
        self._is_full = False  # it took no more when it was last written to, and more of a plain file is to come
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._writes_at_once = 0  # since it is known that a pause would be too long
        os.mkfifo(path, 0o600)
        header = source.header(1)
        if header:
            self._content = _Pieces(iter((header,)))

    def add(self, start: int, stop: int) -> None:
        """Some units are to be written after all others."""
        if start < stop:
            self._ranges.append((start, stop))
            self._stop = stop

    @property
    def has_all(self) -> bool:
        """Whether all that was added is in the pipe, or never will be."""
        return self.is_ended or (self._content is None and not self._ranges)

    @property
    def is_open(self) -> bool:
        """Whether a program reads the other end."""
        return self.descriptor >= 0

    @property
    def unread_bytes(self) -> int:
        """What is in the pipe and was not read."""
        return int.from_bytes(fcntl.ioctl(self.descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)

    @property
    def pause_seconds(self) -> float:
        """How long to leave the program alone, which has begun to read from a full pipe; 0.0 to write at once."""
        if not self._is_full or self._capacity_bytes < _LEAST_PAUSED_BYTES or self._read_part > _LITTLE_READ_PART:
            return 0.0
        return self._pause_seconds

    @property
    def _read_part(self) -> float:
        return 1 - self.unread_bytes / self._capacity_bytes

    def try_to_open(self) -> bool:
        """Open the pipe if a program has opened its other end."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):  # nobody is there yet; the command has removed it
                return False
            raise
        self.descriptor = descriptor
        with contextlib.suppress(OSError, AttributeError):  # the system has no such thing
            self._place = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
        # Nobody would write for a second reader, which so gets an error instead of waiting for ever.
        os.unlink(self.path)
        self._enlarge()
        with contextlib.suppress(OSError, AttributeError):
            self._capacity_bytes = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
        return True

    def _enlarge(self) -> None:
        """As far as the system allows."""
        wanted_bytes = self._holds_bytes
        while wanted_bytes >= _PIPE_BYTES:
            try:
                fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, wanted_bytes)
            except (OSError, AttributeError):
                wanted_bytes //= 2
            else:
                return

    def write(self, paused_seconds: float = 0.0) -> None:
        """Write as much as the pipe takes now, after the program was left alone for so long."""
        if paused_seconds:
            read_part = self._read_part
            # That little was read in less time than is usual here, for the sake of another pipe, says nothing.
            if paused_seconds >= self._pause_seconds or read_part > _MUCH_READ_PART:
                self._pause_seconds = next_pause_seconds(paused_seconds, read_part)
            self._writes_at_once = 0
        elif self._is_full and not self._pause_seconds:
            self._writes_at_once += 1
            if self._writes_at_once == _WRITES_UNTIL_TRIED_AGAIN:
                self._pause_seconds = _SHORTEST_PAUSE_SECONDS
        self._is_full = False
        try:
            while not self.has_all:
                if self._content is None:
                    self._content = self._open_content(*self._ranges.popleft())
                self._content.write_to(self.descriptor)
                self._is_unterminated = not self._content.tail.endswith(self._terminator)
                self._content = None
        except BlockingIOError:
            # Of a single plain file, all is ready that is to be written; of others, more may have to be made first.
            self._is_full = isinstance(self._content, _FileRange)
        except BrokenPipeError:
            self.close()  # the program has read enough

    def end_last_unit(self) -> None:
        """No more is added: where units of another file would follow, the last one ends as in the whole."""
        if self._is_unterminated and self.has_all and not self.is_ended:
            self._is_unterminated = False
            self._source.advance(self._stop + 1)
            if self._source.known_units > self._stop:
                self._content = _Pieces(iter((self._terminator,)))

    def knock(self) -> None:
        """Let those see the end that have come after it.

        A program may open its standard input anew, as /dev/stdin, when all was written: it would wait for a writer.
        """
        if self._place >= 0 and self.descriptor < 0:
            with contextlib.suppress(OSError):  # nobody is there
                os.close(os.open(f"/proc/self/fd/{self._place}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def remove(self) -> None:
        """The program has ended."""
        self.close()
        place, self._place = self._place, -1
        if place >= 0:
            os.close(place)

    def close(self) -> None:
        """Let the program see the end."""
        self.is_ended = True
        self._ranges.clear()
        if self._content is not None:
            self._content.close()
            self._content = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _open_content(self, start: int, stop: int) -> _Pieces | _FileRange:
        pieces = self._source.body_pieces(start, stop)  # also looks whether the units begin as they should
        if isinstance(self._source, FileSource) and self._source.storage.compression == "none":
            return _FileRange(self._source, start, stop)
        return _Pieces(chain((self._terminator,), pieces) if self._is_unterminated else pieces)


class _Pieces:
    """Bytes that are read, or decompressed, here. Each piece is valid only until the next is asked for."""

    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self.tail = b""

    def write_to(self, descriptor: int) -> None:
        """All of them; raises `BlockingIOError` where the pipe is full, and goes on from there the next time."""
        while True:
            while self._rest:
                self._rest = self._rest[os.write(descriptor, self._rest) :]
            piece = next(self._pieces, None)
            if piece is None:
                return
            self._rest = memoryview(piece)
            self.tail = bytes(self._rest[-_LONGEST_TERMINATOR_BYTES:])

    def close(self) -> None:
        self._rest.release()
        if isinstance(self._pieces, Generator):
            self._pieces.close()


class _FileRange:
    """Bytes of a file that is not compressed, copied by the kernel: in a quarter of the time, measured with cat."""

    tail = b""  # nothing follows the last unit of a single file

    def __init__(self, source: FileSource, start: int, stop: int) -> None:
        (found,) = source.byte_ranges(start, stop)
        self._storage = source.storage
        self._at, self._stop = found.start, found.stop
        self._file = self._storage.open_unchanged()
        self._pieces: _Pieces | None = None  # where the kernel cannot copy

    def write_to(self, descriptor: int) -> None:
        """All of them, as `_Pieces.write_to`."""
        while self._pieces is None and self._at < self._stop:
            try:
                copied = os.sendfile(descriptor, self._file, self._at, self._stop - self._at)
            except OSError as error:
                if error.errno not in _NOT_FOR_SENDFILE:
                    raise
                copied = 0
            if not copied:
                self._pieces = _Pieces(self._storage.pieces(self._at, self._stop))
            self._at += copied
        if self._pieces is not None:
            self._pieces.write_to(descriptor)
        self._storage.check_open_file(self._file)
        self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._pieces is not None:
            self._pieces.close()
