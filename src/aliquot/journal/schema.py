"""The tables of a journal, and making a new one.

``user_version`` is the version of the schema, to be raised with each change that an earlier aliquot cannot read.
Only what SQLite 3.26 knows is used: it is what the clusters of today have.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Any

from aliquot.journal.errors import JournalError
from aliquot.journal.explaining import explain, explain_os_error
from aliquot.journal.json_text import to_json
from aliquot.journal.locating import as_uri

VERSION = 1
# "alqt", by which a journal is told from the databases of other programs.
APPLICATION_ID = 0x616C7174

TABLES = (
    # One row. The state is that of the partial outputs; NULL before anything was appended.
    "CREATE TABLE run (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), identity TEXT NOT NULL, state TEXT)",
    "CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # A value is NULL once its piece is in the partial outputs.
    "CREATE TABLE pieces (start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, value BLOB,"
    " CHECK (0 <= start AND start < stop))",
    "CREATE TABLE failures (start INTEGER PRIMARY KEY, stop INTEGER NOT NULL, about TEXT NOT NULL,"
    " CHECK (0 <= start AND start < stop))",
    "CREATE TABLE events (number INTEGER PRIMARY KEY, seconds REAL NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL)",
)


def make_journal(path: str, identity: dict[str, Any]) -> None:
    """Make an empty journal, whole or not at all. Refuses to write over one."""
    if os.path.lexists(path):
        raise JournalError(
            "there is a file already", path=path, advice="Open it to resume the run, or start over with --fresh"
        )
    unfinished = f"{path}.new"
    try:
        # Of a process that was killed. A log beside a journal that is not its own would be taken for part of it.
        for old in (unfinished, f"{path}-wal", f"{path}-shm", f"{path}-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(old)
        _write(unfinished, identity)
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(unfinished, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        if isinstance(error, OSError):
            raise explain_os_error(error, path) from error
        if isinstance(error, sqlite3.Error):
            raise explain(error, path) from error
        raise


def _write(path: str, identity: dict[str, Any]) -> None:
    """Nobody else knows the file yet, so that neither locks nor a log of changes are needed."""
    with contextlib.closing(sqlite3.connect(as_uri(path, "rwc", vfs="unix-none"), uri=True)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for table in TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO run (only_row, identity) VALUES (1, ?)", (to_json(identity),))
        # Last, since what has no version is not complete.
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.commit()


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Refuse what is not a journal, or one of another version. Reads, and changes nothing."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise JournalError(
            "is a database of another program, not a journal of aliquot",
            path=path,
            advice="Name another run directory with --run-dir",
        )
    if version > VERSION:
        raise JournalError(
            f"was written by a newer aliquot (journal version {version}; this one knows {VERSION})",
            path=path,
            advice="Resume it with that aliquot or update this one; or start over with --fresh",
        )
    if version < VERSION:
        raise JournalError(
            f"was written by an older aliquot (journal version {version}; this one knows {VERSION})",
            path=path,
            advice="Resume it with that aliquot, or start over with --fresh",
        )
