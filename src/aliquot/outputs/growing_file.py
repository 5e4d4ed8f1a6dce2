from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from aliquot.outputs.copying import copy_range, write_all
from aliquot.outputs.errors import OutputError, naming

_ADVICE_TO_BEGIN_ANEW = "It was changed or lost since: begin the run anew"


class GrowingFile:
    """An append-only file of which every byte behind `size_bytes` is void."""

    def __init__(self, path: str, size_bytes: int | None) -> None:
        """Begin it, or cut it to what is certain."""
        self.path = path
        self.size_bytes = size_bytes or 0
        self._is_synced = False
        self._is_entry_synced = False
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if size_bytes is None else 0)
        try:
            self.descriptor = os.open(path, flags, 0o666)
        except FileNotFoundError as error:
            if size_bytes is None:
                raise
            problem = f"is not there, and {size_bytes} bytes of it were recorded"
            raise OutputError(problem, path=path, advice=_ADVICE_TO_BEGIN_ANEW) from error
        try:
            self.cut()
        except BaseException:
            os.close(self.descriptor)
            raise

    def cut(self) -> None:
        """Remove what is void."""
        found_bytes = os.fstat(self.descriptor).st_size
        if found_bytes < self.size_bytes:
            problem = f"has {found_bytes} bytes, and {self.size_bytes} were recorded"
            raise OutputError(problem, path=self.path, advice=_ADVICE_TO_BEGIN_ANEW)
        if found_bytes > self.size_bytes:
            os.ftruncate(self.descriptor, self.size_bytes)

    @contextlib.contextmanager
    def adding(self) -> Iterator[None]:
        """All that is added within, or nothing of it: then also its room on the disk is given back."""
        before_bytes = self.size_bytes
        try:
            os.lseek(self.descriptor, before_bytes, os.SEEK_SET)
            yield
        except BaseException:
            self.size_bytes = before_bytes
            with contextlib.suppress(OSError):
                os.ftruncate(self.descriptor, before_bytes)
            raise

    def copy(self, source: int, start: int, stop: int) -> None:
        """Add the bytes [start, stop) of another file."""
        copy_range(source, start, stop, self.descriptor)
        self.size_bytes += stop - start
        self._is_synced = False

    def write(self, data: bytes) -> None:
        """Add some bytes."""
        write_all(self.descriptor, data)
        self.size_bytes += len(data)
        self._is_synced = False

    def ends_with_newline(self) -> bool:
        """Whether its last line is whole; there is one."""
        return os.pread(self.descriptor, 1, self.size_bytes - 1) == b"\n"

    def sync(self) -> None:
        """Bring it to the disk, and its name, too."""
        if not self._is_synced:
            self.cut()
            sync_data(self.descriptor)
            self._is_synced = True
        if not self._is_entry_synced:
            sync_directory(os.path.dirname(self.path) or ".")
            self._is_entry_synced = True

    def close(self) -> None:
        """Close it; calling it again does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@contextlib.contextmanager
def opened(piece: str) -> Iterator[tuple[int, int]]:
    """A piece to read from, and its size. Errors while reading are the output's, as they may be from writing."""
    with naming(piece, "cannot be read"):
        # Not waiting for a writer, should a program have left a named pipe.
        descriptor = os.open(piece, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 != 0o100000:
            kind = "a directory" if status.st_mode & 0o170000 == 0o040000 else "not a file"
            advice = "For a directory, name the rule: NAME=PATH/:dir" if kind == "a directory" else None
            raise OutputError(f"is {kind}, and the output is joined from files", path=piece, advice=advice)
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Bring the bytes of a file to the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_directory(path: str) -> None:
    """Bring the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_if_there(path: str) -> None:
    """Unlink a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
