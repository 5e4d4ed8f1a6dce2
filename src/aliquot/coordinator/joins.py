"""Large results are joined by workers, two by two: given, lost and tried again as spans are."""

from __future__ import annotations

from collections.abc import Callable

from aliquot.coordinator.budget import Budget
from aliquot.coordinator.commands import Command, FailJoin, Join
from aliquot.coordinator.joining import Joining, LargeJoin, MergeAsTree
from aliquot.coordinator.roster import Roster
from aliquot.coordinator.worker import Worker


class Joins:
    """Which worker joins what. Only a tree of results has joins that are large enough."""

    def __init__(self, joining: Joining, roster: Roster, budget: Budget) -> None:
        self._has_tree = isinstance(joining, MergeAsTree)  # asked at each event: most runs have none
        self._tree = joining if isinstance(joining, MergeAsTree) else MergeAsTree()  # one that stays empty
        self._roster = roster
        self._budget = budget
        self.by_worker: dict[int, LargeJoin] = {}

    @property
    def waiting(self) -> int:
        """How many wait for a worker."""
        return self._tree.large_joins if self._has_tree else 0

    @property
    def needed_bytes(self) -> int:
        """What the first needs that does not fit into a share; 0 if there is none."""
        return self._tree.needed_bytes if self._has_tree else 0

    @property
    def are_under_way(self) -> bool:
        """Whether anything is still to be joined."""
        return self._has_tree and self._tree.is_joining

    def give(self, worker: Worker, span: int, allowance: Callable[[int], int | None]) -> Join | None:
        """Have the worker that has been idle for longest join two results, if some wait and there is memory for it."""
        has_others = self._roster.has_others(worker)
        if worker.is_suspended and has_others:
            return None
        is_limited = self._budget.total_bytes is not None
        join = self._tree.take_join(
            lambda join: (
                (join.avoid != worker.id or not has_others)
                and not (is_limited and allowance(join.needed_bytes) is None)
            )
        )
        if join is None:
            return None
        allowed_bytes = allowance(join.needed_bytes)
        self._roster.idle.popleft()
        self._roster.move(worker, "given results", "joining")
        worker.span = span
        if allowed_bytes is not None:
            self._budget.reserve(worker, allowed_bytes)
        self.by_worker[worker.id] = join
        return Join(worker.id, span, join.first, join.second, allowed_bytes)

    def joined(self, worker: Worker, result_bytes: int) -> list[Command]:
        """It has done it."""
        return self._tree.joined(self.by_worker.pop(worker.id), result_bytes)

    def failed(self, worker: Worker, error: int | None) -> list[Command]:
        """It could not; at the second time, nobody can."""
        join = self.by_worker.pop(worker.id)
        self._tree.put_back(join._replace(attempts=join.attempts + 1, avoid=worker.id))
        return [FailJoin(error)] if join.attempts else []

    def exhausted(self, worker: Worker) -> list[Command]:
        """It cannot be divided: it is tried with more of the site's memory; what is too large for all of it, here."""
        join = self.by_worker.pop(worker.id)
        rung = self._budget.next_rung(worker.allowed_bytes)
        if rung is None:
            return self._tree.join_here(join)
        self._tree.put_back(join._replace(needed_bytes=rung))
        return []

    def lost(self, worker: Worker) -> None:
        """The worker is gone, which says nothing about the results."""
        self._tree.put_back(self.by_worker.pop(worker.id))
