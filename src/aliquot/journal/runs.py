"""All runs of a directory."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from aliquot.errors import UsageError
from aliquot.journal.errors import JournalError, RunHeldError
from aliquot.journal.holder import Holder
from aliquot.journal.journal import Journal
from aliquot.journal.run_directory import RUNS_DIRECTORY, RunDirectory


class RunSummary(NamedTuple):
    """A run, in a line of a list."""

    name: str
    path: str
    # As the journal says: "running", "failed", "finishing", "done"; "interrupted" too where it says that it goes on but
    # nobody holds it; "damaged" where the journal cannot be read.
    status: str
    # None where they are not counted yet.
    units: int | None
    done_units: int
    failed_units: int
    # When it was last written, in seconds since 1970.
    changed_seconds: float
    size_bytes: int
    outputs: list[str]
    holder: Holder | None
    # What is wrong with a damaged one.
    problem: str | None


def list_runs(directory: str | os.PathLike[str] = RUNS_DIRECTORY) -> list[RunSummary]:
    """All runs, the one that was written last first."""
    runs = [summarise(RunDirectory(path)) for path in _find_runs(directory)]
    runs = [run for run in runs if _is_run(run.path)]  # some may have been removed meanwhile
    return sorted(runs, key=lambda run: (-run.changed_seconds, run.name))


def summarise(run: RunDirectory) -> RunSummary:
    """One run. A journal that cannot be read is told of, not raised."""
    holder = run.holder()
    status, units, done_units, failed_units = "interrupted" if holder is None else "running", None, 0, 0
    outputs: list[str] = []
    problem = None
    if os.path.lexists(run.journal_path):
        try:
            with Journal.open(run.journal_path, read_only=True) as journal:
                status = journal.get("status", "running")
                units, done_units, failed_units = journal.get("units"), journal.done_units(), journal.failed_units()
                outputs = journal.get("outputs", [])
        except JournalError as error:
            status, problem = "damaged", str(error)
        if status in ("running", "finishing") and holder is None:
            status = "interrupted"
    size_bytes, changed_seconds = _measure(run)
    return RunSummary(
        run.name,
        run.path,
        status,
        units,
        done_units,
        failed_units,
        changed_seconds,
        size_bytes,
        outputs,
        holder,
        problem,
    )


def clean(
    directory: str | os.PathLike[str] = RUNS_DIRECTORY, names: Sequence[str] | None = None, *, everything: bool = False
) -> list[RunSummary]:
    """Remove the runs that are done without a failure, or ``everything``, or those of these names; says which.

    One that is held is never removed: it is passed over, or refused if it was named.
    """
    _remove_leftovers(directory)
    runs = list_runs(directory)
    if names is not None:
        by_name = {run.name: run for run in runs}
        for name in names:
            if name not in by_name:
                raise UsageError(_no_such_run(name, by_name, directory))
        runs = [by_name[name] for name in dict.fromkeys(names)]
    removed = []
    is_meant = names is not None or everything  # whatever became of it
    for run in runs:
        if not is_meant and not _is_cleaned(run):
            continue
        place = RunDirectory(run.path)
        try:
            # Of one that somebody else has just removed, nothing is left after this either.
            with place.hold("aliquot clean"):
                # It may have been begun anew since it was listed, or have been removed.
                if not place.was_made_here and (is_meant or _is_cleaned(summarise(place))):
                    place.remove()
                    removed.append(run)
        except RunHeldError:
            if names is not None:
                raise
    return removed


def _is_cleaned(run: RunSummary) -> bool:
    """Nobody needs it any more; what is known of units that failed, somebody might."""
    return run.status == "done" and not run.failed_units


def _find_runs(directory: str | os.PathLike[str]) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            places = [entry.path for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise JournalError(
            f"cannot be looked at: {error.strerror}", path=os.fspath(directory), advice="Check its permissions"
        ) from error
    return [path for path in sorted(places) if _is_run(path)]


def _is_run(path: str) -> bool:
    return any(os.path.lexists(os.path.join(path, name)) for name in ("journal.sqlite", "holder"))


def _measure(run: RunDirectory) -> tuple[int, float]:
    """Bytes on the disk, and when the journal or its log was written last."""
    size_bytes = 0
    for place, _, names in os.walk(run.path):
        for name in names:
            with contextlib.suppress(OSError):
                size_bytes += os.lstat(os.path.join(place, name)).st_blocks * 512
    changed_seconds = 0.0
    for path in (run.journal_path, f"{run.journal_path}-wal", run.holder_path):
        with contextlib.suppress(OSError):
            changed_seconds = max(changed_seconds, os.stat(path).st_mtime)
    return size_bytes, changed_seconds


def _remove_leftovers(directory: str | os.PathLike[str]) -> None:
    """What is left of removals that were killed."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") and ".removed." in entry.name:
                shutil.rmtree(entry.path, ignore_errors=True)


def _no_such_run(name: str, known: Sequence[str] | dict[str, RunSummary], directory: str | os.PathLike[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    if near:
        advice = f"did you mean {near[0]!r}?"
    elif known:
        advice = f"there are {', '.join(sorted(known))}"
    else:
        advice = "there are none"
    return f"there is no run {name!r} in {os.fspath(directory)}: {advice}"
