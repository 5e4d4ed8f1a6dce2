"""The public calls: `aliquot.map`, `aliquot.map_batches`, `aliquot.imap` and `aliquot.run`.

All that a run and its workers need is imported with this, as soon as somebody names one of the calls and not when it is
made: workers that are copies of this process then begin at once. `import aliquot` itself does not import it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import aliquot.workers.main  # noqa: F401  # for the workers: a copy of this process need not import it again
from aliquot.jobs.merging import merge
from aliquot.running import one_run, options, planning
from aliquot.running.preloading import libraries_for, limits_memory
from aliquot.workers.nursery import start_nursery

if TYPE_CHECKING:
    from aliquot.job import Job
    from aliquot.running.outcome import Outcome
    from aliquot.sites.local import Local
    from aliquot.virtual_file import VirtualFile

Value = TypeVar("Value")
Given = ParamSpec("Given")
Returned = TypeVar("Returned")
Functions: TypeAlias = Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]] | Sequence[Callable[[Any], Any]]
Source: TypeAlias = "VirtualFile | str | os.PathLike[str] | Iterable[Any]"


# What others call it, or nobody has to choose: what to write here.
_OTHER_NAMES = {
    **dict.fromkeys(
        ("chunksize", "chunk_size", "batch_size", "block_size", "npartitions"),
        "nobody chooses how many units go to a worker at once. Leave it out; a first guess is size=",
    ),
    **dict.fromkeys(
        ("cores", "workers", "processes", "n_jobs", "njobs", "max_workers", "num_workers", "nproc"),
        "write on=aliquot.sites.Local(cores=...)",
    ),
    **dict.fromkeys(("wall", "timeout"), "write wall_seconds="),
    **dict.fromkeys(("keep_going", "ignore_errors"), "write max_failures=1.0"),
    "max_memory": "write memory=",
}


def _explaining_arguments(call: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Who tells a call something that it does not take is told what to write, where that is known."""
    code = call.__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(call)
    def checked(*args: Given.args, **told: Given.kwargs) -> Returned:
        if not known.issuperset(told):
            _explain(call.__name__, [name for name in told if name not in known])
        return call(*args, **told)

    return checked


def _explain(call_name: str, unknown: Sequence[str]) -> None:
    from aliquot.errors import UsageError
    from aliquot.virtual_file.opening import option_names

    of_open = [name for name in unknown if name in option_names()]
    if of_open and call_name != "run":
        named, written = (", ".join(f"{name}={value}" for name in of_open) for value in ("", "..."))
        raise UsageError(
            f"aliquot.{call_name} does not take {named}: how a file is read is told to aliquot.open. "
            f"Write aliquot.{call_name}(function, aliquot.open(source, {written}))"
        )
    for name in unknown:
        if name in _OTHER_NAMES:
            raise UsageError(f"aliquot.{call_name} does not take {name}=: {_OTHER_NAMES[name]}")


@_explaining_arguments
def map(
    function: Callable[[Any], Value],
    items: Source,
    *,
    on: Local | None = None,
    memory: int | str | None = None,
    disk: int | str | None = None,
    max_failures: float = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    target_bytes: int | str | None = None,
    wall_seconds: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    resume_anyway: bool = False,
    progress: bool | None = None,
) -> list[Value]:
    """Call a function on each item, on all cores, and return the values in order.

    Like ``Executor.map``, with nothing to tune: how many items go to a worker at once, and which, is found out while
    running. An exception that the function raises twice for an item, on different workers, is raised here, with the
    worker's traceback and the number of the item.

    ``items`` is any iterable, or a file or virtual file, whose units are then read by the workers themselves. An
    iterable is read to its end before the first item is worked on: one without an end is never begun.
    ``on`` is where to run, by default all cores of this machine. ``memory`` is what all workers together may hold, in
    bytes or as '8GB'; by default most of what is available. A step that holds more is stopped and divided. With
    ``disk``, so do temporary files: each worker has its own directory for them, which is removed in the end.

    Up to ``max_failures`` items may fail for good (a number; 0.01 means a hundredth of them, 1.0 any number): each is
    found and set aside, the list has a `Failure` in its place, and a warning names it. ``set_aside`` is a file that the
    raw input of those is written to, where the items come from a file. With more failures, nothing new is begun, and
    the first is raised. An item that takes ``wall_seconds`` has failed.

    ``size`` is a first guess of how many items to run at once; any guess will do. ``target_seconds`` is how long a step
    may take (1); 0 means one item at a time. ``target_bytes`` is what a step of a batch should hold at most, by default
    as much as it may. ``progress=False`` shows nothing; else there is a display on a terminal, and elsewhere a line now
    and then.

    With ``run_dir``, a directory, all that is done is recorded there: the same call again goes on where an earlier one
    was killed, also by ``kill -9``. Where the function or the items have changed since, that is refused, unless
    ``fresh`` (begin anew) or ``resume_anyway`` says what to do.

    >>> aliquot.map(math.sqrt, range(4))
    [0.0, 1.0, 1.4142135623730951, 1.7320508075688772]
    """
    start_nursery(function, libraries_for(function, items), is_small=limits_memory(on, memory))

    told = options.make_options(
        on=on,
        memory=memory,
        disk=disk,
        max_failures=max_failures,
        set_aside=set_aside,
        size=size,
        target_seconds=target_seconds,
        target_bytes=target_bytes,
        wall_seconds=wall_seconds,
        run_dir=run_dir,
        fresh=fresh,
        resume_anyway=resume_anyway,
        progress=progress,
    )
    return one_run.value_of(planning.plan_each(function, items, told))  # type: ignore[no-any-return]


