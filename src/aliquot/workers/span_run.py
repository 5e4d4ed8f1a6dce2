"""One span in a worker, from its first step to its last: claim, run, measure, learn, report; with less memory; fail."""

from __future__ import annotations

import errno
import os
import sys
import time

from aliquot.measuring.usage import directory_bytes
from aliquot.sizing import WITH_REST, ReportPacer
from aliquot.workers import channel as messages
from aliquot.workers.packing import MOST_INLINE_BYTES, Packed, pack, pack_values
from aliquot.workers.stepping import (
    BatchStepper,
    EachStepper,
    SentItems,
    StepTimeoutError,
    UnitError,
    add_note,
    bounded_repr,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from aliquot.workers.channel import Message
    from aliquot.workers.main import Worker

# Reading the peak and learning from it costs up to 90 microseconds: shorter steps than this are measured together.
_SHORTEST_MEASURED_SECONDS = 0.2
_SHORTEST_HELD_BACK_SECONDS = 0.005
# So long a worker waits before it looks again whether its open span was extended.
_LOOK_FOR_MORE_SECONDS = 0.005
# Items are asked for this long ahead, unless they are large.
_AHEAD_SECONDS = 0.5
# So many are asked for while the first ones are worked on, and nobody knows yet how long those take.
_FIRST_AHEAD_UNITS = 64
_AHEAD_BYTES = 8 << 20
MOST_UNTAKEN_BYTES = 128 << 20
# A program that failed when so much of what is allowed was in use, failed for want of it.
_NEARLY_ALL = 0.9
# The kernel counts pages here and there, and not all at once.
_MARGIN_BYTES = 4 << 20
# A step that holds more than this part of what it is allowed is measured by itself.
_TIGHT_PART = 0.25
# Where steps hold more than this, and it is far less than they may, pages are kept from one to the next.
_WORTH_KEEPING_BYTES = 16 << 20
# A worker that has grown by this part of its allowance is replaced before it is said that a unit does not fit.
_BLOATED_PART = 0.2


class ReplacedError(Exception):
    """This process holds more than it should between two steps: another one is to go on."""


class SpanRun:
    """One span, from its first step to its last."""

    def __init__(self, worker: Worker, span: int, start: int, *, is_careful: bool, is_end: bool = True) -> None:
        stepper = worker.stepper
        assert stepper is not None
        stepper.keep_note(worker.cell.at_unit, of_each=is_careful)
        self._worker = worker
        self._stepper = stepper
        self._sizer = worker.sizer
        self._cell = worker.cell
        self._channel = worker.channel
        self._meter = worker.meter
        self._limit = worker.limit
        self._span = span
        self._is_end = is_end  # nothing waits behind it
        self._reported_to = start
        self._allowed_bytes = 0  # that the limit was set by
        self._step_start, self._step_began = start, 0.0
        self._retried_unit = -1  # did not fit, and was tried again with nothing else held
        self._most_units = sys.maxsize  # of the next step, after one that did not fit
        self._reports_each_step = False
        self._is_overfull = False  # holds nearly all that it is allowed, between two steps
        self._began_seconds = time.perf_counter()
        self._has_begun = False
        self._setup_seconds: float | None = None  # until it was told
        # Values one by one are wanted one by one; of joined ones, only the last is.
        after_every_step = worker.sizer.is_one_by_one and not isinstance(stepper, BatchStepper)
        self._pacer = ReportPacer(self._began_seconds, after_every_step=after_every_step)
        # Since the last report.
        self._steps = 0
        self._busy_seconds = 0.0
        self._used = worker.usage.read()  # until the last measurement
        self._usage = (0.0, 0, 0, 0)  # CPU seconds, bytes read and written, bytes in the scratch directory
        self._moved_cuts = 0  # ends of steps
        self._stopped_steps = 0  # that did not fit
        self._stopped_seconds = 0.0
        self._waited_seconds = 0.0  # for units that were not known yet
        self._seen: list[tuple[float, float, float]] = []  # units of a step, seconds, how many
        self._seen_peaks: list[tuple[float, float, float]] = []
        # Since the last measurement of memory.
        self._recent: dict[int, list[float]] = {}  # units of a step -> how many, seconds
        self._measured_seconds = self._began_seconds
        self._largest_step = 0
        self._reset_bytes = 0  # resident at the last measurement
        self._resident_bytes = 0  # at the last report
        self._grown_bytes = 0
        # Items that the parent sends.
        items = stepper.items
        self._sent = items if isinstance(items, SentItems) else None
        self._asked_to = start
        self._window_units = 1
        self._window_bytes = 0
        if self._sent is not None:
            self._sent.clear(start)
        # Where units are stored in groups, steps rather end with one.
        self._good_cut: Callable[[int, int], int] | None = getattr(items, "good_cut", None)
        if hasattr(stepper, "claim_more"):
            stepper.claim_more = self._claim_more

    def run(self) -> None:
        """Run steps until nothing of the span is left."""
        cell, worker = self._cell, self._worker
        self._meter.reset()
        self._resident_bytes = self._reset_bytes = self._meter.resident_bytes()
        done_to = self._reported_to
        while True:
            if cell.allowed_bytes != self._allowed_bytes:
                self._take_allowance()
            is_open = cell.is_open(self._span)
            start, stop = cell.claim(self._span, self._wanted_units(done_to))
            if start == stop:
                if not is_open:
                    break
                self._wait_for_more()
                continue
            self._step_start = start
            waited_before = self._waited_seconds
            began = self._step_began = time.perf_counter()
            cell.begin_step(time.monotonic_ns())
            worker.is_in_step = True
            if not self._has_begun:
                self._has_begun = True
                self._setup_seconds = began - self._began_seconds
            try:
                reached = self._run_step(start, stop)
                worker.is_in_step = False
            except UnitError as failure:
                worker.is_in_step = False
                cell.end_step()
                self._end_if_forked()
                going_on_from = self._go_on_after(failure, time.perf_counter() - began)
                if going_on_from is None:
                    return
                done_to = going_on_from
                continue
            cell.end_step()
            worker.has_done_steps = True
            self._most_units = min(2 * self._most_units, sys.maxsize)
            self._end_if_forked()
            ended = time.perf_counter()
            if reached < stop:
                cell.unclaim(self._span, reached)
            done_to = reached
            self._note(reached - start, ended - began - (self._waited_seconds - waited_before))
            if not self._measure_and_report(done_to, ended):
                return
        if self._steps:
            self._measure(time.perf_counter())
            self._report(done_to)
        self._limit.lift()

    def _wanted_units(self, start: int) -> int:
        """How many units the next step should have: those that are here, and best to cut off."""
        left = self._cell.stop(self._span) - start
        if left <= 0:
            return 0  # or the cell is about the next span already, of which nothing is known here
        wanted = min(self._sizer.choose(left, is_end=self._is_end), self._most_units)
        if self._sent is not None and wanted:
            return self._have_items(start, wanted)
        if self._good_cut is not None and 1 < wanted < left:
            stop = self._good_cut(start, start + wanted)
            self._moved_cuts += stop < start + wanted
            return stop - start
        return wanted

    def _wait_for_more(self) -> None:
        """At the end of an open span, where everything is reported."""
        time.sleep(_LOOK_FOR_MORE_SECONDS)
        self._waited_seconds += _LOOK_FOR_MORE_SECONDS

    def _claim_more(self, units: int, wait: Callable[[float], bool], until_seconds: float) -> tuple[int, int]:
        """Further units for a step that can take some, none beyond what would fit.

        For those that are not known yet it waits, unless ``wait`` says that they are of no use any more. A step that
        would be stopped if it took too long is given no more after half of that time.
        """
        if self._cell.wall_seconds:
            until_seconds = min(until_seconds, self._step_began + self._cell.wall_seconds / 2)
        if time.perf_counter() >= until_seconds:
            return 0, 0
        most_units = 1 if self._sizer.is_one_by_one else min(self._most_units, self._sizer.fitting_units)
        room = most_units - (self._cell.claimed_to - self._step_start)
        wanted = max(0, int(min(units, room)))
        while True:
            is_more_coming = self._cell.is_open(self._span) and self._cell.unstarted_units() <= 0 < wanted
            start, stop = self._cell.claim(self._span, wanted)
            now_seconds = time.perf_counter()
            if start < stop or not is_more_coming or now_seconds >= until_seconds:
                return start, stop
            is_of_use = wait(_LOOK_FOR_MORE_SECONDS)
            self._waited_seconds += time.perf_counter() - now_seconds
            if not is_of_use:
                return start, stop

    def _run_step(self, start: int, stop: int) -> int:
        try:
            return self._stepper.run(start, stop, self._sizer.patience_seconds)
        except StepTimeoutError as error:
            # Its time was up where the stepper did not expect it: what it has kept cannot be relied on.
            raise UnitError(error, start, stop, spoils_earlier_steps=True) from error

    def _measure_and_report(self, done_to: int, now_seconds: float) -> bool:
        """After a step, as far as it is time for either; False if the rest of the span was dropped."""
        is_last = self._cell.unstarted_units() <= 0
        # Steps that only wait to be told that larger ones would fit are not to wait long.
        long_seconds = _SHORTEST_HELD_BACK_SECONDS if self._sizer.is_held_back else _SHORTEST_MEASURED_SECONDS
        is_long_ago = now_seconds - self._measured_seconds >= long_seconds
        if is_last or is_long_ago or self._worker.is_tight:
            self._measure(now_seconds)
        is_due = is_last or self._reports_each_step or self._is_overfull
        is_due = is_due or self._pacer.is_due(now_seconds, self._grown_bytes, is_wary=self._cell.is_wary)
        if is_due and not self._report(done_to):
            return False
        if self._is_overfull:
            raise ReplacedError
        return True

    def _end_if_forked(self) -> None:
        """The user's function has forked, and this is the child: the parent alone goes on with the span."""
        if os.getpid() != self._worker.process:
            flush_output()
            os._exit(0)

    def _note(self, units: int, seconds: float) -> None:
        self._steps += 1
        self._busy_seconds += seconds
        self._largest_step = max(self._largest_step, units)
        recent = self._recent.get(units)
        if recent is None:
            self._recent[units] = [1, seconds]
        else:
            recent[0] += 1
            recent[1] += seconds
        if self._sizer.is_trying:
            self._learn()

    def _learn(self) -> None:
        """Pass on what steps took; many short ones together, as learning takes about as long as they should."""
        for units, (count, seconds) in self._recent.items():
            self._sizer.observe(units, seconds / count, count=int(count))
            self._seen.append((units, seconds / count, count))
        self._recent.clear()

    def _measure(self, now_seconds: float) -> None:
        """Take the peak since the last time, which is that of the largest step since then."""
        own_bytes = self._meter.peak_bytes()
        peak_bytes = own_bytes + self._take_programs_peak(own_bytes)
        # What C keeps of an earlier, larger step would look as if this one had needed it.
        is_largest = self._largest_step >= self._worker.largest_weighed
        if peak_bytes > self._reset_bytes or (self._sizer.is_weighing and is_largest):
            self._worker.largest_weighed = max(self._worker.largest_weighed, self._largest_step)
            self._sizer.observe_memory(self._largest_step, peak_bytes)
            self._seen_peaks.append((self._largest_step, peak_bytes, 1))
        self._learn()
        self._measure_usage()
        self._largest_step = 0
        is_near = peak_bytes > _TIGHT_PART * self._allowed_bytes > 0
        self._worker.is_tight = is_near or self._sizer.is_held_back or self._sizer.is_weighing
        if is_near:
            self._limit.lift()
            self._worker.give_memory_back()
            if self._is_full() and self._is_bloated():
                self._free_memory()
                self._is_overfull = self._is_full()
        elif own_bytes - self._worker.birth_bytes > _WORTH_KEEPING_BYTES:
            self._worker.keep_memory()
        self._reset_bytes = self._meter.resident_bytes()
        self._grown_bytes = self._reset_bytes - self._resident_bytes
        self._meter.reset()
        self._measured_seconds = now_seconds
        if self._allowed_bytes > 0:
            self._limit.set(self._allowed_bytes)

    def _measure_usage(self) -> None:
        used, before = self._worker.usage.read(), self._used
        self._used = used
        cpu_seconds, read_bytes, written_bytes, scratch_bytes = self._usage
        if self._cell.allowed_disk_bytes:
            scratch_bytes = max(scratch_bytes, directory_bytes(os.environ["TMPDIR"]))
        self._usage = (
            cpu_seconds + used.cpu_seconds - before.cpu_seconds,
            read_bytes + used.read_bytes - before.read_bytes,
            written_bytes + used.written_bytes - before.written_bytes,
            scratch_bytes,
        )

    def _report(self, stop: int) -> bool:
        """Send up what was done since the last report; False if that failed, and the rest of the span was dropped."""
        began = time.perf_counter()
        try:
            value = self._stepper.take()
        except Exception as error:
            self._worker.send_failure(self._span, UnitError(error, self._reported_to, stop), messages.FAILED)
            return False
        try:
            with self._worker.limited_time():
                packed = self._pack(value)
        except (Exception, StepTimeoutError) as error:
            self._fail_to_pack(value, stop, error)
            return False
        self._send_report(stop, packed)
        self._tidy()  # while the parent finds out what comes next
        now = time.perf_counter()
        self._pacer.reported(now, now - began)
        self._resident_bytes = self._meter.resident_bytes()
        self._grown_bytes = 0
        return True

    def _send_report(self, stop: int, packed: Packed) -> None:
        setup_seconds, self._setup_seconds = self._setup_seconds, None
        self._learn()
        packed_bytes = packed.total_bytes
        flush_output()
        self._channel.send(
            messages.REPORT,
            (
                self._span,
                self._reported_to,
                stop,
                self._steps,
                self._busy_seconds,
                (*self._usage, self._moved_cuts),
                setup_seconds,
                tuple(self._seen),
                tuple(self._seen_peaks),
                self._stopped_steps,
                self._stopped_seconds,
                self._waited_seconds,
            ),
            packed,
        )
        if packed_bytes > MOST_INLINE_BYTES:
            self._worker.untaken_bytes += packed_bytes
        self._reported_to = stop
        self._steps = 0
        self._busy_seconds = self._stopped_seconds = self._waited_seconds = 0.0
        self._usage = (0.0, 0, 0, 0)
        self._moved_cuts = 0
        self._stopped_steps = 0
        self._seen.clear()
        self._seen_peaks.clear()
        for message in self._channel.receive_ready():
            self._take_amid_span(message)
        # Large values are in memory until the parent has taken them.
        while self._worker.untaken_bytes > MOST_UNTAKEN_BYTES:
            self._take_amid_span(self._worker.receive())

    def _tidy(self) -> None:
        if hasattr(self._stepper, "tidy"):
            self._stepper.tidy()

    def _pack(self, value: Any) -> Packed:
        # Values one by one are a list; others are whatever the user's function or program has made.
        pack_it = pack_values if isinstance(self._stepper, EachStepper) else pack
        try:
            return pack_it(value)
        except MemoryError:
            # What is to be sent takes room beside what is held. The nursery stops us if that is too much.
            self._reports_each_step = True
            self._limit.lift()
            self._allowed_bytes = -1  # to be set again
            return pack_it(value)

    # Memory

    def _take_allowance(self) -> None:
        self._allowed_bytes = self._cell.allowed_bytes
        self._sizer.allow(self._allowed_bytes or None)
        self._stepper.allowed_bytes = self._allowed_bytes
        if self._allowed_bytes:
            self._limit.set(self._allowed_bytes)
        else:
            self._limit.lift()

    def _take_programs_peak(self, own_bytes: int) -> int:
        """The most that programs held since the last time: as was seen while they ran, and as was told at their end.

        This process itself held ``own_bytes``.
        """
        seen_bytes = self._cell.take_programs_peak()
        if not hasattr(self._stepper, "take_programs_peak"):
            return seen_bytes
        told_bytes = self._stepper.take_programs_peak()
        # Of a small program, the kernel tells what this process held when it started it.
        is_larger = told_bytes > own_bytes + _MARGIN_BYTES
        return max(seen_bytes, told_bytes) if is_larger else seen_bytes

    def _go_on_after(self, failure: UnitError, seconds: float) -> int | None:
        """Where to go on after a step that failed, with less at once; None if the rest of the span was dropped."""
        programs_bytes = self._take_programs_peak(self._meter.peak_bytes())
        if self._did_not_fit(failure, programs_bytes):
            return self._do_with_less(failure, seconds, programs_bytes)
        self._fail(failure)
        return None

    def _did_not_fit(self, failure: UnitError, programs_bytes: int) -> bool:
        """Whether a step failed for want of memory; a program that was refused some has its own way to say so."""
        if is_memory_error(failure.error):
            return True
        return programs_bytes > _NEARLY_ALL * self._allowed_bytes > 0

    def _do_with_less(self, failure: UnitError, seconds: float, programs_bytes: int) -> int | None:
        """Go on with a smaller step, and send up what is held; where to go on, None if the rest of the span is dropped.

        A single unit is tried once more with nothing else held, in a process that has not grown.
        """
        self._limit.lift()
        self._allowed_bytes = -1  # to be set again
        self._stopped_steps += 1
        self._stopped_seconds += seconds
        peak_bytes = self._meter.peak_bytes() + programs_bytes
        trace = format_trace(failure)
        failure.forget_frames()
        units, start = failure.stop - failure.start, failure.start
        self._sizer.exhausted(units)
        is_alone = start == self._reported_to
        if failure.spoils_earlier_steps:
            self._stepper.take()
            start = self._reported_to
            self._reports_each_step = True
        elif not is_alone and not self._report(start):
            return None
        is_window_small = self._sent is None or self._window_units == 1
        is_last_resort = units == 1 and is_window_small and (is_alone or self._retried_unit == start)
        self._free_memory()
        if (is_last_resort or self._is_full()) and self._is_bloated():
            raise ReplacedError
        if is_last_resort:
            self._stopped_seconds -= seconds
            self._stopped_steps -= 1
            self._worker.send_failure(self._span, failure, messages.EXHAUSTED, trace, (peak_bytes, seconds))
            return None
        if units == 1:
            self._retried_unit = start
        self._most_units = max(1, units // 2)
        self._meter.reset()
        self._reset_bytes = self._meter.resident_bytes()
        self._tidy()  # before others may have the same units
        self._cell.unclaim(self._span, start)
        if self._sent is not None:
            self._sent.clear(start)
            self._asked_to = start
            self._window_units, self._window_bytes = 1, 0
        return start

    def _is_full(self) -> bool:
        return self._meter.resident_bytes() > _NEARLY_ALL * self._cell.allowed_bytes > 0

    def _is_bloated(self) -> bool:
        """Whether this process has grown over its steps by so much that a new one may do what it cannot."""
        if not self._worker.has_done_steps:
            return False
        grown_bytes = self._meter.resident_bytes() - self._worker.birth_bytes
        return grown_bytes > _BLOATED_PART * self._cell.allowed_bytes > 0

    def _free_memory(self) -> None:
        import gc

        gc.collect()
        self._worker.give_memory_back()

    # Failing

    def _fail(self, failure: UnitError) -> None:
        """Send up what came before, then the failure; the rest of the span is the coordinator's again."""
        if failure.spoils_earlier_steps:
            self._stepper.take()
            failure.start = self._reported_to
        elif failure.start > self._reported_to and not self._report(failure.start):
            return
        reaches_to = failure.stop if failure.spoiled is None else failure.spoiled[1]
        if reaches_to > failure.stop == self._cell.claimed_to:
            _, failure.stop = self._cell.claim(self._span, reaches_to - failure.stop)
        self._worker.send_failure(self._span, failure, messages.FAILED)

    def _fail_to_pack(self, value: Any, stop: int, error: BaseException) -> None:
        """Find the unit whose value cannot be pickled where values are kept apart; send up those before it."""
        start = self._reported_to
        if isinstance(self._stepper, EachStepper):
            bad = next((number for number, one in enumerate(value) if not self._can_be_packed(one)), None)
        else:
            bad = None
        if bad is None:
            shown = f"the value is {bounded_repr([value], 0)}"
        else:
            if bad:
                self._send_report(start + bad, pack(value[:bad]))
            start, stop = start + bad, start + bad + 1
            shown = f"its value is {bounded_repr(value, bad)}"
        failure = UnitError(error, start, stop, shown)
        if is_memory_error(error):
            self._worker.send_failure(self._span, failure, messages.EXHAUSTED, extra=(self._meter.peak_bytes(), 0.0))
            return
        why = "that takes too long" if isinstance(error, StepTimeoutError) else "it cannot be pickled and unpickled"
        add_note(error, f"what the function returned cannot be sent from the worker to its parent: {why}")
        self._worker.send_failure(self._span, failure, messages.FAILED)

    def _can_be_packed(self, value: Any) -> bool:
        try:
            with self._worker.limited_time():
                pack_values([value]).close()
        except (Exception, StepTimeoutError):
            return False
        return True

    # Items that the parent sends

    def _have_items(self, start: int, wanted: int) -> int:
        """Wait for the items of a step, and ask for the next ones before they are needed; how many are in one piece."""
        sent = self._sent
        assert sent is not None
        while (end := sent.window_end(start)) == start:
            if self._asked_to <= start and not self._ask_for_items(start + wanted):
                return 0  # all that was left has just been given to another worker
            self._take_amid_span(self._worker.receive())
        if self._asked_to <= sent.available_to and sent.available_to - start - wanted < self._window_units / 2:
            self._ask_for_items(self._asked_to + wanted)
        here = end - start
        # A little that is left of a window would be a step of its own.
        return here if here <= min(WITH_REST * wanted, self._sizer.fitting_units) else min(wanted, here)

    def _ask_for_items(self, at_least_to: int) -> bool:
        """Ask for the next window, of as many whole steps as are wanted at once; False if the span has no more."""
        start = self._asked_to
        step = max(1, at_least_to - start)
        unit_seconds = self._sizer.unit_seconds
        unit_bytes = self._window_bytes / self._window_units
        # After a step that did not fit, no more than the next one may have: perhaps it was they that did not fit.
        units = min(_AHEAD_BYTES / max(unit_bytes, 1e-9), self._most_units)
        if unit_seconds is not None:
            units = min(units, self._window_units * 4, _AHEAD_SECONDS / max(unit_seconds, 1e-9))
        else:
            # Of the very first ones, nothing is known; of those behind them, how large they are.
            units = min(units, _FIRST_AHEAD_UNITS) if self._window_bytes else 1.0
        stop = min(start + step * max(1, int(units / step)), self._cell.stop(self._span))
        if start >= stop:
            return False
        self._asked_to = stop
        self._channel.send(messages.NEED, (self._span, start, stop))
        return True

    def _take_amid_span(self, message: Message) -> None:
        if message.kind == messages.ITEMS:
            span, start, stop = message.numbers
            assert message.value is not None
            try:
                if span == self._span and self._sent is not None:
                    with self._worker.limited_time():
                        is_next = self._sent.add(start, stop, message.value)
                    if is_next:
                        self._window_units = stop - start
                        self._window_bytes = message.value.total_bytes
            finally:
                message.value.close()
        elif message.kind == messages.ADVISE:
            self._sizer.learn(*message.numbers[1])
        elif message.kind == messages.TAKEN:
            self._worker.untaken_bytes -= message.numbers[0]
        else:
            # The parent knows of the last report of this span before it was left here.
            self._worker.put_off(message)


def is_memory_error(error: BaseException) -> bool:
    """Whether memory was refused: Python says so in two ways."""
    if getattr(error, "is_out_of_memory", False):
        return True  # a program has said so
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def format_trace(failure: UnitError) -> str:
    """As Python would show it."""
    import traceback

    return "".join(traceback.format_exception(failure.error))


def flush_output() -> None:
    """Send on what was printed."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (ValueError, AttributeError, OSError):
        pass  # the user's function has closed or replaced it
