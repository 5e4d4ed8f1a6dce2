from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aliquot.errors import AliquotError, UsageError
from aliquot.journal import Journal, JournalError, Restored, RestoredFailure, RestoredPiece

IDENTITY = {"command": "bwa mem {reads}", "inputs": [], "number": 3}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "journal.sqlite")


def reopen(journal: Journal) -> Journal:
    journal.close()
    return Journal.open(journal.path)


def test_a_new_journal_knows_its_identity_and_nothing_else(path: str) -> None:
    """Now, and when it is opened again."""
    journal = Journal.create(path, IDENTITY)
    assert journal.identity == IDENTITY
    journal = reopen(journal)
    assert journal.identity == IDENTITY
    assert journal.restore() == Restored([], None, [])
    assert list(journal.events()) == []
    journal.close()


def test_pieces_come_back_in_the_order_of_units(path: str) -> None:
    """In whatever order they were recorded; empty values and large ones too."""
    large = bytes(range(256)) * 4096 * 5
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(100, 200, large)
        journal.record_piece(0, 10, b"")
        journal.record_piece(10, 100, b"\0\xff")
        journal.commit()
        with reopen(journal) as again:
            assert again.restore().pieces == [
                RestoredPiece(0, 10, b"", False),
                RestoredPiece(10, 100, b"\0\xff", False),
                RestoredPiece(100, 200, large, False),
            ]
            assert again.done_units() == 200


def test_nothing_counts_until_it_is_committed(path: str) -> None:
    """Not for a reader meanwhile, not after a close; but for the writer itself."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 1, b"a")
        journal.set("units", 10)
        journal.commit()
        journal.record_piece(1, 2, b"b")
        journal.set("units", 11)
        journal.record_failure(3, 4, {})
        journal.record_event(0.5, "worker", {})
        assert len(journal.restore().pieces) == 2
        with Journal.open(path, read_only=True) as reader:
            assert len(reader.restore().pieces) == 1
            assert reader.get("units") == 10
        with reopen(journal) as again:
            assert again.restore() == Restored([RestoredPiece(0, 1, b"a", False)], None, [])
            assert again.get("units") == 10
            assert list(again.events()) == []


def test_a_reader_sees_the_moment_at_which_it_was_opened(path: str) -> None:
    """The status of a run is watched by opening it again; nothing is left of the copies that are read."""
    with Journal.create(path, IDENTITY) as journal:
        for units in range(1, 4):
            journal.record_piece(units - 1, units, b"")
            journal.commit()
            with Journal.open(path, read_only=True) as reader:
                journal.record_piece(units + 10, units + 11, b"")
                assert reader.done_units() == units
                journal.forget_pieces([units + 10])
                copy = reader._copy
                assert copy is not None
                assert os.path.isdir(copy.name)
            assert not os.path.exists(copy.name)


def test_a_journal_that_nobody_writes_is_read_without_a_copy(path: str) -> None:
    """A list of many runs is quick; and there is nothing beside it afterwards."""
    Journal.create(path, IDENTITY).close()
    with Journal.open(path, read_only=True) as reader:
        assert reader._copy is None
        assert reader.identity == IDENTITY
        with Journal.open(path) as journal:
            journal.record_piece(0, 1, b"")
            journal.commit()
    assert os.listdir(os.path.dirname(path)) == ["journal.sqlite"]


def test_there_is_one_writer(path: str) -> None:
    """Another is refused at once."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 1, b"")
        with pytest.raises(JournalError, match=r"is in use by another process"):
            Journal.open(path)
        journal.commit()
        assert journal.done_units() == 1
    Journal.open(path).close()


def test_appended_pieces_have_no_value_but_a_state(path: str) -> None:
    """The last state is the one that counts."""
    with Journal.create(path, IDENTITY) as journal:
        for start in range(4):
            journal.record_piece(start, start + 1, b"spooled")
        journal.record_appended([0], {"sam": {"bytes": 10}})
        journal.record_appended([1, 3], {"sam": {"bytes": 30}})
        journal.commit()
        restored = journal.restore()
        assert restored.state == {"sam": {"bytes": 30}}
        assert [piece.is_appended for piece in restored.pieces] == [True, True, False, True]
        assert [piece.value for piece in restored.pieces] == [None, None, b"spooled", None]
        journal.record_appended([], {"sam": {"bytes": 31}})
        assert journal.restore().state == {"sam": {"bytes": 31}}


