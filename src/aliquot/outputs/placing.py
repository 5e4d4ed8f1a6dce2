"""What was made goes to its target: whole or not at all.

A file is written beside its target if it is on another file system, brought to the disk, and moved there in one step.
Before that step a *receipt* is left beside the partial output: which file is about to be the target. If the process
dies before anybody notes that the output is finished, the receipt tells: the target is that very file, or it is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import zlib
from collections.abc import Callable

from aliquot.outputs.copying import copy_range
from aliquot.outputs.errors import OutputError
from aliquot.outputs.growing_file import remove_if_there, sync_directory
from aliquot.outputs.trees import copy_file, copy_tree, sync_file_system


def check_target(target: str, *, is_directory: bool) -> None:
    """Refuse a target that could not be put in its place; for the beginning of a run as much as for its end.

    A file is replaced. A directory with something in it is not: what is in it might be anything.
    """
    if target == "-" or _is_written_into(target):
        if is_directory:
            raise OutputError("cannot be a directory", path=target)
        return
    path = os.path.realpath(target)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise OutputError(f"there is no folder {folder}", path=target, advice="Make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"nothing can be written to the folder {folder}", path=target, advice="May you write there?")
    if is_directory:
        if os.path.exists(path) and not os.path.isdir(path):
            raise OutputError("is a file, and the output is a directory", path=target, advice="Name another")
        if os.path.isdir(path) and os.listdir(path):
            advice = "Remove it, or name another: what is in it is not replaced"
            raise OutputError("is a directory that is not empty", path=target, advice=advice)
    elif os.path.isdir(path) or target.endswith("/"):
        raise OutputError("is a directory, and the output is a file", path=target, advice="Name a file in it")


def place(made: str, target: str, receipt: str, *, is_directory: bool) -> None:
    """Move what was made to its target, on whatever file system that is."""
    check_target(target, is_directory=is_directory)
    if target == "-":
        write_out(made, 1)
        return
    if _is_written_into(target):
        descriptor = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
        try:
            write_out(made, descriptor)
        finally:
            os.close(descriptor)
        return
    path = os.path.realpath(target)
    try:
        _sync(made, is_directory)
        _move(made, path, receipt)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_beside(made, path, is_directory, lambda beside: _move(beside, path, receipt))


def write_out(made: str, descriptor: int) -> None:
    """Write all of a file to where it cannot be moved. A reader who has enough may go."""
    source = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
    try:
        copy_range(source, 0, os.fstat(source).st_size, descriptor)
    except BrokenPipeError:
        pass
    finally:
        os.close(source)


def is_finished(path: str, target: str) -> bool:
    """Whether the partial output at this path has become its target, as the receipt beside it tells.

    To ask before a partial output is opened again: after a crash in the moment between the move and the note of it, the
    partial output is gone, the target is there, and there is nothing left to do. Never so for standard output, pipes
    and devices: nobody knows what has come out of them.
    """
    import json

    try:
        with open(receipt_of(path)) as file:
            return bool(json.load(file) == _about(os.path.realpath(target)))
    except (OSError, ValueError):
        return False


def receipt_of(path: str) -> str:
    """Where the receipt of a partial output is."""
    return f"{path}.receipt"


def _about(path: str) -> dict[str, int]:
    """What tells this file from any other, wherever it is moved."""
    status = os.stat(path)
    about = {"device": status.st_dev, "inode": status.st_ino}
    if stat.S_ISREG(status.st_mode):
        about |= {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    return about


def _move(made: str, path: str, receipt: str) -> None:
    import json

    with open(receipt, "w") as file:
        json.dump(_about(made), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(made, path)
    sync_directory(os.path.dirname(path))


def _copy_beside(made: str, path: str, is_directory: bool, move: Callable[[str], None]) -> None:
    # The same name each time, so that what a crash has left is found and removed; short, as long as the target's is.
    beside = os.path.join(os.path.dirname(path), f".aliquot-{zlib.crc32(os.fsencode(os.path.basename(path))):08x}")
    remove = _remove_tree if is_directory else remove_if_there
    remove(beside)
    try:
        (copy_tree if is_directory else copy_file)(made, beside)
        _sync(beside, is_directory)
        move(beside)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(beside)
        raise


def _remove_tree(path: str) -> None:
    if os.path.lexists(path):
        import shutil

        shutil.rmtree(path)


def _sync(path: str, is_directory: bool) -> None:
    if is_directory:
        sync_file_system(path)
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_written_into(target: str) -> bool:
    """Whether it is a pipe or a device, which are written into; nobody wants /dev/null replaced by a file."""
    path = os.path.abspath(target)
    if path.startswith(("/dev/", "/proc/")) and not path.startswith("/dev/shm/"):
        return True
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
