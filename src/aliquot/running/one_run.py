"""One run, from its plan to its outcome."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aliquot import workers
from aliquot.coordinator import AppendAsTheyCome, AppendInOrder, Coordinator, Joining, MergeAsTree
from aliquot.errors import UsageError
from aliquot.running import learned
from aliquot.running.driver import Stopper, drive, handle
from aliquot.running.here import run_here
from aliquot.running.outcome import Outcome, Report, UnitsSetAsideWarning, count_units, nothing_done, raise_failures
from aliquot.running.plan import Plan
from aliquot.running.progress import make_progress
from aliquot.running.recorder import Recorder, Unrecorded
from aliquot.running.results import Results, StreamSink
from aliquot.running.set_aside import check_set_aside, write_set_aside
from aliquot.running.tally import Tally
from aliquot.sites.local import InterruptedRunError, Workplace
from aliquot.sites.work import Work
from aliquot.workers.stepping import EachStepper, UnitError

if TYPE_CHECKING:
    from aliquot.running.recorded import Record

# Results that wait for earlier ones are kept in memory up to this.
_MOST_WAITING_BYTES = 256 << 20
# Where the front is wanted first, a span is about this long: short for whoever takes values as they come, longer for
# files, so that the starts of programs do not count, but short enough for them not to pile up on the disk.
_ROUND_SECONDS = 2.0
_COMMAND_ROUND_SECONDS = 10.0
# A command that has failed at so many units and done none is itself at fault.
_HOPELESS_FAILURES = 50
# Values that nobody has taken yet; workers wait beyond that.
_MOST_UNTAKEN_RESULTS = 24
_MOST_UNTAKEN_BYTES = 64 << 20
_MOST_TAKEN_AT_ONCE = 8
# To weigh a value takes longer than to pass it on.
_MOST_WEIGHED = 100


def run_plan(plan: Plan, flow: _Flow | None = None) -> Outcome:
    """Run it to the end; ``flow`` may interrupt it."""
    if plan.keeping is not None:
        from aliquot.running.recorded import run_recorded

        return run_recorded(plan, plan.keeping, Staff, _run_and_record)
    if workers.inside_worker or not plan.units:
        return run_here(plan.counted())
    return _run(plan, flow)


class Staff:
    """The workers of a run, and what shows how far it is.

    To close it again does nothing: who runs something with it does so when that is done, and who hired it for them in
    any case.
    """

    def __init__(self, plan: Plan) -> None:
        self.began_seconds = time.monotonic()
        self._closing = contextlib.ExitStack()
        options = plan.options
        work = Work(
            plan.stepper,
            plan.expected_units,
            plan.sent_items,
            plan.target_seconds,
            options.target_bytes,
            options.wall_seconds,
            options.disk_bytes,
            plan.step_cores,
            joins_reports=plan.keeping is None and isinstance(plan.stepper, EachStepper),
        )
        self.progress = make_progress(options.progress, plan.label)
        self._closing.callback(self.progress.close)
        try:
            self.workplace = options.site.start(work, self.progress)
        except BaseException:
            self._closing.close()
            raise
        self._closing.callback(self.workplace.close)

    def __enter__(self) -> Staff:
        return self

    def __exit__(self, *raised: object) -> None:
        self._closing.close()


def _run_and_record(plan: Plan, record: Record, staff: Staff | None) -> Outcome:
    return _run(plan, record=record, staff=staff) if plan.units else _run_on_nothing(plan, record)


def _run(plan: Plan, flow: _Flow | None = None, *, record: Record | None = None, staff: Staff | None = None) -> Outcome:
    """Run it with the staff that is there already, if there is one."""
    options = plan.options
    if options.set_aside is not None:
        check_set_aside(plan.view, options.set_aside)
    key = learned.fingerprint(*plan.functions)
    tally = Tally()
    stopper = Stopper()
    recorder: Recorder = Unrecorded() if record is None else record.recorder
    # Whatever happens, and whatever fails while it is left, all of this is closed.
    with contextlib.ExitStack() as stack:
        results = Results(plan.sink, plan.join, plan.locate)
        stack.callback(results.close)
        staff = stack.enter_context(staff or Staff(plan))
        workplace = staff.workplace
        if flow is not None:
            stack.callback(flow.finished)
            flow.started(workplace)
        coordinator = make_coordinator(plan, key, workers=workplace.expected_workers, total_bytes=workplace.total_bytes)
        if record is not None:
            stack.enter_context(_go_on(plan, record, coordinator, workplace, results, stopper=stopper))
        drive(
            coordinator,
            workplace,
            results,
            tally=tally,
            watcher=staff.progress,
            recorder=recorder,
            stopper=stopper,
            growing=plan.growing,
        )
        failures = results.failures
        if not coordinator.is_stopping:
            workplace.let_workers_end()
    if not failures:
        learned.save(key, coordinator.time, coordinator.memory)
    elif options.set_aside is not None and plan.view is not None:
        write_set_aside(plan.view, failures, options.set_aside)
    if coordinator.is_halted:
        _raise_interrupted(record, stopper)
    report = _make_report(coordinator, workplace, tally, results, time.monotonic() - staff.began_seconds)
    # Where all units failed there is nothing to join, and so no value, however many may fail.
    has_value = plan.is_streamed or results.outcome is not None or coordinator.done_units > 0
    is_complete = has_value and not coordinator.is_stopping
    return Outcome(results.outcome, report, failures, is_complete=is_complete, max_failures=options.max_failures)


def _run_on_nothing(plan: Plan, record: Record) -> Outcome:
    """What a command makes of no units at all, which may be more than nothing: a header, a zero."""
    began_seconds = time.monotonic()
    record.check_reached(record.journal.done_units(), 0)
    record.begin(plan, 1, None)
    if plan.is_command:
        try:
            plan.stepper.run(0, 0)
        except UnitError as failure:
            raise failure.error from None
        plan.sink.append(0, 0, plan.stepper.take())
    return Outcome(plan.sink.finish(None), nothing_done(time.monotonic() - began_seconds))


@contextlib.contextmanager
def _go_on(
    plan: Plan, record: Record, coordinator: Coordinator, workplace: Workplace, results: Results, *, stopper: Stopper
) -> Iterator[None]:
    """Begin with what earlier sittings have done; while this lasts, a signal stops the run in good order."""
    from aliquot.running.stopping import stopping_on_signals

    def stop(signal_number: int) -> None:
        stopper.signal_number = signal_number
        stopper.is_wanted = True
        workplace.wake()

    with stopping_on_signals(stop):
        record.begin(plan, workplace.cores, workplace.total_bytes)
        restored = record.restore(results)
        if plan.growing is not None and restored.reached > coordinator.units:
            handle(coordinator, workplace, results, record.recorder, plan.growing.reach(restored.reached))
        record.check_reached(restored.reached, coordinator.units)
        handle(coordinator, workplace, results, Unrecorded(), restored)
        yield


def _raise_interrupted(record: Record | None, stopper: Stopper) -> None:
    import signal

    from aliquot.running.stopping import RunInterruptedError

    where = "" if record is None else f"; what is done is recorded in {record.directory.path}"
    raise RunInterruptedError(
        f"interrupted{where}. The same call goes on with it", signal_number=stopper.signal_number or signal.SIGINT
    )


def value_of(plan: Plan) -> Any:
    """Run it for its value alone; units that were set aside are told in a warning."""
    outcome = run_plan(plan)
    value = outcome.value
    if outcome.failures:
        shown = "\n".join(f"  {failure}" for failure in outcome.failures[:10])
        more = f"\n  and {len(outcome.failures) - 10} more" if len(outcome.failures) > 10 else ""
        told = f"{count_units(outcome.failures)} set aside:\n{shown}{more}"
        # Of the user's line: above it are the call, what checks its arguments, and this.
        warnings.warn(told, UnitsSetAsideWarning, stacklevel=4)
    return value


def stream_plan(plan: Plan) -> Iterator[Any]:
    """Begin at once, and give the values as they come."""
    if workers.inside_worker or not plan.units:
        return (value for value in run_here(plan.counted()).value)  # an iterator that can be closed, as a stream can
    return _Stream(plan)


class _Stream(Iterator[Any]):
    """Values from a run that goes on in a thread of its own, which does not know it: when it is gone, that ends."""

    def __init__(self, plan: Plan) -> None:
        self._flow = _Flow()
        self._values: Iterator[Any] = iter(())
        self._taken: deque[list[Any]] = deque()  # those that come next
        self._taking = threading.Lock()  # several threads may share a stream
        self._thread = threading.Thread(target=_run_into, args=(plan, self._flow), name="aliquot-run", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        self._flow.check_process()
        with self._taking:
            return self._take()

    def _take(self) -> Any:
        while True:
            for value in self._values:
                return value
            if self._flow.is_over:
                raise StopIteration
            if self._taken:
                self._values = iter(self._taken.popleft())  # what was used is not held on to
                continue
            got = self._flow.get()
            if isinstance(got, deque):
                self._taken = got
                continue
            self._flow.stop()
            if got is not None:
                raise got

    def close(self) -> None:
        """End the work, at once."""
        self._flow.stop()
        self._thread.join()
        self._taken.clear()
        self._values = iter(())

    def __del__(self) -> None:
        if hasattr(self, "_thread") and not self._flow.is_over:
            self._flow.stop()


class _Flow:
    """What a stream and its run share: values on their way, and the wish to stop."""

    def __init__(self) -> None:
        self._values: deque[tuple[list[Any], int]] = deque()
        self._end: list[BaseException | None] = []  # what comes after all values, when it is known
        self._untaken_bytes = 0
        self._workplace: Workplace | None = None
        # Reentrant: a stream may be collected, and so stop, in the middle of anything.
        self._changed = threading.Condition(threading.RLock())
        self._process = os.getpid()
        self.is_over = False

    def check_process(self) -> None:
        """In a forked process there is no run, and to wait for its values, or for a lock, would be for ever."""
        if self._process != os.getpid():
            raise UsageError("this stream of values is that of another process, which has forked this one")

    def started(self, workplace: Workplace) -> None:
        """The run has its workers."""
        with self._changed:
            self._workplace = workplace
            if self.is_over:
                workplace.interrupt()

    def finished(self) -> None:
        """The run has no workers any more."""
        with self._changed:
            self._workplace = None

    def stop(self) -> None:
        """Nobody wants the values any more; not in a forked process, which has a copy of all this."""
        if self._process != os.getpid():
            return
        with self._changed:
            self.is_over = True
            self._values.clear()
            if self._workplace is not None:
                self._workplace.interrupt()
            self._changed.notify_all()

    def put(self, values: list[Any]) -> None:
        """Wait until there is room, or nobody wants it."""
        weight = _weight(values)
        with self._changed:
            while not self.is_over and self._is_full():
                self._changed.wait()
            if self.is_over:
                raise InterruptedRunError
            if not self._values:
                self._changed.notify_all()  # else somebody was told already
            self._values.append((values, weight))
            self._untaken_bytes += weight

    def end(self, error: BaseException | None) -> None:
        """There will be no more."""
        with self._changed:
            self._end.append(error)
            self._changed.notify_all()

    def get(self) -> deque[list[Any]] | BaseException | None:
        """Some of those that there are, as soon as there are some; after the last of them None, or what went wrong."""
        with self._changed:
            while not self._values and not self._end and not self.is_over:
                self._changed.wait()
            if self._is_full():
                self._changed.notify_all()
            taken: deque[list[Any]] = deque()
            while self._values and len(taken) < _MOST_TAKEN_AT_ONCE:
                values, weight = self._values.popleft()
                taken.append(values)
                self._untaken_bytes -= weight
            if taken or self.is_over:
                return taken or None
            return self._end[0]

    def _is_full(self) -> bool:
        return len(self._values) >= _MOST_UNTAKEN_RESULTS or self._untaken_bytes >= _MOST_UNTAKEN_BYTES


def _weight(values: list[Any]) -> int:
    """About how many bytes they take, by some of them."""
    every = -(-len(values) // _MOST_WEIGHED) or 1
    return every * sum(_array_bytes(value) or sys.getsizeof(value, 0) for value in values[::every])


def _array_bytes(value: Any) -> int:
    """As arrays tell it; what a user's own class calls so may be anything, and may raise."""
    try:
        told = 0 if isinstance(value, tuple) else value.nbytes
    except Exception:
        return 0
    return told if type(told) is int else 0


