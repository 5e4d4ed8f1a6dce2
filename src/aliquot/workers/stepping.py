"""How a worker runs the units of a step, and how it puts the values of its steps together.

A stepper travels, pickled, to each worker once. ``run`` works on some units and keeps what came of them; ``take``
hands over what was kept since the last time, as one value.
"""

from __future__ import annotations

import time
from itertools import islice

from aliquot.sizing.step_sizer import OVERHEAD_SHARE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Protocol

    from aliquot.job import Job
    from aliquot.jobs.merging import EachUnitWatch
    from aliquot.workers.packing import Packed

    class Items(Protocol):
        """Where a stepper gets its units from."""

        def get(self, start: int, stop: int) -> Sequence[Any]:
            """Some units, as the function wants them."""

    class Stepper(Protocol):
        """The work of a run, in a worker."""

        @property
        def items(self) -> Items | None:
            """Where its units come from, unless it knows by itself."""

        allowed_bytes: int  # that a step may hold; 0 if anything
        overhead_share: float  # of a step that is not too long

        def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
            """Work on some units; the first one that was not begun.

            That is before ``stop`` only where a step can be left and has taken longer than ``patience_seconds``.
            Raises `UnitError`, with what came before it kept.
            """

        def take(self) -> Any:
            """What came of all units since it was last taken."""

        def keep_note(self, note: Callable[[int], None], *, of_each: bool) -> None:
            """Tell which unit is begun, where that costs next to nothing; ``of_each`` also where it does not."""


_LONGEST_REPR = 200
# In a step that may be left, so many at most where it has many units.
_LOOKS_AT_THE_CLOCK = 64
# Of steps with more units than that, no note is kept which one is run: it takes a sixth of a microsecond, and units of
# which more fit into a step take less than 25.
_MOST_NOTED = 2000


class UnitError(Exception):
    """Carries what the user's function raised, at which units, and the unit itself, where it is one, as text."""

    def __init__(
        self,
        error: BaseException,
        start: int,
        stop: int,
        shown: str | None = None,
        *,
        spoils_earlier_steps: bool = False,
    ) -> None:
        try:
            words = str(error)
        except Exception:
            words = "(its own words cannot be had)"
        super().__init__(words)
        self.error = error
        self.start = start
        self.stop = stop
        self.shown = shown
        self.spoils_earlier_steps = spoils_earlier_steps  # what was kept of them is not good any more
        # All units that fail for the same reason, these among them: a part of these would fare no better.
        self.spoiled: tuple[int, int] | None = None

    def forget_frames(self) -> None:
        """Let go of the function's variables, which a traceback keeps alive."""
        error: BaseException | None = self
        while error is not None:
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        self.error.__traceback__ = None


class StepTimeoutError(BaseException):
    """A step took longer than it may. Not an `Exception`: a function that tries again and again must not catch it."""


class RangeItems:
    """Numbers, which need not be sent."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers

    def get(self, start: int, stop: int) -> range:
        """A range again."""
        return self._numbers[start:stop]


class SourceItems:
    """Units that a worker reads by itself; ``first`` is where the view begins in its source."""

    def __init__(self, view: Any) -> None:
        self.view = view
        self.first = view.start

    def get(self, start: int, stop: int) -> Sequence[Any]:
        """Parsed units; those that probably come next are read ahead."""
        source, start, stop = self.view.source, self.first + start, self.first + stop
        records: Sequence[Any] = source.records_of(start, stop)
        source.read_ahead(stop, min(2 * stop - start, self.first + self.view.count(wait=False)))
        return records

    def good_cut(self, start: int, stop: int) -> int:
        """Where to end a step, so that little is read twice."""
        cut: int = self.view.source.good_cut(self.first + start, self.first + stop) - self.first
        return cut


class SentItems:
    """Units that the parent sends, a window at a time, in order."""

    def __init__(self) -> None:
        self._windows: list[tuple[int, int, Sequence[Any]]] = []
        self.available_to = 0  # the end of what is here

    def __reduce__(self) -> tuple[type[SentItems], tuple[()]]:
        return (SentItems, ())

    def clear(self, start: int) -> None:
        """Another span begins."""
        self._windows.clear()
        self.available_to = start

    def add(self, start: int, stop: int, packed: Packed) -> bool:
        """A window has come; False if it is not the next one, as it was asked for before `clear`."""
        if start != self.available_to:
            return False
        try:
            items = packed.load()
        except BaseException as error:
            add_note(error, "the units could not be unpickled in the worker")
            items = _Unreadable(error)
        self._windows.append((start, stop, items))
        self.available_to = stop
        return True

    def fill(self, items: Sequence[Any]) -> None:
        """All are here already."""
        self._windows = [(0, len(items), items)]

    def window_end(self, unit: int) -> int:
        """The end of the window that a unit is in; the unit itself if it is not here. Earlier windows are dropped.

        A step stays within a window: what it is given is a slice of what the user gave, of whatever type that is.
        """
        while self._windows and self._windows[0][1] <= unit:
            self._windows.pop(0)
        return self._windows[0][1] if self._windows else unit

    def get(self, start: int, stop: int) -> Sequence[Any]:
        """Some units of the first window."""
        first, _, items = self._windows[0]
        return items[start - first : stop - first]


class _Unreadable:
    """Stands for units that could not be unpickled: raises when they are used, where errors are reported."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __len__(self) -> int:
        return 0

    def __getitem__(self, where: Any) -> Any:
        raise self._error


