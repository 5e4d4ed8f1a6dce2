"""The nursery watches the workers that it has forked: one that holds too much or hangs is stopped, with all it started.

The nursery has one thread and nothing else to do, and its own interpreter: however busy the user's process is, a step
is stopped in time. The kernel refuses most memory before that (see `aliquot.measuring.DataLimit`); this is for what it
does not refuse: programs that a worker starts, which are counted together, and memory that is not data.
"""

from __future__ import annotations

import os
import time

from aliquot.measuring.trees import Trees, proportional_bytes, resident_and_peak_bytes
from aliquot.measuring.usage import directory_bytes
from aliquot.workers.cell import EXHAUSTED, FULL_DISK, HUNG, Cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

# Asks a worker to give its step up: its own thread raises, and so tells which unit it was at.
TIMES_UP = signal.SIGRTMAX
# A worker that does not react to it in that time is killed.
_GRACE_NANOSECONDS = 200_000_000
# How far above its allowance a worker may be seen: the limit of the kernel comes first.
_TOLERANCE = 1.02
# Memory does not grow faster than this, so that with so much room there is so much time until the next look.
_BYTES_A_SECOND = 4e9
_SHORTEST_SECONDS, _USUAL_SECONDS, _LONGEST_SECONDS = 0.005, 0.1, 0.25
_PROGRAMS_SECONDS = 0.02
# A program that has been alone for a while is looked at the less often, as each look is time that programs do not have.
# Not so rarely that what it takes last, for a moment, is not seen before it ends, unless its worker asks the kernel.
_PART_OF_AGE, _SETTLED_SECONDS = 1 / 8, 0.05
# Programs can be started without our noticing: so often all processes are looked at nevertheless.
_ALL_PROGRAMS_NANOSECONDS = 1_000_000_000
# A program may start others, of which nobody tells.
_NEW_PROGRAMS_NANOSECONDS = 150_000_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """All workers that were forked and have not ended."""

    def __init__(self) -> None:
        self._workers: dict[int, _Watched] = {}
        self._trees = Trees()
        self._programs: dict[int, list[int]] = {}  # of each worker, when they were last looked for
        self._started = 0  # by all workers together, at that time
        self._found_at = self._changed_at = 0

    def add(self, process: int, cell: int, scratch: str | None = None) -> None:
        """A worker was forked; ``cell`` is a descriptor, which stays open."""
        if not self._workers:
            # It has no programs yet, and to look for some takes time that it needs to begin.
            self._found_at, self._started, self._programs = time.monotonic_ns(), 0, {}
        self._workers[process] = _Watched(process, Cell(cell), scratch)

    def remove(self, process: int) -> None:
        """It has ended."""
        worker = self._workers.pop(process, None)
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """In a worker that was just forked: none of this is its own."""
        for process in list(self._workers):
            self.remove(process)

    def look(self) -> float | None:
        """Stop those that have to be; in how many seconds to look again, None if nobody is limited."""
        now = time.monotonic_ns()
        limited = [worker for worker in self._workers.values() if worker.is_limited(now)]
        if not limited:
            # A worker is limited when its first span begins, and nobody tells.
            return _USUAL_SECONDS if self._workers else None
        programs = self._find_programs(limited, now)
        age_seconds = (now - self._changed_at) / 1e9
        return max(
            _SHORTEST_SECONDS,
            min(worker.look(programs.get(worker.process, []), age_seconds, now) for worker in limited),
        )

    def _find_programs(self, limited: list[_Watched], now: int) -> dict[int, list[int]]:
        """The programs of each worker. They are looked for the less often, the longer they have been the same ones."""
        started = sum(worker.cell.programs_started for worker in limited)
        has_changed = started != self._started or any(worker.has_lost_program for worker in limited)
        wait = _ALL_PROGRAMS_NANOSECONDS
        if any(worker.may_have_programs for worker in limited):
            wait = min(wait, (now - self._changed_at) // 4, _NEW_PROGRAMS_NANOSECONDS)
        if has_changed or now - self._found_at >= wait:
            found = self._trees.find([worker.process for worker in limited])
            if has_changed or found != self._programs:
                self._changed_at = now
            self._programs, self._started, self._found_at = found, started, now
        return self._programs


class _Watched:
    """One worker."""

    def __init__(self, process: int, cell: Cell, scratch: str | None) -> None:
        self.process = process
        self.cell = cell
        self._scratch = scratch
        self._has_programs = False
        self.has_lost_program = False  # one has ended since they were looked for
        self._asked_at = 0  # when it was asked to give its step up
        self._is_killed = False
        try:
            self._statm = os.open(f"/proc/{process}/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._statm = -1

    @property
    def may_have_programs(self) -> bool:
        return self.cell.programs_started > 0 or self._has_programs

    def is_limited(self, now: int) -> bool:
        has_wall = self.cell.overdue_nanoseconds(now) is not None
        return has_wall or self.cell.allowed_bytes > 0 or self._scratch is not None

    def look(self, programs: list[int], age_seconds: float, now: int) -> float:
        """Judge it, with its programs, which have been the same ones for that long; in how many seconds again."""
        if self._is_killed:
            return _USUAL_SECONDS
        self._has_programs = bool(programs)
        return min(
            self._look_at_disk(),
            self._look_at_memory(programs),
            self._until_programs(programs, age_seconds),
            self._look_at_time(now),
        )

    def _look_at_disk(self) -> float:
        allowed = self.cell.allowed_disk_bytes
        if self._scratch is None or not allowed:
            return _LONGEST_SECONDS
        held = directory_bytes(self._scratch)
        if held > allowed:
            self._kill(FULL_DISK, held, [])
        return _USUAL_SECONDS

    def _look_at_memory(self, programs: list[int]) -> float:
        allowed = self.cell.allowed_bytes
        held = self._resident_bytes()
        self.has_lost_program = False
        if programs:
            sizes = [resident_and_peak_bytes(program) for program in programs]
            self.has_lost_program = any(resident == 0 for resident, _ in sizes)
            below = sum(resident for resident, _ in sizes)
            # What one of them held since the last look, and let go of, is still told by the kernel.
            self.cell.note_programs_peak(max(below, *(peak for _, peak in sizes)))
            held += below
        if not allowed:
            return _USUAL_SECONDS
        if held > allowed * _TOLERANCE:
            if programs:  # forked ones share memory, which must not be counted for each
                held = sum(proportional_bytes(process) for process in (self.process, *programs))
            if held > allowed * _TOLERANCE:
                self._kill(EXHAUSTED, held, programs)
                return _USUAL_SECONDS
        return max(0, allowed - held) / _BYTES_A_SECOND

    def _until_programs(self, programs: list[int], age_seconds: float) -> float:
        if not self.cell.allowed_bytes or not self.may_have_programs:
            return _USUAL_SECONDS
        if len(programs) > 1:
            return _PROGRAMS_SECONDS  # what they hold together is known only while they do
        settled_seconds = _LONGEST_SECONDS if self.cell.does_weigh_programs else _SETTLED_SECONDS
        return max(_PROGRAMS_SECONDS, min(settled_seconds, age_seconds * _PART_OF_AGE))

    def _look_at_time(self, now: int) -> float:
        overdue = self.cell.overdue_nanoseconds(now)
        if overdue is None or overdue < 0:
            self._asked_at = 0
            return _LONGEST_SECONDS if overdue is None else min(_USUAL_SECONDS, -overdue / 1e9)
        if not self._asked_at:
            self._asked_at = now
            try:
                os.kill(self.process, TIMES_UP)
            except OSError:
                pass  # it has just ended
        elif now - self._asked_at > _GRACE_NANOSECONDS:
            self._kill(HUNG, 0, [])
        return _PROGRAMS_SECONDS

    def _kill(self, verdict: int, held: int, programs: list[int]) -> None:
        self._is_killed = True
        self.cell.judge(verdict, held)
        for kill, number in ((os.killpg, self.process), *((os.kill, program) for program in programs)):
            try:
                kill(number, signal.SIGKILL)
            except OSError:
                pass  # it has just ended

    def _resident_bytes(self) -> int:
        try:
            return int(os.pread(self._statm, 128, 0).split(None, 2)[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0

    def close(self) -> None:
        self.cell.close()
        if self._statm >= 0:
            os.close(self._statm)
