"""The raw input of units that were set aside, in a file of its own: ready to be looked at, mended and run again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aliquot.errors import AliquotError, DataError, UsageError
from aliquot.running.outcome import Failure

if TYPE_CHECKING:
    from aliquot.virtual_file import VirtualFile


def check_set_aside(view: VirtualFile | None, path: str | os.PathLike[str]) -> None:
    """Refuse what cannot be written, before anything is run; a file that is there is kept under another name."""
    if view is None:
        raise UsageError(f"set_aside={str(path)!r}: the units are not from a file, so there is nothing to copy")
    try:
        view.source.header(0) if len(view.source.members()) == 1 else None
    except UsageError as error:
        raise UsageError(f"set_aside={str(path)!r}: {error}. What failed is in the failures of the outcome") from error
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"set_aside={str(path)!r}: there is no folder {folder}")
    for target in target_paths(view, path):
        view.check_target(target)
        if os.path.exists(target):
            os.replace(target, f"{target}~")


def target_paths(view: VirtualFile, path: str | os.PathLike[str]) -> list[str]:
    """Itself; for files that were opened together, one for each, with its number before the ending."""
    path = os.path.realpath(path)
    count = len(view.source.members())
    if count == 1:
        return [path]
    name, ending = os.path.splitext(path)
    return [f"{name}-{number}{ending}" for number in range(1, count + 1)]


def write_set_aside(view: VirtualFile, failures: Sequence[Failure], path: str | os.PathLike[str]) -> list[str]:
    """Write the units of all failures, in order, whole or not at all; the paths that were written."""
    targets = target_paths(view, path)
    for member, target in zip(view.members, targets, strict=True):
        temporary = f"{target}.{os.getpid()}"
        try:
            with open(temporary, "wb") as file:
                for piece in _pieces(member, failures):
                    file.write(piece)
            os.replace(temporary, target)
        except OSError as error:
            advice = "Is there room on the disk, and may you write there?"
            raise DataError(f"cannot be written: {error.strerror}", path=target, advice=advice) from error
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
    return targets


def _pieces(view: VirtualFile, failures: Sequence[Failure]) -> Iterator[bytes | memoryview]:
    source = view.source
    yield source.header(sum(failure.stop - failure.start for failure in failures))
    for failure in failures:
        try:
            yield from source.raw_pieces(view.start + failure.start, view.start + failure.stop)
        except AliquotError:
            # What cannot be read cannot be copied either; the failure itself says where it is.
            continue
