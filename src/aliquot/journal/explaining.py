"""What SQLite and the system say, as errors that name the file and what to do."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3

from aliquot.journal.errors import JournalError
from aliquot.quantities import format_bytes

_AGAIN = "Then run the same command again: what was committed is kept"


def explain(error: sqlite3.Error, path: str) -> JournalError:
    """Turn an error of SQLite into one for people."""
    match primary_code(error):
        case sqlite3.SQLITE_FULL:
            return _disk_is_full(path)
        case sqlite3.SQLITE_NOTADB:
            return JournalError("is not a journal of aliquot", path=path, advice="Start over with --fresh")
        case sqlite3.SQLITE_CORRUPT:
            return damaged(path, str(error))
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return JournalError(
                "is in use by another process",
                path=path,
                advice="Wait until it has ended; 'fuser' with the name of the file says which one it is",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return JournalError(f"cannot be opened or written ({error})", path=path, advice=_permission_advice(path))
        case _:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            return JournalError(
                f"cannot be read or written ({error}, {name})",
                path=path,
                advice=f"Check the disk, its free space and your quota, or use another with --run-dir. {_AGAIN}",
            )


def explain_os_error(error: OSError, path: str) -> JournalError:
    """Turn an error of the system into one that says what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_is_full(path)
    return JournalError(f"cannot be made or written: {error.strerror}", path=path, advice=_permission_advice(path))


def damaged(path: str, how: str) -> JournalError:
    """A journal that was cut off or written over."""
    return JournalError(
        f"is damaged or cut off ({how})",
        path=path,
        advice="What was done cannot be known from it: start over with --fresh",
    )


def may_not_be_written(path: str) -> JournalError:
    """A file or a directory of another user, or a disk that can only be read."""
    return JournalError("you may not write to it or to its directory", path=path, advice=_permission_advice(path))


def primary_code(error: sqlite3.Error) -> int:
    """The kind of an error, without its details; 0 where it did not come from SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _disk_is_full(path: str) -> JournalError:
    directory = os.path.dirname(os.path.abspath(path))
    try:
        left = f", {format_bytes(shutil.disk_usage(directory).free)} are free"
    except OSError:
        left = ""
    return JournalError(
        f"cannot be written, the disk or your quota is full{left}", path=path, advice=f"Make space. {_AGAIN}"
    )


def _permission_advice(path: str) -> str:
    directory = os.path.dirname(os.path.abspath(path))
    return f"Check that you may write to {directory}, or use another directory with --run-dir"
