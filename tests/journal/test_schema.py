from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aliquot.journal import Journal, JournalError
from aliquot.journal.schema import VERSION

GOLDEN = Path(__file__).with_name("schema.sql")


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "journal.sqlite")
    with Journal.create(path, {}) as journal:
        journal.record_piece(0, 5, b"kept")
        journal.commit()
    return path


def _set(path: str, pragma: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {pragma}")


def test_the_schema_is_the_one_that_was_agreed_on(path: str) -> None:
    """A change here is a change of a file format: raise VERSION, and say what becomes of older journals."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid") if sql]
        ((version,),) = connection.execute("PRAGMA user_version")
    assert "\n".join([f"PRAGMA user_version = {version};", *(f"{table};" for table in tables), ""]) == (
        GOLDEN.read_text()
    )


def test_a_journal_of_a_newer_aliquot_is_refused_and_left_as_it_is(path: str) -> None:
    """With the versions and what to do; by readers too."""
    _set(path, f"user_version = {VERSION + 1}")
    before = Path(path).read_bytes()
    for read_only in (False, True):
        with pytest.raises(JournalError, match=rf"newer aliquot \(journal version {VERSION + 1}.*update this one"):
            Journal.open(path, read_only=read_only)
    assert Path(path).read_bytes() == before
    _set(path, f"user_version = {VERSION}")
    with Journal.open(path) as journal:
        assert journal.done_units() == 5


def test_a_journal_of_an_older_aliquot_is_refused(path: str) -> None:
    """There is none before the first version; one day there will be."""
    _set(path, f"user_version = {VERSION - 1}")
    with pytest.raises(JournalError, match=r"older aliquot .*--fresh"):
        Journal.open(path)


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """And is not touched."""
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE visits (place TEXT)")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(JournalError, match=r"database of another program.*--run-dir"):
            Journal.open(str(path), read_only=read_only)
    assert path.read_bytes() == before
