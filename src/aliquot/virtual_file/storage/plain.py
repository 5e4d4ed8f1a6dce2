from __future__ import annotations

import io
import os
from collections.abc import Iterator

from aliquot.copying import copy_in_kernel
from aliquot.virtual_file.storage.storage import PIECE_BYTES, Storage


class PlainStorage(Storage):
    """A file that is not compressed: its content is its bytes."""

    compression = "none"

    @property
    def known_size_bytes(self) -> int:
        """Known from the start."""
        return self.identity.size_bytes

    def read_at(self, offset: int, length: int) -> bytes:
        """One system call, seldom more."""
        descriptor = self.open_unchanged()
        try:
            wanted = max(0, min(length, self.identity.size_bytes - offset))
            data = os.pread(descriptor, wanted, offset)
            while len(data) < wanted:
                more = os.pread(descriptor, wanted - len(data), offset + len(data))
                if not more:
                    break
                data += more
            self.check_open_file(descriptor)
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
                    break
                at += got
                yield buffer[:got]
            self.check_open_file(descriptor)
        finally:
            os.close(descriptor)

    def open_from(self, start: int) -> io.RawIOBase:
        """Python's own file object: reading through a method in Python takes half as long again."""
        descriptor = self.open_unchanged()
        os.lseek(descriptor, start, os.SEEK_SET)
        return io.FileIO(descriptor)

    def check_opened(self, file: io.RawIOBase) -> None:
        """Without opening it again."""
        self.check_open_file(file.fileno())

    def copy_to(self, descriptor: int, start: int, stop: int) -> None:
        """In the kernel where it can, through this process where it cannot."""
        source = self.open_unchanged()
        try:
            at = copy_in_kernel(source, start, stop, descriptor)
            self.check_open_file(source)
        finally:
            os.close(source)
        if at < stop:
            super().copy_to(descriptor, at, stop)
