"""Running a command once, on some units that it is given as files or as a range of bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aliquot.errors import DataError
from aliquot.jobs.command.feeding import terminator_of
from aliquot.jobs.command.step import Step
from aliquot.jobs.command.stream import Stream
from aliquot.virtual_file import Source, VirtualFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from aliquot.jobs.command.command import Command


def run_step(
    command: Command,
    start: int,
    stop: int,
    place: str,
    *,
    cores: int = 1,
    memory_bytes: int = 0,
    note_peak: Callable[[int], None] = lambda _: None,
) -> dict[str, str]:
    """Run one process on the units ``start`` up to ``stop`` of the command's source, with its files in ``place``.

    Gives the path of each output. ``place`` is an empty directory, made if it is not there; nothing is removed from it,
    whether the command succeeds or not. A command that reads pipes is fed these units and then sees their end.
    ``note_peak`` is told what each process held, once it has ended, also where the command fails.
    Raises `CommandError` where the command fails, `DataError` where its units cannot be read.
    """
    if command.mode == "stream":
        stream = Stream(command, start, place, cores=cores, memory_bytes=memory_bytes, note_peak=note_peak)
        stream.feed(start, stop)
        return stream.finish()
    step = Step(command, start, place, cores=cores, memory_bytes=memory_bytes, note_peak=note_peak)
    step.stop = step.start + stop - start
    step.words["units"] = str(stop - start)
    command.source.source.check_ends(step.start, step.stop)
    for name, source in command.sources.items():
        if command.wants(name):
            step.words[name] = step.path_of(name)
            write_slice(source, step.start, step.stop, step.words[name])
        if command.template.mode == "range":
            _give_range(step, name, source)
    return step.end(step.wait_for(step.start_command()))


def write_slice(source: Source, start: int, stop: int, path: str) -> None:
    """Write some units to a new file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            VirtualFile(source, start, stop).write_to(descriptor)
            _end_last_unit(source, start, stop, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.strerror is None:
            raise
        advice = "Is there room on the disk, and may you write there?"
        raise DataError(f"cannot be written: {error.strerror}", path=path, advice=advice) from error


def _end_last_unit(source: Source, start: int, stop: int, descriptor: int) -> None:
    """Where a file ends without a newline and another one goes on, the whole has one between them; so has a part."""
    terminator = terminator_of(source)
    if not terminator or start == stop:
        return
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if os.pread(descriptor, len(terminator), size - len(terminator)) == terminator:
        return
    source.advance(stop + 1)
    if source.known_units > stop:
        os.write(descriptor, terminator)


def _give_range(step: Step, name: str, source: Source) -> None:
    if step.command.wants(f"{name}:source"):
        (step.words[f"{name}:source"],) = source.paths()
    if step.command.wants(f"{name}:offset") or step.command.wants(f"{name}:length"):
        (found,) = source.byte_ranges(step.start, step.stop)
        step.words[f"{name}:offset"] = str(found.start)
        step.words[f"{name}:length"] = str(found.stop - found.start)
