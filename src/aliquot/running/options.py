from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.quantities import as_count, parse_bytes
from aliquot.sites.local import Local

if TYPE_CHECKING:
    from aliquot.running.progress import Progress


class Options(NamedTuple):
    """What every call takes: where to run, with how much, what a step may be like, and what to show meanwhile."""

    site: Local
    size: int | None
    target_seconds: float | None  # as told: see Plan.target_seconds
    target_bytes: int | None
    wall_seconds: float | None
    disk_bytes: int | None
    max_failures: float
    set_aside: str | os.PathLike[str] | None
    progress: bool | Progress | None
    run_dir: str | None = None  # where the run is recorded
    is_fresh: bool = False  # whatever is recorded there is begun anew
    resumes_anyway: bool = False  # though what is run has changed
    may_overwrite: bool = False  # outputs that exist
    forgets: bool = False  # what earlier runs have learned


def make_options(
    *,
    on: Any = None,
    memory: Any = None,
    max_failures: Any = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: Any = None,
    target_seconds: Any = None,
    target_bytes: Any = None,
    wall_seconds: Any = None,
    disk: Any = None,
    progress: bool | Progress | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    resume_anyway: bool = False,
    force: bool = False,
    forget: bool = False,
) -> Options:
    """Refuse what cannot be meant, before any worker is started."""
    if on is not None and not isinstance(on, Local):
        raise UsageError(f"on={on!r:.200} is not a site: use aliquot.sites.Local(cores=, memory=)")
    if fresh and resume_anyway:
        raise UsageError("fresh and resume_anyway cannot both be meant: begin anew, or go on")
    if size is not None:
        size = as_count(size, "size", "a first guess is at least one unit")
    if target_seconds is not None and not _is_duration(target_seconds):
        raise UsageError(f"target_seconds={target_seconds!r}: how long a step may take, 0 for one unit at a time")
    if wall_seconds is not None and not (_is_duration(wall_seconds) and wall_seconds):
        raise UsageError(f"wall_seconds={wall_seconds!r}: after how long a step is stopped, more than 0")
    site = on or Local()
    if memory is not None:
        site = Local(site.cores, memory, site.step_bytes)
    return Options(
        site,
        size,
        target_seconds,
        None if target_bytes is None else _as_bytes(target_bytes, "target_bytes"),
        wall_seconds,
        None if disk is None else _as_bytes(disk, "disk"),
        _as_failures(max_failures),
        set_aside,
        progress,
        None if run_dir is None else os.path.abspath(run_dir),
        fresh,
        resume_anyway,
        force,
        forget,
    )


def _is_duration(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < float("inf")


def _as_bytes(told: int | str, name: str) -> int:
    parsed = parse_bytes(told)
    if parsed <= 0:
        raise UsageError(f"{name}={told!r}: some bytes are needed")
    return parsed


def _as_failures(told: Any) -> float:
    """How many units may fail: a number, or a part of all as a number with a point, of which 1.0 means all."""
    if isinstance(told, bool) or not isinstance(told, int | float) or not told >= 0:
        raise UsageError(f"max_failures={told!r}: how many units may fail, or which part of them, such as 0.01")
    if isinstance(told, int) or told == float("inf"):
        return told
    if told > 1:
        raise UsageError(f"max_failures={told!r}: a part of all units is at most 1.0; a number of units has no point")
    return float("inf") if told == 1 else told
