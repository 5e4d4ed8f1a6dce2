"""Where a worker is in its span, in memory shared with its parent: a span is cut without asking its owner.

        start            next                    stop        old stop
          |  done, running |   not started         | given back |
          +----------------+-----------------------+------------+

The worker moves ``next`` on when it claims a step; the parent moves ``stop`` down when it trims, and up when it extends
a span that is open: at the end of such a span its worker waits. Both do so under a lock that the kernel releases when
its holder dies.

The nursery reads here what a step may hold and since when it runs, and writes why it has stopped a worker (watch.py).
"""

from __future__ import annotations

import fcntl
import mmap
import os

# Which span, where the running step began, the first unit not started, and the end.
_SPAN, _START, _NEXT, _STOP = range(4)
# What a step may hold; when the running one began and how long it may take, in nanoseconds; 0 for none.
_ALLOWED, _BEGAN, _WALL = range(4, 7)
# Why the worker was stopped, and what it held then; what the programs that it started held, and how many it started.
_VERDICT, _SEEN, _PROGRAMS_PEAK, _PROGRAMS = range(7, 11)
# The unit that the worker is at, where it keeps note of it.
_UNIT = 11
# What the worker may have in its scratch directory.
_DISK = 12
# Whether workers of this run have died of their units, so that results had better be sent up soon.
_WARY = 13
# Whether the parent may still extend the span.
_OPEN = 14
# Whether the worker finds out by itself what its programs held, once they have ended.
_WEIGHS = 15
_CELL_BYTES = 16 * 8

# Verdicts: by the nursery, or by the worker on itself.
NONE, EXHAUSTED, HUNG, FULL_DISK, REPLACED = range(5)


