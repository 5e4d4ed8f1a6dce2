"""The coordinator against workers that do anything that workers can do, in any order."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from aliquot.coordinator import (
    Advise,
    Allow,
    Append,
    AppendAsTheyCome,
    AppendInOrder,
    Assign,
    Command,
    Coordinator,
    Event,
    Extend,
    Finish,
    GiveUp,
    Halted,
    Joining,
    Merge,
    MergeAsTree,
    Progressed,
    Skip,
    SourceGrew,
    Spill,
    StepExhausted,
    StepFailed,
    Suspend,
    Ticked,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.coordinator.invariants import check_invariants
from aliquot.slices import Slice, find_cover_fault

JOININGS: dict[str, Callable[[], Joining]] = {
    "in order": lambda: AppendInOrder(100),
    "as they come": AppendAsTheyCome,
    "as a tree": MergeAsTree,
}
MOST_UNITS = 300
parts = st.floats(0, 1)
some_seconds = st.one_of(st.just(0.0), st.floats(0, 100))


class Worker(msgspec.Struct):
    """What a worker knows of itself: ``start`` to ``stop`` is left of its span, if it has one."""

    number: int
    span: int = -1
    start: int = 0
    stop: int = 0
    is_asked: bool = False
    is_open: bool = False
    is_suspended: bool = False
    allowed_bytes: int | None = None

    @property
    def is_running(self) -> bool:
        return self.start < self.stop

    def extend(self, command: Extend) -> None:
        assert self.span == command.span
        assert self.is_open, f"{command} of {self}"
        assert self.start <= self.stop <= command.stop
        self.stop, self.is_open = command.stop, command.is_open

    def drop_span(self) -> None:
        self.start = self.stop
        self.is_open = False


class AnyHistory(RuleBasedStateMachine):
    """Every rule is something that can happen; the invariants are checked after each."""

    @initialize(
        joining=st.sampled_from(sorted(JOININGS)),
        units=st.integers(0, MOST_UNITS),
        is_complete=st.booleans(),
        expected_workers=st.one_of(st.just(1), st.integers(1, 8)),
        first_units=st.integers(1, 100),
        front_first=st.booleans(),
        finish_front=st.booleans(),
        total_bytes=st.sampled_from([None, 1000, 1000, 7]),
        most_failed=st.sampled_from([0, 0.01, 1.5, 4, math.inf, math.inf]),
    )
    def begin(
        self,
        *,
        joining: str,
        units: int,
        is_complete: bool,
        expected_workers: int,
        first_units: int,
        front_first: bool,
        finish_front: bool,
        total_bytes: int | None,
        most_failed: float,
    ) -> None:
        self.is_ordered = joining == "in order"
        self.is_tree = joining == "as a tree"
        self.finish_front = finish_front
        self.total_bytes = total_bytes
        self.most_failed = most_failed
        self.coordinator = Coordinator(
            JOININGS[joining](),
            units=units,
            is_complete=is_complete,
            expected_workers=expected_workers,
            first_units=first_units,
            front_first=front_first,
            finish_front=finish_front,
            total_bytes=total_bytes,
            most_failed=most_failed,
        )
        self.now_seconds = 0.0
        self.workers: dict[int, Worker] = {}
        self.joined_workers = 0
        self.results: dict[int, Slice] = {}
        self.appended: list[int] = []
        self.merged: list[int] = []
        self.spilled: list[int] = []
        self.in_order: list[Slice] = []  # appended or skipped
        self.given_up: list[GiveUp] = []
        self.skipped: list[Slice] = []
        self.failed: list[Slice] = []
        self.exhausted_with_all: list[Slice] = []
        self.ends: list[Finish] = []

    # What can happen

    @precondition(lambda self: len(self.workers) < 12)
    @rule()
    def worker_joins(self) -> None:
        number = self.joined_workers
        self.joined_workers += 1
        self.workers[number] = Worker(number)
        self.tell(WorkerJoined(number))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), part=parts, seconds=some_seconds, result_bytes=st.integers(0, 100))
    def worker_progresses(self, data: st.DataObject, part: float, seconds: float, result_bytes: int) -> None:
        worker = data.draw(st.sampled_from(self.running()))
        self.progress(worker, 1 + int(part * (worker.stop - worker.start - 1)), seconds, result_bytes)

    @precondition(lambda self: self.asked())
    @rule(data=st.data(), part=parts)
    def worker_answers_a_trim(self, data: st.DataObject, part: float) -> None:
        worker = data.draw(st.sampled_from(self.asked()))
        self.answer(worker, part)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def worker_is_taken_away(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        del self.workers[worker]
        self.tell(WorkerLost(worker, "it was taken away"))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), first=parts, length=parts)
    def worker_dies_in_a_step(self, data: st.DataObject, first: float, length: float) -> None:
        worker = data.draw(st.sampled_from(self.running()))
        del self.workers[worker.number]
        step = step_within(worker, first, length)
        self.failed.append(step)
        self.tell(WorkerLost(worker.number, "its process died", step.start, step.stop, is_suspect=True))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), first=parts, length=parts)
    def step_fails(self, data: st.DataObject, first: float, length: float) -> None:
        worker = data.draw(st.sampled_from(self.running()))
        step = step_within(worker, first, length)
        worker.drop_span()
        self.failed.append(step)
        self.tell(StepFailed(worker.number, worker.span, step.start, step.stop, error=len(self.failed)))

    @precondition(lambda self: self.total_bytes is not None and self.running())
    @rule(data=st.data(), first=parts)
    def unit_is_too_large(self, data: st.DataObject, first: float) -> None:
        worker = data.draw(st.sampled_from(self.running()))
        step = step_within(worker, first, 0.0)
        worker.drop_span()
        self.note_exhausted(worker, step)
        self.tell(StepExhausted(worker.number, worker.span, step.start, step.stop, 0, worker.allowed_bytes or 0))

    @precondition(lambda self: self.total_bytes is not None and self.running())
    @rule(data=st.data(), first=parts, length=parts)
    def worker_is_killed_for_memory(self, data: st.DataObject, first: float, length: float) -> None:
        worker = data.draw(st.sampled_from(self.running()))
        step = step_within(worker, first, length)
        del self.workers[worker.number]
        self.note_exhausted(worker, step)
        self.tell(
            WorkerLost(worker.number, "killed", step.start, step.stop, is_suspect=True, is_exhausted=True, peak_bytes=5)
        )

    @precondition(lambda self: not self.coordinator.is_complete)
    @rule(units=st.integers(0, 100), is_complete=st.booleans())
    def source_grows(self, units: int, is_complete: bool) -> None:
        self.tell(SourceGrew(self.coordinator.units + units, is_complete))

    @rule(really=st.integers(0, 20))
    def nobody_wants_it_any_more(self, really: int) -> None:
        if not really:
            self.tell(Halted())

    @rule(seconds=some_seconds)
    def time_passes(self, seconds: float) -> None:
        self.now_seconds += seconds
        self.tell(Ticked())

    def teardown(self) -> None:
        """From wherever the rules led, the work comes to its end."""
        if not hasattr(self, "coordinator"):
            return
        if not self.coordinator.is_complete and not self.coordinator.is_stopping:
            self.tell(SourceGrew(self.coordinator.units, is_complete=True))
        if not self.workers:
            self.worker_joins()
        for _ in range(10 * (self.coordinator.units + 100)):
            if self.coordinator.is_over:
                break
            for worker in list(self.workers.values()):
                if worker.is_asked:
                    self.answer(worker, 0.5)
                if worker.is_running:
                    self.progress(worker, worker.stop - worker.start, 1.0, 1)
        assert self.coordinator.is_over
        self.check_the_end()

    # What workers do

    def running(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if worker.is_running]

    def asked(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if worker.is_asked]

    def progress(self, worker: Worker, units: int, seconds: float, result_bytes: int) -> None:
        done = Slice(worker.start, worker.start + units)
        worker.start = done.stop
        result = len(self.results)
        self.results[result] = done
        self.now_seconds += seconds
        event = Progressed(
            worker.number,
            worker.span,
            done.start,
            done.stop,
            result,
            result_bytes,
            busy_seconds=seconds,
            setup_seconds=seconds / 2,
            seconds=((units, seconds, 1),),
            peak_bytes=((units, min(100 * units, worker.allowed_bytes or 10**9), 1),),
            stopped_steps=units % 2,
        )
        self.tell(event)

    def note_exhausted(self, worker: Worker, step: Slice) -> None:
        if len(step) == 1 and worker.allowed_bytes == self.total_bytes:
            self.exhausted_with_all.append(step)

    def answer(self, worker: Worker, part: float) -> None:
        """Cut anywhere behind what was sent up; at its very end, it was between two steps, and has nothing left."""
        worker.stop = worker.start + round(part * (worker.stop - worker.start))
        worker.is_asked = False
        self.tell(Trimmed(worker.number, worker.span, worker.stop))

    # What the coordinator wants

    def tell(self, event: Event) -> None:
        for command in self.coordinator.handle(event, self.now_seconds):
            self.perform(command)
        check_invariants(self.coordinator, sorted(self.results.values()))

    def perform(self, command: Command) -> None:
        match command:
            case Assign():
                worker = self.workers[command.worker]
                assert not worker.is_running, f"{command} while it owns {worker}"
                assert not worker.is_asked, f"{command} before the answer of {worker}"
                assert command.span > worker.span
                others_can = any(not other.is_suspended for other in self.workers.values())
                assert not (worker.is_suspended and others_can), f"{command}, which is suspended"
                worker.span, worker.start, worker.stop = command.span, command.start, command.stop
                worker.allowed_bytes = command.allowed_bytes
                assert not worker.is_open, f"{command}, which waits for more of its open span"
                worker.is_open = command.is_open
                assert worker.is_running
                self.check_memory()
            case Extend():
                self.workers[command.worker].extend(command)
            case Trim():
                worker = self.workers[command.worker]
                assert worker.span == command.span
                assert not worker.is_asked, f"{command} before the answer of {worker}"
                assert 0 < command.share <= 1
                worker.is_asked = True
                worker.is_open = False
            case Advise():
                assert self.workers[command.worker].span == command.span
            case Allow():
                worker = self.workers[command.worker]
                assert worker.span == command.span
                assert worker.allowed_bytes is not None
                assert worker.allowed_bytes < command.allowed_bytes
                worker.allowed_bytes = command.allowed_bytes
                self.check_memory()
            case Suspend():
                assert not self.workers[command.worker].is_suspended
                self.workers[command.worker].is_suspended = True
            case Append():
                self.appended.append(command.result)
                self.in_order.append(self.results[command.result])
            case Skip():
                self.skipped.append(Slice(command.start, command.stop))
                self.in_order.append(self.skipped[-1])
            case Merge():
                self.merged.append(command.second)
            case Spill():
                self.spilled.append(command.result)
            case GiveUp():
                self.given_up.append(command)
            case Finish():
                self.ends.append(command)

    def check_memory(self) -> None:
        """What running workers may hold is never more than there is."""
        if self.total_bytes is not None:
            assert sum(worker.allowed_bytes or 0 for worker in self.running()) <= self.total_bytes

    def check_the_end(self) -> None:
        """What was given up had to be; each unit is done or given up, once, or the run has stopped early."""
        done = sorted(self.results.values())
        given_up = [Slice(lost.start, lost.stop) for lost in self.given_up]
        for lost in self.given_up:
            self.check_it_was_tried(lost)
        assert len(set(self.spilled)) == len(self.spilled)
        assert len(set(self.appended + self.merged)) == len(self.appended + self.merged)
        if self.is_ordered:
            assert find_cover_fault(Slice(0, sum(map(len, self.in_order))), self.in_order) is None
        most = self.most_failed if self.most_failed >= 1 else self.most_failed * self.coordinator.units
        failed_units = sum(map(len, given_up))
        assert failed_units == self.coordinator.failed_units
        if self.coordinator.is_stopping:
            assert all(one.stop <= following.start for one, following in pairwise(sorted(done + given_up)))
            if self.coordinator.is_halted:
                return
            # It may have been more than enough when fewer units were known.
            assert failed_units > most or self.most_failed < 1
            assert not self.ends
            if self.finish_front:
                first = min(one.start for one in given_up)
                assert find_cover_fault(Slice(0, first), [one for one in done if one.start < first]) is None
            return
        assert failed_units <= most or self.most_failed < 1
        assert find_cover_fault(Slice(0, self.coordinator.units), sorted(done + given_up)) is None
        if self.is_tree:
            assert not self.appended + self.skipped
            assert {*self.merged, *(end.result for end in self.ends)} - {None} == set(self.results)
        else:
            assert not self.merged
            assert len(self.appended) == len(self.results)
            assert sorted(self.skipped) == sorted(given_up)

    def check_it_was_tried(self, lost: GiveUp) -> None:
        """Alone, twice, or with all the memory that there is; unless so many have failed that it does not matter."""
        units = Slice(lost.start, lost.stop)
        failures = [step for step in self.failed if step.start <= units.start and units.stop <= step.stop]
        if lost.is_exhausted:
            assert units in self.exhausted_with_all
        elif self.coordinator.is_stopping and (len(units) > 1 or len(failures) == 1):
            assert failures
        else:
            assert len(units) == 1
            assert len(failures) >= 2, f"{lost} was given up after {failures}"
            assert failures[-1] == units


def step_within(worker: Worker, first: float, length: float) -> Slice:
    start = worker.start + int(first * (worker.stop - worker.start - 1))
    return Slice(start, start + 1 + int(length * (worker.stop - start - 1)))


TestAnyHistory = AnyHistory.TestCase