class EachStepper:
    """A function of one unit; values are kept in a list, in order."""

    allowed_bytes = 0
    overhead_share = OVERHEAD_SHARE

    def __init__(self, function: Callable[[Any], Any], items: Items) -> None:
        self._function = function
        self.items = items
        self._values: list[Any] = []
        self._note: Callable[[int], None] | None = None
        self._notes_each = False

    def __reduce__(self) -> tuple[type[EachStepper], tuple[Callable[[Any], Any], Items]]:
        return (EachStepper, (self._function, self.items))

    def keep_note(self, note: Callable[[int], None], *, of_each: bool) -> None:
        """Of units that are long enough for it, or of each."""
        self._note = note
        self._notes_each = of_each

    def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
        """Call the function on each, until all are done or patience ends."""
        items, stop = _get(self.items, start, stop)
        before = len(self._values)
        try:
            if patience_seconds is None or stop - start == 1:
                self._do(map(self._function, items), stop - start)
            else:
                self._do_patiently(items, start, stop, time.perf_counter() + patience_seconds)
        except BaseException as error:
            # What was done before the unit that failed is in the list, and tells which one it was.
            failed = start + len(self._values) - before
            if failed == stop and isinstance(error, StepTimeoutError):
                return stop  # its time was up while it was in C, which has ended nevertheless
            raise UnitError(error, failed, failed + 1, bounded_repr(items, failed - start)) from error
        return start + len(self._values) - before

    def _do_patiently(self, items: Sequence[Any], start: int, stop: int, deadline_seconds: float) -> None:
        units = stop - start
        if units > _MOST_NOTED and not self._notes_each:
            mapped, at_once = map(self._function, items), units // _LOOKS_AT_THE_CLOCK
            for done in range(0, units, at_once):
                self._do(mapped, min(at_once, units - done))
                if time.perf_counter() >= deadline_seconds:
                    return
        else:
            function, append, clock = self._function, self._values.append, time.perf_counter
            note = self._note or _ignore
            for number, item in enumerate(items, start):
                note(number)
                append(function(item))
                if clock() >= deadline_seconds:
                    return

    def _do(self, mapped: Iterator[Any], units: int) -> None:
        wanted = len(self._values) + units
        self._values.extend(islice(mapped, units))
        if len(self._values) < wanted:
            raise RuntimeError("the function raised StopIteration, which would end the run before its end")

    def take(self) -> list[Any]:
        """The values since the last time."""
        values, self._values = self._values, []
        return values


class JoinedValues:
    """What values have become so far, one after the other.

    Where the join has a way to do it (``join.into``, as `merge` has), the others are joined to a copy of the first, in
    place: of large ones, there are two, not three. The values themselves belong to whoever made them, and may be filled
    again and returned again.
    """

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join: Callable[[Any, Any], Any] = getattr(join, "into", join)
        self._own: Callable[[Any], Any] | None = getattr(join, "own", None)
        self._watch = watch_of(join)
        self._value: Any = None
        self._count = 0

    @property
    def is_empty(self) -> bool:
        """Whether there was none since the last time."""
        return not self._count

    def add(self, value: Any, units: int) -> None:
        """Join it, which was made of so many units, to what came before."""
        if self._watch is not None:
            self._watch.look(value, units, is_joined=self._count > 0)
        if self._count:
            value = self._join(self._value, value)
        elif self._own is not None:
            value = self._own(value)
        self._value = value
        self._count += 1

    def take(self) -> Any:
        """What they have become; None if there was none. It begins anew."""
        value, self._value, self._count = self._value, None, 0
        return value


def watch_of(join: Callable[[Any, Any], Any]) -> EachUnitWatch | None:
    """What looks at values before they are joined, where the join has such a way (``join.watch``, as `merge` has)."""
    watch = getattr(join, "watch", None)
    return None if watch is None else watch()


class BatchStepper:
    """A function of many units at once; what it returns is joined with what it returned before."""

    allowed_bytes = 0
    overhead_share = OVERHEAD_SHARE

    def __init__(self, function: Callable[[Any], Any], items: Items, join: Callable[[Any, Any], Any]) -> None:
        self._function = function
        self.join = join
        self.items = items
        self._joined = JoinedValues(join)

    def __reduce__(self) -> tuple[type[BatchStepper], tuple[Any, ...]]:
        return (BatchStepper, (self._function, self.items, self.join))

    def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
        """Call the function once, and join."""
        items, stop = _get(self.items, start, stop)
        try:
            value = self._function(items)
        except BaseException as error:
            # A function that reads by itself can tell what cannot be had.
            tell = getattr(self._function, "spoiled_units", None)
            spoiled = None if tell is None else _spoiled(tell(error), self.items, start, stop)
            if spoiled is not None and spoiled[0] > start:
                return self.run(start, spoiled[0])
            shown = bounded_repr(items, 0) if stop - start == 1 else None
            raise _failure_at(error, start, stop, spoiled, shown) from error
        try:
            self._joined.add(value, stop - start)
        except BaseException as error:
            # It may have changed what was joined before, in part.
            raise UnitError(error, start, stop, spoils_earlier_steps=True) from error
        return stop

    def keep_note(self, note: Callable[[int], None], *, of_each: bool) -> None:
        """All units are begun at once."""

    def take(self) -> Any:
        """The joined value."""
        return self._joined.take()


