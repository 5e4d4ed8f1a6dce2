from __future__ import annotations

from msgspec import Struct

from aliquot.coordinator import Advise, Assign, Progressed, StepFailed, Trim, Trimmed
from aliquot.sites.simulated.costs import UnitCosts
from aliquot.sizing import ReportPacer, StepSizer


class SimulatedWorker(Struct, frozen=True):
    """What a simulated worker is like, and when it comes and goes.

    At ``leaves_seconds`` it is taken away; at ``dies_seconds`` its process dies, and the step it was in is suspect.
    """

    speed: float = 1.0
    latency_seconds: float = 0.0
    arrives_seconds: float = 0.0
    leaves_seconds: float | None = None
    dies_seconds: float | None = None


class Workload(Struct, frozen=True):
    """What simulated work is like: units, and what is paid besides for each span and each step, at any speed.

    Steps that touch a ``failing`` unit raise, always; those that touch a ``flaky`` one, the first time.
    """

    costs: UnitCosts
    span_seconds: float = 0.0
    step_seconds: float = 0.0
    base_bytes: int = 0
    unit_bytes: int = 0
    failing: frozenset[int] = frozenset()
    flaky: frozenset[int] = frozenset()
    target_seconds: float = 1.0


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
        self._workload = workload
        self._already_flaked = already_flaked
        self._sizer = StepSizer(longest_seconds=workload.target_seconds)
        self._pacer = ReportPacer(0.0)
        self._stop = 0
        self._setup_seconds: float | None = None
        self.failing_step: tuple[int, int] | None = None

    def assign(self, command: Assign, now_seconds: float) -> float:
        """Begin with a span; when its next event is due."""
        self.span, self._stop = command.span, command.stop
        self._sizer = StepSizer(first_units=command.first_units, longest_seconds=self._workload.target_seconds)
        self._sizer.learn(list(command.seconds), list(command.peak_bytes))
        self._setup_seconds = self._workload.span_seconds
        began = now_seconds + self._setup_seconds
        self._pacer = ReportPacer(began)
        return self._plan(command.start, began)

    def advise(self, command: Advise) -> None:
        """Learn from others."""
        if command.span == self.span:
            self._sizer.learn(list(command.seconds), list(command.peak_bytes))

    def trim(self, command: Trim, now_seconds: float) -> tuple[Trimmed, float | None]:
        """Give some of what was not started; the answer, and when the next event is due if that has changed."""
        run = self.run
        if run is None or command.span != self.span:
            return Trimmed(self.number, command.span, self._stop), None
        claimed = run.claimed_to(now_seconds) if now_seconds > run.began_seconds else run.start + 1
        if self.failing_step is not None:
            claimed = max(claimed, self.failing_step[1])
        free = self._stop - claimed
        given = min(free, int(command.share * (free + run.step_units / 2) + 0.5))
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

    def finish_run(self, now_seconds: float) -> tuple[Progressed | StepFailed, float | None]:
        """The event at the end of a run, and when the next one is due, if there is one."""
        run = self.run
        assert run is not None
        if self.failing_step is not None and run.start == self.failing_step[0]:
            start, stop = self.failing_step
            self._already_flaked.update(self._workload.flaky.intersection(range(start, stop)))
            self.run = self.failing_step = None
            return StepFailed(self.number, self.span, start, stop, error=0), None
        steps = -(-(run.stop - run.start) // run.step_units)
        seconds = (now_seconds - run.began_seconds) / steps
        units = min(run.step_units, run.stop - run.start)
        peak = self._workload.base_bytes + units * self._workload.unit_bytes
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
        )
        self._setup_seconds = None
        if run.stop == self._stop:
            self.run = None
            return event, None
        return event, self._plan(run.stop, now_seconds)

    def _plan(self, start: int, now_seconds: float) -> float:
        """Choose a step, and as many like it as end before the next report is due; when that is."""
        self.version += 1
        step = self._sizer.choose(self._stop - start)
        run = self.run = Run(start, step, now_seconds, self._workload, self.spec.speed)
        self.failing_step = None
        run.stop = min(start + step, self._stop)
        if self._sizer.time.size_classes >= 3:
            run.stop = min(start + self._steps_to_report(run) * step, self._stop)
        self._stop_at_failure(run)
        return run.end_seconds(run.stop)

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

    def _stop_at_failure(self, run: Run) -> None:
        bad = self._workload.failing | (self._workload.flaky - self._already_flaked)
        first = min((unit for unit in bad if run.start <= unit < run.stop), default=None)
        if first is None:
            return
        begin = run.start + (first - run.start) // run.step_units * run.step_units
        end = min(begin + run.step_units, run.stop)
        if begin == run.start:
            run.stop = end
            self.failing_step = (begin, end)
        else:
            run.stop = begin
