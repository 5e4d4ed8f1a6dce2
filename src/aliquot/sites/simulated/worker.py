from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from aliquot.coordinator import (
    Advise,
    Allow,
    Assign,
    Event,
    Extend,
    Progressed,
    StepExhausted,
    StepFailed,
    Trim,
    Trimmed,
    WorkerLost,
)
from aliquot.sites.simulated.costs import UnitBytes, UnitCosts
from aliquot.sizing import OVERHEAD_SHARE, ReportPacer, StepSizer

# Why a step failed, as the ``error`` of its event.
BAD_UNIT, FLAKY_UNIT, FAULTY_WORKER, TOO_LARGE = range(4)
# A step that holds too much is noticed after this part of its time, and somewhat late.
_STOPPED_PART = 0.5
_NOTICED_BYTES = 1.1

Kind = Literal["fails", "kills", "is too large"]


class SimulatedWorker(Struct, frozen=True):
    """What a simulated worker is like, and when it comes and goes.

    At ``leaves_seconds`` it is taken away; at ``dies_seconds`` its process dies, and the step it was in is suspect.
    With ``fails_every`` it is faulty: each so manieth of its steps fails, whatever the units are.
    """

    speed: float = 1.0
    latency_seconds: float = 0.0
    arrives_seconds: float = 0.0
    leaves_seconds: float | None = None
    dies_seconds: float | None = None
    fails_every: int = 0


class Workload(Struct, frozen=True):
    """What simulated work is like: units, and what is paid besides for each span and each step, at any speed.

    A step holds ``base_bytes``, and for each unit ``unit_bytes`` or what ``bytes_of`` says. One that holds more than it
    is allowed is stopped by its worker, or kills it with ``exhaustion_kills``. Steps that touch a ``failing`` unit
    raise, always; those that touch a ``flaky`` one, the first time; a ``killing`` one ends the process of the worker.
    Steps should take ``target_seconds`` at most, and ``overhead_share`` of that is what ``step_seconds`` may be.
    """

    costs: UnitCosts
    span_seconds: float = 0.0
    step_seconds: float = 0.0
    base_bytes: int = 0
    unit_bytes: int = 0
    bytes_of: UnitBytes | None = None
    exhaustion_kills: bool = False
    failing: frozenset[int] = frozenset()
    flaky: frozenset[int] = frozenset()
    killing: frozenset[int] = frozenset()
    target_seconds: float = 1.0
    overhead_share: float = OVERHEAD_SHARE

    def peak_bytes(self, start: int, stop: int) -> int:
        """What a step of these units holds."""
        if self.bytes_of is None:
            return self.base_bytes + (stop - start) * self.unit_bytes
        return self.base_bytes + self.bytes_of.held(start, stop)


class Trouble(NamedTuple):
    """A step that will not end well."""

    start: int
    stop: int
    kind: Kind
    error: int