def _run_into(plan: Plan, flow: _Flow) -> None:
    end: BaseException | None = None
    try:
        plan = plan._replace(sink=StreamSink(flow.put), is_streamed=True)
        outcome = run_plan(plan, flow)
        if not outcome.is_complete:
            raise_failures(outcome.failures, outcome.max_failures, outcome.report)
    except InterruptedRunError:
        return
    except BaseException as error:
        end = error
    flow.end(end)


def make_coordinator(plan: Plan, key: str, *, workers: int, total_bytes: int | None) -> Coordinator:
    """Who divides it; ``key`` is by what earlier runs of it are known."""
    # A guess that was given is tried; else what was learned in an earlier run is the guess.
    is_known = not plan.options.size and not plan.options.forgets
    time_model, memory_model = learned.load(key) if is_known else (None, None)
    return Coordinator(
        _make_joining(plan),
        units=plan.units,
        is_complete=plan.growing is None,
        expected_units=plan.expected_units,
        expected_workers=workers,
        first_units=plan.options.size or plan.first_units,
        front_first=(plan.is_streamed or plan.is_command) and plan.is_ordered,
        round_seconds=_COMMAND_ROUND_SECONDS if plan.is_command else _ROUND_SECONDS,
        # A stream gives all values before the first failed unit; elsewhere they would be of no use.
        finish_front=plan.is_streamed and plan.is_ordered,
        total_bytes=total_bytes,
        most_failed=plan.options.max_failures,
        hopeless_failures=_HOPELESS_FAILURES if plan.is_command else None,
        time=time_model,
        memory=memory_model,
    )


