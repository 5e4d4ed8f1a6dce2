"""Small pieces, and outputs that are joined from them."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from aliquot.outputs import PartialOutput, State, find_rule

_numbers = itertools.count()
_MEMORY = "/dev/shm"


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    """Make a directory for one of many examples: in memory where that can be, as waiting for a disk takes long."""
    return tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)


def write_pieces(directory: Path, contents: Iterable[bytes]) -> list[str]:
    """Files of these contents."""
    paths = []
    for content in contents:
        path = directory / f"piece-{next(_numbers)}"
        path.write_bytes(content)
        paths.append(str(path))
    return paths


def joined(directory: Path, rule: str, *contents: bytes) -> bytes:
    """What an output is made of these pieces."""
    target = directory / f"target-{next(_numbers)}"
    partial = PartialOutput(find_rule(rule), str(directory / f"partial-{next(_numbers)}"))
    for piece in write_pieces(directory, contents):
        partial.append(piece)
    partial.finish(str(target))
    return target.read_bytes()


def reopened(rule: str, path: Path, state: State | None) -> PartialOutput:
    """The same output after a crash: nothing of the old one was closed or said."""
    return PartialOutput(find_rule(rule), str(path), state)


def concatenate(first: str, second: str, out: str) -> None:
    """Join two files by a function."""
    Path(out).write_bytes(Path(first).read_bytes() + Path(second).read_bytes())


def fail(first: str, second: str, out: str) -> None:
    """Join nothing."""
    raise RuntimeError("no such tree")


def write_nothing(first: str, second: str, out: str) -> None:
    """Return without a file."""


def note_suffixes(first: str, second: str, out: str) -> None:
    """Tell how the files are called."""
    Path(out).write_text(" ".join(Path(path).suffix for path in (first, second, out)))


NOT_A_FUNCTION = 1
