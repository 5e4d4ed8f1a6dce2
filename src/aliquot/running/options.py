from __future__ import annotations

from typing import Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.quantities import as_count
from aliquot.sites.local import Local

_TARGET_SECONDS = 1.0


class Options(NamedTuple):
    """What every call takes: where to run, a first guess, how long a step may take, and what to show meanwhile."""

    site: Local
    size: int | None
    target_seconds: float
    progress: bool | None


def make_options(on: Any, size: Any, target_seconds: Any, progress: bool | None) -> Options:
    """Refuse what cannot be meant, before any worker is started."""
    if on is not None and not isinstance(on, Local):
        raise UsageError(f"on={on!r:.200} is not a site: use aliquot.sites.Local(cores=, memory=)")
    if size is not None:
        size = as_count(size, "size", "a first guess is at least one unit")
    if target_seconds is None:
        target_seconds = _TARGET_SECONDS
    elif not isinstance(target_seconds, int | float) or not 0 <= target_seconds < float("inf"):
        raise UsageError(f"target_seconds={target_seconds!r}: how long a step may take, 0 for one unit at a time")
    return Options(on or Local(), size, target_seconds, progress)
