from __future__ import annotations

import math
from collections import deque
from typing import Any

from aliquot.coordinator.commands import Advise, Assign, Command, GiveUp, Trim
from aliquot.coordinator.events import (
    Event,
    Progressed,
    SourceGrew,
    StepFailed,
    Ticked,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.joining import Joining
from aliquot.coordinator.outlook import Outlook
from aliquot.coordinator.transitions import State, next_states
from aliquot.coordinator.waiting import Waiting, WaitingUnits
from aliquot.coordinator.worker import OWNING, Worker
from aliquot.sizing import LinearModel

# A step that fails so often has failed for good.
_MOST_ATTEMPTS = 2
# Different workers first try different sizes: one round tells the overhead from the cost of a unit.
_FIRST_SIZES = (1, 4, 2, 8)
_KNOWN_SIZES = 3
# Where the front is wanted first, a span is about this long.
_ROUND_SECONDS = 2.0
_FIRST_ROUNDS = 32
# While someone is idle, look again at silent workers after this long.
_WAKE_SECONDS = 0.02
_WAKE_SECONDS_A_WORKER = 5e-5


class ImpossibleEventError(AssertionError):
    """An event that cannot happen in the state of its worker: a fault in aliquot or in a site."""


class Coordinator:
    """Decides who works on which units, whose tail is taken back, what is tried again, and what is joined when.

    `handle` is the only thing that changes it: events in, commands out, the time as an argument. Nothing here grows
    with the number of units; everything grows with the number of workers and of spans under way.

    ``expected_workers`` share the units equally as they join. With ``front_first``, spans are handed out in rounds
    from the first unit upward, so that results that must be appended in order do not pile up.
    """

    def __init__(
        self,
        joining: Joining,
        *,
        units: int = 0,
        is_complete: bool = True,
        expected_workers: int = 1,
        first_units: int = 1,
        front_first: bool = False,
        time: LinearModel | None = None,
        memory: LinearModel | None = None,
    ) -> None:
        self._joining = joining
        self._expected_workers = max(1, expected_workers)
        self._first_units = first_units
        self._front_first = front_first
        self._workers: dict[int, Worker] = {}  # all that are not gone
        self._idle: deque[int] = deque()  # all and only those that are idle, longest first
        self._waiting = WaitingUnits()  # all and only units that are neither done, owned nor given up
        self._outlook = Outlook(self._workers, time, memory)
        self._failed: list[GiveUp] = []
        self._next_span = 0
        self._joined_workers = 0
        self._trims = 0  # under way
        self._is_finished = False
        self.units = 0
        self.is_complete = False
        self.done_units = 0
        self.failed_units = 0
        self.spans = 0
        self.steps = 0
        self.steals = 0
        self._grow(units, is_complete)

    # What a driver and a display may ask

    @property
    def time(self) -> LinearModel:
        """What was learned about the seconds of a step, over all workers."""
        return self._outlook.time

    @property
    def memory(self) -> LinearModel:
        """What was learned about the bytes of a step."""
        return self._outlook.memory

    @property
    def is_over(self) -> bool:
        """Whether every unit is done or was given up."""
        return self.is_complete and self.done_units + self.failed_units == self.units

    @property
    def failures(self) -> list[GiveUp]:
        """What was given up."""
        return self._failed

    def wake_seconds(self, now_seconds: float) -> float | None:
        """When to send `Ticked`, if nothing else happens: only while a worker is idle and others are not."""
        if not self._idle or len(self._idle) == len(self._workers):
            return None
        return now_seconds + max(_WAKE_SECONDS, _WAKE_SECONDS_A_WORKER * len(self._workers))

    # Events

    def handle(self, event: Event, now_seconds: float) -> list[Command]:
        """Take one event, and say what is to be done."""
        commands: list[Command] = []
        self._outlook.note_event()
        match event:
            case Progressed():
                self._progressed(event, now_seconds, commands)
            case Trimmed():
                self._trimmed(event, now_seconds, commands)
            case WorkerJoined():
                self._joined(event)
            case WorkerLost():
                self._lost(event, commands)
            case StepFailed():
                self._step_failed(event, commands)
            case SourceGrew():
                self._grow(event.units, event.is_complete)
            case Ticked():
                self._outlook.expect_silent_workers_longer(now_seconds)
        self._feed(now_seconds, commands)
        if self.is_over and not self._is_finished:
            self._is_finished = True
            if not self._failed:
                commands += self._joining.finish()
        return commands

    def _joined(self, event: WorkerJoined) -> None:
        if event.worker in self._workers:
            raise ImpossibleEventError(f"joined twice: {self._workers[event.worker].tell_story()}")
        self._workers[event.worker] = Worker(event.worker)
        self._idle.append(event.worker)

    def _progressed(self, event: Progressed, now_seconds: float, commands: list[Command]) -> None:
        worker = self._owner(event.worker, event.span, event)
        if not worker.done_to == event.start < event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} does not continue {worker.tell_story()}")
        self._outlook.learn(worker, event, now_seconds)
        worker.done_to = event.stop
        self.done_units += event.stop - event.start
        self.steps += event.steps
        commands += self._joining.add(event.start, event.stop, event.result, event.result_bytes)
        if worker.done_to < worker.stop:
            self._move(worker, "Progressed", worker.state)
            if not worker.knows_sizes and self.time.size_classes >= _KNOWN_SIZES:
                worker.knows_sizes = True
                commands.append(Advise(worker.id, worker.span, *self._outlook.advice(worker)))
            if worker.state == "running":
                self._outlook.expect(worker, now_seconds)
        elif worker.state == "trimming":
            self._move(worker, "Progressed", "finished")
        else:
            self._move(worker, "Progressed", "idle")
            self._set_idle(worker)

    def _trimmed(self, event: Trimmed, now_seconds: float, commands: list[Command]) -> None:
        worker = self._owner(event.worker, event.span, event)
        self._trims -= 1
        thief = self._release_partner(worker)
        if worker.state == "finished":
            self._move(worker, "Trimmed", "idle")
            self._set_idle(worker)
            return
        if not worker.done_to <= event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} does not cut {worker.tell_story()}")
        tail = Waiting(event.stop, worker.stop)
        worker.stop = event.stop
        if worker.stop == worker.done_to:
            # It was between two steps, and all that it had not begun was taken: there will be no further report.
            self._move(worker, "Trimmed", "idle")
            self._set_idle(worker)
            self._waiting.add(tail)
            self.steals += 1
            return
        self._move(worker, "Trimmed", "running")
        if tail.start == tail.stop:
            # All was started already: not to be asked again before it is heard of.
            worker.version += 1
            worker.has_given_nothing = True
            return
        self.steals += 1
        self._outlook.expect(worker, now_seconds)
        if thief is None:
            self._waiting.add(tail)
        else:
            self._idle.pop()  # it was released just now
            self._assign(thief, tail, now_seconds, commands, tail_of=worker)

    def _step_failed(self, event: StepFailed, commands: list[Command]) -> None:
        worker = self._owner(event.worker, event.span, event)
        if not worker.done_to <= event.start < event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} is not in {worker.tell_story()}")
        self._put_back(worker, event.start, event.stop, event.error, commands)
        if worker.state == "trimming":
            self._move(worker, "StepFailed", "finished")
        else:
            self._move(worker, "StepFailed", "idle")
            self._set_idle(worker)

    def _lost(self, event: WorkerLost, commands: list[Command]) -> None:
        worker = self._workers.pop(event.worker, None)
        if worker is None:
            raise ImpossibleEventError(f"{event}: there is no such worker")
        if worker.state == "idle":
            self._idle.remove(worker.id)
        if worker.state in OWNING:
            if event.is_suspect and event.running_start < event.running_stop:
                if not worker.done_to <= event.running_start < event.running_stop <= worker.stop:
                    raise ImpossibleEventError(f"{event} is not in {worker.tell_story()}")
                self._put_back(worker, event.running_start, event.running_stop, event.error, commands)
            else:
                self._waiting.add(Waiting(worker.done_to, worker.stop, worker.attempts, error=worker.error))
        if worker.state in ("trimming", "finished"):
            self._trims -= 1
            self._release_partner(worker)
        elif worker.state == "promised" and worker.partner is not None:
            self._workers[worker.partner].partner = None
        worker.model = None  # others may still refer to this one
        self._move(worker, "WorkerLost", "gone")

    def _put_back(self, worker: Worker, start: int, stop: int, error: int | None, commands: list[Command]) -> None:
        """All of a span that was not sent up waits again; the step that failed, apart."""
        # What failed as a part of more was not tried by itself before.
        is_the_same = start == worker.span_start and stop == worker.stop
        attempts = worker.attempts + 1 if is_the_same else 1
        self._waiting.add(Waiting(worker.done_to, start))
        self._waiting.add(Waiting(stop, worker.stop))
        if attempts < _MOST_ATTEMPTS:
            self._waiting.add(Waiting(start, stop, attempts, avoid=worker.id, error=error))
            return
        given_up = GiveUp(start, stop, error if error is not None else worker.error, attempts)
        self._failed.append(given_up)
        self.failed_units += stop - start
        commands.append(given_up)

    def _grow(self, units: int, is_complete: bool) -> None:
        if units < self.units or (self.is_complete and (units != self.units or not is_complete)):
            raise ImpossibleEventError(f"a source of {self.units} units has {units} now")
        self._waiting.add(Waiting(self.units, units))
        self.units = units
        self.is_complete = is_complete

    # Handing out

    def _feed(self, now_seconds: float, commands: list[Command]) -> None:
        """Give idle workers what waits; when nothing does, the tails of others."""
        passed_over = 0
        while len(self._idle) > passed_over:
            worker = self._workers[self._idle[0]]
            if self._waiting:
                taken = self._waiting.take(worker.id, self._fair_units(worker), only_worker=len(self._workers) == 1)
                if taken is not None:
                    self._idle.popleft()
                    self._assign(worker, taken, now_seconds, commands)
                elif not self._promise_tail(worker, now_seconds, commands):
                    # What waits must not go to this worker again; others will be idle at some time.
                    self._idle.rotate(-1)
                    passed_over += 1
            elif not self._promise_tail(worker, now_seconds, commands):
                return

    def _fair_units(self, worker: Worker) -> int:
        """How many of the waiting units a worker gets: an equal part for each that has none."""
        still_to_come = self._expected_workers - self._joined_workers
        fair = math.ceil(self._waiting.units / max(1, still_to_come, len(self._idle)))
        if not self._front_first:
            return fair
        round_units = self._outlook.typical_units_in(_ROUND_SECONDS, worker)
        if round_units is None:
            round_units = self.units / (_FIRST_ROUNDS * self._expected_workers)
        return max(1, min(fair, int(round_units)))

    def _assign(
        self,
        worker: Worker,
        taken: Waiting,
        now_seconds: float,
        commands: list[Command],
        *,
        tail_of: Worker | None = None,
    ) -> None:
        first_size = _FIRST_SIZES[self._joined_workers % len(_FIRST_SIZES)] if not self.time.observations else 1
        self._move(worker, "assigned", "running")
        worker.span = self._next_span
        worker.span_start = worker.done_to = taken.start
        worker.stop = taken.stop
        worker.attempts, worker.error = taken.attempts, taken.error
        worker.model, worker.is_compared = tail_of, False
        if tail_of is not None and tail_of.rate is not None:
            worker.model_unit_seconds = tail_of.rate.seconds
        elif tail_of is not None:
            worker.model, worker.model_unit_seconds = tail_of.model, tail_of.model_unit_seconds
        if worker.model is None and not worker.is_speed_settled:
            worker.first_start = taken.start
        worker.rate = None
        worker.ready_seconds = now_seconds + self._outlook.startup_seconds
        worker.has_given_nothing = False
        worker.knows_sizes = self.time.size_classes >= _KNOWN_SIZES
        self._next_span += 1
        self._joined_workers += 1
        self.spans += 1
        self._outlook.expect(worker, now_seconds)
        first_units = self._first_units * first_size
        commands.append(
            Assign(worker.id, worker.span, taken.start, taken.stop, first_units, *self._outlook.advice(worker))
        )

    def _promise_tail(self, worker: Worker, now_seconds: float, commands: list[Command]) -> bool:
        """Have the span that ends last trimmed for an idle worker, if that helps."""
        outlook = self._outlook
        victim = outlook.find_victim()
        if victim is None:
            return False
        piece = outlook.cut_for(worker, victim, now_seconds)
        if piece is None:
            return False
        if self._trims and piece.taken_seconds < outlook.startup_seconds < outlook.level_seconds - now_seconds:
            # Those with the most to give are being asked already, and will have more to give than this.
            return False
        self._idle.popleft()
        self._move(worker, "promised", "promised")
        worker.partner = victim.id
        self._move(victim, "asked", "trimming")
        victim.partner = worker.id
        victim.version += 1
        commands.append(Trim(victim.id, victim.span, min(1.0, piece.share)))
        self._trims += 1
        return True

    # States

    def _owner(self, worker_id: int, span: int, event: Any) -> Worker:
        worker = self._workers.get(worker_id)
        if worker is None:
            raise ImpossibleEventError(f"{event}: there is no such worker")
        if worker.span != span:
            raise ImpossibleEventError(f"{event}: {worker.tell_story()}")
        if not next_states(worker.state, type(event).__name__):
            raise ImpossibleEventError(f"{event}: {worker.tell_story()}")
        return worker

    def _move(self, worker: Worker, event: str, state: State) -> None:
        """The only place where a state changes."""
        if state not in next_states(worker.state, event):
            raise ImpossibleEventError(f"{event} does not lead to {state}: {worker.tell_story()}")
        worker.story.append(f"{event} -> {state}")
        worker.state = state

    def _set_idle(self, worker: Worker) -> None:
        worker.partner = None
        worker.version += 1
        self._idle.append(worker.id)

    def _release_partner(self, worker: Worker) -> Worker | None:
        """The worker that a tail was promised to is idle again, if it is still there."""
        partner, worker.partner = worker.partner, None
        if partner is None:
            return None
        thief = self._workers[partner]
        self._move(thief, "released", "idle")
        self._set_idle(thief)
        return thief
