"""A run in this very process, one step after the other."""

from __future__ import annotations

import time

from aliquot.running.outcome import Failure, Outcome, Report
from aliquot.running.plan import Plan
from aliquot.running.spoiled import told_as_one
from aliquot.workers.stepping import SentItems, UnitError


def run_here(plan: Plan) -> Outcome:
    """Run it in this process: within a worker, whose cores are all in use, or for no units."""
    if isinstance(plan.stepper.items, SentItems) and plan.sent_items is not None:
        plan.stepper.items.fill(plan.sent_items)
    return _SerialRun(plan).run()


class _SerialRun:
    """Everything at once; what fails, in halves."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._left = [(0, plan.units)] if plan.units else []  # the first ones last
        self._failures: list[Failure] = []
        self._failed_units = 0
        self._steps = 0

    def run(self) -> Outcome:
        plan, told = self._plan, self._plan.options.max_failures
        began_seconds, began_cpu_seconds = time.monotonic(), time.process_time()
        most_failed = told if told >= 1 else told * plan.units
        while self._left and self._failed_units <= most_failed:
            self._step(*self._left.pop())
        is_complete = self._failed_units <= most_failed
        left_units = sum(stop - start for start, stop in self._left)
        wall_seconds = time.monotonic() - began_seconds
        report = Report(
            units=plan.units - self._failed_units - left_units,
            wall_seconds=wall_seconds,
            cores=1,
            tasks=1,
            steps=self._steps,
            steals=0,
            useful_seconds=wall_seconds,
            overhead_seconds=0.0,
            idle_seconds=0.0,
            cpu_seconds=time.process_time() - began_cpu_seconds,
            peak_bytes=0,
            lost_workers=0,
            spilled_bytes=0,
            failed_units=self._failed_units,
            left_units=left_units,
        )
        value = plan.sink.finish(None) if is_complete else None
        return Outcome(value, report, tuple(told_as_one(self._failures)), is_complete=is_complete, max_failures=told)

    def _step(self, start: int, stop: int) -> None:
        self._steps += 1
        stepper, sink = self._plan.stepper, self._plan.sink
        try:
            done_to = stepper.run(start, stop)
        except UnitError as error:
            if not isinstance(error.error, Exception) or isinstance(error.error, MemoryError):
                raise error.error from None  # about this process: for whoever runs it
            done = stepper.take()
            if error.start > start:
                sink.append(start, error.start, done)
            self._left.append((error.stop, stop))
            self._set_aside_or_halve(error)
            self._left = [(start, stop) for start, stop in self._left if start < stop]
        else:
            sink.append(start, done_to, stepper.take())
            if done_to < stop:  # what comes next cannot be read: tried by itself, it says why
                self._left.append((done_to, stop))

    def _set_aside_or_halve(self, error: UnitError) -> None:
        if error.stop - error.start > 1 and error.spoiled is None:
            middle = (error.start + error.stop) // 2
            self._left += [(middle, error.stop), (error.start, middle)]
            return
        summary = f"{type(error.error).__name__}: {error}"
        failure = Failure(error.start, error.stop, summary, shown=error.shown, exception=error.error)
        failure = failure._replace(spoiled=error.spoiled)
        self._failed_units += failure.stop - failure.start
        self._failures.append(self._plan.locate(failure))
        self._plan.sink.skip(self._failures[-1])
