from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
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
from aliquot.coordinator.rates import Noise, UnitSeconds
from aliquot.coordinator.speeds import Speed, compare, first_speeds
from aliquot.coordinator.stealing import Load, cut, level_seconds
from aliquot.coordinator.transitions import State, next_states
from aliquot.coordinator.waiting import Waiting, WaitingUnits
from aliquot.sizing import LinearModel, Observation

# A step that fails so often has failed for good.
_MOST_ATTEMPTS = 2
# What is known of the time to begin a span before any was begun.
_STARTUP_SECONDS = 0.001
# Different workers first try different sizes: one round tells the overhead from the cost of a unit.
_FIRST_SIZES = (1, 4, 2, 8)
_KNOWN_SIZES = 3
# Where the front is wanted first, a span is about this long.
_ROUND_SECONDS = 2.0
_FIRST_ROUNDS = 32
# While someone is idle, look again at silent workers after this long.
_WAKE_SECONDS = 0.02
_WAKE_SECONDS_A_WORKER = 5e-5
# The level takes a look at all workers: it is found anew after an eighth as many events as there are workers.
_EVENTS_A_LEVEL = 8
# A rate or a speed is certain enough, to a seventh, when its relative variance is below this.
_CERTAIN = 0.02
# Silent for so many times its last report, a worker is stuck in a unit; reports come ever later, each by half.
_STUCK = 3.0
# What others learned counts like so many own steps.
_HINT_STEPS = 2.0
_OWNING = ("running", "trimming")


class ImpossibleEventError(AssertionError):
    """An event that cannot happen in the state of its worker: a fault in aliquot or in a site."""


