from __future__ import annotations

from typing import TypeAlias

from aliquot.coordinator import Assign, Command, Event, Progressed, StepExhausted, WorkerJoined, WorkerLost

Piece: TypeAlias = "tuple[int, int, float]"  # from a unit up to a unit, and the seconds that it took


# Beyond so many, neighbouring pieces are recorded as one.
_MOST_PIECES = 4096


class Tally:
    """Where the workers' time went: in steps, besides them, or in waiting for something to do."""

    def __init__(self) -> None:
        self._spans: dict[int, tuple[float, float]] = {}  # worker -> when its span began, when it was last heard of
        self._finished_seconds = 0.0  # that spans took which are over
        self.workers = 0
        self.lost_workers = 0
        self.useful_seconds = 0.0
        self.stopped_seconds = 0.0
        self._waited_seconds = 0.0  # for more of an open span: that is nothing to do
        self.peak_bytes = 0
        self._held: dict[int, int] = {}  # worker -> what it held at last
        self.pieces: list[Piece] = []  # what was done, and how long it took

    def note(self, event: Event, commands: list[Command], now_seconds: float) -> None:
        """Take an event and what came of it."""
        match event:
            case Progressed():
                self.useful_seconds += event.busy_seconds
                self.stopped_seconds += event.stopped_seconds
                self._waited_seconds += event.waited_seconds
                self._record((event.start, event.stop, event.busy_seconds))
                if event.peak_bytes:
                    held_bytes = self._held[event.worker] = int(max(peak for _, peak, _ in event.peak_bytes))
                    self.peak_bytes = max(self.peak_bytes, held_bytes)
                began_seconds, _ = self._spans[event.worker]
                self._spans[event.worker] = (began_seconds, now_seconds)
            case WorkerJoined():
                self.workers += 1
            case WorkerLost():
                self.workers -= 1
                self._held.pop(event.worker, None)
                self.lost_workers += 1
                self.stopped_seconds += event.stopped_seconds if event.is_exhausted else 0.0
            case StepExhausted():
                self.stopped_seconds += event.stopped_seconds
        for command in commands:
            if isinstance(command, Assign):
                self._finish(command.worker)
                self._spans[command.worker] = (now_seconds, now_seconds)

    @property
    def held_bytes(self) -> int:
        """What all workers held together, as far as they have told lately."""
        return sum(self._held.values())

    @property
    def owned_seconds(self) -> float:
        """How long workers owned something to do, all together, up to when each was last heard of."""
        held_seconds = self._finished_seconds + sum(last - began for began, last in self._spans.values())
        return held_seconds - self._waited_seconds

    def _record(self, piece: Piece) -> None:
        self.pieces.append(piece)
        if len(self.pieces) > _MOST_PIECES:
            self.pieces = _join_neighbours(sorted(self.pieces))

    def _finish(self, worker: int) -> None:
        began_seconds, last_seconds = self._spans.pop(worker, (0.0, 0.0))
        self._finished_seconds += last_seconds - began_seconds


def _join_neighbours(pieces: list[Piece]) -> list[Piece]:
    """Every two that touch as one."""
    joined: list[Piece] = []
    may_join = False
    for start, stop, seconds in pieces:
        if may_join and joined[-1][1] == start:
            first_start, _, first_seconds = joined[-1]
            joined[-1] = (first_start, stop, first_seconds + seconds)
            may_join = False
        else:
            joined.append((start, stop, seconds))
            may_join = True
    return joined
