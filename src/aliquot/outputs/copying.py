"""Bytes from one open file to another, in the kernel where it can."""

from __future__ import annotations

import errno
import os
import select

from aliquot.copying import copy_in_kernel

BLOCK_BYTES = 1 << 20


def copy_range(source: int, start: int, stop: int, out: int) -> None:
    """Copy the bytes [start, stop) of a file to where another file, pipe or device stands."""
    at = copy_in_kernel(source, start, stop, out)
    while at < stop:
        data = os.pread(source, min(BLOCK_BYTES, stop - at), at)
        if not data:
            raise OSError(errno.EIO, f"a file that is copied has become shorter: {at} bytes of {stop}")
        write_all(out, data)
        at += len(data)


def write_all(out: int, data: bytes) -> None:
    """Write all of it, waiting where a pipe is full and was opened not to wait."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(out, rest) :]
        except BlockingIOError:
            select.select([], [out], [])


def is_same_start(one: int, other: int, length: int) -> bool:
    """Whether two files begin with the same bytes, some blocks at a time."""
    at = 0
    while at < length:
        count = min(BLOCK_BYTES, length - at)
        data = os.pread(one, count, at)
        if len(data) != count or data != os.pread(other, count, at):
            return False
        at += count
    return True
