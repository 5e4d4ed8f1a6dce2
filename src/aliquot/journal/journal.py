from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.journal.connecting import connect_to_read, connect_to_write
from aliquot.journal.errors import JournalError
from aliquot.journal.explaining import explain
from aliquot.journal.json_text import from_json, to_json
from aliquot.journal.schema import make_journal

if TYPE_CHECKING:
    import tempfile

_EVENTS_AT_ONCE = 5000


class RestoredPiece(NamedTuple):
    """The units [start, stop) are done; ``value`` is None where they are in the partial outputs."""

    start: int
    stop: int
    value: bytes | None
    is_appended: bool


class RestoredFailure(NamedTuple):
    """The units [start, stop) failed."""

    start: int
    stop: int
    about: dict[str, Any]


class Restored(NamedTuple):
    """What a journal knows of a run. Pieces and failures are in the order of units.

    ``state`` is that of the partial outputs when the last of the appended pieces were in them; None before.
    """

    pieces: list[RestoredPiece]
    state: dict[str, Any] | None
    failures: list[RestoredFailure]


class Journal:
    """What is done, what failed and what happened in a run: one file, one writer, any number of readers.

    Nothing counts until `commit`: what was recorded since is lost together, never in part. After an error while
    writing, the file is as of the last commit and takes no more, since what follows would build on what was lost.
    """

    def __init__(
        self,
        path: str,
        connection: sqlite3.Connection,
        *,
        way: str = "exclusive",
        read_only: bool = False,
        copy: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.path = path
        # How the writer keeps others out: "exclusive" or, where the file system has no locks, "unlocked".
        self.way = way
        self._connection = connection
        self._cursor = connection.cursor()
        self._copy = copy
        # Why it takes no more.
        self._failure: JournalError | None = None
        if read_only:
            self._failure = JournalError("was opened to be read only", path=path, advice="Open it to write")

    @classmethod
    def create(cls, path: str, identity: dict[str, Any]) -> Journal:
        """Make a new journal, where there is none."""
        make_journal(path, identity)
        return cls.open(path)

    @classmethod
    def open(cls, path: str, *, read_only: bool = False) -> Journal:
        """Open a journal as of its last commit.

        With ``read_only`` it may be one that another process writes, on whatever machine; what that commits later is
        seen by opening it again.
        """
        if read_only:
            connection, copy = connect_to_read(path)
            return cls(path, connection, read_only=True, copy=copy)
        connection, way = connect_to_write(path)
        return cls(path, connection, way=way)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def identity(self) -> dict[str, Any]:
        """What the run is made of, to be compared with what it would be made of now."""
        identity: dict[str, Any] = from_json(self._read("SELECT identity FROM run")[0][0])
        return identity

    @property
    def state(self) -> dict[str, Any] | None:
        """That of the partial outputs, when the last of the appended pieces were in them; None before."""
        ((state,),) = self._read("SELECT state FROM run")
        return None if state is None else from_json(state)

    def replace_identity(self, identity: dict[str, Any]) -> None:
        """The user resumes although something differs: from now on this is what it is made of."""
        self._write("UPDATE run SET identity = ?", (to_json(identity),))

    def record_piece(self, start: int, stop: int, value: bytes) -> None:
        """The units [start, stop) are done, with this result."""
        self._write("INSERT INTO pieces VALUES (?, ?, ?)", (int(start), int(stop), value))

    def record_appended(self, starts: Sequence[int], state: dict[str, Any]) -> None:
        """The pieces that begin at these units are in the partial outputs, whose state is this."""
        self._write_for_each("UPDATE pieces SET value = NULL WHERE start = ?", starts)
        self._write("UPDATE run SET state = ?", (to_json(state),))

    def forget_pieces(self, starts: Sequence[int]) -> None:
        """The results of these pieces are no longer there: their units are to be done again."""
        self._write_for_each("DELETE FROM pieces WHERE start = ?", starts)

    def record_failure(self, start: int, stop: int, about: dict[str, Any]) -> None:
        """The units [start, stop) failed; what is known of an earlier failure at the same unit is replaced."""
        self._write("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", (int(start), int(stop), to_json(about)))

    def forget_failures(self) -> None:
        """What failed is to be tried again."""
        self._write("DELETE FROM failures", ())

    def record_event(self, seconds: float, kind: str, about: dict[str, Any]) -> None:
        """Something happened that reports tell of."""
        self._write("INSERT INTO events (seconds, kind, about) VALUES (?, ?, ?)", (seconds, kind, to_json(about)))

    def set(self, key: str, value: Any) -> None:
        """Note a fact, as JSON."""
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", (key, to_json(value)))

    def get(self, key: str, default: Any = None) -> Any:
        """The fact that was noted last."""
        found = self._read("SELECT value FROM facts WHERE key = ?", (key,))
        return from_json(found[0][0]) if found else default

    def commit(self) -> None:
        """From now on all that was recorded counts."""
        if self._failure is not None:
            raise self._failure
        try:
            self._connection.commit()
        except sqlite3.Error as error:
            raise self._fail(error) from error

    def roll_back(self) -> None:
        """What was recorded since the last commit does not count."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()

    def restore(self) -> Restored:
        """What is known of the run. Refuses a journal in which a unit is done twice."""
        with self._as_of_one_moment():
            pieces = [
                RestoredPiece(start, stop, value, value is None)
                for start, stop, value in self._read("SELECT start, stop, value FROM pieces ORDER BY start")
            ]
            state = self.state
            failures = [
                RestoredFailure(start, stop, from_json(about))
                for start, stop, about in self._read("SELECT start, stop, about FROM failures ORDER BY start")
            ]
        at = 0
        for piece in pieces:
            if piece.start < at:
                raise JournalError(
                    f"the units {piece.start} to {min(at, piece.stop)} are recorded as done twice",
                    path=self.path,
                    advice="This should not happen: please tell us how it did, and start over with --fresh",
                )
            at = piece.stop
        return Restored(pieces, state, failures)

    def done_units(self) -> int:
        """How many units are done."""
        ((units,),) = self._read("SELECT COALESCE(SUM(stop - start), 0) FROM pieces")
        return int(units)

    def failed_units(self) -> int:
        """How many units failed."""
        ((units,),) = self._read("SELECT COALESCE(SUM(stop - start), 0) FROM failures")
        return int(units)

    def events(self) -> Iterator[tuple[float, str, dict[str, Any]]]:
        """All events in the order in which they were recorded: seconds, kind, about."""
        at = 0
        # In parts: a statement that nobody reads to its end would keep the file open beyond `close`.
        while rows := self._read(
            "SELECT number, seconds, kind, about FROM events WHERE number > ? ORDER BY number LIMIT ?",
            (at, _EVENTS_AT_ONCE),
        ):
            at = rows[-1][0]
            for _, seconds, kind, about in rows:
                yield seconds, kind, from_json(about)

    def close(self) -> None:
        """Give up what was not committed, and close the file. May be called again."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()
        with contextlib.suppress(sqlite3.Error):
            # Its last statement would keep the file open, and locked.
            self._cursor.close()
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _write(self, statement: str, values: Sequence[Any]) -> None:
        """Execute in the open transaction, or begin one."""
        if self._failure is not None:
            raise self._failure
        try:
            self._cursor.execute(statement, values)
        except sqlite3.IntegrityError as error:
            raise UsageError(f"{self.path}: units [{values[0]}, {values[1]}) cannot be recorded: {error}") from error
        except sqlite3.Error as error:
            raise self._fail(error) from error

    def _write_for_each(self, statement: str, starts: Sequence[int]) -> None:
        """Change the pieces that begin at these units, all of which there must be."""
        if self._failure is not None:
            raise self._failure
        if not starts:
            return
        try:
            self._cursor.executemany(statement, [(int(start),) for start in starts])
        except sqlite3.Error as error:
            raise self._fail(error) from error
        known = self._cursor.rowcount
        if known != len(starts):
            self._connection.rollback()
            self._failure = JournalError(
                f"of {len(starts)} pieces that are said to be recorded only {known} are",
                path=self.path,
                advice="This should not happen: please tell us how it did. Run the same command again to resume",
            )
            raise self._failure

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    def _fail(self, error: sqlite3.Error) -> JournalError:
        with contextlib.suppress(sqlite3.Error):
            self._connection.rollback()
        self._failure = explain(error, self.path)
        return self._failure

    @contextlib.contextmanager
    def _as_of_one_moment(self) -> Iterator[None]:
        """Several reads see the same, also while another process writes."""
        if self._connection.in_transaction:
            yield
            return
        try:
            self._connection.execute("BEGIN")
            yield
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
