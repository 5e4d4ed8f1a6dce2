from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import msgspec

from aliquot.coordinator import (
    Advise,
    Allow,
    Assign,
    Event,
    Extend,
    Join,
    Joined,
    Suspend,
    Trim,
    WorkerJoined,
    WorkerLost,
)
from aliquot.errors import SiteError
from aliquot.sites.simulated.worker import SimulatedWorker, WorkerInSimulation, Workload
from aliquot.sites.site import WorkerCommand

# A worker that died of its work, or was suspended, is followed by another one so much later.
_REPLACEMENT_SECONDS = 0.01
_JOIN_SECONDS = 0.005


class Simulated:
    """Workers in virtual time: a day on a cluster in milliseconds, with the coordinator and the sizing of a real run.

    ``workers`` may come and go; a command or an event takes the latency of its worker each way. One whose process died
    of a unit is followed by another of its kind; so is one that was suspended, unless ``keeps_suspended``.
    """

    def __init__(
        self,
        workload: Workload,
        workers: Sequence[SimulatedWorker],
        *,
        total_bytes: int | None = None,
        keeps_suspended: bool = False,
    ) -> None:
        if not workers:
            raise SiteError("a simulation needs at least one worker")
        self.workload = workload
        self.total_bytes = total_bytes
        self._now_seconds = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0
        self._events: list[Event] = []
        self._workers: dict[int, WorkerInSimulation] = {}
        self._expected_workers = sum(worker.arrives_seconds <= 0 for worker in workers)
        self._keeps_suspended = keeps_suspended
        self._flaked: set[int] = set()
        for spec in workers:
            self._add(spec, spec.arrives_seconds)

    @property
    def expected_workers(self) -> int:
        """Those that are there at the beginning."""
        return max(1, self._expected_workers)

    def now_seconds(self) -> float:
        """Virtual time."""
        return self._now_seconds

    def perform(self, command: WorkerCommand) -> None:
        """Let it arrive after the latency of its worker."""
        worker = self._workers[command.worker]
        self._at(self._now_seconds + worker.spec.latency_seconds, lambda: self._arrive(worker, command))

    def wait(self, until_seconds: float | None) -> list[Event]:
        """Jump to the next event."""
        while not self._events:
            if not self._agenda:
                if until_seconds is None:
                    raise SiteError("all workers have left, and nothing more can happen")
                self._now_seconds = until_seconds
                break
            if until_seconds is not None and self._agenda[0][0] > until_seconds:
                self._now_seconds = max(self._now_seconds, until_seconds)
                break
            at, _, happen = heapq.heappop(self._agenda)
            self._now_seconds = max(self._now_seconds, at)
            happen()
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Nothing is left over."""
        self._agenda.clear()

    def _arrive(self, worker: WorkerInSimulation, command: WorkerCommand) -> None:
        if worker.is_gone:
            return
        match command:
            case Assign():
                self._plan(worker, worker.assign(command, self._now_seconds))
            case Extend():
                due = worker.extend(command, self._now_seconds)
                if due is not None:
                    self._plan(worker, due)
            case Trim():
                answer, due = worker.trim(command, self._now_seconds)
                if due is not None:
                    self._plan(worker, due)
                self._tell(worker, answer)
            case Advise():
                worker.advise(command)
            case Allow():
                worker.allow(command)
            case Join():
                self._join(worker, command)
            case Suspend():
                if not self._keeps_suspended:
                    self._lose(worker, is_suspect=False)
                    self._replace(worker)

    def _join(self, worker: WorkerInSimulation, command: Join) -> None:
        """It takes as long as to begin with a span, and a little more."""
        joined = Joined(worker.number, command.span, command.first)
        done_seconds = self._now_seconds + self.workload.span_seconds + _JOIN_SECONDS
        self._at(done_seconds, lambda: self._tell(worker, joined))

    def _plan(self, worker: WorkerInSimulation, at_seconds: float) -> None:
        version = worker.version
        self._at(at_seconds, lambda: self._end_run(worker, version))

    def _end_run(self, worker: WorkerInSimulation, version: int) -> None:
        if worker.is_gone or worker.version != version:
            return
        event, due = worker.finish_run(self._now_seconds)
        if due is not None:
            self._plan(worker, due)
        if isinstance(event, WorkerLost):
            worker.is_gone = True
            self._replace(worker)
        if event is not None:
            self._tell(worker, event)

    def _add(self, spec: SimulatedWorker, arrives_seconds: float) -> None:
        worker = WorkerInSimulation(len(self._workers), spec, self.workload, self._flaked)
        self._workers[worker.number] = worker
        self._at(arrives_seconds, lambda: self._tell(worker, WorkerJoined(worker.number)))
        if spec.leaves_seconds is not None:
            self._at(spec.leaves_seconds, lambda: self._lose(worker, is_suspect=False))
        if spec.dies_seconds is not None:
            self._at(spec.dies_seconds, lambda: self._lose(worker, is_suspect=True))

    def _replace(self, worker: WorkerInSimulation) -> None:
        """Another of its kind comes; that goes when this one would have gone, or stays where that was to be sooner."""
        spec, arrives_seconds = worker.spec, self._now_seconds + _REPLACEMENT_SECONDS
        if min(spec.leaves_seconds or math.inf, spec.dies_seconds or math.inf) <= arrives_seconds:
            spec = msgspec.structs.replace(spec, leaves_seconds=None, dies_seconds=None)
        self._add(spec, arrives_seconds)

    def _lose(self, worker: WorkerInSimulation, *, is_suspect: bool) -> None:
        if worker.is_gone:
            return
        worker.is_gone = True
        start, stop = worker.running_step(self._now_seconds)
        reason = "its process died" if is_suspect else "it was taken away"
        self._tell(worker, WorkerLost(worker.number, reason, start, stop, is_suspect=is_suspect))

    def _tell(self, worker: WorkerInSimulation, event: Event) -> None:
        if worker.is_gone and not isinstance(event, WorkerLost):
            return
        if worker.spec.latency_seconds == 0:
            self._events.append(event)
        else:
            self._at(self._now_seconds + worker.spec.latency_seconds, lambda: self._events.append(event))

    def _at(self, seconds: float, happen: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (seconds, self._entries, happen))
