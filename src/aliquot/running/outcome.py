from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import AliquotError, DataError, JobError
from aliquot.quantities import format_bytes, format_count, format_seconds, number_of
from aliquot.running.spoiled import SETTING_ASIDE, why_not_enough
from aliquot.workers.stepping import add_note

if TYPE_CHECKING:
    from aliquot.virtual_file import RowRange

_MOST_NAMED = 5  # failures beside the first


class Failure(NamedTuple):
    """Units that failed for good and were set aside: which, where they are, why, and what is known of them."""

    start: int
    stop: int
    error: str
    traceback: str = ""
    shown: str | None = None  # the unit itself, where one is at fault, cut to a line
    attempts: int = 1
    exception: BaseException | None = None
    kind: str = "raised"  # or exhausted, hung, died, not looked into
    worker: int | None = None  # where it failed last
    held_bytes: int = 0  # what was measured, where memory was the reason
    places: tuple[tuple[str, int, int], ...] = ()  # file, and the bytes from and up to; of the uncompressed content
    spoiled: tuple[int, int] | None = None  # from and up to: all that cannot be read for the same reason
    rows: tuple[RowRange, ...] = ()  # of tables: which rows of which files, each numbered within its file

    def __str__(self) -> str:
        units = f"unit {self.start}" if self.stop == self.start + 1 else f"units {self.start} to {self.stop - 1}"
        shown = "" if self.shown is None else f" ({self.shown})"
        # The bytes of a row are those of all rows that are stored with it, in as many places as there are columns.
        tables = {rows.path for rows in self.rows}
        told = [f" in {rows.path}, {rows.name}" for rows in self.rows]
        told += [f" in {path}, bytes {start} to {stop}" for path, start, stop in self.places if path not in tables]
        places = "".join(dict.fromkeys(told))  # several tables of one file may have the same rows
        when = "was refused more" if isinstance(self.exception, MemoryError) else "was stopped"
        held = f" (it held {format_bytes(self.held_bytes)} when it {when})" if self.held_bytes else ""
        return f"{units}{shown}{places}: {self._error_alone()}{held}"

    def _error_alone(self) -> str:
        """Without the file, unit and byte that what is wrong with a file begins with: they are told already."""
        for path, _, _ in self.places:
            place = f"DataError: {path}, "
            if self.error.startswith(place):
                _, _, problem = self.error[len(place) :].partition(": ")
                return problem or self.error
        return self.error


class UnitsFailedError(JobError):
    """Some units failed; the message names them, ``failures`` tells all that is known."""

    def __init__(
        self, failures: tuple[Failure, ...], max_failures: float | None = None, units: int | None = None
    ) -> None:
        shown = "\n".join(f"  {failure}" for failure in failures[:10])
        more = f"\n  and {len(failures) - 10} more" if len(failures) > 10 else ""
        allowed = _shown_allowance(max_failures)
        why = why_not_enough(failures, max_failures, units)
        super().__init__(
            f"the run stopped, because more units failed than max_failures allows{allowed}:\n{shown}{more}"
            + (f"\n{why}" if why else "")
        )
        self.failures = failures
        self._max_failures = max_failures
        self._units = units

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.failures, self._max_failures, self._units))


def _shown_allowance(max_failures: float | None) -> str:
    if max_failures is None or max_failures == float("inf"):
        return ""
    return f" ({max_failures:g} of all)" if 0 < max_failures < 1 else f" ({format_count(int(max_failures))})"


class UnitsSetAsideWarning(UserWarning):
    """Some units failed, no more than ``max_failures`` allows, and the result is without them."""