@_explaining_arguments
def imap(
    function: Callable[[Any], Value],
    items: Source,
    *,
    ordered: bool = True,
    on: Local | None = None,
    memory: int | str | None = None,
    disk: int | str | None = None,
    max_failures: float = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    target_bytes: int | str | None = None,
    wall_seconds: float | None = None,
    progress: bool | None = None,
) -> Iterator[Value]:
    """As `map`, but give the values one after the other as they come; with ``ordered=False``, those first that are.

    A `Failure` is in the place of an item that was set aside. Where more fail than may, what the first of them raised
    is raised after all values before it.

    Work begins at once, as soon as all items are there: an iterable is read to its end first, as by `map`. It goes on
    while values are used, and waits when too many are not taken. Closing the iterator,
    or leaving it to the garbage collector, ends the work.
    """
    start_nursery(function, libraries_for(function, items), is_small=limits_memory(on, memory))

    told = options.make_options(
        on=on,
        memory=memory,
        disk=disk,
        max_failures=max_failures,
        set_aside=set_aside,
        size=size,
        target_seconds=target_seconds,
        target_bytes=target_bytes,
        wall_seconds=wall_seconds,
        progress=progress,
    )
    return one_run.stream_plan(planning.plan_each(function, items, told, is_ordered=ordered))


@_explaining_arguments
def map_batches(
    function: Functions,
    source: Source | Mapping[str, Source],
    *,
    join: Callable[[Any, Any], Any] = merge,
    ordered: bool = True,
    on: Local | None = None,
    memory: int | str | None = None,
    disk: int | str | None = None,
    max_failures: float = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    target_bytes: int | str | None = None,
    wall_seconds: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    resume_anyway: bool = False,
    progress: bool | None = None,
) -> Any:
    """Call a function on batches of units, on all cores, and join what it returns into one value.

    ``function(batch)`` is given some neighbouring units: a list of records, an array, a range, whatever the source has.
    How many is found out while running. ``join(first, second)`` makes one of two values, by default as `merge` does, by
    what they are: numbers, arrays and histograms are added, dicts merged key by key. Values that do not add up, such as
    a maximum, need their own: ``join=max``. With ``ordered=True`` the units of
    ``first`` come right before those of ``second``, else they are joined as they come, which suits sums, counts and
    histograms. The function must not depend on where the source is cut.

    Several functions are called on the same batches, in one pass: a dict of them gives a dict of values, a list or
    tuple a list. ``join`` is for each of their values.

    ``source`` may be a dict of datasets, each a virtual file or anything that `open` opens: the value is then a dict
    that has one for each name, as if the function were run over each of them, but it is one run. A dataset all of whose
    units have failed is left out.

    The other arguments are those of `map`.

    >>> aliquot.map_batches(sum, range(1_000_001))
    500000500000
    >>> aliquot.map_batches({"sum": sum, "count": len}, {"few": range(3), "more": range(10)})
    {'few': {'sum': 3, 'count': 3}, 'more': {'sum': 45, 'count': 10}}
    """
    start_nursery(function, libraries_for(function, source), is_small=limits_memory(on, memory))

    told = options.make_options(
        on=on,
        memory=memory,
        disk=disk,
        max_failures=max_failures,
        set_aside=set_aside,
        size=size,
        target_seconds=target_seconds,
        target_bytes=target_bytes,
        wall_seconds=wall_seconds,
        run_dir=run_dir,
        fresh=fresh,
        resume_anyway=resume_anyway,
        progress=progress,
    )
    plan = planning.plan_batches(function, source, join, told, is_ordered=ordered)
    return one_run.value_of(plan)


@_explaining_arguments
def run(
    job: Job,
    *,
    on: Local | None = None,
    memory: int | str | None = None,
    disk: int | str | None = None,
    max_failures: float = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    target_bytes: int | str | None = None,
    wall_seconds: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    resume_anyway: bool = False,
    force: bool = False,
    forget: bool = False,
    progress: bool | None = None,
) -> Outcome:
    """Run any job on all cores, and tell what came of it: ``value``, ``report`` and ``failures``.

    The job is divided by its own ``split``, executed in worker processes and joined by its own ``join``, from the first
    unit upward. The other arguments are those of `map`. A failure does not raise here, but when ``value`` is asked for.

    A `Command` is always recorded, by default in ``.aliquot/`` of its directory, and its value is where its outputs
    are. Outputs that exist are only replaced with ``force``. With ``forget``, what earlier runs of it have learned is
    not used.
    """
    libraries = libraries_for(getattr(job, "function", None), getattr(job, "source", None))
    start_nursery(job, libraries, is_small=limits_memory(on, memory))

    told = options.make_options(
        on=on,
        memory=memory,
        disk=disk,
        max_failures=max_failures,
        set_aside=set_aside,
        size=size,
        target_seconds=target_seconds,
        target_bytes=target_bytes,
        wall_seconds=wall_seconds,
        run_dir=run_dir,
        fresh=fresh,
        resume_anyway=resume_anyway,
        force=force,
        forget=forget,
        progress=progress,
    )
    return one_run.run_plan(planning.plan_job(job, told))
