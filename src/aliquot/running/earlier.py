"""What an earlier sitting has left where a run is recorded: whether it can be gone on with, and what is in the way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.journal import Journal, JournalError, RunDirectory, differences
from aliquot.quantities import format_count

if TYPE_CHECKING:
    from aliquot.outputs import Output

# Where these differ, what was done is still of the same units and for the same outputs; elsewhere it is of no use.
_MAY_CHANGE = (
    *("command", "check", "least_bytes_per_unit", "sandbox", "directory", "inputs", "programs"),
    *("function", "uses"),
)


class RunChangedError(UsageError):
    """What is to be run is not what was begun: ``changes`` says in which way."""

    def __init__(self, path: str, changes: Sequence[str], *, can_go_on: bool = True) -> None:
        told = "\n".join(f"  {change}" for change in changes)
        nevertheless = ", or go on nevertheless with --resume-anyway (resume_anyway=True)" if can_go_on else ""
        super().__init__(
            f"{path} has a run that was begun with something else:\n{told}\n"
            f"Begin anew with the same call and --fresh (fresh=True){nevertheless}"
        )
        self._arguments = (path, tuple(changes), can_go_on)
        self.changes = tuple(changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, self._arguments)


def _rebuild(path: str, changes: Sequence[str], can_go_on: bool) -> RunChangedError:
    return RunChangedError(path, changes, can_go_on=can_go_on)


class Keeping(NamedTuple):
    """Where a run is recorded, what it is made of, what it makes, and what becomes of an earlier one there.

    ``identity`` is asked with that of the earlier run, if there is one: which files are looked at is decided once.
    ``count_units`` says how many units there are, which may take a while.
    """

    directory: str
    identity: Callable[[dict[str, Any] | None], dict[str, Any]]
    count_units: Callable[[], int]
    outputs: tuple[Output, ...] = ()
    is_fresh: bool = False
    resumes_anyway: bool = False
    may_overwrite: bool = False
    command_line: str | None = None
    settings: Mapping[str, Any] | None = None  # by which a command line starts it again


class Earlier(NamedTuple):
    """What an earlier run has left: "new" if nothing is of use, what was done of it, and what differs from this one."""

    status: str
    done_units: int = 0
    changes: Sequence[str] = ()


def look_at_earlier(keeping: Keeping) -> Earlier:
    """What would become of an earlier run; raises what would be refused, but for changes. Changes nothing."""
    path = RunDirectory(keeping.directory).journal_path
    if os.path.exists(path) and not keeping.is_fresh:
        with Journal.open(path, read_only=True) as journal:
            if _is_of_use(journal, keeping):
                changes = differences(journal.identity, keeping.identity(journal.identity))
                changes += _compare_counts(journal, keeping) if changes else []
                return Earlier(journal.get("status", "interrupted"), journal.done_units(), changes)
    _check_targets(keeping, _made_by(path))
    return Earlier("new")


def open_journal(directory: RunDirectory, keeping: Keeping, before_new: Callable[[], None] = lambda: None) -> Journal:
    """The journal to go on with, or a new one; ``before_new`` is called before that is made: all is accepted then."""
    path = directory.journal_path
    if os.path.exists(path) and not keeping.is_fresh:
        journal = Journal.open(path)
        try:
            if _is_of_use(journal, keeping):
                _accept_changes(journal, keeping, directory.path)
                if journal.get("status") != "done":
                    refuse_foreign_targets(journal, keeping)
                return journal
        except BaseException:
            journal.close()
            raise
        journal.close()
    # What was done is not given up for a run that is refused.
    _check_targets(keeping, _made_by(path))
    before_new()
    identity = keeping.identity(None)
    if os.path.exists(path):
        directory.clear()
    journal = Journal.create(path, identity)
    try:
        journal.set("found", {output.path: state_of(output.path) for output in keeping.outputs})
        journal.commit()
    except BaseException:
        journal.close()  # else this very process would be the one that has it in use
        raise
    return journal


def _accept_changes(journal: Journal, keeping: Keeping, path: str) -> None:
    """Go on with what was begun with something else, if the user says so, and if that can come to something."""
    before = journal.identity
    now = keeping.identity(before)
    changes = differences(before, now)
    if not changes:
        return
    more_or_fewer = _compare_counts(journal, keeping)
    kept = [{key: value for key, value in identity.items() if key not in _MAY_CHANGE} for identity in (before, now)]
    can_go_on = not differences(*kept) and not more_or_fewer
    if not (can_go_on and keeping.resumes_anyway):
        raise RunChangedError(path, list(dict.fromkeys([*changes, *more_or_fewer])), can_go_on=can_go_on)
    journal.replace_identity(now)


def _compare_counts(journal: Journal, keeping: Keeping) -> list[str]:
    """What was done is of no use for another number of units. Some runs end before theirs are counted."""
    before = journal.get("units")
    if before is None or before == (units := keeping.count_units()):
        return []
    return [f"there are {format_count(units)} units now, and there were {format_count(before)}"]


def refuse_foreign_targets(journal: Journal, keeping: Keeping) -> None:
    """A file that has come or changed since the run began is somebody else's."""
    found, moved = journal.get("found", {}), journal.get("moved", [])
    for output in keeping.outputs:
        is_ours = output.path == "-" or output.name in moved or keeping.may_overwrite
        if not is_ours and state_of(output.path) != found.get(output.path) and os.path.isfile(output.path):
            if _is_moved_unnoticed(journal, keeping, output):
                continue
            raise UsageError(
                f"{output.path} was made or changed while the run was under way: "
                "say --force (force=True) to have it replaced, or move it away"
            )


def _is_moved_unnoticed(journal: Journal, keeping: Keeping, output: Output) -> bool:
    """Whether it is our own, moved there in the last moment of an earlier sitting."""
    from aliquot.outputs import is_finished

    partial = os.path.join(RunDirectory(keeping.directory).partial, output.name)
    return journal.get("status") == "finishing" and is_finished(partial, output.path)


def _is_of_use(journal: Journal, keeping: Keeping) -> bool:
    """Whether it can be gone on with; one that is done, only as long as all that it made is as it was made.

    Of one that has done nothing, only the very same: there is nothing that would be lost.
    """
    if not journal.done_units() and journal.get("status") != "done":
        return not differences(journal.identity, keeping.identity(journal.identity))
    if journal.get("status") != "done":
        return True
    made = journal.get("made", {})
    return all(
        # What went into a pipe or to a terminal is not there any more.
        (os.path.isfile(output.path) or os.path.isdir(output.path)) and made.get(output.path) == state_of(output.path)
        for output in keeping.outputs
    )


def _made_by(path: str) -> dict[str, Any]:
    """What an earlier run has made, which may be replaced; nothing where its journal cannot be read any more."""
    with contextlib.suppress(JournalError), Journal.open(path, read_only=True) as journal:
        made: dict[str, Any] = journal.get("made", {})
        return made
    return {}


def _check_targets(keeping: Keeping, made: dict[str, Any]) -> None:
    """Refuse what cannot be written, or would be lost, before anything is run."""
    from aliquot.outputs import check_target, find_rule

    for output in keeping.outputs:
        is_ours = keeping.may_overwrite or made.get(output.path) == state_of(output.path)
        if os.path.isfile(output.path) and not is_ours:
            raise UsageError(f"{output.path} exists: say --force (force=True) to have it replaced, or name another")
        check_target(output.path, is_directory=find_rule(output.rule).makes_directory)


def state_of(path: str) -> list[int] | None:
    """What tells whether a file was changed; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]