class RemoteTraceback(AliquotError):  # noqa: N818  # not an error itself: it shows one
    """Shows, as the cause of an error, the traceback of the worker that it came from."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


class Report(NamedTuple):
    """How a run went.

    ``useful_seconds`` is the time that workers were in steps, ``overhead_seconds`` what they did besides, and
    ``idle_seconds`` what is left of cores x wall time; the three add up to that. ``efficiency`` is the CPU time that
    went into steps, as a part of cores x wall time.
    """

    units: int
    wall_seconds: float
    cores: int
    tasks: int  # spans that were handed out
    steps: int
    steals: int  # how often a span was cut for another worker
    useful_seconds: float
    overhead_seconds: float
    idle_seconds: float
    cpu_seconds: float
    peak_bytes: int  # the most that any worker held in a step
    lost_workers: int
    spilled_bytes: int
    read_bytes: int = 0  # by workers and their programs, from wherever
    written_bytes: int = 0
    moved_cuts: int = 0  # steps that end where a group of rows does (a basket, a row group), as that costs nothing
    scratch_bytes: int = 0  # the most that a worker had in temporary files, where they are limited
    failed_units: int = 0  # set aside
    left_units: int = 0  # never begun, as the run stopped
    exhausted_steps: int = 0  # held more than they were allowed, and were stopped
    stopped_seconds: float = 0.0  # of workers' time went into those
    flaky_steps: int = 0  # failed, and were finished elsewhere
    suspended_workers: int = 0  # at which steps failed that others finished
    allowed_bytes: int | None = None  # that all workers may hold together
    enforced_by: str = ""  # how that is seen to
    costs: tuple[tuple[int, int, float], ...] = ()  # units from, up to, and the seconds that they took

    @property
    def all_units(self) -> int:
        """Done, set aside and never begun."""
        return self.units + self.failed_units + self.left_units

    @property
    def cores_used(self) -> float:
        """How many cores a step used for each that it had, on the average: more than 1 where a function has threads."""
        return self.cpu_seconds / self.useful_seconds if self.useful_seconds > 0 else 0.0

    @property
    def efficiency(self) -> float:
        """Useful CPU time / (cores x wall time)."""
        available = self.cores * self.wall_seconds
        return self.cpu_seconds / available if available > 0 else 0.0

    def __str__(self) -> str:
        done = f"{number_of(self.units, 'unit')} in {format_seconds(self.wall_seconds)}"
        cuts = f" ({format_count(self.moved_cuts)} cut where a group of rows ends)" if self.moved_cuts else ""
        steals, cores = number_of(self.steals, "steal"), number_of(self.cores, "core")
        shape = f"{number_of(self.tasks, 'task')}, {number_of(self.steps, 'step')}{cuts}, {steals} on {cores}"
        lost = f", {number_of(self.lost_workers, 'worker')} lost" if self.lost_workers else ""
        memory = f", at most {format_bytes(self.peak_bytes)} a worker" if self.peak_bytes else ""
        notes = [
            f", {number_of(count, noun)} {what}"
            for count, noun, what in (
                (self.exhausted_steps, "step", "stopped for memory"),
                (self.flaky_steps, "step", "failed once"),
                (self.suspended_workers, "worker", "suspended"),
                (self.failed_units, "unit", "failed"),
                (self.left_units, "unit", "not begun"),
            )
            if count
        ]
        return f"{done}: {shape}, {100 * self.efficiency:.1f} % efficient{memory}{lost}{''.join(notes)}"


def nothing_done(wall_seconds: float) -> Report:
    """The report of a run without units."""
    return Report(
        units=0,
        wall_seconds=wall_seconds,
        cores=1,
        tasks=0,
        steps=0,
        steals=0,
        useful_seconds=0.0,
        overhead_seconds=0.0,
        idle_seconds=wall_seconds,
        cpu_seconds=0.0,
        peak_bytes=0,
        lost_workers=0,
        spilled_bytes=0,
    )


class Outcome:
    """What came of a run: ``value``, the ``report`` and the ``failures``.

    ``value`` raises if more units failed than ``max_failures`` allows; else it is the result of all others.
    """

    __slots__ = ("_value", "failures", "is_complete", "max_failures", "report", "was_done")

    def __init__(
        self,
        value: Any,
        report: Report,
        failures: tuple[Failure, ...] = (),
        *,
        is_complete: bool = True,
        was_done: bool = False,
        max_failures: float | None = None,
    ) -> None:
        self._value = value
        self.report = report
        self.failures = failures
        self.is_complete = is_complete  # whether it went to its end
        self.was_done = was_done  # by an earlier call: nothing was run now
        self.max_failures = max_failures  # how many may, or which part; None where nobody has said

    @property
    def value(self) -> Any:
        """The result; raises what the first failed unit raised where there is none."""
        if not self.is_complete:
            raise_failures(self.failures, self.max_failures, self.report)
        return self._value

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failures" if self.failures else ""
        return f"<Outcome: {self.report}{failed}>"


NOT_LOOKED_INTO = "not looked into"


def count_failed(failures: Sequence[Failure]) -> str:
    """How many units failed; those apart that were in a step which did, and of which no more is known."""
    others = sum(failure.stop - failure.start for failure in failures if failure.kind == NOT_LOOKED_INTO)
    units = sum(failure.stop - failure.start for failure in failures) - others
    if not units:
        return f"{number_of(others, 'unit')} failed"
    more = f" (and {format_count(others)} more were with them or behind, and not looked into)" if others else ""
    return f"{number_of(units, 'unit')} failed{more}"


def count_units(failures: Sequence[Failure]) -> str:
    """How many units they are, as the beginning of a sentence."""
    units = sum(failure.stop - failure.start for failure in failures)
    return "1 unit failed and was" if units == 1 else f"{format_count(units)} units failed and were"


def raise_failures(failures: tuple[Failure, ...], max_failures: float | None, report: Report) -> None:
    """Raise the exception of the first failure, as the user's function did, with where it happened."""
    first, units = failures[0], report.all_units
    error: Exception = UnitsFailedError(failures, max_failures, units)
    # Raised here, SystemExit would end the user's program, and StopIteration a loop, without a word.
    if isinstance(first.exception, Exception) and not isinstance(first.exception, StopIteration):
        error = first.exception
        if isinstance(error, AttributeError) and error.name is None and error.obj is None:
            error.obj = ""  # else Python takes it for one of `Outcome.value`, and suggests what that has
        if len(failures) > 1:
            others = _told_in_short(failures[1:])
            add_note(error, f"aliquot: {len(failures)} failures, of which this is the first; also {others}")
        if why := why_not_enough(failures, max_failures, units):
            add_note(error, f"aliquot: {why}")
        elif not report.units and report.failed_units > 1 and not isinstance(error, DataError):
            add_note(error, "aliquot: no unit was done at all, so the function or command itself may be at fault")
        elif max_failures != math.inf:
            if max_failures:
                failed = count_failed(failures)
                add_note(error, f"aliquot: {failed}, more than max_failures allows{_shown_allowance(max_failures)}")
            add_note(error, SETTING_ASIDE)
        if isinstance(error, DataError) and error.path in _paths_of(first):
            error.has_failed_a_run = True
            raise error from None  # it says where it is; who found it is of no interest
        add_note(error, f"aliquot: {first}")
    raise error from (RemoteTraceback(first.traceback) if first.traceback else None)


def _paths_of(failure: Failure) -> set[str]:
    """Of the files that its units are in."""
    return {path for path, _, _ in failure.places} | {rows.path for rows in failure.rows}


def _told_in_short(failures: Sequence[Failure]) -> str:
    units = [
        str(failure.start) if failure.stop == failure.start + 1 else f"{failure.start} to {failure.stop - 1}"
        for failure in failures[:_MOST_NAMED]
    ]
    more = f" and {len(failures) - _MOST_NAMED} more" if len(failures) > _MOST_NAMED else ""
    is_one = len(failures) == 1 and failures[0].stop == failures[0].start + 1
    return f"{'unit' if is_one else 'units'} {', '.join(units)}{more}"
