from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable
from typing import NamedTuple


class Waiting(NamedTuple):
    """Units that nobody owns. ``attempts`` at them have failed, the last one at ``avoid``.

    With ``needed_bytes``, one of them did not fit into less than that.
    """

    start: int
    stop: int
    attempts: int = 0
    avoid: int | None = None
    error: int | None = None
    needed_bytes: int = 0

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is known against them."""
        return not self.attempts and not self.needed_bytes


class WaitingUnits:
    """All units that nobody owns, the first ones first."""

    def __init__(self) -> None:
        self._heap: list[Waiting] = []
        self.units = 0
        self.suspects = 0  # pieces of which something has failed
        self.heavy: list[Waiting] = []  # pieces that need more than an equal share of the memory, the first one first

    def __len__(self) -> int:
        return len(self._heap)

    def slices(self) -> list[Waiting]:
        """In no order."""
        return list(self._heap)

    def add(self, waiting: Waiting) -> None:
        """Put back; nothing where it is empty."""
        if waiting.start < waiting.stop:
            heapq.heappush(self._heap, waiting)
            self._count(waiting, 1)

    def grow(self, start: int, stop: int) -> None:
        """Add units that a source has more, to those before them: what it tells of in pieces is handed out as one."""
        for place, waiting in enumerate(self._heap):
            if waiting.is_fresh and waiting.error is None and waiting.stop == start:
                self._heap[place] = waiting._replace(stop=stop)  # in order still: its start is the same
                self.units += stop - start
                return
        self.add(Waiting(start, stop))

    def take(self, most_units: int, may_have: Callable[[Waiting], bool]) -> Waiting | None:
        """The first units that somebody may have, at most so many; a piece that is not fresh comes alone and whole."""
        passed_over: list[Waiting] = []
        found: Waiting | None = None
        while self._heap:
            first = heapq.heappop(self._heap)
            if may_have(first):
                found = first
                break
            passed_over.append(first)
        for waiting in passed_over:
            heapq.heappush(self._heap, waiting)
        if found is None:
            return None
        self._count(found, -1)
        if found.is_fresh and found.stop - found.start > most_units:
            self.add(found._replace(start=found.start + most_units))
            found = found._replace(stop=found.start + most_units)
        return found

    def take_suspects(self) -> list[Waiting]:
        """All pieces of which something has failed."""
        suspects = [waiting for waiting in self._heap if waiting.attempts]
        self._heap = [waiting for waiting in self._heap if not waiting.attempts]
        heapq.heapify(self._heap)
        for waiting in suspects:
            self._count(waiting, -1)
        return sorted(suspects)

    def _count(self, waiting: Waiting, sign: int) -> None:
        self.units += sign * (waiting.stop - waiting.start)
        self.suspects += sign * bool(waiting.attempts)
        if waiting.needed_bytes and sign > 0:
            insort(self.heavy, waiting)
        elif waiting.needed_bytes:
            self.heavy.remove(waiting)
