from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from aliquot.journal.errors import JournalError
from aliquot.journal.explaining import explain_os_error
from aliquot.journal.holder import Hold, Holder, find_holder, is_of_one_who_wants, this_command

# Where runs are, in the working directory.
RUNS_DIRECTORY = ".aliquot"
# So often a run is made and held that somebody else removes at the same time.
_TRIES = 5
# All that a run has there.
_OWN_DIRECTORIES = frozenset(("spool", "partial", "failed"))
_OWN_FILES = frozenset(("journal.sqlite", "journal.sqlite.new", "journal.sqlite-wal", "journal.sqlite-shm", "holder"))
_OWN_NAMES = _OWN_FILES | _OWN_DIRECTORIES


class RunDirectory:
    """Where a run keeps what it has.

    journal.sqlite   what is done
    holder           who works in it, locked
    spool/           results of steps that are not in the outputs yet
    partial/         outputs, as far as they are
    failed/          what failing steps left
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._hold: Hold | None = None
        self.was_made_here = False  # when it was last taken: there was none before

    @property
    def name(self) -> str:
        """By which it is listed and named."""
        return os.path.basename(self.path)

    @property
    def journal_path(self) -> str:
        """The journal, there or not."""
        return os.path.join(self.path, "journal.sqlite")

    @property
    def holder_path(self) -> str:
        """The file that says who holds it."""
        return os.path.join(self.path, "holder")

    @property
    def spool(self) -> str:
        """The directory for results of steps that are not in the outputs yet."""
        return os.path.join(self.path, "spool")

    @property
    def partial(self) -> str:
        """The directory for outputs, as far as they are."""
        return os.path.join(self.path, "partial")

    @property
    def failed(self) -> str:
        """The directory for what failing steps left."""
        return os.path.join(self.path, "failed")

    @property
    def is_held_here(self) -> bool:
        """Whether this object holds it."""
        return self._hold is not None

    def acquire(self, command: str | None = None) -> None:
        """Make it where there is none, and hold it; raises `RunHeldError` where another does."""
        if self._hold is not None:
            return
        for tries_left in reversed(range(_TRIES)):
            try:
                self._make_and_hold(command)
            except (OSError, JournalError) as error:
                self.release()
                if tries_left and isinstance(error.__cause__ or error, FileNotFoundError):
                    continue  # somebody has removed it amid this
                if isinstance(error, OSError):
                    raise explain_os_error(error, self.path) from error
                raise
            return

    def _make_and_hold(self, command: str | None) -> None:
        _make_with_gitignore(os.path.dirname(self.path))
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        try:
            os.mkdir(self.path)
            self.was_made_here = True
        except FileExistsError:
            if not os.path.isdir(self.path):
                raise
            self.was_made_here = False
        self._refuse_what_is_no_run()
        self._hold = Hold(self.holder_path, command or this_command())
        self._make_inner_directories()

    def release(self) -> None:
        """Let others have it. May be called again."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()

    @contextlib.contextmanager
    def hold(self, command: str | None = None) -> Iterator[RunDirectory]:
        """Hold it for a while; ``command`` is what others are told that it is held for.

        Where it was made for that, and no run was begun in it, nothing of it is left.
        """
        self.acquire(command)
        try:
            yield self
        finally:
            if self.was_made_here and self._hold is not None and not os.path.lexists(self.journal_path):
                with contextlib.suppress(JournalError, OSError):
                    self.remove()
            self.release()

    def holder(self) -> Holder | None:
        """Who holds it now; None if nobody does."""
        return find_holder(self.holder_path)

    def clear(self) -> None:
        """Start over: nothing is left of an earlier run. Only for the one who holds it."""
        self._check_held()
        try:
            # First, since what else there is means nothing without it. Its log goes after it: a journal without its
            # log might be taken for a whole one.
            for path in (self.journal_path, f"{self.journal_path}-wal", f"{self.journal_path}-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            for directory in (self.spool, self.partial, self.failed):
                shutil.rmtree(directory)
            self._make_inner_directories()
        except OSError as error:
            raise explain_os_error(error, self.path) from error

    def remove(self) -> None:
        """Remove it with all that is in it. Only for the one who holds it."""
        self._check_held()
        if not all(map(_is_own, os.listdir(self.path))):
            self._remove_own()
            return
        # Out of sight at once, so that there is never half a run, whatever ends this process.
        aside = os.path.join(os.path.dirname(self.path), f".{self.name}.removed.{os.getpid()}")
        try:
            os.rename(self.path, aside)
            self.release()
            with contextlib.suppress(FileNotFoundError):  # somebody else who cleans up is at it too
                shutil.rmtree(aside)
        except OSError as error:
            raise explain_os_error(error, self.path) from error

    def _remove_own(self) -> None:
        """Remove what a run has made, and nothing that somebody has put beside it."""
        try:
            for name in sorted(filter(_is_own, os.listdir(self.path)), key=lambda name: name == "holder"):
                path = os.path.join(self.path, name)
                (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)
        except OSError as error:
            raise explain_os_error(error, self.path) from error
        finally:
            self.release()

    def _refuse_what_is_no_run(self) -> None:
        """A directory that somebody uses for something else would be cleared of what is called as ours is."""
        names = set(os.listdir(self.path))
        if names & {"journal.sqlite", "holder"}:
            return
        # Where the first one to hold it was killed in time, there are only empty directories.
        if not all(map(_is_own, names)) or any(
            os.listdir(os.path.join(self.path, name)) for name in names & _OWN_DIRECTORIES
        ):
            raise JournalError(
                "is a directory with other things in it",
                path=self.path,
                advice="Name one that is empty or not there, as the directory of a run",
            )

    def _check_held(self) -> None:
        if self._hold is None:
            raise JournalError("is not held", path=self.path, advice="Hold it first")

    def _make_inner_directories(self) -> None:
        for directory in (self.spool, self.partial, self.failed):
            os.makedirs(directory, exist_ok=True)


def _is_own(name: str) -> bool:
    return name in _OWN_NAMES or is_of_one_who_wants(name)


def _make_with_gitignore(directory: str) -> None:
    """Make the directory of all runs, which no one wants in a repository."""
    if os.path.basename(directory) != RUNS_DIRECTORY:
        return
    os.makedirs(directory, exist_ok=True)
    try:
        with open(os.path.join(directory, ".gitignore"), "x", encoding="ascii") as file:
            file.write("*\n")
    except FileExistsError:
        pass
