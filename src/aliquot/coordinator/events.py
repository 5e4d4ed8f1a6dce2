"""What the coordinator is told. All that it knows comes from these, and they are enough to repeat a run."""

# Without postponed annotations: each of them would be compiled, which doubles the time that this takes to import.
from typing import NamedTuple

from aliquot.coordinator.records import record


@record
class WorkerJoined(NamedTuple):
    """A worker is there and has nothing to do."""

    worker: int


@record
class WorkerLost(NamedTuple):
    """A worker is gone, with all that it had not sent up.

    ``running_start`` to ``running_stop`` is the step that it was in, where that is known. ``is_suspect`` says that the
    step itself may have been the cause, as when the process died, and not when the machine was taken away;
    ``is_exhausted`` that it was stopped because it held more than it was allowed, at ``peak_bytes``.
    """

    worker: int
    reason: str = ""
    running_start: int = 0
    running_stop: int = 0
    is_suspect: bool = False
    error: int | None = None
    is_exhausted: bool = False
    peak_bytes: int = 0
    stopped_seconds: float = 0.0


@record
class Progressed(NamedTuple):
    """A worker has finished the units ``start`` up to ``stop`` of its span; their result is ``result``.

    ``seconds`` and ``peak_bytes`` are observations (units, cost, count) of its steps; ``setup_seconds`` is what it took
    to begin with the span, told once. ``stopped_steps`` were stopped for memory and done again in smaller ones. For
    ``waited_seconds``, which are not among the busy ones, it waited for its open span to be extended.
    """

    worker: int
    span: int
    start: int
    stop: int
    result: int
    result_bytes: int = 0
    steps: int = 1
    busy_seconds: float = 0.0
    setup_seconds: float | None = None
    seconds: tuple[tuple[float, float, float], ...] = ()
    peak_bytes: tuple[tuple[float, float, float], ...] = ()
    stopped_steps: int = 0
    stopped_seconds: float = 0.0
    waited_seconds: float = 0.0
    reports: int = 1  # that came together

    def goes_on(self, earlier: "Progressed") -> bool:
        """Whether it tells of the units right after those of another report."""
        return self.start == earlier.stop and self.span == earlier.span and self.worker == earlier.worker

    def joined_to(self, earlier: "Progressed") -> "Progressed":
        """Both in one, under the result of the earlier one."""
        return Progressed(
            self.worker,
            self.span,
            earlier.start,
            self.stop,
            earlier.result,
            earlier.result_bytes + self.result_bytes,
            earlier.steps + self.steps,
            earlier.busy_seconds + self.busy_seconds,
            earlier.setup_seconds,
            _averaged(earlier.seconds, self.seconds),
            earlier.peak_bytes + self.peak_bytes,
            earlier.stopped_steps + self.stopped_steps,
            earlier.stopped_seconds + self.stopped_seconds,
            earlier.waited_seconds + self.waited_seconds,
            earlier.reports + self.reports,
        )


Observations = tuple[tuple[float, float, float], ...]


def _averaged(earlier: Observations, later: Observations) -> Observations:
    """Steps of one size, as they mostly are, in one; else all of them."""
    if len(earlier) != 1 or len(later) != 1 or earlier[0][0] != later[0][0]:
        return earlier + later
    ((units, cost, count),), ((_, later_cost, later_count),) = earlier, later
    all_steps = count + later_count
    return ((units, (cost * count + later_cost * later_count) / all_steps, all_steps),)


@record
class Trimmed(NamedTuple):
    """The answer to `Trim`: the span ends at ``stop`` now, which is where it ended before if nothing could be given."""

    worker: int
    span: int
    stop: int


@record
class StepFailed(NamedTuple):
    """The step ``start`` up to ``stop`` raised; the worker is well, and has dropped the rest of its span.

    It is indivisible where all of its units cannot be had for one reason: a part of them would fare no better.
    """

    worker: int
    span: int
    start: int
    stop: int
    error: int
    is_indivisible: bool = False


@record
class StepExhausted(NamedTuple):
    """The step ``start`` up to ``stop`` cannot be made smaller, and needs more than the ``allowed_bytes`` of its span.

    The worker is well, and has dropped the rest of its span.
    """

    worker: int
    span: int
    start: int
    stop: int
    error: int
    peak_bytes: int
    stopped_seconds: float = 0.0


@record
class Joined(NamedTuple):
    """The answer to `Join`: two results have become one, ``result``."""

    worker: int
    span: int
    result: int
    result_bytes: int = 0
    peak_bytes: int = 0


@record
class SourceGrew(NamedTuple):
    """More units of the source are known; ``is_complete`` with the last of them, else about so many are expected."""

    units: int
    is_complete: bool
    expected_units: int = 0


@record
class Restored(NamedTuple):
    """First of all: what an earlier sitting of the same run has done and has given up.

    ``done`` are pieces (start, stop, result, result bytes), in order; the result is None where it has been appended.
    ``given_up`` are (start, stop, attempts).
    """

    done: tuple[tuple[int, int, int | None, int], ...]
    given_up: tuple[tuple[int, int, int], ...] = ()

    @property
    def reached(self) -> int:
        """All units from there on are still to be done."""
        stops = [*(stop for _, stop, _, _ in self.done), *(stop for _, stop, _ in self.given_up)]
        return max(stops, default=0)


@record
class Halted(NamedTuple):
    """Whoever wanted the run wants it to stop: nothing more is begun, not even of what has failed."""


@record
class Ticked(NamedTuple):
    """Some time has passed: see `Coordinator.wake_seconds`."""


Event = (
    WorkerJoined
    | WorkerLost
    | Progressed
    | Trimmed
    | StepFailed
    | StepExhausted
    | Joined
    | SourceGrew
    | Restored
    | Halted
    | Ticked
)
# Those of a worker that owns something.
WorkerEvent = Progressed | Trimmed | StepFailed | StepExhausted | Joined
