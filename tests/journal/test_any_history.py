"""Whatever is recorded, committed and lost in whatever order: a journal is as of its last commit."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aliquot.journal import Journal

UNITS_PER_PIECE = 10
numbers = strategies.integers(0, 40)


class Content:
    """What a journal should know."""

    def __init__(self) -> None:
        self.pieces: dict[int, tuple[int, bytes | None]] = {}
        self.failures: dict[int, tuple[int, dict[str, Any]]] = {}
        self.state: dict[str, Any] | None = None
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.facts: dict[str, Any] = {}

    @classmethod
    def of(cls, journal: Journal) -> Content:
        content, restored = cls(), journal.restore()
        content.pieces = {piece.start: (piece.stop, piece.value) for piece in restored.pieces}
        assert all(piece.is_appended == (piece.value is None) for piece in restored.pieces)
        content.failures = {failure.start: (failure.stop, failure.about) for failure in restored.failures}
        content.state = restored.state
        content.events = list(journal.events())
        content.facts = {key: value for key in "abc" if (value := journal.get(key)) is not None}
        return content


class AnyHistory(RuleBasedStateMachine):
    @initialize()
    def make(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.lives = 0
        self.journal = Journal.create(str(self.directory / "0.sqlite"), {"command": "c"})
        self.committed, self.now = Content(), Content()

    @rule(number=numbers, length=strategies.integers(1, UNITS_PER_PIECE), value=strategies.binary(max_size=5000))
    def record_piece(self, number: int, length: int, value: bytes) -> None:
        start = number * UNITS_PER_PIECE
        if start not in self.now.pieces:
            self.journal.record_piece(start, start + length, value)
            self.now.pieces[start] = (start + length, value)

    @rule(data=strategies.data(), length_bytes=strategies.integers(0, 1 << 40))
    def record_appended(self, data: strategies.DataObject, length_bytes: int) -> None:
        starts = data.draw(
            strategies.lists(strategies.sampled_from(sorted(self.now.pieces)), unique=True)
            if self.now.pieces
            else strategies.just([])
        )
        self.now.state = {"out": {"bytes": length_bytes}}
        self.journal.record_appended(starts, self.now.state)
        for start in starts:
            self.now.pieces[start] = (self.now.pieces[start][0], None)

    @precondition(lambda self: self.now.pieces)
    @rule(data=strategies.data())
    def forget_piece(self, data: strategies.DataObject) -> None:
        start = data.draw(strategies.sampled_from(sorted(self.now.pieces)))
        self.journal.forget_pieces([start])
        del self.now.pieces[start]

    @rule(start=numbers, error=strategies.text(max_size=5))
    def record_failure(self, start: int, error: str) -> None:
        self.journal.record_failure(start, start + 1, {"error": error})
        self.now.failures[start] = (start + 1, {"error": error})

    @rule()
    def forget_failures(self) -> None:
        self.journal.forget_failures()
        self.now.failures = {}

    @rule(seconds=strategies.floats(0, 1e9), kind=strategies.sampled_from(["span", "report"]))
    def record_event(self, seconds: float, kind: str) -> None:
        self.journal.record_event(seconds, kind, {"worker": 3})
        self.now.events.append((seconds, kind, {"worker": 3}))

    @rule(key=strategies.sampled_from("abc"), value=strategies.integers() | strategies.text())
    def set(self, key: str, value: Any) -> None:
        self.journal.set(key, value)
        self.now.facts[key] = value

    @rule()
    def commit(self) -> None:
        self.journal.commit()
        self.committed = copy.deepcopy(self.now)

    @rule()
    def close_and_open(self) -> None:
        self.journal.close()
        self._go_on(self.journal.path)

    @rule()
    def crash(self) -> None:
        """A killed process leaves what is in its files now."""
        self.lives += 1
        path = str(self.directory / f"{self.lives}.sqlite")
        shutil.copyfile(self.journal.path, path)
        shutil.copyfile(f"{self.journal.path}-wal", f"{path}-wal")
        self.journal.close()
        self._go_on(path)

    @rule()
    def look(self) -> None:
        with Journal.open(self.journal.path, read_only=True) as reader:
            assert vars(Content.of(reader)) == vars(self.committed)

    def _go_on(self, path: str) -> None:
        self.journal = Journal.open(path)
        self.now = copy.deepcopy(self.committed)

    @invariant()
    def the_journal_knows_what_it_should(self) -> None:
        if hasattr(self, "journal"):
            assert vars(Content.of(self.journal)) == vars(self.now)

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.close()
            shutil.rmtree(self.directory)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=25, stateful_step_count=30)
