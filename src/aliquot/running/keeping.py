"""Where a run is recorded unless somebody says, and what it is made of: what must not change until it is done."""

from __future__ import annotations

import os
import shlex
import zlib
from typing import TYPE_CHECKING, Any

from aliquot.journal.run_directory import RUNS_DIRECTORY
from aliquot.running import learned
from aliquot.running.recorded import Keeping

if TYPE_CHECKING:
    from aliquot.jobs.command import Command
    from aliquot.running.options import Options
    from aliquot.running.plan import Plan


def keep_command(command: Command, options: Options) -> Keeping:
    """A command is always recorded, by default in a directory that is called as its first output."""
    outputs = tuple(
        output if output.path == "-" else output._replace(path=os.path.join(command.directory, output.path))
        for output in command.outputs
    )
    return Keeping(
        options.run_dir or _directory_of(command),
        lambda: _identity_of_command(command),
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
        lambda: _identity_of_plan(plan),
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


def _identity_of_command(command: Command) -> dict[str, Any]:
    from aliquot.journal import describe_input, describe_program

    described = command.describe_without_source()
    described.pop("inputs")
    paths = [*command.source.source.paths(), *command.inputs, *_files_in(command)]
    return {
        **described,
        "units": [command.source.start, command.size],
        "inputs": [describe_input(path) for path in dict.fromkeys(paths)],
        "programs": [describe_program(name) for name in command.template.programs()],
    }


def _files_in(command: Command) -> list[str]:
    """The files that the text of a command names, as far as that can be seen: a reference genome, a script."""
    made = {os.path.join(command.directory, output.path) for output in command.outputs}
    try:
        words = shlex.split(command.template.text.replace("{{", " ").replace("}}", " "))
    except ValueError:
        return []
    paths = [os.path.join(command.directory, word) for word in words if "{" not in word]
    return [path for path in paths if os.path.isfile(path) and path not in made]


def _identity_of_plan(plan: Plan) -> dict[str, Any]:
    from aliquot.journal import describe_input
    from aliquot.workers.packing import pack

    identity: dict[str, Any] = {"function": learned.fingerprint(*plan.functions), "units": plan.units}
    if plan.view is not None:
        identity["first unit"] = plan.view.start
        identity["inputs"] = [describe_input(path) for path in plan.view.source.paths()]
    elif plan.sent_items is not None:
        packed = pack(plan.sent_items)
        identity["items"] = f"{zlib.crc32(packed.content()):08x}"
        packed.close()
    elif plan.stepper.items is not None:
        identity["items"] = repr(plan.stepper.items.get(0, plan.units))  # a range
    return identity
