"""Rules that make something new of all pieces.

    partial output:   | length | section | length | section | ...       a length is 8 bytes, the lowest first

What was appended stays there until the end, so that any earlier length of the file is a state to go on from.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator

from aliquot.outputs.errors import OutputError
from aliquot.outputs.growing_file import GrowingFile, opened, remove_if_there
from aliquot.outputs.rules.compressed import check_is_text
from aliquot.outputs.rules.rule import Growing, Rule, State

_LENGTH_BYTES = 8


class Sections:
    """Pieces, or parts of them, one after another in a file, each with its length."""

    def __init__(self, file: GrowingFile) -> None:
        self.file = file

    def add_range(self, source: int, start: int, stop: int) -> None:
        """A section from a part of another file."""
        self.file.write((stop - start).to_bytes(_LENGTH_BYTES, "little"))
        self.file.copy(source, start, stop)

    def add(self, data: bytes) -> None:
        """A section of these bytes."""
        self.file.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """From where to where each section goes."""
        at = 0
        while at < self.file.size_bytes:
            length = os.pread(self.file.descriptor, _LENGTH_BYTES, at)
            start = at + _LENGTH_BYTES
            at = start + int.from_bytes(length, "little")
            if len(length) < _LENGTH_BYTES or at > self.file.size_bytes:
                advice = "It was changed since it was written: begin the run anew"
                raise OutputError(f"no section begins at byte {start - 8}", path=self.file.path, advice=advice)
            yield start, at

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of a section."""
        return read_range(self.file.descriptor, start, stop, self.file.path)


class Folded(Growing):
    """An output that keeps its pieces as sections, and folds them at the end."""

    reads_text = True  # what the pieces hold

    def __init__(self, path: str, state: State | None) -> None:
        self.path = path
        self.sections = Sections(GrowingFile(path, None if state is None else state["bytes"]))
        self._result_path = f"{path}.folded"
        remove_if_there(self._result_path)

    def append(self, piece: str) -> None:
        """Add it as one section or several."""
        with opened(piece) as (descriptor, size_bytes), self.sections.file.adding():
            if self.reads_text:
                check_is_text(descriptor, piece)
            self.add(piece, descriptor, size_bytes)

    def add(self, piece: str, descriptor: int, size_bytes: int) -> None:
        """As it is."""
        self.sections.add_range(descriptor, 0, size_bytes)

    @abstractmethod
    def fold(self, into: str, suffix: str) -> None:
        """Make one file of all sections, in order."""

    def sync(self) -> State:
        """How long the file of sections is."""
        self.sections.file.sync()
        return {"bytes": self.sections.file.size_bytes}

    def result(self, suffix: str) -> str:
        """Fold all sections; they stay, so that it can be done again."""
        try:
            self.fold(self._result_path, suffix)
        except BaseException:
            remove_if_there(self._result_path)
            raise
        return self._result_path

    def close(self) -> None:
        """Close the file of sections."""
        self.sections.file.close()

    def discard(self) -> None:
        """Remove the sections and what was made of them."""
        self.close()
        remove_if_there(self.path)
        remove_if_there(self._result_path)


class Value(ABC):
    """What pieces are folded to, in memory."""

    @abstractmethod
    def add(self, data: bytes) -> None:
        """Take a piece in, or raise a `ValueError` that says what is wrong with it; then the value is void."""

    @abstractmethod
    def written(self) -> bytes:
        """The value as a program would have written it."""


class ValueRule(Rule):
    """Folds in memory, while pieces come: a piece that does not fit is refused at once."""

    @abstractmethod
    def new_value(self) -> Value:
        """What no piece at all is folded to."""

    def grow(self, path: str, state: State | None) -> Growing:
        """With all sections that are there; the value is made when it is needed."""
        return FoldedValue(self, path, state)


class FoldedValue(Folded):
    """An output whose value is in memory, and whose pieces are on the disk for when it is lost."""

    def __init__(self, rule: ValueRule, path: str, state: State | None) -> None:
        super().__init__(path, state)
        self._rule = rule
        self._value: Value | None = None

    def append(self, piece: str) -> None:
        """Add it to both; a piece of nothing, or of blanks, is none."""
        with opened(piece) as (descriptor, size_bytes):
            data = read_range(descriptor, 0, size_bytes, piece)
        if not data.strip():
            return
        value = self._current()
        # Void until the piece is in both: after an error it is made again from the sections.
        self._value = None
        _take_in(value, data, piece)
        with self.sections.file.adding():
            self.sections.add(data)
        self._value = value

    def fold(self, into: str, suffix: str) -> None:
        """Write the value."""
        with open(into, "wb") as file:
            file.write(self._current().written())

    def _current(self) -> Value:
        if self._value is None:
            value = self._rule.new_value()
            for start, stop in self.sections:
                _take_in(value, self.sections.read(start, stop), self.path)
            self._value = value
        return self._value


def _take_in(value: Value, data: bytes, path: str) -> None:
    try:
        value.add(data)
    except ValueError as error:
        raise OutputError(str(error), path=path) from error


def read_range(descriptor: int, start: int, stop: int, path: str) -> bytes:
    """The bytes [start, stop) of a file, all of them."""
    parts = []
    while start < stop:
        parts.append(os.pread(descriptor, stop - start, start))
        if not parts[-1]:
            raise OutputError(f"ends at byte {start}, and had {stop} bytes before", path=path)
        start += len(parts[-1])
    return b"".join(parts)