class Cell:
    """Some numbers in shared memory, each of them written by one side, or under the lock."""

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

    def begin(self, span: int, start: int, stop: int, *, is_open: bool = False) -> None:
        """The parent: before a span is assigned."""
        with _Locked(self.descriptor):
            numbers = self._numbers
            numbers[_SPAN], numbers[_START], numbers[_NEXT], numbers[_STOP] = span, start, start, stop
            numbers[_UNIT] = -1
            numbers[_OPEN] = is_open

    def extend(self, span: int, stop: int, *, is_open: bool) -> None:
        """The parent: move the end of an open span up; nothing if it is another one."""
        with _Locked(self.descriptor):
            if self._numbers[_SPAN] == span:
                self._numbers[_STOP], self._numbers[_OPEN] = stop, is_open

    def is_open(self, span: int) -> bool:
        """Whether the span may still be extended. To be asked before `claim`: what closes it may extend it, too."""
        return self._numbers[_SPAN] == span and self._numbers[_OPEN] != 0

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
            numbers[_UNIT] = -1
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

    @property
    def claimed_to(self) -> int:
        """The first unit of the span that was not claimed."""
        return self._numbers[_NEXT]

    def unstarted_units(self) -> int:
        """About how many units of the span were not claimed."""
        return self._numbers[_STOP] - self._numbers[_NEXT]

    def give(self, span: int, share: float) -> int | None:
        """The parent: cut this share off what was not started; where the span ends now, None if it is another span.

        It is not open any more.
        The step that is running counts half: on the average, half of it is still to be done. One unit that is left is
        given whole: its worker may be stuck, and nobody would ask again before it is heard of.
        """
        with _Locked(self.descriptor):
            numbers = self._numbers
            if numbers[_SPAN] != span:
                return None
            numbers[_OPEN] = False
            start, claimed, stop = numbers[_START], numbers[_NEXT], numbers[_STOP]
            # A worker that is still beginning keeps its first unit.
            free = stop - max(claimed, start + 1)
            given = min(free, 1 if free == 1 and share > 0 else int(share * (free + (claimed - start) / 2) + 0.5))
            if given > 0:
                stop -= given
                numbers[_STOP] = stop
            return stop

    def running(self) -> tuple[int, int]:
        """The step that was claimed last, or the very unit of it, where the worker has kept note."""
        with _Locked(self.descriptor):
            start, stop, unit = self._numbers[_START], self._numbers[_NEXT], self._numbers[_UNIT]
            return (unit, unit + 1) if start <= unit < stop else (start, stop)

    # What a step may hold and how long it may take

    def allow(self, allowed_bytes: int | None) -> None:
        """The parent: steps may hold so much, from the next one on."""
        self._numbers[_ALLOWED] = allowed_bytes or 0

    @property
    def allowed_bytes(self) -> int:
        """What a step may hold; 0 if anything."""
        return self._numbers[_ALLOWED]

    @property
    def wall_seconds(self) -> float:
        """After so long a step is stopped; 0 if never."""
        return self._numbers[_WALL] / 1e9

    def limit_wall(self, nanoseconds: int) -> None:
        """The parent: a step may take so long."""
        self._numbers[_WALL] = nanoseconds

    def limit_disk(self, allowed_bytes: int) -> None:
        """The parent: the scratch directory may have so much."""
        self._numbers[_DISK] = allowed_bytes

    @property
    def allowed_disk_bytes(self) -> int:
        """What the scratch directory may have; 0 if anything."""
        return self._numbers[_DISK]

    def begin_step(self, now_nanoseconds: int) -> None:
        """The worker: before a step."""
        self._numbers[_BEGAN] = now_nanoseconds

    def end_step(self) -> None:
        """The worker: after it."""
        self._numbers[_BEGAN] = 0

    def at_unit(self, unit: int) -> None:
        """The worker: before a unit of its step."""
        self._numbers[_UNIT] = unit

    def overdue_nanoseconds(self, now_nanoseconds: int) -> int | None:
        """How long a step has been running beyond what it may, negative before that; None if there is no such thing."""
        began, wall = self._numbers[_BEGAN], self._numbers[_WALL]
        return now_nanoseconds - began - wall if began and wall else None

    # Programs that the worker starts

    def note_program(self) -> None:
        """The worker: it is about to start one."""
        self._numbers[_PROGRAMS] += 1

    @property
    def programs_started(self) -> int:
        """How many it has started."""
        return self._numbers[_PROGRAMS]

    def weigh_programs(self, does: bool) -> None:
        """The worker: whether it asks the kernel what each of its programs held."""
        self._numbers[_WEIGHS] = does

    @property
    def does_weigh_programs(self) -> bool:
        """Whether it does; else what they hold is known only by looking at them."""
        return self._numbers[_WEIGHS] != 0

    def note_programs_peak(self, held_bytes: int) -> None:
        """The nursery: they hold so much now."""
        self._numbers[_PROGRAMS_PEAK] = max(self._numbers[_PROGRAMS_PEAK], held_bytes)

    def take_programs_peak(self) -> int:
        """The worker: the most that they held since the last time."""
        held_bytes, self._numbers[_PROGRAMS_PEAK] = self._numbers[_PROGRAMS_PEAK], 0
        return held_bytes

    # Whether others have died

    def be_wary(self) -> None:
        """The parent: a worker has died of its unit, and this one may too."""
        self._numbers[_WARY] = 1

    @property
    def is_wary(self) -> bool:
        """Whether what is done had better be sent up soon."""
        return self._numbers[_WARY] != 0

    # Why it ended

    def judge(self, verdict: int, held_bytes: int = 0) -> None:
        """The nursery: before it kills the worker; or the worker, before it ends by itself."""
        self._numbers[_SEEN] = held_bytes
        self._numbers[_VERDICT] = verdict

    @property
    def verdict(self) -> int:
        """Why it was stopped, if it was."""
        return self._numbers[_VERDICT]

    @property
    def held_bytes(self) -> int:
        """What it held when it was stopped."""
        return self._numbers[_SEEN]

    def seconds_in_step(self, now_nanoseconds: int) -> float:
        """How long the running step has been running."""
        began = self._numbers[_BEGAN]
        return (now_nanoseconds - began) / 1e9 if began else 0.0

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