class _Worker:
    """What is known of a worker. ``done_to`` up to ``stop`` is its span without what was sent up."""

    __slots__ = (
        "attempts",
        "done_to",
        "error",
        "finish_seconds",
        "first_rate",
        "first_start",
        "has_given_nothing",
        "id",
        "is_compared",
        "is_speed_settled",
        "knows_sizes",
        "model",
        "model_unit_seconds",
        "partner",
        "rate",
        "ready_seconds",
        "report_seconds",
        "span",
        "speed",
        "state",
        "stop",
        "story",
        "version",
    )

    def __init__(self, worker: int) -> None:
        self.id = worker
        self.state: State = "idle"
        self.span = -1
        self.done_to = 0
        self.stop = 0
        self.attempts = 0  # failed attempts at this very span
        self.error: int | None = None  # of the last failed attempt
        self.partner: int | None = None  # trimming, finished: for whom; promised: by whom
        self.rate: UnitSeconds | None = None  # what a unit of this span takes it; None before its first report
        self.model: _Worker | None = None  # whose tail this span was, if it is compared with that one
        self.model_unit_seconds = 0.0  # what a unit took that one
        self.is_compared = False  # whether their speeds were
        self.speed = Speed()
        self.is_speed_settled = False  # its first rate says no more about it
        self.first_rate: UnitSeconds | None = None  # in its first span, before its speed is settled
        self.first_start = 0  # where that span began
        self.ready_seconds = 0.0  # when it was last heard of, or will begin
        self.report_seconds = 0.0  # how long it worked for its last report
        self.has_given_nothing = False  # when last asked, and was not heard of since
        self.finish_seconds = math.inf  # when it will have finished, by what is known
        self.version = 0  # of its entry among the victims: older entries are outdated
        self.knows_sizes = False
        self.story: deque[str] = deque(maxlen=12)

    def tell_story(self) -> str:
        return f"worker {self.id}, {self.state}, span {self.span} [{self.done_to}, {self.stop}): " + " | ".join(
            self.story
        )


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
        self._workers: dict[int, _Worker] = {}  # all that are not gone
        self._idle: deque[int] = deque()  # all and only those that are idle, longest first
        self._waiting = WaitingUnits()  # all and only units that are neither done, owned nor given up
        self._victims: list[tuple[float, int, int]] = []  # (-finish, version, worker); outdated ones are skipped
        self._failed: list[GiveUp] = []
        self._next_span = 0
        self._joined_workers = 0
        self._startup_seconds = _STARTUP_SECONDS
        self._is_startup_known = False
        self._noise = Noise()
        self._level_seconds = 0.0  # when all can have finished: see stealing.py
        self._events_since_level = 0
        self._are_speeds_settled = False
        self._trims = 0  # under way
        self._rate_units = 0.0  # of all workers lately
        self._rate_seconds = 0.0
        self._is_finished = False
        self.time = time or LinearModel()  # what a step takes, over all workers
        self.memory = memory or LinearModel()
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
        self._events_since_level += 1
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
                self._expect_silent_workers_longer(now_seconds)
        self._feed(now_seconds, commands)
        if self.is_over and not self._is_finished:
            self._is_finished = True
            if not self._failed:
                commands += self._joining.finish()
        return commands

    def _joined(self, event: WorkerJoined) -> None:
        if event.worker in self._workers:
            raise ImpossibleEventError(f"joined twice: {self._workers[event.worker].tell_story()}")
        self._workers[event.worker] = _Worker(event.worker)
        self._idle.append(event.worker)

    def _progressed(self, event: Progressed, now_seconds: float, commands: list[Command]) -> None:
        worker = self._owner(event.worker, event.span, event)
        if not worker.done_to == event.start < event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} does not continue {worker.tell_story()}")
        self._learn(worker, event, now_seconds)
        worker.done_to = event.stop
        self.done_units += event.stop - event.start
        self.steps += event.steps
        commands += self._joining.add(event.start, event.stop, event.result, event.result_bytes)
        if worker.done_to < worker.stop:
            self._move(worker, "Progressed", worker.state)
            if not worker.knows_sizes and self.time.size_classes >= _KNOWN_SIZES:
                worker.knows_sizes = True
                commands.append(Advise(worker.id, worker.span, *self._advice(worker)))
            if worker.state == "running":
                self._expect(worker, now_seconds)
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
        self._expect(worker, now_seconds)
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
        if worker.state in _OWNING:
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

    def _put_back(self, worker: _Worker, start: int, stop: int, error: int | None, commands: list[Command]) -> None:
        """All of a span that was not sent up waits again; the step that failed, apart."""
        attempts = worker.attempts + 1
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

    def _fair_units(self, worker: _Worker) -> int:
        """How many of the waiting units a worker gets: an equal part for each that has none."""
        still_to_come = self._expected_workers - self._joined_workers
        fair = math.ceil(self._waiting.units / max(1, still_to_come, len(self._idle)))
        if not self._front_first:
            return fair
        if self._rate_units:
            round_units = _ROUND_SECONDS * self._rate_units / self._rate_seconds * worker.speed.value
        else:
            round_units = self.units / (_FIRST_ROUNDS * self._expected_workers)
        return max(1, min(fair, int(round_units)))

    def _assign(
        self,
        worker: _Worker,
        taken: Waiting,
        now_seconds: float,
        commands: list[Command],
        *,
        tail_of: _Worker | None = None,
    ) -> None:
        first_size = _FIRST_SIZES[self._joined_workers % len(_FIRST_SIZES)] if not self.time.observations else 1
        self._move(worker, "assigned", "running")
        worker.span = self._next_span
        worker.done_to, worker.stop = taken.start, taken.stop
        worker.attempts, worker.error = taken.attempts, taken.error
        worker.model, worker.is_compared = tail_of, False
        if tail_of is not None and tail_of.rate is not None:
            worker.model_unit_seconds = tail_of.rate.seconds
        elif tail_of is not None:
            worker.model, worker.model_unit_seconds = tail_of.model, tail_of.model_unit_seconds
        if worker.model is None and not worker.is_speed_settled:
            worker.first_start = taken.start
        worker.rate = None
        worker.ready_seconds = now_seconds + self._startup_seconds
        worker.has_given_nothing = False
        worker.knows_sizes = self.time.size_classes >= _KNOWN_SIZES
        self._next_span += 1
        self._joined_workers += 1
        self.spans += 1
        self._expect(worker, now_seconds)
        first_units = self._first_units * first_size
        commands.append(Assign(worker.id, worker.span, taken.start, taken.stop, first_units, *self._advice(worker)))

    def _promise_tail(self, worker: _Worker, now_seconds: float, commands: list[Command]) -> bool:
        """Have the span that ends last trimmed for an idle worker, if that helps."""
        victim = self._find_victim()
        if victim is None:
            return False
        self._find_level(now_seconds)
        piece = cut(
            Load(victim.finish_seconds, victim.speed.value),
            worker.speed.value,
            ready_seconds=max(now_seconds, victim.ready_seconds),
            now_seconds=now_seconds,
            startup_seconds=self._startup_seconds,
            level=self._level_seconds,
        )
        if piece is None:
            return False
        if self._trims and piece.taken_seconds < self._startup_seconds < self._level_seconds - now_seconds:
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

    def _find_victim(self) -> _Worker | None:
        """The running worker that will finish last and has more than one unit left."""
        while self._victims:
            _, version, worker_id = self._victims[0]
            worker = self._workers.get(worker_id)
            if worker is not None and worker.version == version and worker.state == "running":
                return worker
            heapq.heappop(self._victims)
        return None

    # What is expected of whom

    def _unit_seconds(self, worker: _Worker) -> float | None:
        """What a unit of its span takes this worker: by its own reports, else as was expected, else as for all."""
        if worker.rate is not None:
            return worker.rate.seconds
        if worker.model is not None:
            return worker.model_unit_seconds * worker.model.speed.value / worker.speed.value
        if self._rate_units:
            return self._rate_seconds / self._rate_units / worker.speed.value
        return None

    def _expect(self, worker: _Worker, now_seconds: float) -> None:
        """Work out when a worker will finish, and offer it to thieves."""
        unit_seconds = self._unit_seconds(worker)
        left_units = worker.stop - worker.done_to
        # Before anything is known, the spans with the most units are taken to have the most time left.
        left_seconds = left_units * (1.0 if unit_seconds is None else unit_seconds)
        self._offer(worker, max(now_seconds, worker.ready_seconds + left_seconds))

    def _find_level(self, now_seconds: float) -> None:
        """Work out when all can have finished, unless little has happened since."""
        if self._events_since_level * _EVENTS_A_LEVEL < len(self._workers):
            return
        self._events_since_level = 0
        if not self._are_speeds_settled:
            self._find_speeds()
        self._level_seconds = level_seconds(
            (
                Load(
                    max(now_seconds, worker.finish_seconds) if worker.state in _OWNING else now_seconds,
                    worker.speed.value,
                )
                for worker in self._workers.values()
            ),
            self._startup_seconds,
        )

    def _find_speeds(self) -> None:
        """Compare all workers by their first spans; what is certain enough stays."""
        begun = [
            (worker.first_start, worker.id, worker.first_rate) for worker in self._workers.values() if worker.first_rate
        ]
        if not begun:
            return
        begun.sort()
        are_most = 2 * len(begun) > len(self._workers)
        self._are_speeds_settled = are_most
        for (_, number, rate), speed in zip(begun, first_speeds([rate.seconds for _, _, rate in begun]), strict=True):
            worker = self._workers[number]
            if not worker.is_speed_settled:
                worker.speed = speed
                worker.is_speed_settled = are_most and rate.doubt < _CERTAIN
                self._are_speeds_settled &= worker.is_speed_settled

    def _offer(self, worker: _Worker, finish_seconds: float) -> None:
        worker.finish_seconds = finish_seconds
        worker.version += 1
        worker.has_given_nothing = False
        if worker.stop - worker.done_to > 1:
            heapq.heappush(self._victims, (-finish_seconds, worker.version, worker.id))
        if len(self._victims) > 4 * len(self._workers) + 64:
            self._victims = [entry for entry in self._victims if self._is_current(entry)]
            heapq.heapify(self._victims)

    def _is_current(self, entry: tuple[float, int, int]) -> bool:
        worker = self._workers.get(entry[2])
        return worker is not None and worker.version == entry[1]

    def _expect_silent_workers_longer(self, now_seconds: float) -> None:
        """A worker that is silent for much longer than before is stuck: for as long again, and the rest is to come."""
        for worker in self._workers.values():
            if worker.state != "running" or worker.stop - worker.done_to <= 1 or worker.has_given_nothing:
                continue
            silent_seconds = now_seconds - worker.ready_seconds
            finish_seconds = now_seconds + silent_seconds
            if worker.rate is not None and silent_seconds > _STUCK * max(worker.report_seconds, _WAKE_SECONDS):
                finish_seconds += (worker.stop - worker.done_to) * worker.rate.seconds
            if worker.finish_seconds < finish_seconds:
                self._offer(worker, finish_seconds)

    def _learn(self, worker: _Worker, event: Progressed, now_seconds: float) -> None:
        self.time.observe_all(event.seconds)
        self.memory.observe_all(event.peak_bytes)
        if event.setup_seconds is not None:
            weight = 0.2 if self._is_startup_known else 1.0
            self._startup_seconds += weight * (event.setup_seconds - self._startup_seconds)
            self._is_startup_known = True
        units, seconds = event.stop - event.start, max(event.busy_seconds, 1e-9)
        fade = 1 - 1 / (4 * max(1, len(self._workers)))
        self._rate_units = self._rate_units * fade + units
        self._rate_seconds = self._rate_seconds * fade + seconds
        worker.ready_seconds = now_seconds
        worker.report_seconds = seconds
        if worker.rate is None:
            worker.rate = UnitSeconds(units, seconds, self._noise)
        else:
            worker.rate.follow(units, seconds, len(self._workers))
        if worker.model is None:
            if not worker.is_speed_settled:
                worker.first_rate = worker.rate
                self._are_speeds_settled = False
        elif not worker.is_compared and (worker.rate.doubt < _CERTAIN or event.stop == worker.stop):
            compare(worker.speed, worker.rate, worker.model.speed, worker.model_unit_seconds)
            worker.is_compared = worker.is_speed_settled = worker.model.is_speed_settled = True

    def _advice(self, worker: _Worker) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
        """What is known of steps, at the rate of this worker in its span; a few own steps will count more."""
        seconds = self.time.summary()
        unit_seconds = self._unit_seconds(worker)
        if unit_seconds is not None:
            # Taken over as it is, the cost of other units by other workers would look like an overhead.
            overhead = self.time.overhead
            seconds = [Observation(units, overhead + units * unit_seconds, steps) for units, _, steps in seconds]
        return tuple(_as_a_hint(seconds)), tuple(_as_a_hint(self.memory.summary()))

    # States

    def _owner(self, worker_id: int, span: int, event: Any) -> _Worker:
        worker = self._workers.get(worker_id)
        if worker is None:
            raise ImpossibleEventError(f"{event}: there is no such worker")
        if worker.span != span:
            raise ImpossibleEventError(f"{event}: {worker.tell_story()}")
        if not next_states(worker.state, type(event).__name__):
            raise ImpossibleEventError(f"{event}: {worker.tell_story()}")
        return worker

    def _move(self, worker: _Worker, event: str, state: State) -> None:
        """The only place where a state changes."""
        if state not in next_states(worker.state, event):
            raise ImpossibleEventError(f"{event} does not lead to {state}: {worker.tell_story()}")
        worker.story.append(f"{event} -> {state}")
        worker.state = state

    def _set_idle(self, worker: _Worker) -> None:
        worker.partner = None
        worker.version += 1
        self._idle.append(worker.id)

    def _release_partner(self, worker: _Worker) -> _Worker | None:
        """The worker that a tail was promised to is idle again, if it is still there."""
        partner, worker.partner = worker.partner, None
        if partner is None:
            return None
        thief = self._workers[partner]
        self._move(thief, "released", "idle")
        self._set_idle(thief)
        return thief


def _as_a_hint(known: list[Observation]) -> Iterator[Observation]:
    return (Observation(units, cost, min(steps, _HINT_STEPS)) for units, cost, steps in known)
