"""What a worker process does: it takes spans, one after the other, and joins results, until its parent is gone."""

from __future__ import annotations

import os
import sys
import time

from aliquot.measuring.limit import DataLimit
from aliquot.measuring.peak import PeakMeter
from aliquot.measuring.usage import UsageMeter
from aliquot.sizing import OVERHEAD_SHARE, ItemSizer, StepSizer
from aliquot.workers import channel as messages
from aliquot.workers.cell import REPLACED, Cell
from aliquot.workers.channel import Channel, Message
from aliquot.workers.packing import Packed, pack
from aliquot.workers.span_run import ReplacedError, SpanRun, flush_output, format_trace, is_memory_error
from aliquot.workers.stepping import (
    BatchStepper,
    EachStepper,
    StepTimeoutError,
    UnitError,
)
from aliquot.workers.watch import TIMES_UP

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from aliquot.workers.stepping import Items, Stepper
else:
    import _signal as signal

# What starts a program, as Python's audit events call it.
_PROGRAM_EVENTS = frozenset(("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"))


class _ParentGoneError(Exception):
    """The other end of the channel is closed: the run is over."""


class Worker:
    """The loop of a worker process."""

    def __init__(self, channel: Channel, cell: Cell) -> None:
        self.channel = channel
        self.cell = cell
        self.meter = PeakMeter()
        self.stepper: Stepper | None = None
        self.sizer: ItemSizer | StepSizer = StepSizer()
        self._put_off: list[Message] = []
        self._join_first: Packed | None = None
        self.limit = DataLimit()
        self.usage = UsageMeter()
        self.is_in_step = False
        self.has_done_steps = False
        self.is_tight = True  # whether steps hold so much that each must be measured; not known before the first
        self.birth_bytes = 0
        self.largest_weighed = 0  # units of a step whose peak was learned from
        self.process = os.getpid()
        self.untaken_bytes = 0  # of large values that were sent
        self._keeps_memory = False

    def put_off(self, message: Message) -> None:
        """What came amid a span but is about the next one."""
        self._put_off.append(message)

    def work(self) -> None:
        """Take spans until the parent closes the channel."""
        try:
            signal.signal(TIMES_UP, self._give_step_up)
            sys.addaudithook(self._note_program)
            self.channel.send(messages.READY, (os.getpid(),))
            while True:
                self._take(self._put_off.pop(0) if self._put_off else self.receive())
        except ReplacedError:
            self.cell.judge(REPLACED)
        except (_ParentGoneError, BrokenPipeError, ConnectionResetError):
            return

    def _give_step_up(self, *_: object) -> None:
        """The nursery says that the step takes too long; which may have ended meanwhile."""
        overdue = self.cell.overdue_nanoseconds(time.monotonic_ns())
        if self.is_in_step and overdue is not None and overdue >= 0:
            raise StepTimeoutError("the step took longer than wall_seconds allows")

    def keep_memory(self) -> None:
        """Let C keep what steps free for those that follow."""
        if not self._keeps_memory:
            from aliquot.measuring.allocator import keep_freed_memory

            self._keeps_memory = True
            keep_freed_memory()

    def give_memory_back(self) -> None:
        """Give what was freed back to the kernel, and keep nothing from now on."""
        from aliquot.measuring.allocator import give_freed_memory_back, trim

        if self._keeps_memory:
            self._keeps_memory = False
            give_freed_memory_back()
        else:
            trim()

    def limited_time(self) -> _LimitedTime:
        """Code of the user's runs outside of steps too: it may not take longer than a step either."""
        return _LimitedTime(self, self.cell)

    def _note_program(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _PROGRAM_EVENTS:
            self.cell.note_program()

    def receive(self) -> Message:
        """Wait for a message that has not come before: what was put off is not for the span under way."""
        message = self.channel.receive()
        if message is None:
            raise _ParentGoneError
        return message

    def _take(self, message: Message) -> None:
        if message.kind == messages.WORK:
            self._prepare(message)
        elif message.kind == messages.ASSIGN:
            span, start, first_units, advice, is_careful, is_end = message.numbers
            self.sizer.begin_span(first_units, self.cell.allowed_bytes or None)
            self.sizer.learn(*advice)
            SpanRun(self, span, start, is_careful=is_careful, is_end=is_end).run()
        elif message.kind == messages.ADVISE:
            self.sizer.learn(*message.numbers[1])
        elif message.kind == messages.TAKEN:
            self.untaken_bytes -= message.numbers[0]
        elif message.kind == messages.JOIN_FIRST:
            self._join_first = message.value
        elif message.kind == messages.JOIN:
            self._join(message)
        elif message.value is not None:
            message.value.close()  # items for a span that is over

    def _join(self, message: Message) -> None:
        """Make one of two results, which are the only ones here."""
        (span,) = message.numbers
        first, second = self._join_first, message.value
        assert first is not None
        assert second is not None
        assert isinstance(self.stepper, BatchStepper)
        if self._keeps_memory:
            self.give_memory_back()  # which is counted, but of little use for what is larger
        self.meter.reset()
        began = time.perf_counter()
        try:
            if self.cell.allowed_bytes:
                self.limit.set(self.cell.allowed_bytes)
            self.cell.begin_step(time.monotonic_ns())
            self.is_in_step = True
            packed = pack(self.stepper.join(first.load(), second.load()))
        except BaseException as error:
            self.is_in_step = False
            self.limit.lift()
            failure = UnitError(error, 0, 0)
            trace = format_trace(failure)
            failure.forget_frames()
            if is_memory_error(error):
                extra = (self.meter.peak_bytes(), time.perf_counter() - began)
                self.send_failure(span, failure, messages.EXHAUSTED, trace, extra)
            else:
                self.send_failure(span, failure, messages.FAILED, trace)
        else:
            self.is_in_step = False
            self.limit.lift()
            self.channel.send(messages.JOINED, (span, self.meter.peak_bytes()), packed)
        finally:
            self.cell.end_step()
            self.limit.lift()
            first.close()
            second.close()

    def send_failure(
        self, span: int, failure: UnitError, kind: str, trace: str | None = None, extra: tuple[Any, ...] = ()
    ) -> None:
        """Tell of a step that failed, with the exception itself where it can be sent."""
        self.limit.lift()
        if self.stepper is not None and hasattr(self.stepper, "tidy"):
            self.stepper.tidy()  # before others have the same units
        flush_output()
        if trace is None:
            trace = format_trace(failure)
        words = str(failure)
        summary = f"{type(failure.error).__name__}: {words}" if words else type(failure.error).__name__
        packed = pack(None)
        try:
            packed = pack(failure.error)
            packed.load()  # some exceptions can be pickled, but not rebuilt
        except Exception:
            packed.close()
            packed = pack(None)
        numbers = (span, failure.start, failure.stop, summary, trace, failure.shown, failure.spoiled, *extra)
        self.channel.send(kind, numbers, packed)

    def _prepare(self, message: Message) -> None:
        target_seconds, target_bytes = message.numbers
        assert message.value is not None
        try:
            self.stepper = _load_work(message.value)
        except BaseException as error:
            self.stepper = _CannotStart(error)
        finally:
            message.value.close()
        self.cell.weigh_programs(hasattr(self.stepper, "take_programs_peak"))
        if isinstance(self.stepper, EachStepper):
            self.sizer = ItemSizer(longest_seconds=target_seconds)
        elif hasattr(self.stepper, "units_at_once"):
            from aliquot.sizing.stream_sizer import StreamSizer  # only where a program is fed

            stepper = self.stepper
            self.sizer = StreamSizer(lambda: int(stepper.units_at_once), longest_seconds=target_seconds)
        else:
            self.sizer = StepSizer(
                longest_seconds=target_seconds,
                target_bytes=target_bytes,
                overhead_share=self.stepper.overhead_share,
                stopped_seconds=self.cell.wall_seconds,
            )
        self.birth_bytes = self.meter.resident_bytes()
        if isinstance(self.sizer, StepSizer):
            self.sizer.memory.floor_bytes = self.birth_bytes
            if "numpy" in sys.modules:
                self.keep_memory()  # arrays will come and go; others must show first that they hold much


def _load_work(packed: Packed) -> Any:
    # In a copy of the user's process, modules of the user's are imported for the second time, which some do not bear.
    copied = sys.modules.get("aliquot.workers.copied")
    if copied is not None and copied.has_let_go():
        try:
            return packed.load()
        except Exception:
            copied.bring_modules_back()
    return packed.load()


class _LimitedTime:
    """What is done within takes no longer than a step may."""

    __slots__ = ("_cell", "_worker")

    def __init__(self, worker: Worker, cell: Cell) -> None:
        self._worker = worker
        self._cell = cell

    def __enter__(self) -> None:
        self._cell.begin_step(time.monotonic_ns())
        self._worker.is_in_step = True

    def __exit__(self, *_: object) -> None:
        self._worker.is_in_step = False
        self._cell.end_step()


class _CannotStart:
    """Stands for work that could not be unpickled here: fails at the first step, where errors are reported."""

    items: Items | None = None
    allowed_bytes = 0
    overhead_share = OVERHEAD_SHARE

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
        raise UnitError(self._error, start, stop)

    def take(self) -> Any:
        return None

    def keep_note(self, note: Any, *, of_each: bool) -> None:
        pass
