"""The public calls: `aliquot.map`, `aliquot.map_batches`, `aliquot.imap` and `aliquot.run`."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aliquot.errors import UsageError
from aliquot.running.one_run import Plan, run_plan, stream_plan
from aliquot.running.options import Options, make_options
from aliquot.running.outcome import Outcome
from aliquot.sites.local import Local
from aliquot.workers.stepping import BatchStepper, EachStepper, Items, RangeItems, SentItems, SourceItems

if TYPE_CHECKING:
    from aliquot.job import Job
    from aliquot.virtual_file import VirtualFile

Value = TypeVar("Value")
Source: TypeAlias = "VirtualFile | str | os.PathLike[str] | Iterable[Any]"


def map(
    function: Callable[[Any], Value],
    items: Source,
    *,
    on: Local | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    progress: bool | None = None,
) -> list[Value]:
    """Call a function on each item, on all cores, and return the values in order.

    Like ``Executor.map``, with nothing to tune: how many items go to a worker at once, and which, is found out while
    running. The first exception that the function raises (twice, on different workers) is raised here, with the
    worker's traceback and the number of the item.

    ``items`` is any iterable, or a file or virtual file, whose units are then read by the workers themselves.
    ``on`` is where to run, by default all cores of this machine. ``size`` is a first guess of how many items to run at
    once; any guess will do. ``target_seconds`` is how long a step may take (1); 0 means one item at a time.
    ``progress`` shows a display (True), nothing (False), or whatever suits the place (None).

    >>> aliquot.map(math.sqrt, range(4))
    [0.0, 1.0, 1.4142135623730951, 1.7320508075688772]
    """
    options = make_options(on, size, target_seconds, progress)
    return run_plan(_plan_each(function, items, options)).value  # type: ignore[no-any-return]


def imap(
    function: Callable[[Any], Value],
    items: Source,
    *,
    ordered: bool = True,
    on: Local | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    progress: bool | None = None,
) -> Iterator[Value]:
    """As `map`, but give the values one after the other as they come; with ``ordered=False``, those first that are.

    Work begins at once and goes on while values are used; it waits when too many are not taken. Closing the iterator,
    or leaving it to the garbage collector, ends the work.
    """
    options = make_options(on, size, target_seconds, progress)
    return stream_plan(_plan_each(function, items, options, is_ordered=ordered))


def map_batches(
    function: Callable[[Any], Value],
    source: Source,
    *,
    join: Callable[[Value, Value], Value] = operator.add,
    ordered: bool = True,
    on: Local | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    progress: bool | None = None,
) -> Value:
    """Call a function on batches of units, on all cores, and join what it returns into one value.

    ``function(batch)`` is given some neighbouring units: a list of records, an array, a range, whatever the source has.
    How many is found out while running. ``join(first, second)`` makes one of two values, by default their sum; with
    ``ordered=True`` the units of ``first`` come right before those of ``second``, else they are joined as they come,
    which suits sums, counts and histograms. The function must not depend on where the source is cut.

    The other arguments are those of `map`.

    >>> aliquot.map_batches(sum, range(1_000_001))
    500000500000
    """
    from aliquot.running.results import JoinSink

    items, units, sent = _items_of(source)
    if not callable(join):
        raise UsageError(f"join={join!r} is not a function: it makes one value of two")
    if not units:
        raise UsageError("there are no units, and so there is no value to return")
    plan = Plan(
        stepper=BatchStepper(_checked(function), items, join),
        units=units,
        sent_items=sent,
        sink=JoinSink(join),
        functions=(function, join),
        join=None if ordered else join,
        is_ordered=ordered,
        label=_name_of(function),
        options=make_options(on, size, target_seconds, progress),
    )
    return run_plan(plan).value  # type: ignore[no-any-return]


def run(
    job: Job,
    *,
    on: Local | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Run any job on all cores, and tell what came of it: ``value``, ``report`` and ``failures``.

    The job is divided by its own ``split``, executed in worker processes and joined by its own ``join``, from the first
    unit upward. The other arguments are those of `map`. A failure does not raise here, but when ``value`` is asked for.
    """
    from aliquot.job import Done, Job
    from aliquot.jobs import FunctionJob
    from aliquot.running.results import JobSink, JoinSink
    from aliquot.workers.stepping import JobStepper, Stepper

    if not isinstance(job, Job):
        raise UsageError(f"{job!r:.200} is not a job: aliquot.map and aliquot.map_batches take functions")
    if isinstance(job.result, Done):
        raise UsageError("this job is done already: its value is job.result.value")
    if isinstance(job, FunctionJob):
        items, units, sent = _items_of(job.source)
        stepper: Stepper = BatchStepper(job.function, items, job.join_values)
        sink: JoinSink | JobSink = JoinSink(job.join_values)
        functions: tuple[Any, ...] = (job.function, job.join_values)
        label = _name_of(job.function)
    else:
        units, sent, label = job.size, None, type(job).__name__
        stepper, sink, functions = JobStepper(job), JobSink(job), (type(job).execute,)
    if not units:
        raise UsageError("the job has no units, and so there is no value to return")
    plan = Plan(
        stepper=stepper,
        units=units,
        sent_items=sent,
        sink=sink,
        functions=functions,
        label=label,
        options=make_options(on, size, target_seconds, progress),
    )
    return run_plan(plan)


def _plan_each(
    function: Callable[[Any], Any],
    items: Source,
    options: Options,
    *,
    is_ordered: bool = True,
) -> Plan:
    from aliquot.running.results import ListSink

    found, units, sent = _items_of(items)
    return Plan(
        stepper=EachStepper(_checked(function), found),
        units=units,
        sent_items=sent,
        sink=ListSink(),
        functions=(function,),
        is_ordered=is_ordered,
        label=_name_of(function),
        options=options,
    )


def _items_of(source: Any) -> tuple[Items, int, Sequence[Any] | None]:
    """Where units come from, how many there are, and those that are sent from here, if any."""
    if isinstance(source, range):
        return RangeItems(source), len(source), None
    if isinstance(source, str | os.PathLike) or _is_virtual_file(source):
        return _items_of_file(source)
    if not isinstance(source, Iterable):
        raise UsageError(f"{source!r:.200} cannot be divided: it is not a sequence, a range, an iterable or a file")
    items: Any = source if isinstance(source, Sequence) or _is_array(source) else list(source)
    return SentItems(), len(items), items


def _items_of_file(source: Any) -> tuple[Items, int, Sequence[Any] | None]:
    from aliquot.virtual_file import VirtualFile, open
    from aliquot.virtual_file.sequences import ItemsSource, RangeSource

    view = source if isinstance(source, VirtualFile) else open(source)
    # To its end now, once: the workers find the index in the cache.
    units = len(view)
    if isinstance(view.source, ItemsSource | RangeSource):
        records = view.batch()
        return (RangeItems(records), units, None) if isinstance(records, range) else (SentItems(), units, records)
    return SourceItems(view), units, None


def _is_virtual_file(source: Any) -> bool:
    # Without importing what the user has not: a virtual file cannot be there if its module is not.
    import sys

    module = sys.modules.get("aliquot.virtual_file")
    return module is not None and isinstance(source, module.VirtualFile)


def _is_array(source: Any) -> bool:
    return hasattr(source, "__array__") and hasattr(source, "__len__") and hasattr(source, "__getitem__")


def _checked(function: Any) -> Any:
    if not callable(function):
        raise UsageError(f"{function!r:.200} is not a function")
    return function


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
