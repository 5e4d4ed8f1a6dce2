from __future__ import annotations

import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Usage(NamedTuple):
        """What a process used since it began: seconds of CPU, and bytes that it read and wrote."""

        cpu_seconds: float
        read_bytes: int
        written_bytes: int
else:
    from collections import namedtuple  # without typing, which a worker does not import otherwise

    Usage = namedtuple("Usage", ("cpu_seconds", "read_bytes", "written_bytes"))
    Usage.__doc__ = "What a process used since it began: seconds of CPU, and bytes that it read and wrote."

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own blocks are


class UsageMeter:
    """What this process used, with its children that have ended and were waited for.

    The bytes are those that went through reads and writes of any kind, from the page cache, pipes and terminals too;
    files that are mapped into memory do not count. What the meter itself reads is taken off. A meter measures the
    process that made it: one that was made before a fork goes on measuring the parent.
    """

    def __init__(self) -> None:
        self._own_bytes = 0
        try:
            self._io = os.open("/proc/self/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._io = -1  # not Linux, or the kernel does not count

    def read(self) -> Usage:
        """The use until now; 0 bytes where the kernel does not count them."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        waited_for = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = own.ru_utime + own.ru_stime + waited_for.ru_utime + waited_for.ru_stime
        if self._io < 0:
            return Usage(seconds, 0, 0)
        content = os.pread(self._io, 512, 0)
        # "rchar: 6976\nwchar: 0\n" and more
        fields = content.split(None, 4)
        read_bytes = int(fields[1]) - self._own_bytes
        self._own_bytes += len(content)
        return Usage(seconds, read_bytes, int(fields[3]))

    def close(self) -> None:
        """Close what was opened."""
        if self._io >= 0:
            os.close(self._io)
            self._io = -1


def directory_bytes(path: str) -> int:
    """The disk that all files below a directory really take: holes take none, a file with two names counts once.

    Links are not followed, and what vanishes meanwhile is passed over.
    """
    total = 0
    seen: set[tuple[int, int]] = set()
    directories = [path]
    while directories:
        try:
            with os.scandir(directories.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            directories.append(entry.path)
                            continue
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if status.st_nlink > 1:
                        if (status.st_dev, status.st_ino) in seen:
                            continue
                        seen.add((status.st_dev, status.st_ino))
                    total += status.st_blocks * _BLOCK_BYTES
        except OSError:
            continue
    return total