class JobStepper:
    """Any job: steps are split off its front, executed and joined, by its own functions."""

    items: Items | None = None
    allowed_bytes = 0
    overhead_share = OVERHEAD_SHARE

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rest: Job | None = job
        self._rest_start = 0
        self._done: Job | None = None

    def __reduce__(self) -> tuple[type[JobStepper], tuple[Job]]:
        return (JobStepper, (self._job,))

    def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
        """Split off, execute, join."""
        try:
            if self._rest is None or self._rest_start != start:
                self._rest, self._rest_start = part_of(self._job, start, self._job.size), start
            step = self._rest
            self._rest = None
            if step.size > stop - start:
                step, self._rest = step.split(1, stop - start)
            self._rest_start = stop
            done = step.with_result(_done(step.execute()))
        except BaseException as error:
            raise UnitError(error, start, stop) from error
        try:
            self._done = done if self._done is None else joined_job(self._done, done)
        except BaseException as error:
            # It may have changed what was joined before, in part.
            raise UnitError(error, start, stop, spoils_earlier_steps=True) from error
        return stop

    def keep_note(self, note: Callable[[int], None], *, of_each: bool) -> None:
        """All units are begun at once."""

    def take(self) -> Any:
        """The result of what was joined."""
        done, self._done = self._done, None
        return None if done is None else done.result.value  # type: ignore[union-attr]  # it is Done


def _ignore(unit: int) -> None:
    pass


def part_of(job: Job, start: int, stop: int) -> Job:
    """The units from start to stop of a job, by its own split."""
    if start > 0:
        _, job = job.split(1, start)
    if job.size > stop - start:
        job, _ = job.split(1, stop - start)
    return job


def joined_job(first: Job, second: Job) -> Job:
    """Two neighbouring parts as one."""
    from aliquot.errors import JobError

    joined = first.join(second)
    if len(joined) != 1:
        raise JobError(f"{first!r} and {second!r} are neighbours, but join() did not make one of them")
    return joined[0]


def add_note(error: BaseException, note: str) -> None:
    """Add a line to an exception, once, unless it refuses."""
    try:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    except Exception:
        pass  # frozen, for example


def _record(items: Any, index: int) -> Any:
    """One unit; of a table, a row."""
    if hasattr(items, "iloc"):  # pandas
        return items.iloc[[index]].to_dict("records")[0]
    if hasattr(items, "to_pylist"):  # arrow
        return items.slice(index, 1).to_pylist()[0]
    if hasattr(items, "iter_rows"):  # polars
        return items.row(index, named=True)
    return items[index]


def bounded_repr(items: Sequence[Any], index: int) -> str | None:
    """Show a unit in a line or so, whatever it is."""
    try:
        shown = repr(_record(items, index))
    except (Exception, StepTimeoutError) as error:
        return f"(no repr: {type(error).__name__})"
    return shown if len(shown) <= _LONGEST_REPR else f"{shown[:_LONGEST_REPR]}... ({len(shown):,} characters)"


def _get(items: Items, start: int, stop: int) -> tuple[Sequence[Any], int]:
    """The units of a step, or those before the first that cannot be had; and where these end."""
    try:
        found = items.get(start, stop)
        if len(found) != stop - start:
            raise RuntimeError(f"{stop - start} units were wanted, and the source gave {len(found)}")  # noqa: TRY301
    except BaseException as error:
        spoiled = _spoiled(getattr(error, "spoiled_units", None), items, start, stop)
        if spoiled is not None and spoiled[0] > start:
            return _get(items, start, spoiled[0])
        raise _failure_at(error, start, stop, spoiled) from error
    return found, stop


def _spoiled(told: Any, items: Items | None, start: int, stop: int) -> tuple[int, int] | None:
    """Which units of a run cannot be had for one reason, from how the source numbers them; None: nobody can tell."""
    if not (isinstance(told, tuple) and isinstance(items, SourceItems)):
        return None
    spoiled_start = max(0, told[0] - items.first)
    spoiled_stop = min(told[1] - items.first, items.view.count(wait=False))
    return (spoiled_start, spoiled_stop) if spoiled_start < stop and start < spoiled_stop else None


def _failure_at(
    error: BaseException, start: int, stop: int, spoiled: tuple[int, int] | None, shown: str | None = None
) -> UnitError:
    if spoiled is None:
        return UnitError(error, start, stop, shown)
    failure = UnitError(error, start, min(stop, spoiled[1]), shown)
    failure.spoiled = spoiled
    return failure


def _done(value: Any) -> Any:
    from aliquot.job import Done

    return Done(value)
