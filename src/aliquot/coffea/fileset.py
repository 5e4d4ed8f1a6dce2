from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from aliquot.coffea.release import coffea_executors
from aliquot.errors import UsageError


class FileOfSet(NamedTuple):
    """One file of a fileset, and what its events carry with them."""

    path: str
    tree: str
    dataset: str
    metadata: dict[str, Any]
    preload: tuple[str, ...] | None


def files_of(fileset: Any, treename: str | None, metadata: Mapping[str, Any] | None) -> list[FileOfSet]:
    """Take a fileset apart, as Runner does."""
    executors = coffea_executors()
    taken = sorted(executors._PROTECTED_NAMES.intersection(metadata or {}))
    if taken:
        raise UsageError(f"metadata={{{taken[0]!r}: ...}}: coffea itself puts that on the events; choose another name")
    try:
        found = list(executors.Runner._normalize_fileset(fileset, treename))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"coffea does not take this fileset: {type(error).__name__}: {error}") from error
    if not found:
        raise UsageError("the fileset names no files")
    return [
        FileOfSet(
            os.fspath(file.filename),
            file.treename,
            file.dataset,
            {**(metadata or {}), **(file.metadata or {})},
            None if file.preload is None else tuple(sorted(file.preload)),
        )
        for file in found
    ]
