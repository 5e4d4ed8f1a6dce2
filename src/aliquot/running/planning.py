"""From the arguments of a call to a plan: what the units are, where they come from, and what becomes of the results."""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.running.growing import Growing, count_units
from aliquot.running.looking import look_at_tables
from aliquot.running.options import Options
from aliquot.running.plan import USUAL_SECONDS, Plan
from aliquot.running.results import JoinSink, ListSink
from aliquot.running.several import call, call_on_datasets, name_of
from aliquot.workers.stepping import BatchStepper, EachStepper, RangeItems, SentItems, SourceItems

if TYPE_CHECKING:
    from aliquot.job import Job
    from aliquot.jobs import Command
    from aliquot.workers.stepping import Items


# So long a program may take that is started for a step: to start it, and to let it end, takes longer than a call.
_PROGRAM_SECONDS = 4.0


class _Found(NamedTuple):
    """Where units come from, how many there are, those that are sent from here, and who counts on, if any."""

    items: Items
    units: int
    sent: Sequence[Any] | None = None
    growing: Growing | None = None


def plan_each(function: Callable[[Any], Any], items: Any, options: Options, *, is_ordered: bool = True) -> Plan:
    """A function of one unit."""
    _check_callable(function)
    _refuse_frame(items)
    found, units, sent, growing = _items_of(items if _gives_units_by_slice(items) else _listed(items), options)
    if isinstance(found, SourceItems):
        found = SourceItems(found.view.by_unit())
    plan = Plan(
        stepper=EachStepper(function, found),
        units=units,
        sent_items=sent,
        sink=ListSink(),
        functions=(function,),
        is_ordered=is_ordered,
        label=name_of(function),
        options=options,
        view=found.view if isinstance(found, SourceItems) else None,
        growing=growing,
    )
    return _kept(plan)


def plan_batches(
    function: Any, source: Any, join: Callable[[Any, Any], Any], options: Options, *, is_ordered: bool
) -> Plan:
    """A function of many units at once, or several; over one source, or a dict of datasets."""
    if not callable(join):
        raise UsageError(f"join={join!r:.200} is not a function: it makes one value of two")
    called = call(function, join)
    if isinstance(source, Mapping):
        from aliquot.virtual_file import VirtualFile
        from aliquot.virtual_file.datasets import Datasets, open_datasets

        views = open_datasets(source)
        for view in views.values():
            look_at_tables(view, options)
        source = VirtualFile(Datasets(views))
        called = call_on_datasets(called, source)
        if options.set_aside is not None:
            source.source.header(0)  # refuses what cannot be written to one file
    _warn_of_paths(source)
    found, units, sent, growing = _items_of(source, options)
    plan = Plan(
        stepper=BatchStepper(called.function, found, called.join),
        units=_some(units, found),
        sent_items=sent,
        sink=called.sink(),
        functions=called.functions,
        join=None if is_ordered else called.join,
        is_ordered=is_ordered,
        label=called.label,
        options=options,
        view=found.view if isinstance(found, SourceItems) else None,
        growing=growing,
    )
    return _kept(plan)


def _warn_of_paths(source: Any) -> None:
    """In a dict, and for `open`, a list of paths means what is in the files; here it is a list as any other."""
    if not isinstance(source, list | tuple) or not source:
        return
    if not isinstance(source[0], str | os.PathLike) or not os.path.isfile(source[0]):
        return
    if all(isinstance(item, str | os.PathLike) for item in source):
        # Of the user's line: above it are the call, what checks its arguments, and two of ours.
        warnings.warn(
            f"the {len(source)} items are paths, and the function is given the paths. For what is in the files: "
            "aliquot.map_batches(function, aliquot.open(paths)); where paths are meant, pass iter(paths)",
            stacklevel=5,
        )


def plan_job(job: Job, options: Options) -> Plan:
    """Any job; a function over a source is run as such."""
    from aliquot.job import Done, Job
    from aliquot.jobs import Command, FunctionJob
    from aliquot.running.job_sink import JobSink
    from aliquot.workers.stepping import JobStepper

    if not isinstance(job, Job):
        raise UsageError(
            f"{job!r:.200} is not a job: aliquot.Command makes one of a command, and aliquot.map "
            "and aliquot.map_batches take functions"
        )
    if isinstance(job.result, Done):
        raise UsageError("this job is done already: its value is job.result.value")
    if isinstance(job, Command):
        return _plan_command(job, options)
    if isinstance(job, FunctionJob):
        return plan_batches(job.function, job.source, job.join_values, options, is_ordered=True)
    return _kept(
        Plan(
            stepper=JobStepper(job),
            units=_some(job.size),
            sink=JobSink(job),
            functions=(type(job).execute,) if options.run_dir is None else (job,),
            label=type(job).__name__,
            options=options,
        )
    )


def _first_units(command: Command, options: Options, expected_units: int, workers: int) -> int:
    from aliquot.workers.command_stepping import first_units

    # A step that takes too long would be stopped, and done for nothing.
    return 1 if options.wall_seconds else first_units(command, expected_units, workers)


