from __future__ import annotations

import os
import resource
import sys

# Writing 5 to clear_refs sets the highest resident size back to the present one, and touches nothing else.
_RESET_PEAK = b"5"
_PAGE_BYTES = resource.getpagesize()


class PeakMeter:
    """The most memory that this process held since `reset`, to the page: the kernel's own number, not a sample.

    However short an allocation lives, it is seen. Where the kernel gives no such number, the peak is that since the
    process began, and ``is_exact`` is False.
    """

    def __init__(self) -> None:
        self._status = self._statm = self._clear_refs = -1
        try:
            self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
            self._clear_refs = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
            os.pwrite(self._clear_refs, _RESET_PEAK, 0)
        except OSError:
            self._clear_refs = -1  # not Linux, or /proc is not there, or not to be written
        self.is_exact = self._clear_refs >= 0

    def reset(self) -> None:
        """Measure from here."""
        if self.is_exact:
            os.pwrite(self._clear_refs, _RESET_PEAK, 0)

    def peak_bytes(self) -> int:
        """The most that was resident since the last reset."""
        if not self.is_exact:
            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        status = os.pread(self._status, 4096, 0)
        at = status.index(b"VmHWM:") + 6
        return int(status[at : status.index(b"kB", at)]) * 1024

    def resident_bytes(self) -> int:
        """What is resident now; 0 where that cannot be had cheaply."""
        if self._statm < 0:
            return 0
        return int(os.pread(self._statm, 128, 0).split()[1]) * _PAGE_BYTES

    def close(self) -> None:
        """Close what was opened."""
        for descriptor in (self._status, self._statm, self._clear_refs):
            if descriptor >= 0:
                os.close(descriptor)
