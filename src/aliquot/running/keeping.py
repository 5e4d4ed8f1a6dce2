"""Where a run is recorded unless somebody says, and what it is made of: what must not change until it is done."""

from __future__ import annotations

import functools
import os
import re
import shlex
import zlib
from types import MethodType
from typing import TYPE_CHECKING, Any

from aliquot.journal.run_directory import RUNS_DIRECTORY
from aliquot.running import learned
from aliquot.running.earlier import Keeping

# What follows is written, not read.
_WRITTEN = re.compile(r"(?:\d|&)?>>?\s*(?:'[^']*'|\"[^\"]*\"|[^\s;|&]+)|\btee\s+(?:-a\s+)?\S+")

if TYPE_CHECKING:
    from aliquot.jobs.command import Command
    from aliquot.running.options import Options
    from aliquot.running.plan import Plan
    from aliquot.virtual_file import VirtualFile


def keep_command(command: Command, options: Options) -> Keeping:
    """A command is always recorded, by default in a directory that is called as its first output."""
    outputs = tuple(
        output if output.path == "-" else output._replace(path=os.path.join(command.directory, output.path))
        for output in command.outputs
    )
    return Keeping(
        options.run_dir or _directory_of(command),
        lambda earlier: _identity_of_command(command, earlier),
        lambda: command.size,
        outputs,
        options.is_fresh,
        options.resumes_anyway,
        options.may_overwrite,
    )


def keep_plan(plan: Plan) -> Keeping:
    """A function or a job is recorded where the user says."""
    options = plan.options
    assert options.run_dir is not None
    return Keeping(
        options.run_dir,
        lambda _: _identity_of_plan(plan),
        lambda: plan.counted().units,
        is_fresh=options.is_fresh,
        resumes_anyway=options.resumes_anyway,
    )


def _directory_of(command: Command) -> str:
    target = next((output.path for output in command.outputs if output.path != "-"), None)
    if target is None:
        name = f"stdout-{zlib.crc32(command.template.text.encode()):08x}"
    else:
        path = os.path.normpath(os.path.join(command.directory, target))
        name = os.path.relpath(path, command.directory).replace(os.sep, "-")
        if name.startswith("."):  # elsewhere, or hidden, which a run directory must not be
            name = f"{os.path.basename(path).lstrip('.')}-{zlib.crc32(os.fsencode(path)):08x}"
    return os.path.join(command.directory, RUNS_DIRECTORY, name)


def _identity_of_command(command: Command, earlier: dict[str, Any] | None) -> dict[str, Any]:
    from aliquot.journal import describe_input, describe_program

    described = command.describe_without_source()
    described.pop("inputs")
    # What was not there when the run began may be of its own making.
    named = files_named_in(command) if earlier is None else earlier.get("named", [])
    paths = [*command.source.source.paths(), *command.inputs, *named]
    return {
        **described,
        **_identity_of_view(command.source),
        "named": named,
        "inputs": [describe_input(path) for path in dict.fromkeys(paths)],
        "programs": [describe_program(name) for name in command.template.programs()],
    }


def files_named_in(command: Command) -> list[str]:
    """The files that the text of a command names and reads, as far as that can be seen: a reference, a script."""
    made = {os.path.join(command.directory, output.path) for output in command.outputs}
    text = _WRITTEN.sub(" ", command.template.text.replace("{{", " ").replace("}}", " "))
    try:
        words = shlex.split(text.replace("<", " "))
    except ValueError:
        return []
    named = [word.rpartition("=")[2] for word in words if "{" not in word]
    paths = [os.path.join(command.directory, name) for name in named if name]
    return [path for path in dict.fromkeys(paths) if os.path.isfile(path) and path not in made]


def _identity_of_plan(plan: Plan) -> dict[str, Any]:
    from aliquot.journal import describe_input
    from aliquot.running.used_values import used_values

    identity: dict[str, Any] = {
        "label": plan.label,  # only to be told
        "function": [_digest(function) for function in plan.functions],
        "uses": used_values(*plan.functions),
    }
    if plan.view is not None:
        identity |= _identity_of_view(plan.view)
        identity["inputs"] = [describe_input(path) for path in plan.view.source.paths()]
        units_by_name = getattr(plan.view.source, "units_by_name", None)
        if units_by_name is not None:
            identity["datasets"] = [[name, units] for name, units in units_by_name.items()]
        return identity
    identity["units"] = plan.units
    if plan.sent_items is not None:
        identity["items"] = _checksum(plan.sent_items)
    elif plan.stepper.items is not None:
        identity["items"] = repr(plan.stepper.items.get(0, plan.units))  # a range
    return identity


def _identity_of_view(view: VirtualFile) -> dict[str, Any]:
    """Which units of a source, and how they are read. The end of the source may not have been found yet."""
    end: int | None = None
    if not view.is_open_ended:
        view.source.advance(view.stop + 1)
        end = None if view.source.complete and view.stop == view.source.known_units else view.stop
    reading = [part.reading() for part in view.source.constituents()]
    # What is counted first anyway may have more units though its files seem the same, as a database may.
    units = None if view.source.can_be_counted_meanwhile else len(view)
    return {"first unit": view.start, "end": end, "units": units, "reading": reading}


def _digest(function: Any) -> Any:
    """What tells a function from another: its code, and all that it carries with it."""
    from aliquot.job import Job
    from aliquot.running.used_values import carried_by, checksum, is_own, unwrapped

    if isinstance(function, Job):
        return {**function.to_desc()}
    if isinstance(function, functools.partial):
        return [_digest(function.func), _checksum((function.args, sorted(function.keywords.items())))]
    if isinstance(function, MethodType):
        return [_digest(function.__func__), checksum(function.__self__)]
    if (inner := unwrapped(function)) is not function:
        return [_digest(inner)]
    told: list[Any] = [learned.fingerprint(function)]
    for value in carried_by(function):
        told.append(_digest(value) if callable(value) else _checksum(value))
    if not hasattr(function, "__code__") and hasattr(function, "__dict__"):
        # An object that can be called, with what it holds; of a library's, only its pickle tells that.
        told.append(checksum(function) if is_own(type(function).__module__) else _checksum(function))
    return told


def _checksum(value: Any) -> str:
    from aliquot.workers.packing import pack

    try:
        packed = pack(value)
    except Exception:
        return type(value).__qualname__  # cannot be told from another of its kind
    try:
        return f"{zlib.crc32(packed.content()):08x}"
    finally:
        packed.close()