class Run:
    """Like steps one after the other, up to the next report: what a simulated worker does between two events."""

    __slots__ = ("_per_step", "_speed", "_workload", "began_seconds", "start", "step_units", "stop")

    def __init__(self, start: int, step_units: int, began_seconds: float, workload: Workload, speed: float) -> None:
        self.start = start
        self.stop = start  # set by its maker
        self.step_units = step_units
        self.began_seconds = began_seconds
        self._workload = workload
        self._speed = speed
        self._per_step = workload.step_seconds

    def end_seconds(self, unit: int) -> float:
        """When all units before this one are done."""
        steps = -(-(unit - self.start) // self.step_units)
        work = self._workload.costs.seconds(self.start, unit)
        return self.began_seconds + steps * self._per_step + work / self._speed

    def claimed_to(self, now_seconds: float) -> int:
        """The end of the step that is running at a time."""
        low, high = 1, -(-(self.stop - self.start) // self.step_units)
        while low < high:
            middle = (low + high) // 2
            if self.end_seconds(min(self.start + middle * self.step_units, self.stop)) > now_seconds:
                high = middle
            else:
                low = middle + 1
        return min(self.start + low * self.step_units, self.stop)


class WorkerInSimulation:
    """A worker at work: the same sizing and the same pace of reports as in a real one, in virtual time."""

    def __init__(self, number: int, spec: SimulatedWorker, workload: Workload, already_flaked: set[int]) -> None:
        self.number = number
        self.spec = spec
        self.is_gone = False
        self.span = -1
        self.version = 0  # of its plan: what was planned before a trim does not happen
        self.run: Run | None = None
        self.trouble: Trouble | None = None  # that the first step of the run is in
        self._workload = workload
        self._already_flaked = already_flaked
        self._sizer = StepSizer(longest_seconds=workload.target_seconds, overhead_share=workload.overhead_share)
        self._pacer = ReportPacer(0.0)
        self._stop = 0
        self._is_end = True  # nothing waits behind its span
        self._is_open = False
        self._is_waiting = False  # at the end of an open span
        self._setup_seconds: float | None = None
        self._steps = 0  # in all spans
        self._stopped_steps = 0  # since the last report
        self._stopped_seconds = 0.0
        self._is_watched = bool(workload.failing or workload.flaky or workload.killing or spec.fails_every)

    def assign(self, command: Assign, now_seconds: float) -> float:
        """Begin with a span; when its next event is due."""
        self.span, self._stop = command.span, command.stop
        self._is_open, self._is_waiting = command.is_open, False
        self._is_end = command.is_end
        self._sizer.begin_span(command.first_units, command.allowed_bytes)
        self._sizer.learn(list(command.seconds), list(command.peak_bytes))
        self._setup_seconds = self._workload.span_seconds
        self._stopped_steps, self._stopped_seconds = 0, 0.0
        began = now_seconds + self._setup_seconds
        self._pacer = ReportPacer(began)
        return self._plan(command.start, began)

    def extend(self, command: Extend, now_seconds: float) -> float | None:
        """Go on with an open span; when its next event is due, if it had none."""
        if command.span != self.span:
            return None
        reached, self._stop, self._is_open = self._stop, command.stop, command.is_open
        if not self._is_waiting or reached == self._stop:
            return None
        self._is_waiting = False
        return self._plan(reached, now_seconds)

    def advise(self, command: Advise) -> None:
        """Learn from others."""
        if command.span == self.span:
            self._sizer.learn(list(command.seconds), list(command.peak_bytes))

    def allow(self, command: Allow) -> None:
        """Hold more from now on, in the step that is running too."""
        if command.span == self.span:
            self._sizer.allow(command.allowed_bytes)

    def trim(self, command: Trim, now_seconds: float) -> tuple[Trimmed, float | None]:
        """Give some of what was not started; the answer, and when the next event is due if that has changed."""
        run = self.run
        if command.span == self.span:
            self._is_open = self._is_waiting = False
        if run is None or command.span != self.span:
            return Trimmed(self.number, command.span, self._stop), None
        claimed = run.claimed_to(now_seconds) if now_seconds > run.began_seconds else run.start + 1
        if self.trouble is not None:
            claimed = max(claimed, self.trouble.stop)
        free = self._stop - claimed
        part = 1 if free == 1 and command.share > 0 else int(command.share * (free + run.step_units / 2) + 0.5)
        given = min(free, part)
        if given <= 0:
            return Trimmed(self.number, command.span, self._stop), None
        self._stop -= given
        due = None
        if self._stop < run.stop:
            run.stop = self._stop
            self.version += 1
            due = run.end_seconds(run.stop)
        return Trimmed(self.number, command.span, self._stop), due

    def running_step(self, now_seconds: float) -> tuple[int, int]:
        """The step that it is in, or an empty one."""
        if self.run is None or now_seconds <= self.run.began_seconds:
            return 0, 0
        claimed = self.run.claimed_to(now_seconds)
        offset = claimed - self.run.start
        length = offset % self.run.step_units or self.run.step_units
        return claimed - length, claimed

    def finish_run(self, now_seconds: float) -> tuple[Event | None, float | None]:
        """The event at the end of a run, if there is one, and when the next is due, if one is."""
        run = self.run
        assert run is not None
        if self.trouble is not None:
            return self._end_in_trouble(run, self.trouble, now_seconds)
        steps = -(-(run.stop - run.start) // run.step_units)
        seconds = (now_seconds - run.began_seconds) / steps
        units = min(run.step_units, run.stop - run.start)
        peak = self._largest_peak(run, units)
        self._sizer.observe(units, seconds, peak, count=steps)
        self._pacer.reported(now_seconds, 0.0)
        event = Progressed(
            self.number,
            self.span,
            run.start,
            run.stop,
            result=0,
            result_bytes=0,
            steps=steps,
            busy_seconds=now_seconds - run.began_seconds,
            setup_seconds=self._setup_seconds,
            seconds=((units, seconds, steps),),
            peak_bytes=((units, peak, steps),),
            stopped_steps=self._stopped_steps,
            stopped_seconds=self._stopped_seconds,
        )
        self._steps += steps
        self._setup_seconds = None
        self._stopped_steps, self._stopped_seconds = 0, 0.0
        if run.stop == self._stop:
            self.run = None
            self._is_waiting = self._is_open
            return event, None
        return event, self._plan(run.stop, now_seconds)

    def _end_in_trouble(self, run: Run, trouble: Trouble, now_seconds: float) -> tuple[Event | None, float | None]:
        start, stop, kind, error = trouble
        peak_bytes = self._workload.peak_bytes(start, stop)
        allowed_bytes = self._sizer.allowed_bytes
        if kind == "is too large" and (allowed_bytes is None or peak_bytes <= allowed_bytes):
            # It was allowed more in the meantime, and goes on.
            self.trouble = self._trouble_in(start, stop, self._steps + 1)
            return None, run.end_seconds(stop)
        self._steps += 1
        if kind == "is too large":
            assert allowed_bytes is not None
            peak_bytes = min(peak_bytes, int(allowed_bytes * _NOTICED_BYTES))
            return self._end_too_large(run, peak_bytes, now_seconds)
        self._already_flaked.update(self._workload.flaky.intersection(range(start, stop)))
        self.run = self.trouble = None
        if kind == "kills":
            return WorkerLost(self.number, "a unit killed it", start, stop, is_suspect=True), None
        return StepFailed(self.number, self.span, start, stop, error), None

    def _end_too_large(self, run: Run, peak_bytes: int, now_seconds: float) -> tuple[Event | None, float | None]:
        """Go on with a smaller step, tell that there is none, or die of it."""
        start, stop = run.start, run.stop
        stopped_seconds = now_seconds - run.began_seconds
        if self._workload.exhaustion_kills:
            return WorkerLost(
                self.number,
                "it held too much",
                start,
                stop,
                is_suspect=True,
                is_exhausted=True,
                peak_bytes=peak_bytes,
                stopped_seconds=stopped_seconds,
            ), None
        self._stopped_seconds += stopped_seconds
        if stop - start > 1:
            self._stopped_steps += 1
            self._sizer.exhausted(stop - start)
            return None, self._plan(start, now_seconds)
        self.run = self.trouble = None
        return StepExhausted(
            self.number, self.span, start, stop, TOO_LARGE, peak_bytes, stopped_seconds=self._stopped_seconds
        ), None

    def _largest_peak(self, run: Run, units: int) -> int:
        if self._workload.bytes_of is None:
            return self._workload.base_bytes + units * self._workload.unit_bytes
        steps = range(run.start, run.stop, run.step_units)
        return max(self._workload.peak_bytes(step, min(step + run.step_units, run.stop)) for step in steps)

    def _plan(self, start: int, now_seconds: float) -> float:
        """Choose a step, and as many like it as end before the next report is due; when that is."""
        self.version += 1
        step = self._sizer.choose(self._stop - start, is_end=self._is_end)
        run = self.run = Run(start, step, now_seconds, self._workload, self.spec.speed)
        self.trouble = None
        run.stop = min(start + step, self._stop)
        if self._sizer.time.size_classes >= 3:
            run.stop = min(start + self._steps_to_report(run) * step, self._stop)
        if self._is_watched or self._sizer.allowed_bytes is not None:
            self._stop_at_trouble(run)
        due = run.end_seconds(run.stop)
        if self.trouble is not None and self.trouble.kind == "is too large":
            return now_seconds + _STOPPED_PART * (due - now_seconds)
        return due

    def _steps_to_report(self, run: Run) -> int:
        """The first step after which a report is due, or the last of the span."""
        too_few, enough = 0, 1
        most = -(-(self._stop - run.start) // run.step_units)
        while enough < most and not self._is_due_after(run, enough):
            too_few, enough = enough, enough * 2
        enough = min(enough, most)
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self._is_due_after(run, middle):
                enough = middle
            else:
                too_few = middle
        return enough

    def _is_due_after(self, run: Run, steps: int) -> bool:
        return self._pacer.is_due(run.end_seconds(min(run.start + steps * run.step_units, self._stop)))

    def _stop_at_trouble(self, run: Run) -> None:
        """End the run before the first step that will not end well, or with it where it is the first of all."""
        step = self._first_step_in_trouble(run)
        if step is None:
            return
        begin = run.start + step * run.step_units
        end = min(begin + run.step_units, run.stop)
        if step:
            run.stop = begin
        else:
            run.stop = end
            self.trouble = self._trouble_in(begin, end, self._steps + 1)

    def _first_step_in_trouble(self, run: Run) -> int | None:
        """By its number in the run."""
        steps = -(-(run.stop - run.start) // run.step_units)
        first = steps
        if self._is_watched:
            workload = self._workload
            bad = workload.failing | workload.killing | (workload.flaky - self._already_flaked)
            unit = min((unit for unit in bad if run.start <= unit < run.stop), default=run.stop)
            if unit < run.stop:
                first = (unit - run.start) // run.step_units
            if self.spec.fails_every:
                first = min(first, self.spec.fails_every - 1 - self._steps % self.spec.fails_every)
        if self._sizer.allowed_bytes is not None:
            first = next((step for step in self._sizes_to_check(first, steps) if self._is_too_large(run, step)), first)
        return first if first < steps else None

    def _sizes_to_check(self, first: int, steps: int) -> range:
        """Equal units: the first step is as large as any other."""
        return range(min(first + 1, steps) if self._workload.bytes_of is not None else 1)

    def _is_too_large(self, run: Run, step: int) -> bool:
        begin = run.start + step * run.step_units
        peak_bytes = self._workload.peak_bytes(begin, min(begin + run.step_units, run.stop))
        return self._sizer.allowed_bytes is not None and peak_bytes > self._sizer.allowed_bytes

    def _trouble_in(self, start: int, stop: int, number: int) -> Trouble | None:
        """What will go wrong in a step, which is the so manieth of this worker: too large, dead, or failed."""
        workload, units = self._workload, range(start, stop)
        allowed_bytes = self._sizer.allowed_bytes
        if allowed_bytes is not None and workload.peak_bytes(start, stop) > allowed_bytes:
            return Trouble(start, stop, "is too large", TOO_LARGE)
        if not workload.killing.isdisjoint(units):
            return Trouble(start, stop, "kills", BAD_UNIT)
        if not workload.failing.isdisjoint(units):
            return Trouble(start, stop, "fails", BAD_UNIT)
        if not (workload.flaky - self._already_flaked).isdisjoint(units):
            return Trouble(start, stop, "fails", FLAKY_UNIT)
        if self.spec.fails_every and number % self.spec.fails_every == 0:
            return Trouble(start, stop, "fails", FAULTY_WORKER)
        return None