@pytest.mark.parametrize("change", [lambda journal, starts: journal.record_appended(starts, {}), Journal.forget_pieces])
def test_a_piece_that_was_never_recorded_cannot_be_appended_or_forgotten(path: str, change: Any) -> None:
    """What was recorded since the last commit is given up: it cannot be right."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 1, b"")
        journal.commit()
        journal.record_piece(1, 2, b"")
        with pytest.raises(JournalError, match=r"of 2 pieces .* only 1 are"):
            change(journal, [0, 7])
        with pytest.raises(JournalError, match="only 1 are"):
            journal.commit()
        with reopen(journal) as again:
            assert again.restore().pieces == [RestoredPiece(0, 1, b"", False)]


def test_a_piece_is_recorded_once(path: str) -> None:
    """A second time, an empty or an impossible one is refused; nothing else is lost by that."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 5, b"first")
        for start, stop in ((0, 5), (0, 3), (5, 5), (6, 5), (-1, 2)):
            with pytest.raises(UsageError, match="cannot be recorded"):
                journal.record_piece(start, stop, b"")
        journal.commit()
        assert journal.restore().pieces == [RestoredPiece(0, 5, b"first", False)]


def test_units_that_are_done_twice_are_noticed(path: str) -> None:
    """Pieces that overlap must never be joined."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 10, b"")
        journal.record_piece(8, 12, b"")
        with pytest.raises(JournalError, match="units 8 to 10 are recorded as done twice"):
            journal.restore()


def test_a_piece_whose_file_is_gone_can_be_forgotten(path: str) -> None:
    """And its units be done again, in other pieces."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 10, b"gone")
        journal.forget_pieces([0])
        journal.record_piece(4, 10, b"again")
        assert journal.restore().pieces == [RestoredPiece(4, 10, b"again", False)]


def test_numbers_of_numpy_are_numbers(path: str) -> None:
    """SQLite would store them as bytes."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(np.int64(5), np.int32(7), b"")  # type: ignore[arg-type]  # that is what is tested
        journal.record_appended(np.array([5]), {})  # type: ignore[arg-type]
        assert journal.restore().pieces == [RestoredPiece(5, 7, None, True)]


def test_failures_are_kept_replaced_and_forgotten(path: str) -> None:
    """The last word on a unit counts."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_failure(7, 8, {"error": "first"})
        journal.record_failure(3, 5, {"error": "exit 1"})
        journal.record_failure(7, 8, {"error": "second"})
        assert journal.restore().failures == [
            RestoredFailure(3, 5, {"error": "exit 1"}),
            RestoredFailure(7, 8, {"error": "second"}),
        ]
        assert journal.failed_units() == 3
        journal.forget_failures()
        assert journal.restore().failures == []


def test_facts_are_json(path: str) -> None:
    """The last one counts; what was never noted is what the caller says."""
    with Journal.create(path, IDENTITY) as journal:
        assert journal.get("status") is None
        assert journal.get("status", "new") == "new"
        values: list[Any] = ["running", 1.5, None, [1, {"a": "ü"}], {}]
        for value in values:
            journal.set("status", value)
            assert journal.get("status", "default") == value


def test_names_that_are_no_utf8_are_kept(path: str) -> None:
    """A file may have any name, and a program may write anything to its standard error."""
    odd = b"caf\xe9".decode(errors="surrogateescape")
    with Journal.create(path, {"command": odd}) as journal:
        journal.set(odd.encode(errors="replace").decode(), [odd])
        journal.record_event(1, "failed", {"error": odd})
        journal.record_failure(0, 1, {"error": odd})
        assert journal.identity == {"command": odd}
        assert list(journal.events()) == [(1, "failed", {"error": odd})]
        assert journal.restore().failures[0].about == {"error": odd}


