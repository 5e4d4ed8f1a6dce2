from __future__ import annotations

from aliquot.coordinator import Assign, Command, Event, Progressed, WorkerJoined, WorkerLost


class Tally:
    """Where the workers' time went: in steps, besides them, or in waiting for something to do."""

    def __init__(self) -> None:
        self._spans: dict[int, tuple[float, float]] = {}  # worker -> when its span began, when it was last heard of
        self._finished_seconds = 0.0  # that spans took which are over
        self.workers = 0
        self.lost_workers = 0
        self.useful_seconds = 0.0
        self.peak_bytes = 0

    def note(self, event: Event, commands: list[Command], now_seconds: float) -> None:
        """Take an event and what came of it."""
        match event:
            case Progressed():
                self.useful_seconds += event.busy_seconds
                self.peak_bytes = max([self.peak_bytes, *(int(peak) for _, peak, _ in event.peak_bytes)])
                began_seconds, _ = self._spans[event.worker]
                self._spans[event.worker] = (began_seconds, now_seconds)
            case WorkerJoined():
                self.workers += 1
            case WorkerLost():
                self.workers -= 1
                self.lost_workers += 1
        for command in commands:
            if isinstance(command, Assign):
                self._finish(command.worker)
                self._spans[command.worker] = (now_seconds, now_seconds)

    @property
    def owned_seconds(self) -> float:
        """How long workers owned something to do, all together, up to when each was last heard of."""
        return self._finished_seconds + sum(last - began for began, last in self._spans.values())

    def _finish(self, worker: int) -> None:
        began_seconds, last_seconds = self._spans.pop(worker, (0.0, 0.0))
        self._finished_seconds += last_seconds - began_seconds
