"""Files that are no journals, and journals that were harmed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from aliquot.journal import Journal, JournalError


def make_journal(path: Path, pieces: int = 2000) -> None:
    with Journal.create(str(path), {}) as journal:
        for start in range(pieces):
            journal.record_piece(start, start + 1, b"x" * 100)
        journal.commit()


def record_on_and_on(journal: Journal) -> None:
    """Pieces of one unit each, seven to a commit."""
    for start in range(100_000):
        journal.record_piece(start, start + 1, b"x" * 1000)
        if start % 7 == 6:
            journal.commit()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"@SQ\tSN:chr1\n" * 1000, "is not a journal of aliquot"),
        (b"SQLite format 3\0", "is not a journal of aliquot"),
        (b"SQLite format 3\0" + b"\0" * 5000, "is not a journal of aliquot"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: bytes, message: str, read_only: bool) -> None:
    """Names the file and what to do, and leaves it as it is."""
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=rf"journal\.sqlite: {message}.*--fresh"):
        Journal.open(str(path), read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("read_only", [False, True])
def test_where_there_is_no_journal_none_is_made(tmp_path: Path, read_only: bool) -> None:
    """Says where to look."""
    path = tmp_path / "journal.sqlite"
    with pytest.raises(JournalError, match=r"there is no journal.*aliquot runs"):
        Journal.open(str(path), read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept", [4096, 5000, 0.5, 0.9, -1])
def test_a_journal_that_was_cut_off_is_refused(tmp_path: Path, kept: float) -> None:
    """Nothing that is built on it could be right."""
    path = tmp_path / "journal.sqlite"
    make_journal(path)
    size_bytes = path.stat().st_size
    os.truncate(path, int(size_bytes * kept if 0 < kept < 1 else kept if kept > 0 else size_bytes + kept))
    with pytest.raises(JournalError, match=r"is damaged or cut off.*--fresh"):
        Journal.open(str(path))


def test_a_reader_notices_that_a_journal_was_cut_off(tmp_path: Path) -> None:
    """When it opens it, or when it reads."""
    path = tmp_path / "journal.sqlite"
    make_journal(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(JournalError, match=r"is damaged or cut off"), Journal.open(str(path), read_only=True) as reader:
        reader.restore()


def test_a_journal_that_was_written_over_in_the_middle_is_refused(tmp_path: Path) -> None:
    """Before anything is added to it."""
    path = tmp_path / "journal.sqlite"
    make_journal(path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"is damaged or cut off"):
        Journal.open(str(path))


def test_a_log_that_was_cut_off_costs_the_last_commits_only(tmp_path: Path) -> None:
    """As when the machine went down: what is left is a beginning of what was committed."""
    path = tmp_path / "journal.sqlite"
    other = tmp_path / "other.sqlite"
    with Journal.create(str(path), {}) as journal:
        for start in range(50):
            journal.record_piece(start, start + 1, b"x" * 1000)
            journal.commit()
        content, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    counts = []
    for kept in range(0, len(log), 5000):
        other.write_bytes(content)
        Path(f"{other}-wal").write_bytes(log[:kept])
        with Journal.open(str(other)) as again:
            starts = [piece.start for piece in again.restore().pieces]
        assert starts == list(range(len(starts)))
        counts.append(len(starts))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] >= 48


def test_a_directory_is_no_journal(tmp_path: Path) -> None:
    """Neither to open nor to make one in its place."""
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal.open(str(tmp_path))
    with pytest.raises(JournalError, match="there is a file already"):
        Journal.create(str(tmp_path), {})


def test_a_journal_in_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(JournalError, match=r"journal.sqlite: cannot be .*Check that you may write to .*gone"):
        Journal.create(str(tmp_path / "gone" / "journal.sqlite"), {})


def test_a_full_disk_is_said_and_costs_only_what_was_not_committed(tmp_path: Path) -> None:
    """Caused by SQLite's own limit, which gives the error of a full disk."""
    path = str(tmp_path / "journal.sqlite")
    with Journal.create(path, {}) as journal:
        journal._connection.execute("PRAGMA max_page_count = 100")
        with pytest.raises(JournalError, match=r"journal\.sqlite: cannot be written, the disk .*is full.*Make space"):
            record_on_and_on(journal)
        committed = journal.done_units()
        assert committed > 100
        assert committed % 7 == 0
        writes: list[Callable[[], None]] = [
            lambda: journal.record_piece(5000, 5001, b""),
            lambda: journal.set("a", 1),
            journal.commit,
        ]
        for write in writes:
            with pytest.raises(JournalError, match="is full"):
                write()
    with Journal.open(path) as again:
        assert again.done_units() == committed
        again.record_piece(committed, 100_000, b"")
        again.commit()
        assert again.done_units() == 100_000


_AS_NOBODY = """
import os, sys
from aliquot.journal import Journal, JournalError
sys.dont_write_bytecode = True
from aliquot.journal import RunDirectory
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
directory = sys.argv[1]
with Journal.open(f"{directory}/journal.sqlite", read_only=True) as reader:
    print(reader.done_units())
for act in (
    lambda: Journal.open(f"{directory}/journal.sqlite"),
    lambda: Journal.create(f"{directory}/new.sqlite", {}),
    lambda: RunDirectory(f"{directory}/run").acquire(),
):
    try:
        act()
    except JournalError as error:
        print(error)
"""


def test_a_directory_that_cannot_be_written_is_said() -> None:
    """By a process that is not root; the journal in it can still be read."""
    # Not below the directory of pytest, which each of its processes closes to other users.
    with tempfile.TemporaryDirectory() as directory:
        make_journal(Path(directory, "journal.sqlite"), 3)
        os.chmod(os.path.join(directory, "journal.sqlite"), 0o444)
        os.chmod(directory, 0o555)
        told = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, directory], capture_output=True, text=True, timeout=60, check=False
        )
        os.chmod(directory, 0o755)
    lines = told.stdout.splitlines()
    assert lines[:1] == ["3"], told.stderr
    assert len(lines) == 4, told.stderr
    for line in lines[1:]:
        assert directory in line
        assert "Check that you may write to" in line
        assert "--run-dir" in line
