"""Where a worker is in its span, in memory shared with its parent: a span is cut without asking its owner.

        start            next                    stop        old stop
          |  done, running |   not started         | given back |
          +----------------+-----------------------+------------+

The worker moves ``next`` on when it claims a step; the parent moves ``stop`` down when it trims. Both do so under a
lock that the kernel releases when its holder dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os

_SPAN, _START, _NEXT, _STOP = range(4)
_CELL_BYTES = 4 * 8


class Cell:
    """Four numbers: which span, where the running step began, the first unit not started, and the end."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _CELL_BYTES)
        self._numbers = memoryview(self._memory).cast("q")

    @classmethod
    def create(cls) -> Cell:
        """Make a new one in memory that goes when nobody has it open."""
        descriptor = os.memfd_create("aliquot-cell", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _CELL_BYTES)
        cell = cls(descriptor)
        cell._numbers[_SPAN] = -1
        return cell

    def begin(self, span: int, start: int, stop: int) -> None:
        """The parent: before a span is assigned."""
        with _Locked(self.descriptor):
            numbers = self._numbers
            numbers[_SPAN], numbers[_START], numbers[_NEXT], numbers[_STOP] = span, start, start, stop

    def claim(self, span: int, units: int) -> tuple[int, int]:
        """The worker: take the next so many units of its span for a step, as many as are still there.

        Nothing if the cell is about the next span already: the parent knows that all of this one was reported.
        """
        numbers, descriptor = self._numbers, self.descriptor
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        try:
            if numbers[_SPAN] != span:
                return 0, 0
            start = numbers[_NEXT]
            stop = min(start + units, numbers[_STOP])
            numbers[_START] = start
            numbers[_NEXT] = stop
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN)
        return start, stop

    def unclaim(self, span: int, unit: int) -> None:
        """The worker: give back the end of its step, from a unit that it did not begin."""
        with _Locked(self.descriptor):
            if self._numbers[_SPAN] == span:
                self._numbers[_NEXT] = unit

    def stop(self, span: int) -> int:
        """Where a span ends at the moment; 0 if it is another one by now."""
        return self._numbers[_STOP] if self._numbers[_SPAN] == span else 0

    def unstarted_units(self) -> int:
        """About how many units of the span were not claimed."""
        return self._numbers[_STOP] - self._numbers[_NEXT]

    def give(self, span: int, share: float) -> int | None:
        """The parent: cut this share off what was not started; where the span ends now, None if it is another span.

        The step that is running counts half: on the average, half of it is still to be done.
        """
        with _Locked(self.descriptor):
            numbers = self._numbers
            if numbers[_SPAN] != span:
                return None
            start, claimed, stop = numbers[_START], numbers[_NEXT], numbers[_STOP]
            # A worker that is still beginning keeps its first unit.
            free = stop - max(claimed, start + 1)
            given = min(free, int(share * (free + (claimed - start) / 2) + 0.5))
            if given > 0:
                stop -= given
                numbers[_STOP] = stop
            return stop

    def running(self) -> tuple[int, int]:
        """The step that was claimed last."""
        with _Locked(self.descriptor):
            return self._numbers[_START], self._numbers[_NEXT]

    def close(self) -> None:
        """Let go of the memory."""
        self._numbers.release()
        self._memory.close()
        os.close(self.descriptor)


class _Locked:
    """Holds the lock of a cell. Record locks belong to a process, and so end with it, whatever it dies of."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *exception: object) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