def _make_joining(plan: Plan) -> Joining:
    if plan.is_ordered:
        return AppendInOrder(_MOST_WAITING_BYTES)
    return AppendAsTheyCome() if plan.join is None else MergeAsTree()


def _make_report(
    coordinator: Coordinator, workplace: Workplace, tally: Tally, results: Results, wall_seconds: float
) -> Report:
    available_seconds = workplace.cores * wall_seconds
    step_cores = workplace.cores // workplace.expected_workers
    owned_seconds = min(step_cores * tally.owned_seconds, available_seconds)
    useful_seconds = step_cores * tally.useful_seconds
    return Report(
        units=coordinator.done_units,
        wall_seconds=wall_seconds,
        cores=workplace.cores,
        tasks=coordinator.spans,
        steps=coordinator.steps,
        steals=coordinator.steals,
        useful_seconds=useful_seconds,
        overhead_seconds=max(0.0, owned_seconds - useful_seconds),
        idle_seconds=available_seconds - max(owned_seconds, useful_seconds),
        cpu_seconds=workplace.cpu_seconds,
        read_bytes=workplace.read_bytes,
        written_bytes=workplace.written_bytes,
        moved_cuts=workplace.moved_cuts,
        scratch_bytes=workplace.scratch_bytes,
        peak_bytes=tally.peak_bytes,
        lost_workers=tally.lost_workers,
        spilled_bytes=results.spilled_bytes,
        failed_units=coordinator.failed_units,
        left_units=coordinator.expected_units - coordinator.done_units - coordinator.failed_units,
        exhausted_steps=coordinator.exhausted_steps,
        stopped_seconds=tally.stopped_seconds,
        flaky_steps=coordinator.flaky_steps,
        suspended_workers=coordinator.suspended_workers,
        allowed_bytes=workplace.total_bytes,
        enforced_by=workplace.enforced_by,
        costs=tuple(sorted(tally.pieces)),
    )
