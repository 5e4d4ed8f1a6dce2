"""Who there is, what state each is in, and who waits for whom: every change of a state is made here."""

from __future__ import annotations

from collections import deque

from aliquot.coordinator.budget import Budget
from aliquot.coordinator.commands import Trim
from aliquot.coordinator.events import WorkerEvent
from aliquot.coordinator.transitions import State, next_states
from aliquot.coordinator.worker import HOLDING, OWNING, Worker


class ImpossibleEventError(AssertionError):
    """An event that cannot happen in the state of its worker: a fault in aliquot or in a site."""


class Roster:
    """All workers that are not gone. What one may hold is given back to the budget when it owns nothing any more."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.workers: dict[int, Worker] = {}
        self.idle: deque[int] = deque()  # all and only those that are idle, longest first
        self.owners = 0  # how many own something, or join
        self.trims = 0  # how many were asked for a tail, and have not answered

    def owner(self, event: WorkerEvent) -> Worker:
        """The worker that an event is about, which must be one that can happen to it now."""
        worker = self.workers.get(event.worker)
        if worker is None:
            raise ImpossibleEventError(f"{event}: there is no such worker")
        if worker.span != event.span or not next_states(worker.state, type(event).__name__):
            raise ImpossibleEventError(f"{event}: {worker.tell_story()}")
        return worker

    def has_others(self, worker: Worker) -> bool:
        """Whether somebody else can do what this one should not."""
        return any(not other.is_suspended for other in self.workers.values() if other is not worker)

    def count_drained(self) -> int:
        """How many still work on what they had begun, and have nothing else."""
        return sum(worker.is_drained for worker in self.workers.values() if worker.state in OWNING)

    def find_open(self) -> Worker | None:
        """The one whose span grows with the source."""
        return next((worker for worker in self.workers.values() if worker.is_open), None)

    # Coming and going

    def join(self, number: int) -> None:
        """It is there, and idle."""
        if number in self.workers:
            raise ImpossibleEventError(f"joined twice: {self.workers[number].tell_story()}")
        self.workers[number] = Worker(number)
        self.idle.append(number)

    def lose(self, number: int) -> Worker:
        """It is not there any more; what it owned and for whom is still to be seen to, and then `bury`."""
        worker = self.workers.pop(number, None)
        if worker is None:
            raise ImpossibleEventError(f"lost worker {number}: there is no such worker")
        if worker.state == "idle":
            self.idle.remove(number)
        return worker

    def bury(self, worker: Worker) -> None:
        """Nobody waits for it any more, and it holds nothing."""
        if worker.state in ("trimming", "finished"):
            self.answered(worker)
        elif worker.state == "promised" and worker.partner is not None:
            self.workers[worker.partner].partner = None
        worker.model = None  # others may still refer to this one
        self.move(worker, "WorkerLost", "gone")

    # States

    def move(self, worker: Worker, event: str, state: State) -> None:
        """The only place where a state changes."""
        if state not in next_states(worker.state, event):
            raise ImpossibleEventError(f"{event} does not lead to {state}: {worker.tell_story()}")
        worker.story.append(f"{event} -> {state}")
        was_holding, worker.state = worker.state in HOLDING, state
        is_holding = state in HOLDING
        self.owners += is_holding - was_holding
        if was_holding and not is_holding:
            self._budget.release(worker)

    def end_span(self, worker: Worker, event: str) -> None:
        """It owns nothing any more; if it was asked for a tail, it has yet to answer."""
        worker.is_open = False
        if worker.state == "trimming":
            self.move(worker, event, "finished")
        else:
            self.rest(worker, event)

    def rest(self, worker: Worker, event: str) -> None:
        """It is idle."""
        self.move(worker, event, "idle")
        worker.partner = None
        worker.version += 1
        self.idle.append(worker.id)

    # Tails

    def ask(self, worker: Worker, share: float) -> Trim:
        """Take back a part of what a worker has not begun."""
        self.move(worker, "asked", "trimming")
        worker.version += 1
        worker.was_open, worker.is_open = worker.is_open, False
        self.trims += 1
        return Trim(worker.id, worker.span, share)

    def drain(self, worker: Worker) -> Trim:
        """Take back all of it, for good."""
        worker.is_drained = True
        return self.ask(worker, 1.0)

    def promise(self, thief: Worker, victim: Worker, share: float) -> Trim:
        """Take back a part of it for the worker that has been idle for longest."""
        self.idle.popleft()
        self.move(thief, "promised", "promised")
        thief.partner, victim.partner = victim.id, thief.id
        return self.ask(victim, share)

    def answered(self, worker: Worker) -> Worker | None:
        """The worker that a tail was promised to is idle again, if it is still there."""
        self.trims -= 1
        partner, worker.partner = worker.partner, None
        if partner is None:
            return None
        thief = self.workers[partner]
        self.rest(thief, "released")
        return thief
