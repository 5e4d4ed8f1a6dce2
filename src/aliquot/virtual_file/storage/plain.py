from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from aliquot.virtual_file.storage.storage import PIECE_BYTES, Storage, write_all

# What copy_file_range and sendfile say where a file system or a kind of descriptor is not for them.
_NOT_FOR_THESE_FILES = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}


class PlainStorage(Storage):
    """A file that is not compressed: its content is its bytes."""

    compression = "none"

    @property
    def known_size_bytes(self) -> int:
        """Known from the start."""
        return self.identity.size_bytes

    def read_at(self, offset: int, length: int) -> bytes:
        """One or two system calls."""
        descriptor = self.open_unchanged()
        try:
            wanted = max(0, min(length, self.identity.size_bytes - offset))
            data = os.pread(descriptor, wanted, offset)
            while len(data) < wanted:
                more = os.pread(descriptor, wanted - len(data), offset + len(data))
                if not more:
                    raise self.changed(offset + len(data))
                data += more
            return data
        finally:
            os.close(descriptor)

    def pieces(self, start: int, stop: int | None = None, *, threads: int = 1) -> Iterator[memoryview]:
        """Views of one buffer, which is filled again and again."""
        end = self.identity.size_bytes if stop is None else min(stop, self.identity.size_bytes)
        if start >= end:
            return
        descriptor = self.open_unchanged()
        try:
            buffer = memoryview(bytearray(min(PIECE_BYTES, end - start)))
            at = start
            while at < end:
                got = os.preadv(descriptor, [buffer[: end - at]], at)
                if not got:
                    raise self.changed(at)
                at += got
                yield buffer[:got]
        finally:
            os.close(descriptor)

    def copy_to(self, descriptor: int, start: int, stop: int) -> None:
        """In the kernel where it can, through this process where it cannot."""
        source = self.open_unchanged()
        try:
            at = start
            for copy in (_copy_file_range, os.sendfile):
                try:
                    while at < stop:
                        copied = copy(descriptor, source, at, stop - at)
                        if not copied:
                            raise self.changed(at)
                        at += copied
                except OSError as error:
                    if error.errno not in _NOT_FOR_THESE_FILES:
                        raise
                else:
                    return
        finally:
            os.close(source)
        for piece in self.pieces(at, stop):
            write_all(descriptor, piece)


def _copy_file_range(out: int, source: int, offset: int, count: int) -> int:
    return os.copy_file_range(source, out, count, offset_src=offset)
