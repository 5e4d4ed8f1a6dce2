from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator

from aliquot.outputs.copying import copy_range, write_all
from aliquot.outputs.errors import OutputError, naming

_ADVICE_TO_BEGIN_ANEW = "It was changed or lost since: begin the run anew"


class GrowingFile:
    """An append-only file of which every byte behind `size_bytes` is void.

    Its first piece may be this very file, under two names, so that it need not be copied. Nothing is added while the
    piece is still there: it may be needed, until somebody has noted that it is in here. Who opens the file again by
    such a note may add to it: then nobody wants the piece any more.
    """

    def __init__(self, path: str, size_bytes: int | None) -> None:
        """Begin it, or cut it to what is certain."""
        self.path = path
        self.size_bytes = size_bytes or 0
        self._is_synced = False
        self._is_entry_synced = False
        self._is_taken = False  # from a piece
        self._beside = f"{path}.taken"  # what is about to be this file
        remove_if_there(self._beside)  # of somebody who was killed amid that
        if not size_bytes:
            remove_if_there(path)  # and not cut: it may be a piece, of which nobody has noted that it is in here
        flags = os.O_RDWR | os.O_CLOEXEC | (0 if size_bytes else os.O_CREAT | os.O_EXCL)
        try:
            self.descriptor = os.open(path, flags, 0o666)
        except FileNotFoundError as error:
            if not size_bytes:
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
        if self._is_taken:
            self._part_from_piece()
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

    def take(self, piece: str, descriptor: int, size_bytes: int) -> bool:
        """Become a piece that nobody else wants, which is open, where this is empty yet; False if it has to be copied.

        It must be a file like this one, no other name of one of the user's, and not still written to.
        """
        if self.size_bytes:
            return False
        found, own = os.lstat(piece), os.fstat(self.descriptor)
        if (
            found.st_nlink > 1
            or found.st_size != size_bytes
            or _kind(found) != _kind(own)
            or _is_written_to(descriptor)
        ):
            return False
        taken, is_in_place = -1, False
        try:
            os.link(piece, self._beside)
            taken = os.open(self._beside, os.O_RDWR | os.O_CLOEXEC)
            # Not all file systems count the names of a file: there, it might be one of the user's after all.
            if os.fstat(taken).st_nlink == 2:
                os.utime(taken)  # now, as if it had been copied, whatever the program has said
                os.replace(self._beside, self.path)
                is_in_place = True
        except OSError:
            pass  # there are file systems without second names
        finally:
            if not is_in_place:
                if taken >= 0:
                    os.close(taken)
                remove_if_there(self._beside)
        if not is_in_place:
            return False
        os.close(self.descriptor)
        self.descriptor, self.size_bytes, self._is_taken = taken, size_bytes, True
        self._is_synced = self._is_entry_synced = False
        return True

    def _part_from_piece(self) -> None:
        """Before anything is added: a piece that is still there must stay what it was."""
        if os.fstat(self.descriptor).st_nlink > 1:
            descriptor = os.open(self._beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                copy_range(self.descriptor, 0, self.size_bytes, descriptor)
                if self._is_synced:
                    sync_data(descriptor)  # somebody may rely on it
                os.replace(self._beside, self.path)
            except BaseException:
                os.close(descriptor)
                remove_if_there(self._beside)
                raise
            os.close(self.descriptor)
            self.descriptor = descriptor
            self._is_synced = self._is_entry_synced = False
        self._is_taken = False

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

    def discard(self) -> None:
        """Remove it."""
        self.close()
        for path in (self.path, self._beside):
            remove_if_there(path)


def _kind(status: os.stat_result) -> tuple[int, int, int, int]:
    """Where a file is, whose it is, and who may do what with it."""
    return status.st_dev, status.st_mode, status.st_uid, status.st_gid


def _is_written_to(descriptor: int) -> bool:
    """Whether somebody has a file open to write to it, or nobody knows. This descriptor is for reading.

    A step may leave a process behind that has its output.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return True
    try:
        # The kernel gives such a lease only while there is no writer. It would tell of one that comes now by a signal,
        # which is one that does nothing.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    return False


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