def test_events_come_back_in_the_order_in_which_they_were_recorded(path: str) -> None:
    """Whatever their times."""
    events: list[tuple[float, str, dict[str, Any]]] = [
        (0.0, "sitting", {"cores": 2}),
        (2.5, "span", {"worker": "a", "start": 0}),
        (1.5, "report", {"worker": "a", "busy_seconds": 0.1}),
    ]
    with Journal.create(path, IDENTITY) as journal:
        for event in events:
            journal.record_event(*event)
        journal.commit()
        with reopen(journal) as again:
            assert list(again.events()) == events


def test_more_events_than_are_read_at_once(path: str) -> None:
    """And one who stops reading them does not keep the file open."""
    with Journal.create(path, IDENTITY) as journal:
        for number in range(12_345):
            journal.record_event(number, "report", {"number": number})
        journal.commit()
        assert [about["number"] for _, _, about in journal.events()] == list(range(12_345))
        events = journal.events()
        next(events)
        reopen(journal).close()
        assert next(events)[0] == 1


def test_an_identity_can_be_replaced(path: str) -> None:
    """By that of a user who resumes although something changed."""
    with Journal.create(path, IDENTITY) as journal:
        journal.replace_identity({"command": "other"})
        journal.commit()
        with reopen(journal) as again:
            assert again.identity == {"command": "other"}


def test_a_journal_is_never_written_over(path: str) -> None:
    """What is in it may be days of work."""
    with Journal.create(path, IDENTITY) as journal:
        journal.record_piece(0, 1, b"")
        journal.commit()
    with pytest.raises(JournalError, match=r"there is a file already.*--fresh"):
        Journal.create(path, {})
    with Journal.open(path) as again:
        assert again.done_units() == 1


def test_what_a_killed_process_left_does_not_get_into_a_new_journal(path: str) -> None:
    """Neither half a journal nor the log of a removed one, which SQLite would take for the new one's."""
    with Journal.create(path, IDENTITY) as old:
        old.record_piece(0, 1, b"old")
        old.commit()
        log = Path(f"{path}-wal").read_bytes()
    Path(path).unlink()
    Path(f"{path}-wal").write_bytes(log)
    Path(f"{path}.new").write_bytes(b"half")
    with Journal.create(path, IDENTITY) as journal:
        assert journal.done_units() == 0
    assert [entry.name for entry in Path(path).parent.iterdir()] == ["journal.sqlite"]


def test_a_closed_journal_is_one_file(path: str) -> None:
    """To be copied, sent, or looked at with any tool for SQLite."""
    journal = Journal.create(path, IDENTITY)
    journal.commit()
    journal.close()
    journal.close()
    assert [entry.name for entry in Path(path).parent.iterdir()] == ["journal.sqlite"]


def test_a_reader_cannot_write(path: str) -> None:
    """Said when it tries."""
    Journal.create(path, IDENTITY).close()
    with Journal.open(path, read_only=True) as reader:
        writes: list[Callable[[], None]] = [
            lambda: reader.set("a", 1),
            lambda: reader.record_appended([0], {}),
            reader.commit,
        ]
        for write in writes:
            with pytest.raises(JournalError, match="to be read only"):
                write()


@pytest.mark.parametrize("name", ["with space?.sqlite", "100%#.sqlite", "ü&mode=ro.sqlite", b"caf\xe9"])
def test_a_journal_may_have_any_name(tmp_path: Path, name: str | bytes) -> None:
    """Also one that means something in an address of SQLite."""
    text = name.decode(errors="surrogateescape") if isinstance(name, bytes) else name
    path = f"{tmp_path}/{text}"
    with Journal.create(path, IDENTITY) as journal:
        assert [entry for entry in (entry.name for entry in tmp_path.iterdir()) if "-" not in entry] == [text]
        assert journal.identity == IDENTITY


def test_errors_travel() -> None:
    """Between processes, as all errors of aliquot do."""
    error = JournalError("is empty", path="a", advice="Do this")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path) == ("a: is empty. Do this", "a")
    assert isinstance(again, AliquotError)
