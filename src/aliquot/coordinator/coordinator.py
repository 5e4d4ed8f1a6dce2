from __future__ import annotations

import math

from aliquot.coordinator.budget import Budget
from aliquot.coordinator.commands import Advise, Allow, Assign, Command, Extend, GiveUp, Suspend
from aliquot.coordinator.events import (
    Event,
    Halted,
    Joined,
    Progressed,
    Restored,
    SourceGrew,
    StepExhausted,
    StepFailed,
    Ticked,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.isolating import HeavyRuns, after_exhaustion, after_failure
from aliquot.coordinator.joining import AppendInOrder, Joining
from aliquot.coordinator.joins import Joins
from aliquot.coordinator.outlook import Outlook
from aliquot.coordinator.roster import ImpossibleEventError, Roster
from aliquot.coordinator.waiting import Waiting, WaitingUnits
from aliquot.coordinator.worker import HOLDING, OWNING, Worker
from aliquot.sizing import LinearModel

# A worker is suspended when others have finished so many steps that had failed there.
_MOST_BLAMES = 3
# A run that stops because too many units have failed still looks for so many more.
_MOST_LISTED = 20
# Different workers first try different sizes: one round tells the overhead from the cost of a unit.
_FIRST_SIZES = (1, 4, 2, 8)
_KNOWN_SIZES = 3
# No first step takes more than this part of an equal share where memory is limited: one that is stopped was done for
# nothing.
_FIRST_PART_OF_MEMORY = 256
# Where the front is wanted first, the first spans are this part of all: nobody knows yet how long a unit takes.
_FIRST_ROUNDS = 32
# A span is so many times as long as the overhead of a step; towards the end, where a long one would leave others idle.
_OVERHEADS_A_ROUND, _OVERHEADS_AT_THE_END = 20, 4
# Of an equal part of all that is not done, a worker gets all but so much, times the deviations by which the last of all
# workers is expected to be late: who is slow with an equal part is the last.
_KEPT_BACK = 0.1
# So many times as many units as are expected there may be, where nobody has counted them all.
_UNSURE = 2.0
# While someone is idle, look again at silent workers after this long.
_WAKE_SECONDS = 0.02
_WAKE_SECONDS_A_WORKER = 5e-5
# So long, and for so many starts of a span, what has failed waits for a worker that happens to be idle.
_MOST_SUSPECT_SECONDS = 1.0
_MOST_SUSPECT_STARTUPS = 20
# Stands for any piece that is not heavy.
_LIGHT = Waiting(0, 1)


class Coordinator:
    """Decides who works on which units, whose tail is taken back, what is tried again, and what is joined when.

    `handle` is the only thing that changes it: events in, commands out, the time as an argument. Nothing here grows
    with the number of units; everything grows with the number of workers and of spans under way.

    Where ``units`` are not all, about ``expected_units`` there will be, and more are told with `SourceGrew`. A single
    worker gets them as they come, without an end of its span.
    ``expected_workers`` share the units equally as they join. With ``front_first``, spans are handed out in rounds
    from the first unit upward, each of about ``round_seconds``, so that results that must be appended in order do not
    pile up. All workers together may hold ``total_bytes``. When more than ``most_failed`` units (a number, or a part of
    all) were given up, or ``hopeless_failures`` before anything was done, nothing new is begun; with ``finish_front``,
    what comes before the first of them is done nevertheless.
    """

    def __init__(
        self,
        joining: Joining,
        *,
        units: int = 0,
        is_complete: bool = True,
        expected_units: int = 0,
        expected_workers: int = 1,
        first_units: int = 1,
        front_first: bool = False,
        round_seconds: float = 2.0,
        finish_front: bool = False,
        total_bytes: int | None = None,
        most_failed: float = 0,
        hopeless_failures: int | None = None,
        time: LinearModel | None = None,
        memory: LinearModel | None = None,
    ) -> None:
        self._joining = joining
        self._expected_workers = max(1, expected_workers)
        self._first_units = first_units
        self._front_first = front_first
        self._round_seconds = round_seconds
        self._finish_front = finish_front
        self._most_failed = most_failed
        self._hopeless_failures = hopeless_failures
        self._budget = Budget(total_bytes, self._expected_workers)
        self._heavy = HeavyRuns()
        self._roster = Roster(self._budget)
        self._workers = self._roster.workers
        self._idle = self._roster.idle
        self._joins = Joins(joining, self._roster, self._budget)
        self._waiting = WaitingUnits()  # all and only units that are neither done, owned nor given up
        self._outlook = Outlook(self._workers, time, memory, is_memory_limited=total_bytes is not None)
        self._failed: list[GiveUp] = []
        self._first_failed = math.inf  # the first unit that was given up
        self._next_span = 0
        self._joined_workers = 0
        self._suspects_since: float | None = None  # how long something that has failed waits
        self._are_suspects_first = False  # as they have waited for too long
        self._is_finished = False
        self.is_stopping = False  # too many units have failed, or nobody wants the run any more
        self.is_halted = False  # nobody does
        self.units = 0
        self.is_complete = False
        self.expected_units = 0  # all that there are, as far as anybody can tell
        self.done_units = 0
        self.restored_units = 0  # of those, by an earlier sitting
        self.failed_units = 0
        self.spans = 0
        self.steps = 0
        self.steals = 0
        self.flaky_steps = 0  # failed, and were finished elsewhere
        self.exhausted_steps = 0  # needed more memory than they were allowed
        self.suspended_workers = 0
        self._grow(SourceGrew(units, is_complete, expected_units), 0.0, [])

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
        """Whether every unit is done or was given up, or nothing more is begun and all that was has ended."""
        if self.is_halted:
            return not self._roster.owners
        if self.is_stopping:
            return not self._roster.owners and not self._waiting.suspects and not self._is_front_waiting()
        are_done = self.is_complete and self.done_units + self.failed_units == self.units
        return are_done and not self._joins.are_under_way

    @property
    def is_front_done(self) -> bool:
        """Whether all that is wanted of a run that stops is done: nothing, or what comes before its first failure."""
        appended_to = self._joining.appended_to if isinstance(self._joining, AppendInOrder) else 0
        return self.is_halted or not self._finish_front or appended_to >= self._first_failed

    @property
    def busy_workers(self) -> int:
        """How many workers own something, or join."""
        return self._roster.owners

    @property
    def total_bytes(self) -> int | None:
        """What all workers may hold together."""
        return self._budget.total_bytes

    @property
    def failures(self) -> list[GiveUp]:
        """What was given up."""
        return self._failed

    def unreported_seconds(self, now_seconds: float) -> float:
        """For how long workers have been working on what they have not reported yet, on the average of all."""
        running = (worker.ready_seconds for worker in self._workers.values() if worker.state == "running")
        return sum(max(0.0, now_seconds - since) for since in running) / max(1, len(self._workers))

    def wake_seconds(self, now_seconds: float) -> float | None:
        """When to send `Ticked`, if nothing else happens: only while a worker is idle and others are not.

        Or when what has failed has waited for long enough.
        """
        if self._idle and len(self._idle) < len(self._workers):
            return now_seconds + max(_WAKE_SECONDS, _WAKE_SECONDS_A_WORKER * len(self._workers))
        if self._suspects_since is None:
            return None
        return max(self._suspects_since + self._most_suspect_seconds, now_seconds + _WAKE_SECONDS)

    # Events

    def handle(self, event: Event, now_seconds: float) -> list[Command]:
        """Take one event, and say what is to be done."""
        commands: list[Command] = []
        self._outlook.note_event()
        was_stopping = self.is_stopping
        self._take(event, now_seconds, commands)
        if self.is_stopping and not was_stopping:
            self._stop_early(commands)
        self._feed(now_seconds, commands)
        self._free_a_worker_for_joins(commands)
        if self._waiting.suspects or self._suspects_since is not None:
            self._free_a_worker_for_suspects(now_seconds, commands)
        needed_bytes = self._needed_bytes()
        if needed_bytes:
            self._make_room(needed_bytes, commands)
        elif self._budget.free_bytes:
            for worker in self._budget.raise_allowances():
                assert worker.allowed_bytes is not None
                commands.append(Allow(worker.id, worker.span, worker.allowed_bytes))
        if self.is_over and not self._is_finished:
            if not self.is_stopping:
                commands += self._joining.finish()
                # The last results may be for workers to join.
                self._feed(now_seconds, commands)
            self._is_finished = self.is_over
        return commands

    def _take(self, event: Event, now_seconds: float, commands: list[Command]) -> None:
        match event:
            case Progressed():
                self._progressed(event, now_seconds, commands)
            case Trimmed():
                self._trimmed(event, now_seconds, commands)
            case WorkerJoined():
                self._roster.join(event.worker)
            case WorkerLost():
                self._lost(event, commands)
            case StepFailed():
                self._step_failed(event, commands)
            case StepExhausted():
                self._step_exhausted(event, commands)
            case Joined():
                worker = self._roster.owner(event)
                commands += self._joins.joined(worker, event.result_bytes)
                self._roster.end_span(worker, "Joined")
            case SourceGrew():
                self._grow(event, now_seconds, commands)
            case Restored():
                self._restore(event, commands)
            case Halted():
                self.is_halted = self.is_stopping = True
            case Ticked():
                self._outlook.expect_silent_workers_longer(now_seconds)

    def _progressed(self, event: Progressed, now_seconds: float, commands: list[Command]) -> None:
        worker = self._roster.owner(event)
        if not worker.done_to == event.start < event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} does not continue {worker.tell_story()}")
        self._outlook.learn(worker, event, now_seconds)
        worker.done_to = event.stop
        self.done_units += event.stop - event.start
        self.steps += event.steps
        self.exhausted_steps += event.stopped_steps
        has_shrunk = self._budget.note_done(worker, max((peak for _, peak, _ in event.peak_bytes), default=0.0))
        commands += self._joining.add(event.start, event.stop, event.result, event.result_bytes)
        if worker.done_to < worker.stop or worker.is_open:
            self._roster.move(worker, "Progressed", worker.state)
            if not worker.knows_sizes and self.time.size_classes >= _KNOWN_SIZES:
                worker.knows_sizes = True
                commands.append(Advise(worker.id, worker.span, *self._outlook.advice(worker)))
            if worker.state == "running":
                self._outlook.expect(worker, now_seconds)
        else:
            self._note_flaky(worker, commands)
            self._roster.end_span(worker, "Progressed")
        if has_shrunk:
            self._take_back_shares(commands)

    def _take_back_shares(self, commands: list[Command]) -> None:
        """Those that have more than a share is now give back what they have not begun, and begin again with less."""
        for worker in self._workers.values():
            self._take_back_share(worker, commands)

    def _take_back_share(self, worker: Worker, commands: list[Command]) -> None:
        if worker.state == "running" and not worker.is_drained and self._budget.has_too_much(worker):
            commands.append(self._roster.drain(worker))

    def _trimmed(self, event: Trimmed, now_seconds: float, commands: list[Command]) -> None:
        worker = self._roster.owner(event)
        thief = self._roster.answered(worker)
        if worker.state == "finished":
            self._roster.rest(worker, "Trimmed")
            return
        if not worker.done_to <= event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} does not cut {worker.tell_story()}")
        tail = Waiting(event.stop, worker.stop, worker.attempts, error=worker.error)
        worker.stop = event.stop
        if worker.stop == worker.done_to:
            # It was between two steps, and all that it had not begun was taken: there will be no further report.
            self._roster.rest(worker, "Trimmed")
            self._waiting.add(tail)
            self.steals += tail.start < tail.stop
            return
        self._roster.move(worker, "Trimmed", "running")
        if tail.start == tail.stop:
            # All was started already: not to be asked again before it is heard of.
            worker.version += 1
            worker.has_given_nothing = True
            return
        self.steals += 1
        self._outlook.expect(worker, now_seconds)
        allowed_bytes = self._allowance(tail)
        is_room = self._budget.total_bytes is None or allowed_bytes is not None
        if thief is None or thief.is_suspended or self.is_stopping or not is_room:
            self._waiting.add(tail)
            self._drain_if_stopping(worker, commands)
        else:
            self._idle.pop()  # it was released just now
            self._assign(thief, tail, allowed_bytes, now_seconds, commands, tail_of=worker)
        # Shares may have become smaller while it was asked.
        self._take_back_share(worker, commands)

    def _step_failed(self, event: StepFailed, commands: list[Command]) -> None:
        worker = self._roster.owner(event)
        if worker.state == "joining":
            commands += self._joins.failed(worker, event.error)
            self._roster.end_span(worker, "StepFailed")
            return
        if not worker.done_to <= event.start < event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} is not in {worker.tell_story()}")
        failed = Waiting(event.start, event.stop, avoid=worker.id, error=event.error)
        self._put_back(worker, failed, commands, is_indivisible=event.is_indivisible)
        self._roster.end_span(worker, "StepFailed")

    def _step_exhausted(self, event: StepExhausted, commands: list[Command]) -> None:
        worker = self._roster.owner(event)
        if worker.state == "joining":
            self.exhausted_steps += 1
            commands += self._joins.exhausted(worker)
            self._roster.end_span(worker, "StepExhausted")
            return
        if not worker.done_to <= event.start < event.stop <= worker.stop:
            raise ImpossibleEventError(f"{event} is not in {worker.tell_story()}")
        exhausted = Waiting(event.start, event.stop, worker.attempts, error=event.error)
        self._put_back_exhausted(worker, exhausted, event.peak_bytes, commands)
        self._roster.end_span(worker, "StepExhausted")

    def _lost(self, event: WorkerLost, commands: list[Command]) -> None:
        worker = self._roster.lose(event.worker)
        if worker.state in OWNING:
            self._put_span_back(worker, event, commands)
        if worker.state == "joining":
            self._lose_join(worker, event, commands)
        self._roster.bury(worker)

    def _lose_join(self, worker: Worker, event: WorkerLost, commands: list[Command]) -> None:
        if event.is_exhausted:
            self.exhausted_steps += 1
            commands += self._joins.exhausted(worker)
        elif event.is_suspect:
            commands += self._joins.failed(worker, event.error)
        else:
            self._joins.lost(worker)

    def _put_span_back(self, worker: Worker, event: WorkerLost, commands: list[Command]) -> None:
        if not event.is_suspect or event.running_start >= event.running_stop:
            needed_bytes = self._budget.heavy_bytes(worker)
            self._waiting.add(Waiting(worker.done_to, worker.stop, worker.attempts, None, worker.error, needed_bytes))
            return
        if not worker.done_to <= event.running_start < event.running_stop <= worker.stop:
            raise ImpossibleEventError(f"{event} is not in {worker.tell_story()}")
        suspect = Waiting(event.running_start, event.running_stop, avoid=worker.id, error=event.error)
        if event.is_exhausted:
            suspect = suspect._replace(attempts=worker.attempts, avoid=None)
            self._put_back_exhausted(worker, suspect, event.peak_bytes, commands)
        else:
            self._put_back(worker, suspect, commands)

    def _put_back(
        self, worker: Worker, failed: Waiting, commands: list[Command], *, is_indivisible: bool = False
    ) -> None:
        """All of a span that was not sent up waits again; the step that failed, apart."""
        self._put_back_others(worker, failed)
        is_whole = failed.start == worker.span_start and failed.stop == worker.stop
        following = after_failure(
            failed, attempts_before=worker.attempts, is_whole=is_whole, is_indivisible=is_indivisible
        )
        for waiting in following:
            self._waiting.add(waiting._replace(needed_bytes=self._budget.heavy_bytes(worker)))
        if not following:
            self._give_up(GiveUp(failed.start, failed.stop, failed.error, worker.attempts + 1, worker.id), commands)

    def _put_back_exhausted(self, worker: Worker, exhausted: Waiting, peak_bytes: int, commands: list[Command]) -> None:
        """The same for a step that needs more memory: in halves; a single unit, with more of the site's memory."""
        self.exhausted_steps += 1
        units = exhausted.stop - exhausted.start
        self.memory.observe(units, max(peak_bytes, worker.allowed_bytes or 0))
        rung = self._budget.next_rung(worker.allowed_bytes)
        if units == 1 and rung is not None:
            exhausted = self._heavy.widen(exhausted, worker.stop)._replace(needed_bytes=rung)
            following = [exhausted]
        else:
            exhausted = exhausted._replace(needed_bytes=self._budget.heavy_bytes(worker))
            following = after_exhaustion(exhausted)
        self._put_back_others(worker, exhausted)
        for waiting in following:
            self._waiting.add(waiting)
        if not following:
            self._give_up(
                GiveUp(
                    exhausted.start,
                    exhausted.stop,
                    exhausted.error,
                    worker.attempts + 1,
                    worker.id,
                    is_exhausted=True,
                    peak_bytes=peak_bytes,
                ),
                commands,
            )

    def _put_back_others(self, worker: Worker, failed: Waiting) -> None:
        self._waiting.add(Waiting(worker.done_to, failed.start))
        self._waiting.add(Waiting(failed.stop, worker.stop))

    def _give_up(self, given_up: GiveUp, commands: list[Command]) -> None:
        commands.append(given_up)
        self._note_given_up(given_up)
        most = self._most_failed_units
        if self._hopeless_failures is not None and not self.done_units:
            most = min(most, self._hopeless_failures)
        if self.failed_units > most:
            self.is_stopping = True
            if self.failed_units > most + _MOST_LISTED:
                # Enough to see what is wrong: what else has failed is not looked into.
                for suspect in self._waiting.take_suspects():
                    rest = GiveUp(suspect.start, suspect.stop, suspect.error, suspect.attempts, suspect.avoid)
                    commands.append(rest)
                    self._note_given_up(rest)
        else:
            commands += self._joining.skip(given_up.start, given_up.stop)

    @property
    def _most_failed_units(self) -> float:
        if self._most_failed >= 1 or not self._most_failed:
            return self._most_failed
        return self._most_failed * (self.units if self.is_complete else _UNSURE * self.expected_units)

    def _note_given_up(self, given_up: GiveUp) -> None:
        self._failed.append(given_up)
        self._first_failed = min(self._first_failed, given_up.start)
        self.failed_units += given_up.stop - given_up.start

    def _restore(self, event: Restored, commands: list[Command]) -> None:
        """Take what an earlier sitting has done for done."""
        if self._workers or self.done_units or self.failed_units:
            raise ImpossibleEventError("an earlier sitting cannot be restored amid a run")
        given_up = [(start, stop, None, attempts) for start, stop, attempts in event.given_up]
        self._waiting = WaitingUnits()
        reached = 0
        for start, stop, _, _ in sorted([*event.done, *given_up], key=lambda piece: piece[0]):
            if not reached <= start < stop <= self.units:
                raise ImpossibleEventError(f"{start} to {stop} was done twice, or is not one of {self.units} units")
            self._waiting.add(Waiting(reached, start))
            reached = stop
        self._waiting.add(Waiting(reached, self.units))
        for start, stop, attempts in event.given_up:
            self._note_given_up(GiveUp(start, stop, None, attempts))
            if self.failed_units > self._most_failed_units:
                self.is_stopping = True
            else:
                commands += self._joining.skip(start, stop)
        for start, stop, result, result_bytes in event.done:
            self.done_units += stop - start
            self.restored_units += stop - start
            if result is None:
                commands += self._joining.restore(start, stop)
            else:
                commands += self._joining.add(start, stop, result, result_bytes)

    def _stop_early(self, commands: list[Command]) -> None:
        """Begin nothing new: what was begun ends, and what has failed is isolated."""
        for worker in self._workers.values():
            if worker.state == "running":
                self._drain_if_stopping(worker, commands)

    def _drain_if_stopping(self, worker: Worker, commands: list[Command]) -> None:
        is_wanted = not self.is_halted and (worker.attempts > 0 or self._is_front(worker.done_to))
        if self.is_stopping and not is_wanted and not worker.is_drained:
            commands.append(self._roster.drain(worker))

    def _is_front(self, unit: int) -> bool:
        return self._finish_front and unit < self._first_failed

    def _is_front_waiting(self) -> bool:
        return self._finish_front and any(self._is_front(waiting.start) for waiting in self._waiting.slices())

    def _needed_bytes(self) -> int:
        """What the first of the heavy pieces needs that are to be begun; 0 if there is none."""
        if not self.is_stopping and self._joins.needed_bytes:
            return self._joins.needed_bytes
        return next((waiting.needed_bytes for waiting in self._waiting.heavy if self._may_begin(waiting)), 0)

    def _make_room(self, needed_bytes: int, commands: list[Command]) -> None:
        """Have others stop after their steps, for a piece that needs more memory than is free."""
        missing = needed_bytes - self._budget.free_bytes
        owners = [worker for worker in self._workers.values() if worker.state in HOLDING]
        missing -= sum(worker.allowed_bytes or 0 for worker in owners if worker.is_drained)
        for worker in owners:
            if missing <= 0:
                return
            # The heavy ones are short, and end by themselves.
            if worker.state == "running" and not worker.is_drained and not self._budget.is_heavy(worker):
                missing -= worker.allowed_bytes or 0
                commands.append(self._roster.drain(worker))

    def _note_flaky(self, worker: Worker, commands: list[Command]) -> None:
        """What had failed elsewhere is finished here."""
        blaming, worker.blaming = worker.blaming, None
        if worker.attempts != 1 or blaming is None:
            return
        self.flaky_steps += 1
        blamed = self._workers.get(blaming)
        if blamed is None:
            return
        blamed.blames += 1
        if blamed.blames >= _MOST_BLAMES and not blamed.is_suspended and self._roster.has_others(blamed):
            blamed.is_suspended = True
            self.suspended_workers += 1
            commands.append(Suspend(blamed.id))

    def _grow(self, event: SourceGrew, now_seconds: float, commands: list[Command]) -> None:
        units, is_complete = event.units, event.is_complete
        if units < self.units or (self.is_complete and (units != self.units or not is_complete)):
            raise ImpossibleEventError(f"a source of {self.units} units has {units} now")
        owner = self._roster.find_open()
        if owner is None:
            self._waiting.grow(self.units, units)
        else:
            self._extend(owner, units, now_seconds, commands, is_open=not is_complete)
        self.units = units
        self.is_complete = is_complete
        self.expected_units = units if is_complete else max(units, event.expected_units)
        if self.failed_units > self._most_failed_units:
            self.is_stopping = True  # a part of all may fail, and only now it is known how many that is

    def _extend(self, owner: Worker, stop: int, now_seconds: float, commands: list[Command], *, is_open: bool) -> None:
        """Have a worker go on at the end of its open span; or leave that, if it stays open no longer."""
        commands.append(Extend(owner.id, owner.span, stop, is_open))
        owner.stop, owner.is_open = stop, is_open
        if owner.done_to == stop and not is_open:
            self._roster.rest(owner, "closed")
        else:
            self._outlook.expect(owner, now_seconds)

    # Freeing workers

    def _free_a_worker_for_joins(self, commands: list[Command]) -> None:
        """Results must not pile up while all workers have long spans: one of them stops after its step, and joins."""
        if not self._joins.waiting:
            return
        if self._joins.waiting <= len(self._joins.by_worker) + self._roster.count_drained():
            return
        for worker in self._workers.values():
            if worker.state == "running" and not worker.is_drained:
                commands.append(self._roster.drain(worker))
                return

    def _free_a_worker_for_suspects(self, now_seconds: float, commands: list[Command]) -> None:
        """What has failed is soon tried again elsewhere, though all have long spans: it may be the end of the run."""
        if not self._waiting.suspects:
            self._suspects_since, self._are_suspects_first = None, False
            return
        if self._suspects_since is None:
            self._suspects_since = now_seconds
        if now_seconds < self._suspects_since + self._most_suspect_seconds:
            return
        self._suspects_since = now_seconds
        avoided = [waiting.avoid for waiting in self._waiting.slices() if waiting.attempts]
        # Not one of whom others wait for what it has, nor the one where all of it failed.
        fit = [
            worker
            for worker in self._workers.values()
            if worker.state == "running"
            and not (worker.attempts or worker.is_drained or worker.is_suspended or self._budget.is_heavy(worker))
            and any(avoid != worker.id for avoid in avoided)
        ]
        if fit:
            # The one that is likely to end its step first; should it be long, another one follows.
            self._are_suspects_first = True
            first = min(fit, key=lambda worker: worker.silent_seconds(now_seconds))
            commands.append(self._roster.drain(first))

    @property
    def _most_suspect_seconds(self) -> float:
        begin_seconds = max(self._outlook.startup_seconds, self.time.overhead)
        return max(_MOST_SUSPECT_SECONDS, _MOST_SUSPECT_STARTUPS * begin_seconds)

    # Handing out

    def _feed(self, now_seconds: float, commands: list[Command]) -> None:
        """Give idle workers what waits; when nothing does, the tails of others."""
        passed_over = 0
        while len(self._idle) > passed_over:
            worker = self._workers[self._idle[0]]
            if self._joins.waiting and not self.is_stopping:
                join = self._joins.give(worker, self._next_span, self._allowance_for)
                if join is not None:
                    self._next_span += 1
                    commands.append(join)
                    continue
            taken = self._take_waiting(worker, now_seconds) if self._waiting else None
            if taken is not None:
                self._idle.popleft()
                self._assign(worker, taken, self._allowance(taken), now_seconds, commands)
            elif worker.is_suspended or not self._promise_tail(worker, now_seconds, commands):
                if not self._waiting and not self.suspended_workers and not self._joins.waiting:
                    return
                # What waits must not go to this worker, or not yet; others may have it.
                self._idle.rotate(-1)
                passed_over += 1

    def _take_waiting(self, worker: Worker, now_seconds: float) -> Waiting | None:
        if not self._is_room():
            return None
        if self._are_suspects_first:
            suspect = self._waiting.take(1, lambda waiting: waiting.attempts > 0 and self._may_have(worker, waiting))
            if suspect is not None:
                return suspect
        units = self._fair_units(worker, now_seconds)
        return self._waiting.take(units, lambda waiting: self._may_have(worker, waiting))

    def _may_have(self, worker: Worker, waiting: Waiting) -> bool:
        if (worker.is_suspended or waiting.avoid == worker.id) and self._roster.has_others(worker):
            return False
        if not self._may_begin(waiting):
            return False
        return self._budget.total_bytes is None or self._allowance(waiting) is not None

    def _may_begin(self, waiting: Waiting) -> bool:
        """Whether anybody may: of a run that stops, only what has failed is looked into, and the front."""
        if self.is_halted:
            return False
        return not self.is_stopping or waiting.attempts > 0 or self._is_front(waiting.start)

    def _allowance(self, waiting: Waiting) -> int | None:
        """What a worker may hold that begins with this piece; None if it has to wait for others, or may hold all."""
        if self._budget.total_bytes is None:
            return None
        kept_bytes = 0 if waiting.needed_bytes else self._needed_bytes()
        return self._budget.allowance(waiting.needed_bytes, kept_bytes, self.memory)

    def _allowance_for(self, needed_bytes: int) -> int | None:
        return self._allowance(Waiting(0, 1, needed_bytes=needed_bytes))

    def _is_room(self) -> bool:
        """Whether there is memory for anything that waits, without a look at each."""
        if self._budget.total_bytes is None or self._allowance(_LIGHT) is not None:
            return True
        return any(waiting.needed_bytes <= self._budget.free_bytes for waiting in self._waiting.heavy)

    def _fair_units(self, worker: Worker, now_seconds: float) -> int:
        """How many of the waiting units a worker gets: an equal part for each that has none.

        Where the front is wanted first, others have some already, and will want more: less than an equal part of that
        and of what waits, ever less towards the end, so that nobody is left with a long span that cannot be cut any
        more; but all of it where what is kept back is not worth a further start. Likewise where more units are expected
        than are known.
        """
        if self._expected_workers == 1:
            return self._waiting.units  # nobody else wants any
        still_to_come = self._expected_workers - self._joined_workers
        equal = math.ceil(self._waiting.units / max(1, still_to_come, len(self._idle)))
        to_be_found = self.expected_units - self.units
        if not self._front_first and not to_be_found:
            return equal
        overhead = self.time.overhead
        missing_workers = max(0, min(still_to_come, self._expected_workers - len(self._workers)))
        waiting_units = self._waiting.units + to_be_found
        undone_units = self.expected_units - self.done_units - self.failed_units
        kept_back = _KEPT_BACK * math.sqrt(2 * math.log(max(self._expected_workers, len(self._workers))))
        fair = self._outlook.equal_units(waiting_units, undone_units, missing_workers, now_seconds)
        least = self._outlook.typical_units_in(_OVERHEADS_AT_THE_END * overhead, worker) or 1.0
        if kept_back * fair > least:
            fair = max(least, (1 - kept_back) * fair)
        most = self._outlook.typical_units_in(max(self._round_seconds, _OVERHEADS_A_ROUND * overhead), worker)
        if most is None:
            most = self.expected_units / (_FIRST_ROUNDS * self._expected_workers)
        units = max(1, math.ceil(min(fair, most)))
        if to_be_found:
            return min(units, equal)
        # What would be left may take no longer than to begin with it.
        return units if self._waiting.units - units > least / _OVERHEADS_AT_THE_END else self._waiting.units

    def _assign(
        self,
        worker: Worker,
        taken: Waiting,
        allowed_bytes: int | None,
        now_seconds: float,
        commands: list[Command],
        *,
        tail_of: Worker | None = None,
    ) -> None:
        first_size = _FIRST_SIZES[self._joined_workers % len(_FIRST_SIZES)] if not self.time.observations else 1
        self._roster.move(worker, "assigned", "running")
        worker.span = self._next_span
        worker.span_start = worker.done_to = taken.start
        worker.stop = taken.stop
        worker.span_seconds = 0.0
        worker.attempts, worker.error, worker.blaming = taken.attempts, taken.error, taken.avoid
        worker.is_drained = False
        worker.is_open = self._may_grow(taken)
        if allowed_bytes is not None:
            self._budget.reserve(worker, allowed_bytes)
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
        if allowed_bytes is not None:
            share = self.expected_units // self._expected_workers
            first_units = max(1, min(first_units, share // _FIRST_PART_OF_MEMORY))
        commands.append(
            Assign(
                worker.id,
                worker.span,
                taken.start,
                taken.stop,
                first_units,
                *self._outlook.advice(worker),
                allowed_bytes=allowed_bytes,
                is_careful=taken.attempts > 0,
                is_end=self.is_complete
                and self._expected_workers > 1
                and (not self._front_first or not self._waiting.units),
                is_open=worker.is_open,
            )
        )

    def _may_grow(self, taken: Waiting) -> bool:
        """Whether what is still to be counted is to follow these units in one span: nobody else wants it."""
        is_last = taken.stop == self.units and not self.is_complete
        return is_last and self._expected_workers == 1 and taken.is_fresh and not self.is_stopping

    def _promise_tail(self, worker: Worker, now_seconds: float, commands: list[Command]) -> bool:
        """Have the span that ends last trimmed for an idle worker, if that helps."""
        outlook = self._outlook
        victim = None if self.is_stopping else outlook.find_victim()
        if victim is None:
            return False
        if self._budget.total_bytes is not None and self._allowance(_LIGHT) is None:
            return False  # there is no memory for another worker
        piece = outlook.cut_for(worker, victim, now_seconds)
        if piece is None:
            return False
        if self._roster.trims and piece.taken_seconds < outlook.startup_seconds < outlook.level_seconds - now_seconds:
            # Those with the most to give are being asked already, and will have more to give than this.
            return False
        commands.append(self._roster.promise(worker, victim, piece.share))
        return True
