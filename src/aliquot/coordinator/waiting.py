from __future__ import annotations

import heapq
from typing import NamedTuple


class Waiting(NamedTuple):
    """Units that nobody owns. ``attempts`` of them have failed, the last one at ``avoid``."""

    start: int
    stop: int
    attempts: int = 0
    avoid: int | None = None
    error: int | None = None


class WaitingUnits:
    """All units that nobody owns, the first ones first."""

    def __init__(self) -> None:
        self._heap: list[Waiting] = []
        self.units = 0

    def __len__(self) -> int:
        return len(self._heap)

    def slices(self) -> list[Waiting]:
        """In no order."""
        return list(self._heap)

    def add(self, waiting: Waiting) -> None:
        """Put back; nothing where it is empty."""
        if waiting.start < waiting.stop:
            heapq.heappush(self._heap, waiting)
            self.units += waiting.stop - waiting.start

    def take(self, worker: int, most_units: int, *, only_worker: bool) -> Waiting | None:
        """The first units that this worker may have, at most so many; units that have failed come alone and whole."""
        passed_over: list[Waiting] = []
        found: Waiting | None = None
        while self._heap:
            first = heapq.heappop(self._heap)
            if first.avoid == worker and not only_worker:
                passed_over.append(first)
                continue
            found = first
            break
        for waiting in passed_over:
            heapq.heappush(self._heap, waiting)
        if found is None:
            return None
        if not found.attempts and found.stop - found.start > most_units:
            rest = found._replace(start=found.start + most_units)
            heapq.heappush(self._heap, rest)
            found = found._replace(stop=rest.start)
        self.units -= found.stop - found.start
        return found
