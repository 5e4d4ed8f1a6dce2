from __future__ import annotations

import errno
import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from aliquot.errors import DataError, SourceChangedError
from aliquot.hashing import blake2b

PIECE_BYTES = 2 * 1024 * 1024
_FINGERPRINT_BYTES = 64 * 1024
# Why a file cannot be opened that is not there any more; other reasons may pass.
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


class Identity(NamedTuple):
    """What tells one content of a file from another: its size, its time of change, a hash of both of its ends."""

    size_bytes: int
    mtime_ns: int
    fingerprint: str


class Storage(ABC):
    """The uncompressed content of one file, wherever and however it is kept. Offsets are into that content.

    Nothing stays open between two calls, but where opening is dear; safe to use from several threads.
    """

    compression: ClassVar[str]
    # Whether an index that was left half-built can be continued by another process.
    resumable: ClassVar[bool] = True

    def __init__(self, path: str, identity: Identity) -> None:
        self.path = path
        self.identity = identity

    @property
    @abstractmethod
    def known_size_bytes(self) -> int | None:
        """The size of the content, or None while the end has not been seen."""

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """Read ``length`` bytes, fewer only where the content ends."""

    @abstractmethod
    def pieces(self, start: int, stop: int | None = None, *, threads: int = 1) -> Iterator[bytes | memoryview]:
        """Read on from ``start``, in pieces of any size; each is valid only until the next is asked for."""

    def open_from(self, start: int) -> io.RawIOBase:
        """The content from an offset on, as a file that can be read once, by one process."""
        return _PiecesAsFile(self.pieces(start))

    def check_opened(self, file: io.RawIOBase) -> None:
        """Raise if the file is not what it was when `open_from` opened it."""
        self.check_unchanged()

    def copy_to(self, descriptor: int, start: int, stop: int) -> None:
        """Write a range of the content to an open file, a pipe or a socket."""
        for piece in self.pieces(start, stop):
            write_all(descriptor, piece)

    def saved_state(self) -> bytes:
        """What makes random access cheap for the next process that opens the file."""
        return b""

    def restore_state(self, saved: bytes) -> None:
        """Take over what `saved_state` gave."""

    def open_unchanged(self) -> int:
        """Open the file and make sure that it is still the one that was opened first; the caller closes it."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            problem = f"cannot be opened any more: {error.strerror}"
            if error.errno in _GONE:
                # For all of its units: none of them is to blame.
                raise SourceChangedError(problem, path=self.path, advice="Was it moved or removed?") from error
            raise DataError(problem, path=self.path) from error
        try:
            self.check_open_file(descriptor)
        except SourceChangedError:
            os.close(descriptor)
            raise
        return descriptor

    def check_open_file(self, descriptor: int) -> None:
        """Raise if an open file is not what it was. Asked before a read and after it, so that no read is torn."""
        found = os.fstat(descriptor)
        before, now = self.identity.size_bytes, found.st_size
        if now == before and found.st_mtime_ns == self.identity.mtime_ns:
            return
        what = (
            f"{'grew' if now > before else 'shrank'} from {before} to {now} bytes" if now != before else "was rewritten"
        )
        raise SourceChangedError(
            f"the file {what} since it was opened", path=self.path, advice="Wait until it is complete and open it again"
        )

    def check_unchanged(self) -> None:
        """Raise if the file is not what it was."""
        os.close(self.open_unchanged())


def stat_file(path: str) -> os.stat_result:
    """Look at a file; what is wrong is said with what to do."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise DataError("there is no such file", path=path, advice="Check the name and the folder") from None
    except OSError as error:
        raise DataError(
            f"cannot be looked at: {error.strerror}",
            path=path,
            advice="Check the path, and the permissions of the folders on it",
        ) from error


def read_identity(path: str) -> tuple[Identity, bytes]:
    """Look at a file: its identity and its first bytes. Refuses what is not a readable regular file."""
    found = stat_file(path)
    if stat.S_ISDIR(found.st_mode):
        raise DataError(
            "is a directory",
            path=path,
            advice=f"Name the files in it, with a glob such as {os.path.join(path, '*')!r}",
        )
    if not stat.S_ISREG(found.st_mode):
        raise DataError(
            "is a pipe or a device, which can be read only once and from the front, so it cannot be divided",
            path=path,
            advice="Save it to a file first",
        )
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror}", path=path, advice="Check its permissions") from error
    try:
        found = os.fstat(descriptor)
        head = os.pread(descriptor, _FINGERPRINT_BYTES, 0)
        tail = os.pread(descriptor, _FINGERPRINT_BYTES, max(0, found.st_size - _FINGERPRINT_BYTES))
    finally:
        os.close(descriptor)
    fingerprint = blake2b(head + tail, digest_size=16).hexdigest()
    return Identity(found.st_size, found.st_mtime_ns, fingerprint), head


class _PiecesAsFile(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        super().__init__()
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._piece:
            found = next(self._pieces, None)
            if found is None:
                return 0
            self._piece = memoryview(found)
        part = self._piece[: len(buffer)]
        memoryview(buffer)[: len(part)] = part
        self._piece = self._piece[len(part) :]
        return len(part)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