def _plan_command(command: Command, options: Options) -> Plan:
    """A program; what it writes is put together in files."""
    from aliquot.journal import RunDirectory
    from aliquot.running.keeping import keep_command
    from aliquot.workers.command_stepping import CommandStepper, StreamStepper

    keeping = keep_command(command, options)
    _check_set_aside(command, options)
    directory = RunDirectory(keeping.directory)
    stepper = StreamStepper if command.mode == "stream" else CommandStepper
    step_cores = _cores_of_step(command, options.site.cores)
    units, growing = count_units(command.source, may_fail=options.max_failures > 0)
    expected_units = units if growing is None else growing.expected_units
    return Plan(
        stepper=stepper(command, directory.spool, directory.failed, step_cores),
        units=units,
        sink=JoinSink(operator.add),  # until the directory is held: see run_recorded
        functions=(command.template.text,),
        label=next(iter(command.template.programs()), "command"),
        options=options,
        is_ordered=not command.unordered,
        view=command.source,
        growing=growing,
        keeping=keeping,
        is_command=True,
        step_cores=step_cores,
        first_units=_first_units(command, options, expected_units, options.site.cores // step_cores),
        usual_seconds=USUAL_SECONDS if stepper is StreamStepper else _PROGRAM_SECONDS,
    )


def _cores_of_step(command: Command, cores: int) -> int:
    """As many as it asks for. A program that is told how many to use gets all: what it loads is then loaded once."""
    wanted = command.resources.cores or (cores if "cores" in command.template.keys else 1)
    return min(wanted, cores)


def _check_set_aside(command: Command, options: Options) -> None:
    """What was set aside must not come in the place of something that the command makes or needs."""
    if options.set_aside is None:
        return
    from aliquot.running.keeping import files_named_in

    target = os.path.realpath(options.set_aside)
    others = [os.path.join(command.directory, output.path) for output in command.outputs if output.path != "-"]
    if any(os.path.realpath(path) == target for path in [*others, *command.inputs, *files_named_in(command)]):
        raise UsageError(f"set_aside={str(options.set_aside)!r}: the command itself makes or reads this: name another")


def _kept(plan: Plan) -> Plan:
    """The same, recorded where the user says."""
    if plan.options.run_dir is None:
        return plan
    from aliquot.running.keeping import keep_plan

    return plan._replace(keeping=keep_plan(plan))


def _items_of(source: Any, options: Options) -> _Found:
    """Where units come from."""
    if isinstance(source, range):
        return _Found(RangeItems(source), len(source))
    if isinstance(source, str | os.PathLike) or _is_virtual_file(source):
        return _items_of_file(source, options)
    items = source if _can_be_sliced(source) else _listed(source)
    return _Found(SentItems(), len(items), items)


def _can_be_sliced(source: Any) -> bool:
    """Lists, tuples, arrays and whatever is like them; not a deque, nor an array without dimensions."""
    try:
        return len(source) >= 0 and len(source[0:0]) == 0 and not isinstance(source, Mapping)
    except Exception:
        return False


def _gives_units_by_slice(source: Any) -> bool:
    """Whether a slice holds what iterating gives: not so for a table, whose slices are rows and which gives columns."""
    kind = type(source)
    is_array = (kind.__module__, kind.__name__) == ("numpy", "ndarray")
    return is_array or isinstance(source, Sequence | range | os.PathLike) or _is_virtual_file(source)


# By what iterating gives columns: how to have rows.
_ROWS_OF_FRAMES = {
    ("pandas", "DataFrame"): "frame.itertuples()",
    ("polars", "DataFrame"): "frame.iter_rows(named=True)",
    ("pyarrow", "Table"): "table.to_pylist()",
}


def _refuse_frame(items: Any) -> None:
    for kind in type(items).__mro__:
        rows = _ROWS_OF_FRAMES.get((kind.__module__.partition(".")[0], kind.__name__))
        if rows is not None:
            raise UsageError(
                f"to go through a {kind.__name__} gives its columns: for its rows one by one, map over {rows}; "
                "aliquot.map_batches gives parts of it to the function"
            )


def _listed(source: Any) -> list[Any]:
    try:
        units = iter(source)
    except TypeError:
        raise UsageError(
            f"{source!r:.200} cannot be divided: it is not a sequence, a range, an iterable or a file"
        ) from None
    return list(units)


def _items_of_file(source: Any, options: Options) -> _Found:
    from aliquot.virtual_file import VirtualFile, open
    from aliquot.virtual_file.sequences import ItemsSource, RangeSource

    view = source if isinstance(source, VirtualFile) else open(source)
    look_at_tables(view, options)
    if isinstance(view.source, ItemsSource | RangeSource):
        records = view.batch()
        if isinstance(records, range):
            return _Found(RangeItems(records), len(records))
        return _Found(SentItems(), len(records), records)
    # Once, here: the workers find the index in the cache.
    units, growing = count_units(view, may_fail=options.max_failures > 0)
    return _Found(SourceItems(view), units, growing=growing)


def _is_virtual_file(source: Any) -> bool:
    # Without importing what the user has not: a virtual file cannot be there if its module is not.
    module = sys.modules.get("aliquot.virtual_file")
    return module is not None and isinstance(source, module.VirtualFile)


def _check_callable(function: Any) -> None:
    if not callable(function):
        raise UsageError(f"{function!r:.200} is not a function")


def _some(units: int, items: Items | None = None) -> int:
    if not units:
        where = f" in {items.view.source}" if isinstance(items, SourceItems) else ""
        raise UsageError(f"there are no units{where}, and so there is no value to return")
    return units
