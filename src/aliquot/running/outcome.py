from __future__ import annotations

from typing import Any, NamedTuple

from aliquot.errors import AliquotError, JobError
from aliquot.quantities import format_bytes, format_count, format_seconds
from aliquot.workers.stepping import add_note


class Failure(NamedTuple):
    """Units that failed for good: which, why, and what is known of them."""

    start: int
    stop: int
    error: str
    traceback: str = ""
    shown: str | None = None  # the unit itself, where one is at fault, cut to a line
    attempts: int = 1
    exception: BaseException | None = None

    def __str__(self) -> str:
        units = f"unit {self.start}" if self.stop == self.start + 1 else f"units {self.start} to {self.stop - 1}"
        shown = "" if self.shown is None else f" ({self.shown})"
        return f"{units}{shown}: {self.error}"


class UnitsFailedError(JobError):
    """Some units failed; the message names them, ``failures`` tells all that is known."""

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        shown = "\n".join(f"  {failure}" for failure in failures[:10])
        more = f"\n  and {len(failures) - 10} more" if len(failures) > 10 else ""
        super().__init__(f"the run stopped, because units failed:\n{shown}{more}")
        self.failures = failures

    def __reduce__(self) -> tuple[type[UnitsFailedError], tuple[tuple[Failure, ...]]]:
        return (type(self), (self.failures,))


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
    costs: tuple[tuple[int, int, float], ...] = ()  # units from, up to, and the seconds that they took

    @property
    def efficiency(self) -> float:
        """Useful CPU time / (cores x wall time)."""
        available = self.cores * self.wall_seconds
        return self.cpu_seconds / available if available > 0 else 0.0

    def __str__(self) -> str:
        done = f"{format_count(self.units)} units in {format_seconds(self.wall_seconds)}"
        shape = f"{self.tasks} tasks, {format_count(self.steps)} steps, {self.steals} steals on {self.cores} cores"
        lost = f", {self.lost_workers} workers lost" if self.lost_workers else ""
        memory = f", at most {format_bytes(self.peak_bytes)} a worker" if self.peak_bytes else ""
        return f"{done}: {shape}, {100 * self.efficiency:.1f} % efficient{memory}{lost}"


class Outcome:
    """What came of a run: ``value``, which raises if units failed, the ``report`` and the ``failures``."""

    __slots__ = ("_value", "failures", "report")

    def __init__(self, value: Any, report: Report, failures: tuple[Failure, ...] = ()) -> None:
        self._value = value
        self.report = report
        self.failures = failures

    @property
    def value(self) -> Any:
        """The result of all units; raises what the first failed unit raised where there is no such thing."""
        if self.failures:
            raise_failures(self.failures)
        return self._value

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failures" if self.failures else ""
        return f"<Outcome: {self.report}{failed}>"


def raise_failures(failures: tuple[Failure, ...]) -> None:
    """Raise the exception of the first failure, as the user's function did, with where it happened."""
    first = failures[0]
    error: Exception = UnitsFailedError(failures)
    # Raised here, SystemExit would end the user's program, and StopIteration a loop, without a word.
    if isinstance(first.exception, Exception) and not isinstance(first.exception, StopIteration):
        error = first.exception
        add_note(error, f"aliquot: {first}")
    cause = RemoteTraceback(first.traceback) if first.traceback else None
    raise error from cause
