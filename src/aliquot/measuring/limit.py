from __future__ import annotations

import os
import resource

_PAGE_BYTES = resource.getpagesize()
# A little below what is allowed: pages of files and of the stack are not counted by the limit.
_PART = 0.96
# So little room would make the interpreter itself fail.
_LEAST_ROOM_BYTES = 4 << 20


class DataLimit:
    """Has the kernel refuse memory to this process beyond a limit: the one who asks for it gets a `MemoryError`.

    What is limited is data that may be written (RLIMIT_DATA), touched or not. What is there already and was never
    touched is not counted against the allowance. Programs that this process starts have the same limit, each its own.
    """

    def __init__(self) -> None:
        self._statm = -1
        self._hard = resource.RLIM_INFINITY
        self._is_set = False
        try:
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            self._soft, self._hard = resource.getrlimit(resource.RLIMIT_DATA)
        except (OSError, ValueError):
            self._statm = -1
        self.is_there = self._statm >= 0

    def set(self, allowed_bytes: int) -> None:
        """Refuse what would make this process larger than that."""
        if not self.is_there:
            return
        fields = os.pread(self._statm, 128, 0).split()
        resident, data = int(fields[1]) * _PAGE_BYTES, int(fields[5]) * _PAGE_BYTES
        limit = data + max(int(allowed_bytes * _PART) - resident, _LEAST_ROOM_BYTES)
        if self._hard != resource.RLIM_INFINITY:
            limit = min(limit, self._hard)
        self._is_set = True
        resource.setrlimit(resource.RLIMIT_DATA, (limit, self._hard))

    def lift(self) -> None:
        """Refuse nothing, as before."""
        if self._is_set:
            self._is_set = False
            resource.setrlimit(resource.RLIMIT_DATA, (self._soft, self._hard))

    def close(self) -> None:
        """Close what was opened."""
        if self._statm >= 0:
            os.close(self._statm)
