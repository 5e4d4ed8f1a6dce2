from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from aliquot.coordinator import (
    Advise,
    Allow,
    Assign,
    Event,
    Extend,
    Join,
    Joined,
    Progressed,
    StepExhausted,
    StepFailed,
    Suspend,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.errors import SiteError, UsageError
from aliquot.sites.local.output import LineReader, Output
from aliquot.sites.local.process import WorkerProcess
from aliquot.sites.site import StepError, WorkerCommand
from aliquot.sites.work import Work
from aliquot.workers import cell as verdicts
from aliquot.workers import channel as messages
from aliquot.workers import nursery as nurseries
from aliquot.workers.channel import Message
from aliquot.workers.nursery import Nursery, take_nursery, the_nursery
from aliquot.workers.packing import MOST_INLINE_BYTES, Packed, PackedLists, pack
from aliquot.workers.span_run import MOST_UNTAKEN_BYTES

if TYPE_CHECKING:
    from aliquot.measuring.cages import Cage

# So many workers in a row that end before they have done anything: starting more would not help.
_MOST_FALSE_STARTS = 5
_MOST_LOST_NURSERIES = 5
_CLOSE_SECONDS = 2.0
# Who takes values one by one has workers wait before many more were done: so few reports are one event.
_MOST_JOINED_REPORTS = 8
# A worker is a Python process: with less than that for each, there are fewer of them.
LEAST_WORKER_BYTES = 32 << 20


# A cage holds the programs of workers and pages of files too.
_CAGE_BYTES = 64 << 20
_cages = 0
_REMOVE_TRIES = 50
_REMOVE_PAUSE_SECONDS = 0.01

_KINDS = {verdicts.FULL_DISK: "exhausted", verdicts.EXHAUSTED: "exhausted", verdicts.HUNG: "hung"}


class InterruptedRunError(Exception):
    """Somebody has called `Workplace.interrupt`."""


class Workplace:
    """The workers of one run on this machine. Fulfils `aliquot.sites.Site`."""

    def __init__(
        self, work: Work, output: Output, *, cores: int, memory_bytes: int | None, is_caged: bool = False
    ) -> None:
        self._work = work
        self._output = output
        the_nursery()  # it starts while the work is pickled
        self._packed_stepper = _pack_stepper(work)
        self._is_streaming = hasattr(work.stepper, "claim_more")
        places = cores // work.step_cores
        self._places = max(1, min(places, work.units, (memory_bytes or sys.maxsize) // LEAST_WORKER_BYTES))
        self._threads = work.step_cores if work.step_cores > 1 else max(1, cores // self._places)
        self._total_bytes = memory_bytes
        self._poll = select.epoll()
        self._is_interrupted = False
        self._interrupt = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._interrupt, select.EPOLLIN)
        self._watched: dict[int, tuple[WorkerProcess, LineReader | None]] = {}
        self._workers: dict[int, WorkerProcess] = {}
        self._next_number = 0
        self._false_starts = 0
        self._events: list[Event] = []
        self._results: dict[int, Packed | StepError] = {}
        self._next_result = 0
        self.cpu_seconds = 0.0  # that workers and their programs used
        self.read_bytes = 0
        self.written_bytes = 0
        self.moved_cuts = 0  # of steps, to where a group of units ends
        self.scratch_bytes = 0  # the most that a worker had in its scratch directory
        self._scratch = None if work.disk_bytes is None else _make_scratch()
        self._cage = self._open_cage() if is_caged else None
        self._kills = 0  # by the kernel, in the cage
        self._are_wary = False  # whether a worker has died of its unit
        self._nursery_end = -1
        self._lost_nurseries = 0  # since a worker has last done something
        self._nursery = self._take_nursery()
        try:
            for _ in range(self._places):
                self._start_worker()
        except BaseException:
            self.close()
            raise

    def _take_nursery(self) -> Nursery:
        nursery = take_nursery(None if self._total_bytes is None else self._total_bytes // self._places)
        self._nursery_end = nursery.open_end()
        if self._nursery_end >= 0:
            self._poll.register(self._nursery_end, select.EPOLLIN)
        return nursery

    @property
    def expected_workers(self) -> int:
        """One for each core, or for as many as a step uses."""
        return self._places

    @property
    def cores(self) -> int:
        """How many all workers use together."""
        return self._places * self._work.step_cores

    @property
    def total_bytes(self) -> int | None:
        """What the workers may hold together."""
        return self._total_bytes

    @property
    def enforced_by(self) -> str:
        """How it is seen to that no worker holds more than it may."""
        cage = "" if self._cage is None else f", {self._cage.kind}"
        return f"kernel limit (RLIMIT_DATA), watching all processes{cage}"

    def now_seconds(self) -> float:
        """The machine's clock."""
        return time.monotonic()

    def take_result(self, result: int) -> Packed:
        """What a worker sent up."""
        taken = self._results.pop(result)
        assert isinstance(taken, Packed)
        return taken

    def error(self, error: int) -> StepError | None:
        """What went wrong in a worker, if that was not forgotten."""
        kept = self._results.get(error)
        return kept if isinstance(kept, StepError) else None

    def forget_error(self, error: int) -> None:
        """Nobody will ask for it."""
        self._results.pop(error, None)

    def acknowledge(self, worker: int, result_bytes: int) -> None:
        """A result has been dealt with: its worker may send as much again."""
        if result_bytes > MOST_INLINE_BYTES and worker in self._workers:
            self._send(self._workers[worker], messages.TAKEN, (result_bytes,))

    def perform(self, command: WorkerCommand) -> None:
        """Pass a command on; the end of a span is moved here and now."""
        worker = self._workers.get(command.worker)
        if worker is None:
            return
        match command:
            case Assign():
                worker.reported_to = command.start
                worker.has_asked = False
                worker.joining = -1
                worker.cell.allow(command.allowed_bytes)
                worker.cell.begin(command.span, command.start, command.stop, is_open=command.is_open)
                advice = (command.seconds, command.peak_bytes)
                numbers = (
                    command.span,
                    command.start,
                    command.first_units,
                    advice,
                    command.is_careful,
                    command.is_end,
                )
                self._send(worker, messages.ASSIGN, numbers)
            case Extend():
                worker.cell.extend(command.span, command.stop, is_open=command.is_open)
            case Trim():
                stop = worker.cell.give(command.span, command.share)
                assert stop is not None
                self._events.append(Trimmed(worker.number, command.span, stop))
            case Advise():
                self._send(worker, messages.ADVISE, (command.span, (command.seconds, command.peak_bytes)))
            case Allow():
                worker.cell.allow(command.allowed_bytes)
            case Suspend():
                worker.replace("steps failed there that others finished")

    def join(self, command: Join, first: Packed, second: Packed) -> None:
        """Have a worker join two results."""
        worker = self._workers.get(command.worker)
        if worker is None:
            first.close()
            second.close()
            return
        worker.joining = command.first
        worker.cell.allow(command.allowed_bytes)
        self._send(worker, messages.JOIN_FIRST, (), first)
        self._send(worker, messages.JOIN, (command.span,), second)

    def wait(self, until_seconds: float | None) -> list[Event]:
        """Read what workers send and print until there is an event; at least what is there now."""
        while not self._events:
            left = -1.0 if until_seconds is None else max(0.0, until_seconds - time.monotonic())
            # epoll counts in milliseconds, and would not wait at all for a part of one.
            for descriptor, _ in self._poll.poll(max(left, 0.001) if left > 0 else left):
                if descriptor == self._interrupt:
                    os.eventfd_read(self._interrupt)
                    if self._is_interrupted:
                        raise InterruptedRunError
                    until_seconds = 0.0  # somebody wants the caller to look
                if descriptor == self._nursery_end:
                    self._replace_orphans()
                if descriptor in self._watched:
                    self._read(*self._watched[descriptor])
            if until_seconds is not None and until_seconds <= time.monotonic():
                break
        events, self._events = self._events, []
        return events

    def interrupt(self) -> None:
        """From another thread: have `wait` raise `InterruptedRunError`."""
        self._is_interrupted = True
        self.wake()

    def wake(self) -> None:
        """From another thread or a signal: have `wait` return, with what there is."""
        os.eventfd_write(self._interrupt, 1)

    def let_workers_end(self) -> None:
        """All is done: close the channels of the workers, at which they end, and pass on what they still print."""
        self._poll.unregister(self._interrupt)
        self._stop_watching_nursery()
        for worker in self._workers.values():
            self._unwatch(worker.channel.fileno())
            worker.channel.close()
        readers = {descriptor: reader for descriptor, (_, reader) in self._watched.items() if reader is not None}
        deadline = time.monotonic() + _CLOSE_SECONDS
        while readers and time.monotonic() < deadline:
            ready = self._poll.poll(0.2)
            if not ready:
                # Something that a worker started holds on to its output.
                for worker in self._workers.values():
                    worker.kill()
            for descriptor, _ in ready:
                if descriptor in readers and not readers[descriptor].read():
                    del readers[descriptor]
                    self._unwatch(descriptor)

    def close(self) -> None:
        """Kill all workers that are left, with all that they started; pass on what they had printed."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._remove_places)
            stack.callback(os.close, self._interrupt)
            stack.callback(self._poll.close)
            stack.callback(self._forget_nursery)
            stack.callback(self._packed_stepper.close)
            for left in self._results.values():
                if isinstance(left, Packed):
                    stack.callback(left.close)
            for worker in self._workers.values():
                stack.callback(worker.close)
                for reader in worker.readers:
                    stack.callback(reader.read)
            for worker in self._workers.values():
                stack.callback(worker.kill)
        self._workers.clear()
        self._results.clear()

    def _remove_places(self) -> None:
        if self._scratch is not None:
            _remove_tree(self._scratch)
        if self._cage is not None:
            self._cage.remove()

    def _open_cage(self) -> Cage | None:
        """A group that the kernel keeps within bounds, where the system allows it: it also counts what others do not.

        That is values on their way to us: they are in memory, but in that of no process.
        """
        from aliquot.measuring.cages import open_cage

        global _cages  # noqa: PLW0603  # names must differ
        _cages += 1
        if self._total_bytes is None:
            return None
        on_their_way = self._places * (MOST_UNTAKEN_BYTES + _CAGE_BYTES)
        return open_cage(f"aliquot-{os.getpid()}-{_cages}", self._total_bytes + on_their_way)

    def _has_kernel_killed(self) -> bool:
        kills = 0 if self._cage is None else self._cage.kills()
        has_killed, self._kills = kills > self._kills, kills
        return has_killed

    # Workers come and go

    def _start_worker(self) -> None:
        try:
            worker = self._make_worker()
        except SiteError:
            if self._nursery.is_alive:
                raise
            # Somebody has just killed it. Where that goes on, the next one ends the run.
            self._replace_orphans()
            worker = self._make_worker()
        self._next_number += 1
        self._workers[worker.number] = worker
        self._watch(worker.channel.fileno(), worker, None)
        for reader in worker.readers:
            self._watch(reader.descriptor, worker, reader)
        if self._are_wary:
            worker.cell.be_wary()
        worker.cell.limit_disk((self._work.disk_bytes or 0) // self._places)
        worker.cell.limit_wall(int((self._work.wall_seconds or 0) * 1e9))
        numbers = (self._work.target_seconds, self._work.target_bytes)
        self._send(worker, messages.WORK, numbers, self._packed_stepper.copy())
        # It can be given a span at once: that waits in its channel until it runs.
        self._events.append(WorkerJoined(worker.number))

    def _make_worker(self) -> WorkerProcess:
        return WorkerProcess(
            self._next_number,
            self._nursery,
            self._output,
            self._threads,
            scratch=None if self._scratch is None else f"{self._scratch}/{self._next_number}",
            cage=None if self._cage is None else (self._cage.directory, self._cage.kind),
        )

    def _renew_nursery(self) -> None:
        self._forget_nursery()
        self._nursery = self._take_nursery()

    def _forget_nursery(self) -> None:
        self._nursery.release()
        self._stop_watching_nursery()

    def _stop_watching_nursery(self) -> None:
        end, self._nursery_end = self._nursery_end, -1
        if end >= 0:
            # A process that was forked from this one may hold it open, and so it would still be polled.
            self._poll.unregister(end)
            os.close(end)

    def _replace_orphans(self) -> None:
        """Nobody sees to it any more that these take neither too much nor too long."""
        if nurseries.is_leaving:
            self._stop_watching_nursery()
            return
        if self._nursery.is_alive:
            return  # it is a new one: what was heard was the end of the old one
        self._lost_nurseries += 1
        if self._lost_nurseries >= _MOST_LOST_NURSERIES:
            raise SiteError(
                f"workers cannot be kept: the process that starts and watches them was killed {self._lost_nurseries} "
                "times while nothing was done. Is memory short? See the kernel's log (dmesg)"
            )
        self._renew_nursery()
        for worker in self._workers.values():
            if not worker.replaced_because:
                worker.replace("the process that watched it has ended")

    def _lose_worker(self, worker: WorkerProcess) -> None:
        self._unwatch(worker.channel.fileno())
        reason = worker.how_it_ended()
        verdict, held_bytes = worker.cell.verdict, worker.cell.held_bytes
        if self._has_kernel_killed() and verdict == verdicts.NONE and worker.was_killed:
            verdict = verdicts.EXHAUSTED
            reason = f"{reason}: all workers together held more than they may"
        stopped_seconds = worker.cell.seconds_in_step(time.monotonic_ns())
        worker.kill()  # what it started goes with it
        for reader in worker.readers:
            self._unwatch(reader.descriptor)
            reader.read()
        start, stop = worker.cell.running()
        if stop <= worker.reported_to:
            start = stop = 0  # it had sent up all that it had begun
        elif start == stop or self._is_streaming:
            start = worker.reported_to  # between steps, sending up what it had done, or all of it is in one program
        is_innocent = bool(worker.replaced_because) or verdict == verdicts.REPLACED
        if verdict == verdicts.EXHAUSTED and start == stop and worker.joining < 0:
            if worker.has_asked and worker.cell.unstarted_units() > 0:
                # Its next unit was on its way here, and alone too large.
                start, stop = worker.reported_to, worker.reported_to + 1
            else:
                is_innocent = True  # it still held what its last span had needed
        has_worked = worker.has_reported or worker.joining >= 0 or is_innocent
        if not worker.replaced_because and (worker.process is None or (start == stop and not has_worked)):
            self._false_starts += 1
        del self._workers[worker.number]
        self._are_wary = self._are_wary or not is_innocent
        for other in self._workers.values() if self._are_wary else ():
            other.cell.be_wary()
        worker.close()
        worker.remove_scratch()
        summary = f"a worker process ended amid its work: {reason}"
        kind = _KINDS.get(verdict, "died")
        error = self._keep(StepError(summary, start=start, stop=stop, kind=kind, held_bytes=held_bytes))
        self._events.append(
            WorkerLost(
                worker.number,
                reason,
                start,
                stop,
                is_suspect=worker.process is not None and not is_innocent,
                error=error,
                is_exhausted=verdict in (verdicts.EXHAUSTED, verdicts.FULL_DISK),
                peak_bytes=held_bytes,
                stopped_seconds=stopped_seconds,
            )
        )
        if self._false_starts >= _MOST_FALSE_STARTS:
            raise SiteError(f"workers cannot be started: {self._false_starts} ended at once. The last one: {reason}")
        if not self._nursery.is_alive:
            self._replace_orphans()
        self._start_worker()

    def _send(self, worker: WorkerProcess, kind: str, numbers: tuple[Any, ...], value: Packed | None = None) -> None:
        # A worker that has just died is noticed when its channel is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.channel.send(kind, numbers, value)

    # What workers send

    def _read(self, worker: WorkerProcess, reader: LineReader | None) -> None:
        if reader is not None:
            if not reader.read():
                self._unwatch(reader.descriptor)
            return
        for message in worker.channel.receive_ready():
            self._take(worker, message)
        if worker.channel.is_closed:
            self._lose_worker(worker)

    def _take(self, worker: WorkerProcess, message: Message) -> None:
        match message.kind:
            case messages.REPORT:
                self._take_report(worker, message)
            case messages.JOINED:
                span, peak_bytes = message.numbers
                assert message.value is not None
                self._false_starts = self._lost_nurseries = 0
                self._results[worker.joining] = message.value
                self._events.append(Joined(worker.number, span, worker.joining, message.value.total_bytes, peak_bytes))
            case messages.NEED:
                worker.has_asked = True
                self._send_items(worker, *message.numbers)
            case messages.READY:
                worker.ready(*message.numbers)
            case messages.FAILED:
                span, start, stop, summary, trace, shown, spoiled = message.numbers
                assert message.value is not None
                kind = "hung" if summary.startswith("StepTimeoutError") else "raised"
                raised = _load_error(message.value)
                error = StepError(summary, trace, raised, start, stop, shown, kind, spoiled=spoiled)
                is_indivisible = spoiled is not None
                self._events.append(StepFailed(worker.number, span, start, stop, self._keep(error), is_indivisible))
            case messages.EXHAUSTED:
                span, start, stop, summary, trace, shown, _, peak_bytes, seconds = message.numbers
                assert message.value is not None
                error = StepError(
                    summary, trace, _load_error(message.value), start, stop, shown, "exhausted", peak_bytes
                )
                self._events.append(
                    StepExhausted(worker.number, span, start, stop, self._keep(error), peak_bytes, seconds)
                )

    def _take_report(self, worker: WorkerProcess, message: Message) -> None:
        span, start, stop, steps, busy_seconds, usage, *measured = message.numbers
        value = message.value
        assert value is not None
        self.cpu_seconds += usage[0]
        self.read_bytes += usage[1]
        self.written_bytes += usage[2]
        self.moved_cuts += usage[4]
        self.scratch_bytes = max(self.scratch_bytes, usage[3])
        self._false_starts = self._lost_nurseries = 0
        worker.has_reported = True
        worker.reported_to = stop
        event = Progressed(worker.number, span, start, stop, -1, value.total_bytes, steps, busy_seconds, *measured)
        # An array of a few kB is in a file already.
        earlier = self._report_before(event) if value.descriptor is None else None
        if earlier is None:
            self._events.append(event._replace(result=self._keep(value)))
            return
        kept = self._results[earlier.result]
        assert isinstance(kept, Packed)
        together = kept if isinstance(kept, PackedLists) else PackedLists(kept)
        together.add(value)
        self._results[earlier.result] = together
        self._events[-1] = event.joined_to(earlier)

    def _report_before(self, event: Progressed) -> Progressed | None:
        """The one that it goes on from, where both come at once and may be one."""
        last = self._events[-1] if self._events and self._work.joins_reports else None
        if not isinstance(last, Progressed) or not event.goes_on(last) or last.reports >= _MOST_JOINED_REPORTS:
            return None
        # What is larger is acknowledged, and so must be what its worker takes for larger: see `acknowledge`.
        if last.result_bytes + event.result_bytes > MOST_INLINE_BYTES:
            return None
        kept = self._results[last.result]
        return last if isinstance(kept, Packed) and kept.descriptor is None else None

    def _send_items(self, worker: WorkerProcess, span: int, start: int, stop: int) -> None:
        assert self._work.items is not None
        items = self._work.items[start:stop]
        self._send(worker, messages.ITEMS, (span, start, stop), _pack_items(items, start))

    def _keep(self, value: Packed | StepError) -> int:
        self._next_result += 1
        self._results[self._next_result] = value
        return self._next_result

    def _watch(self, descriptor: int, worker: WorkerProcess, reader: LineReader | None) -> None:
        self._watched[descriptor] = (worker, reader)
        self._poll.register(descriptor, select.EPOLLIN)

    def _unwatch(self, descriptor: int) -> None:
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)


def _remove_tree(path: str) -> None:
    """Also where a process that was just killed is still writing to it."""
    import shutil

    for _ in range(_REMOVE_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path):
            return
        time.sleep(_REMOVE_PAUSE_SECONDS)


def _make_scratch() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="aliquot-")


def _pack_stepper(work: Work) -> Packed:
    try:
        return pack(work.stepper)
    except Exception as error:
        raise UsageError(
            f"the function cannot be sent to a worker process: {type(error).__name__}: {error}. "
            "Open files and connections inside of it, and leave out what cannot be pickled"
        ) from error


def _pack_items(items: Any, start: int) -> Packed:
    try:
        return pack(items)
    except Exception as error:
        for number, item in enumerate(items):
            try:
                pack(item).close()
            except Exception:
                raise UsageError(
                    f"unit {start + number} cannot be sent to a worker process: {type(error).__name__}: {error}"
                ) from error
        raise


def _load_error(packed: Packed) -> BaseException | None:
    """The exception itself, where it can be rebuilt here."""
    try:
        loaded = packed.load()
    except Exception:
        return None
    finally:
        packed.close()
    return loaded if isinstance(loaded, BaseException) else None
