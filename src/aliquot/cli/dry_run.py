"""What a run would be, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aliquot.cli.ending import run_name, shown_path
from aliquot.errors import UsageError
from aliquot.quantities import format_bytes, format_count, number_of

if TYPE_CHECKING:
    from aliquot.jobs import Command
    from aliquot.running.plan import Plan

_WHY = {
    "stream": "through a pipe, as long as units come, since the command has '< {{{name}}}' or {{{name}:pipe}}",
    "file": "as files, one for each step, since the command has {{{name}}}; '< {{{name}}}' would be a pipe",
    "range": "as ranges of bytes of the source, since the command has {{{name}:offset}} or the like",
}
_MOST_SPANS = 4


def tell_plan(job: Command, plan: Plan) -> None:
    """Print how much there is, how it would be divided, what would run first, and what is recorded already."""
    spans = _first_spans(plan)
    for word, text in (
        *(("divide", line) for line in _tell_sources(job)),
        ("given", _WHY[job.mode].format(name=next(iter(job.sources)))),
        ("first", _tell_spans(spans, plan)),
        ("run", _first_command(job, plan, *spans[0])),
        *(("make", f"{shown_path(output.path)}, by the rule {output.rule}") for output in job.outputs),
        ("record", _tell_earlier(plan)),
    ):
        click.echo(f"{word:8}{text}")


def _tell_sources(job: Command) -> list[str]:
    places = job.source.byte_ranges()
    lines = []
    for name, source in job.sources.items():
        paths = source.paths()
        size_bytes = sum(place.stop - place.start for place in places if place.path in paths)
        what = shown_path(paths[0]) if len(paths) == 1 else f"{len(paths)} files from {shown_path(paths[0])} on"
        lines.append(f"{name}: {number_of(job.size, 'unit')} of {what}, {format_bytes(size_bytes)} uncompressed")
    return lines


def _first_spans(plan: Plan) -> list[tuple[int, int]]:
    """What the workers would be given when they come: decided by who decides it in a run."""
    from aliquot.coordinator import Assign, WorkerJoined
    from aliquot.running import learned
    from aliquot.running.one_run import make_coordinator

    workers = plan.options.site.cores // plan.step_cores
    key = learned.fingerprint(*plan.functions)
    coordinator = make_coordinator(plan, key, workers=workers, total_bytes=plan.options.site.memory_bytes)
    commands = [command for worker in range(workers) for command in coordinator.handle(WorkerJoined(worker), 0.0)]
    return [(command.start, command.stop) for command in commands if isinstance(command, Assign)]


def _tell_spans(spans: list[tuple[int, int]], plan: Plan) -> str:
    shown = ", ".join(f"{format_count(start)} to {format_count(stop - 1)}" for start, stop in spans[:_MOST_SPANS])
    more = f" and {len(spans) - _MOST_SPANS} more" if len(spans) > _MOST_SPANS else ""
    cores = plan.options.site.cores
    used = f", {plan.step_cores} for each step" if plan.step_cores > 1 else ""
    return f"units {shown}{more} to {number_of(cores, 'core')}{used}; what is left is divided while it runs"


def _first_command(job: Command, plan: Plan, start: int, stop: int) -> str:
    """With paths as they might be."""
    assert plan.keeping is not None
    place = f"{shown_path(plan.keeping.directory)}/spool/STEP"
    words: dict[str, Any] = {
        "unit_start": job.source.start + start,
        "units": stop - start,
        "cores": plan.step_cores,
        "memory": (plan.options.site.memory_bytes or 0) // (plan.options.site.cores // plan.step_cores),
        "scratch": f"{place}/scratch",
        **{name: f"{place}/{file}" for name, file in job.file_names.items()},
    }
    for name, source in job.sources.items():
        words[f"{name}:pipe"] = words[name]
        if job.wants(f"{name}:offset") or job.wants(f"{name}:length"):
            first = source.byte_ranges(start, stop)[0]
            words[f"{name}:offset"], words[f"{name}:length"] = first.start, first.stop - first.start
        words[f"{name}:source"] = source.paths()[0]
    return job.template.render({key: str(words[key]) for key in job.template.keys})


def _tell_earlier(plan: Plan) -> str:
    from aliquot.journal import RunDirectory
    from aliquot.running.earlier import look_at_earlier

    assert plan.keeping is not None
    directory = RunDirectory(plan.keeping.directory)
    where = f"in {shown_path(directory.path)}"
    holder = directory.holder()
    if holder is not None:
        return f"{where}, which is held by {holder}: this would be refused"
    try:
        earlier = look_at_earlier(plan.keeping)
    except UsageError as error:
        return f"{where}; this would be refused: {error}"
    if earlier.changes and not plan.keeping.resumes_anyway:
        changed = "; ".join(earlier.changes)
        return f"{where}, where a run was begun with something else: {changed}. Say --fresh or --resume-anyway"
    if earlier.status == "new":
        return f"{where}, from the first unit on"
    if earlier.status == "done":
        return (
            f"{where}, where it is done already: begin anew with --fresh, or see 'aliquot report {run_name(directory)}'"
        )
    done = f"{format_count(earlier.done_units)} of {format_count(plan.units)} units are done"
    return f"{where}, where an earlier run would go on: {done}"
