"""In which order results become one. Results are numbers here: the driver holds what they stand for."""

from __future__ import annotations

import heapq
from typing import Protocol

from aliquot.coordinator.commands import Append, Command, Finish, Merge, Skip, Spill


class Joining(Protocol):
    """Told of each finished piece, says what to do with the results."""

    def add(self, start: int, stop: int, result: int, result_bytes: int) -> list[Command]:
        """Take the result of the units from start to stop."""

    def skip(self, start: int, stop: int) -> list[Command]:
        """There will be no result for these units."""

    def finish(self) -> list[Command]:
        """Make one of all; called when every unit is done or was given up."""


# Stands for the result of units that were given up.
_NO_RESULT = -1


class AppendInOrder:
    """From the first unit upward: a result is appended when all before it were. Those that wait are counted.

    Past ``most_waiting_bytes`` the ones that will wait longest, at the far end, are spilled.
    """

    def __init__(self, most_waiting_bytes: int) -> None:
        self._most_waiting_bytes = most_waiting_bytes
        self._waiting: dict[int, tuple[int, int, int]] = {}  # start -> stop, result, bytes, for all not yet appended
        self._farthest: list[tuple[int, int]] = []  # (-start, result) of those that wait in memory, some outdated
        self.appended_to = 0
        self.waiting_bytes = 0  # in memory, not on disk

    def add(self, start: int, stop: int, result: int, result_bytes: int) -> list[Command]:
        """Append it and what waited for it, or let it wait."""
        self._waiting[start] = (stop, result, result_bytes)
        self.waiting_bytes += result_bytes
        if start != self.appended_to:
            heapq.heappush(self._farthest, (-start, result))
            return self._spill()
        return self._append_all()

    def skip(self, start: int, stop: int) -> list[Command]:
        """Go on behind them, once all before them were appended."""
        self._waiting[start] = (stop, _NO_RESULT, 0)
        return self._append_all()

    def _append_all(self) -> list[Command]:
        commands: list[Command] = []
        while (waiting := self._waiting.pop(self.appended_to, None)) is not None:
            start = self.appended_to
            self.appended_to, result, its_bytes = waiting
            self.waiting_bytes -= its_bytes
            commands.append(Skip(start, self.appended_to) if result == _NO_RESULT else Append(result))
        if len(self._farthest) > 2 * len(self._waiting) + 64:
            self._farthest = [entry for entry in self._farthest if -entry[0] in self._waiting]
            heapq.heapify(self._farthest)
        return commands

    def finish(self) -> list[Command]:
        """All were appended."""
        assert not self._waiting, f"{len(self._waiting)} results were never appended"
        return [Finish(None)]

    def _spill(self) -> list[Command]:
        commands: list[Command] = []
        while self.waiting_bytes > self._most_waiting_bytes and self._farthest:
            start, result = heapq.heappop(self._farthest)
            waiting = self._waiting.get(-start)
            if waiting is not None and waiting[1] == result:
                self._waiting[-start] = (waiting[0], result, 0)
                self.waiting_bytes -= waiting[2]
                commands.append(Spill(result))
        return commands


class AppendAsTheyCome:
    """Every result at once, in whatever order."""

    def add(self, start: int, stop: int, result: int, result_bytes: int) -> list[Command]:
        """Append it."""
        return [Append(result)]

    def skip(self, start: int, stop: int) -> list[Command]:
        """Say so at once."""
        return [Skip(start, stop)]

    def finish(self) -> list[Command]:
        """Nothing waits."""
        return [Finish(None)]


class MergeAsTree:
    """Two of a height become one of the next: each result is merged a few times only, and few are kept.

    A binary counter: after n results there is one tree for each 1 in n written in binary.
    """

    def __init__(self) -> None:
        self._trees: dict[int, int] = {}  # height -> result

    def add(self, start: int, stop: int, result: int, result_bytes: int) -> list[Command]:
        """Merge it with its equals."""
        commands: list[Command] = []
        height = 0
        while (other := self._trees.pop(height, None)) is not None:
            commands.append(Merge(other, result))
            result = other
            height += 1
        self._trees[height] = result
        return commands

    def skip(self, start: int, stop: int) -> list[Command]:
        """Nothing is merged for them."""
        return []

    def finish(self) -> list[Command]:
        """Merge the small trees into the large ones."""
        results = [self._trees[height] for height in sorted(self._trees)]
        if not results:
            return [Finish(None)]
        commands: list[Command] = []
        whole = results[0]
        for larger in results[1:]:
            commands.append(Merge(larger, whole))
            whole = larger
        return [*commands, Finish(whole)]
