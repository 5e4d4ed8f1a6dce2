"""In which order results become one. Results are numbers here: the driver holds what they stand for."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from aliquot.coordinator.commands import Append, Command, Finish, Merge, Skip, Spill


class Joining(Protocol):
    """Told of each finished piece, says what to do with the results."""

    def add(self, start: int, stop: int, result: int, result_bytes: int) -> list[Command]:
        """Take the result of the units from start to stop."""

    def skip(self, start: int, stop: int) -> list[Command]:
        """There will be no result for these units."""

    def restore(self, start: int, stop: int) -> list[Command]:
        """An earlier sitting has appended the result of these units."""

    def finish(self) -> list[Command]:
        """Make one of all; called when every unit is done or was given up."""


# Stand for the result of units that were given up, and of those whose result was appended before.
_NO_RESULT = -1
_APPENDED = -2
# To send a result to a worker and back takes longer than to join such a small one.
_MOST_SMALL_BYTES = 1 << 20


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

    def restore(self, start: int, stop: int) -> list[Command]:
        """Go on behind them."""
        self._waiting[start] = (stop, _APPENDED, 0)
        return self._append_all()

    def _append_all(self) -> list[Command]:
        commands: list[Command] = []
        while (waiting := self._waiting.pop(self.appended_to, None)) is not None:
            start = self.appended_to
            self.appended_to, result, its_bytes = waiting
            self.waiting_bytes -= its_bytes
            if result == _NO_RESULT:
                commands.append(Skip(start, self.appended_to))
            elif result != _APPENDED:
                commands.append(Append(result))
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

    def restore(self, start: int, stop: int) -> list[Command]:
        """Nothing more is to be done."""
        return []

    def finish(self) -> list[Command]:
        """Nothing waits."""
        return [Finish(None)]


class LargeJoin(NamedTuple):
    """Two results that are to become one in a worker. ``attempts`` have failed, the last one at ``avoid``."""

    first: int
    second: int
    height: int
    attempts: int = 0
    avoid: int | None = None
    needed_bytes: int = 0


class MergeAsTree:
    """Two of a height become one of the next: each result is merged a few times only, and few are kept.

    A binary counter: after n results there is one tree for each 1 in n written in binary. Results that have more than
    ``most_small_bytes`` are joined by workers, in parallel and measured; the others where they are.
    """

    def __init__(self, most_small_bytes: int = _MOST_SMALL_BYTES) -> None:
        self._most_small_bytes: float = most_small_bytes
        self._trees: dict[int, tuple[int, int]] = {}  # height -> result, bytes
        self._under_way = 0
        self._waiting: deque[LargeJoin] = deque()

    @property
    def large_joins(self) -> int:
        """How many wait for a worker."""
        return len(self._waiting)

    @property
    def needed_bytes(self) -> int:
        """What the first one needs that did not fit into a share; 0 if there is none."""
        return next((join.needed_bytes for join in self._waiting if join.needed_bytes), 0)

    @property
    def is_joining(self) -> bool:
        """Whether results are still to be joined by workers."""
        return bool(self._waiting or self._under_way)

    def add(self, start: int, stop: int, result: int, result_bytes: int) -> list[Command]:
        """Merge it with its equals."""
        return self._insert(0, result, result_bytes)

    def skip(self, start: int, stop: int) -> list[Command]:
        """Nothing is merged for them."""
        return []

    def restore(self, start: int, stop: int) -> list[Command]:
        """Never: what is merged is in memory, and gone with its process."""
        raise AssertionError(f"units {start} to {stop} cannot have been merged by an earlier sitting")

    def take_join(self, may_have: Callable[[LargeJoin], bool]) -> LargeJoin | None:
        """The first that somebody may do; it is under way until `joined` or `put_back`."""
        for join in self._waiting:
            if may_have(join):
                self._waiting.remove(join)
                self._under_way += 1
                return join
        return None

    def put_back(self, join: LargeJoin) -> None:
        """It was not done."""
        self._under_way -= 1
        self._waiting.appendleft(join)

    def joined(self, join: LargeJoin, result_bytes: int) -> list[Command]:
        """It was done: the first result has both."""
        self._under_way -= 1
        return self._insert(join.height + 1, join.first, result_bytes)

    def join_here(self, join: LargeJoin) -> list[Command]:
        """It is too large for workers: from now on nothing is joined there, and those that wait are joined here too."""
        self._most_small_bytes = float("inf")
        self._under_way -= 1
        commands: list[Command] = []
        for one in (join, *self._waiting):
            commands += [Merge(one.first, one.second), *self._insert(one.height + 1, one.first, 0)]
        self._waiting.clear()
        return commands

    def finish(self) -> list[Command]:
        """Merge the small trees into the large ones; without an end where workers have to."""
        commands: list[Command] = []
        while not self.is_joining and len(self._trees) > 1:
            low, high = sorted(self._trees)[:2]
            smaller, larger = self._trees.pop(low), self._trees.pop(high)
            commands += self._join(larger, smaller, high)
        if not self.is_joining:
            commands.append(Finish(next((result for result, _ in self._trees.values()), None)))
        return commands

    def _insert(self, height: int, result: int, result_bytes: int) -> list[Command]:
        other = self._trees.pop(height, None)
        if other is None:
            self._trees[height] = (result, result_bytes)
            return []
        return self._join(other, (result, result_bytes), height)

    def _join(self, first: tuple[int, int], second: tuple[int, int], height: int) -> list[Command]:
        # Of a sum or a histogram, both have about as much as what comes of them.
        result_bytes = max(first[1], second[1])
        if result_bytes > self._most_small_bytes:
            self._waiting.append(LargeJoin(first[0], second[0], height))
            return []
        return [Merge(first[0], second[0]), *self._insert(height + 1, first[0], result_bytes)]
