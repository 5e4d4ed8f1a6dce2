"""Connections to a journal, on any file system.

    to write   exclusive   one writer, with a log of changes (WAL) whose index is in its own memory
               unlocked    the same, where the file system has no locks; that nobody else writes is the holder's doing
    to read    as it is    where there is no log, so that nobody writes
               a copy      where there is one

SQLite could share a log between a writer and its readers, through mapped memory. That memory is not the same on two
machines, and there run directories are: a job writes on one, its user looks from another. So nothing is shared here:
a reader locks nothing, waits for nobody and keeps nobody waiting.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import time
from typing import TYPE_CHECKING

from aliquot.journal.errors import JournalError
from aliquot.journal.explaining import damaged, explain, explain_os_error, may_not_be_written, primary_code
from aliquot.journal.locating import as_uri
from aliquot.journal.schema import check_schema

if TYPE_CHECKING:
    import tempfile

_COPY_TRIES = 20
_PAUSE_SECONDS = 0.05
_WAL_HEADER_BYTES = 32
# A large transaction makes the log as large; afterwards it is cut to this.
_WAL_KEPT_BYTES = 8 << 20


def connect_to_write(path: str) -> tuple[sqlite3.Connection, str]:
    """Connect the only writer; and say which way it was, "exclusive" or "unlocked"."""
    _check_there_is_one(path)
    try:
        return _open_to_write(path, vfs=None), "exclusive"
    except sqlite3.Error as error:
        directory = os.path.dirname(os.path.abspath(path))
        # Which SQLite notices by the strangest signs, since it opens the file all the same.
        if not os.access(path, os.W_OK) or not os.access(directory, os.W_OK):
            raise may_not_be_written(path) from error
        if not _may_be_about_locks(error) or do_locks_work(directory):
            raise explain(error, path) from error
    try:
        return _open_to_write(path, vfs="unix-none"), "unlocked"
    except sqlite3.Error as error:
        raise explain(error, path) from error


def connect_to_read(path: str) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str] | None]:
    """Connect a reader; and the directory of the copy that it reads, to be removed with it, if it does."""
    _check_there_is_one(path)
    log = f"{path}-wal"
    if not os.path.exists(log):
        try:
            connection = _open_to_read(as_uri(path, "ro", immutable=True), path)
        except sqlite3.Error as error:
            raise explain(error, path) from error
        # One who begins to write now writes to a log at first, for longer than a reader reads.
        if not os.path.exists(log):
            return connection, None
        connection.close()
    return _open_a_copy(path)


def do_locks_work(directory: str) -> bool:
    """Try, on a file that nobody else knows. Where none can be made, locks are not what is missing."""
    try:
        import tempfile  # slow to import, and not needed where all is well

        with tempfile.TemporaryFile(dir=directory) as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
    except OSError:
        pass
    return True


def _check_there_is_one(path: str) -> None:
    """SQLite takes an empty file for an empty database."""
    try:
        size_bytes = os.stat(path).st_size
    except FileNotFoundError:
        raise JournalError(
            "there is no journal",
            path=path,
            advice="Check the name of the run; 'aliquot runs' lists all. One that was ended before anything was "
            "recorded is begun by the same command or call again",
        ) from None
    except OSError as error:
        raise explain_os_error(error, path) from error
    if size_bytes == 0:
        raise JournalError("is empty, so it is no journal of aliquot", path=path, advice="Start over with --fresh")


def _open_to_write(path: str, *, vfs: str | None) -> sqlite3.Connection:
    connection = _connect(as_uri(path, "rw", vfs=vfs))
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        check_schema(connection, path)
        _check_undamaged(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        # What a crash of the machine takes from the end of the log is done again.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        # SQLite opens a file that may only be read without a word.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_read(uri: str, path: str) -> sqlite3.Connection:
    connection = _connect(uri)
    try:
        check_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_a_copy(path: str) -> tuple[sqlite3.Connection, tempfile.TemporaryDirectory[str]]:
    import tempfile

    try:
        directory = tempfile.TemporaryDirectory(prefix="aliquot-")
    except OSError as error:
        raise _no_place_for_a_copy(error, path) from error
    copy = os.path.join(directory.name, "journal.sqlite")
    try:
        _copy_as_of_one_moment(path, copy)
        return _open_to_read(as_uri(copy, "rw"), path), directory
    except BaseException as error:
        directory.cleanup()
        if isinstance(error, OSError):
            raise _no_place_for_a_copy(error, path) from error
        if isinstance(error, sqlite3.Error):
            raise explain(error, path) from error
        raise


def _copy_as_of_one_moment(path: str, copy: str) -> None:
    """Copy a journal that may be written meanwhile.

    The journal first, then its log. Whatever is moved from the log to the journal between the two is in the log as
    well, until the log begins anew. That it did not is seen by its header, which is another each time.

    A writer in this very process loses its lock by that, as the system has it; the run directory is held all the same.
    """
    log, copied_log = f"{path}-wal", f"{copy}-wal"
    for _ in range(_COPY_TRIES):
        before = _read_header(log)
        shutil.copyfile(path, copy)
        try:
            shutil.copyfile(log, copied_log)
        except FileNotFoundError:
            open(copied_log, "wb").close()
        if _read_header(log) == before == _read_header(copied_log):
            return
        time.sleep(_PAUSE_SECONDS)
    raise JournalError("is written too quickly to be read", path=path, advice="Try again")


def _no_place_for_a_copy(error: OSError, path: str) -> JournalError:
    import tempfile

    return JournalError(
        f"cannot be copied to {tempfile.gettempdir()} to be read: {error.strerror}",
        path=path,
        advice="Check that you may read it, and that there is space; $TMPDIR names another place for the copy",
    )


def _check_undamaged(connection: sqlite3.Connection, path: str) -> None:
    """Before anything is built on it; 2 ms for each MB."""
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise damaged(path, verdict)
    # SQLite takes what is missing of the last page for zeros. Amid a crash there is a log that has all of it.
    ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
    if os.path.getsize(path) % page_bytes and not _read_header(f"{path}-wal"):
        raise damaged(path, "the last page is not whole")


def _read_header(log: str) -> bytes:
    """Nothing where there is no log."""
    try:
        with open(log, "rb") as file:
            return file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _connect(uri: str) -> sqlite3.Connection:
    # One thread at a time is all that is needed: a run may be driven from another thread than it was begun in.
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level="IMMEDIATE", check_same_thread=False)


def _may_be_about_locks(error: sqlite3.Error) -> bool:
    """SQLite takes some of the system's refusals to lock for another's lock."""
    if primary_code(error) == sqlite3.SQLITE_IOERR:
        return "LOCK" in getattr(error, "sqlite_errorname", "")
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL)
