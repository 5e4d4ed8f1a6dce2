"""Bytes from one open file to another, in the kernel."""

from __future__ import annotations

import errno
import os

# What the system says where a file system or a kind of descriptor is not for this.
_NOT_FOR_THESE_FILES = {
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EBADF,
    errno.EPERM,
    errno.ENOTSOCK,
    errno.EAGAIN,
}


def copy_in_kernel(source: int, start: int, stop: int, out: int) -> int:
    """Copy the bytes [start, stop) of a file to where another stands; how far that was possible."""
    at = start
    for copy in _COPIES:
        try:
            while at < stop:
                copied = copy(out, source, at, stop - at)
                if not copied:
                    break
                at += copied
        except OSError as error:
            if error.errno not in _NOT_FOR_THESE_FILES:
                raise
    return at


def _copy_file_range(out: int, source: int, offset: int, count: int) -> int:
    return os.copy_file_range(source, out, count, offset_src=offset)


_COPIES = (_copy_file_range, os.sendfile) if hasattr(os, "copy_file_range") else ()
