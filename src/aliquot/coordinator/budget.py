"""The memory of a site as one budget: who may hold how much, so that all together never hold more.

total  |---- worker 0 ----|---- worker 1 ----|---- worker 2 ----|        equal shares
       |------- worker 0 --------|------- worker 1 -------|              larger ones, where no unit fits into those
       |---- worker 0 ----|-------- worker 1, a heavy unit -----|        worker 2 waits until it is done
       |-- w 0 --|------------ worker 1, a heavier one ---------|        light steps make do with less

A share is what each gets while no unit needs more.
"""

from __future__ import annotations

from aliquot.coordinator.worker import Worker
from aliquot.sizing import LinearModel

# Others may need a little more than those that were seen.
_HEADROOM = 1.25
# Steps grow only as far as there is room in a share.
_SHARE_HEADROOM = 1.1
# Where nothing is known of what a step holds, a part of a share that is worth starting with.
_LEAST_PART = 0.5
# So often units that do not fit into a share have to be done before it is said that none does; and so often in a row
# where some did before.
_HEAVY_REPORTS, _HEAVY_REPORTS_AGAIN = 2, 8


class Budget:
    """What the workers of a site may hold; with ``total_bytes`` of None, whatever they want."""

    def __init__(self, total_bytes: int | None, workers: int) -> None:
        self.total_bytes = total_bytes
        self._equal_share_bytes = 0 if total_bytes is None else total_bytes // max(1, workers)
        self._share_bytes = self._equal_share_bytes
        self._heaviest_bytes = 0  # that a unit was seen to need which did not fit into a share
        self._heavy_reports = 0  # of such units, since one was done that did
        self._has_fitting = False  # whether any was
        self._short: dict[int, Worker] = {}  # those that had to make do with less than a share
        self._heavy: set[int] = set()  # workers that may hold more than a share
        self.free_bytes = total_bytes or 0  # that nobody may hold at the moment

    def allowance(self, needed_bytes: int, kept_bytes: int, memory: LinearModel) -> int | None:
        """What somebody may hold who begins now, where ``kept_bytes`` are wanted by another; None if too little."""
        if needed_bytes:
            return needed_bytes if needed_bytes <= self.free_bytes else None
        spare = min(self._share_bytes, self.free_bytes - kept_bytes)
        if spare == self._share_bytes:
            return spare
        least = memory.predict_upper(1) * _HEADROOM if memory.observations else self._share_bytes * _LEAST_PART
        return spare if spare >= least else None

    def reserve(self, worker: Worker, allowed_bytes: int) -> None:
        """A worker begins, and may hold so much until `release`."""
        worker.allowed_bytes = allowed_bytes
        self.free_bytes -= allowed_bytes
        if allowed_bytes > self._share_bytes:
            self._heavy.add(worker.id)
        if allowed_bytes < self._share_bytes:
            self._short[worker.id] = worker

    def release(self, worker: Worker) -> None:
        """It owns nothing any more."""
        self.free_bytes += worker.allowed_bytes or 0
        worker.allowed_bytes = None
        self._heavy.discard(worker.id)
        self._short.pop(worker.id, None)

    def is_heavy(self, worker: Worker) -> bool:
        """Whether it may hold more than a share was when it began."""
        return worker.id in self._heavy

    def has_too_much(self, worker: Worker) -> bool:
        """Whether it has a share from when they were larger."""
        return not self.is_heavy(worker) and (worker.allowed_bytes or 0) > self._share_bytes

    def heavy_bytes(self, worker: Worker) -> int:
        """What it may hold if that is more than its share, else 0."""
        return worker.allowed_bytes or 0 if self.is_heavy(worker) else 0

    def raise_allowances(self) -> list[Worker]:
        """Give what is free to those that had to make do with less; those that have more now."""
        raised = []
        for worker in list(self._short.values()):
            assert worker.allowed_bytes is not None
            more = min(self._share_bytes - worker.allowed_bytes, self.free_bytes)
            if more > 0:
                self.free_bytes -= more
                worker.allowed_bytes += more
                raised.append(worker)
                if worker.allowed_bytes == self._share_bytes:
                    del self._short[worker.id]
        return raised

    def next_rung(self, allowed_bytes: int | None) -> int | None:
        """What a unit is given next that did not fit; None if it had all that there is."""
        if allowed_bytes is None or self.total_bytes is None or allowed_bytes >= self.total_bytes:
            return None
        known = int(self._heaviest_bytes * _HEADROOM)
        return known if allowed_bytes < known < self.total_bytes else self.total_bytes

    def note_done(self, worker: Worker, peak_bytes: float) -> bool:
        """A worker has done some units, and held so much; 0 if that is not known. Whether shares have become smaller.

        Where no unit fits into a share, as each step holds a large index, shares are made larger, for fewer workers at
        a time: until units are seen that do fit.
        """
        if self.total_bytes is None:
            return False
        if self.is_heavy(worker):
            self._heaviest_bytes = max(self._heaviest_bytes, int(peak_bytes))
            self._heavy_reports += 1
            if self._heavy_reports >= (_HEAVY_REPORTS_AGAIN if self._has_fitting else _HEAVY_REPORTS):
                workers = max(1, self.total_bytes // max(1, int(self._heaviest_bytes * _SHARE_HEADROOM)))
                self._share_bytes = max(self._share_bytes, self.total_bytes // workers)
            return False
        has_shrunk = self._share_bytes > self._equal_share_bytes
        # A worker may have a larger share from before.
        if peak_bytes > self._equal_share_bytes or (has_shrunk and not peak_bytes):
            return False
        self._has_fitting = True
        self._heavy_reports = 0
        self._share_bytes = self._equal_share_bytes
        return has_shrunk
