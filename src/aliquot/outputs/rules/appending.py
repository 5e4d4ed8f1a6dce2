"""Rules that put pieces one after another, less a header in all but the first."""

from __future__ import annotations

import os
from abc import abstractmethod

from aliquot.outputs.copying import is_same_start
from aliquot.outputs.growing_file import GrowingFile, opened
from aliquot.outputs.rules.compressed import check_is_text
from aliquot.outputs.rules.rule import Growing, Rule, State


class AppendingRule(Rule):
    """Pieces one after another; bytes are copied by the kernel and never looked at here."""

    def grow(self, path: str, state: State | None) -> Growing:
        """As it is said in the state: how long the file is."""
        return Appended(GrowingFile(path, None if state is None else state["bytes"]))


class HeadedRule(Rule):
    r"""As appending, but a header is kept of the first piece only that is not empty; it must be the same in all.

    A last line that lacks its newline gets one when lines of the next piece follow: nothing else could keep two lines
    apart, and a program that writes newlines only *between* lines would have written it.
    """

    @abstractmethod
    def header_end(self, descriptor: int, size_bytes: int, piece: str) -> int:
        """The byte behind the header; 0 where there is none."""

    @abstractmethod
    def check_header(self, first: Header, other: Header) -> None:
        """Refuse a header whose bytes differ from those of the first, if it matters."""

    def grow(self, path: str, state: State | None) -> Growing:
        """As it is said in the state: how long the file is, and how much of that is the header."""
        if state is None:
            return Headed(self, GrowingFile(path, None), None)
        return Headed(self, GrowingFile(path, state["bytes"]), state["header_bytes"])


class Header:
    """The first bytes of a file."""

    def __init__(self, path: str, descriptor: int, size_bytes: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.size_bytes = size_bytes


class Appended(Growing):
    """An output that grows by whole pieces."""

    def __init__(self, file: GrowingFile) -> None:
        self.path = file.path
        self._file = file

    def append(self, piece: str) -> None:
        """Copy it."""
        with opened(piece) as (descriptor, size_bytes):
            self._add(piece, descriptor, size_bytes, may_take=False)

    def take(self, piece: str) -> None:
        """The first one is not copied, but is the output from now on."""
        with opened(piece) as (descriptor, size_bytes):
            self._add(piece, descriptor, size_bytes, may_take=True)

    def _add(self, piece: str, descriptor: int, size_bytes: int, *, may_take: bool) -> None:
        if may_take and self._file.take(piece, descriptor, size_bytes):
            return
        with self._file.adding():
            self._file.copy(descriptor, 0, size_bytes)

    def sync(self) -> State:
        """How long it is."""
        self._file.sync()
        return {"bytes": self._file.size_bytes}

    def result(self, suffix: str) -> str:
        """It is the whole itself."""
        self._file.cut()
        return self.path

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def discard(self) -> None:
        """Remove the file."""
        self._file.discard()


class Headed(Appended):
    """An output that grows by pieces without their headers."""

    def __init__(self, rule: HeadedRule, file: GrowingFile, header_bytes: int | None) -> None:
        super().__init__(file)
        self._rule = rule
        # None until there was a piece that is not empty.
        self._header_bytes = header_bytes

    def sync(self) -> State:
        """How long it is, and how long its header is."""
        return {**super().sync(), "header_bytes": self._header_bytes}

    def _add(self, piece: str, descriptor: int, size_bytes: int, *, may_take: bool) -> None:
        if not size_bytes:
            return
        check_is_text(descriptor, piece)
        file = self._file
        body = self._rule.header_end(descriptor, size_bytes, piece)
        if self._header_bytes is None:
            super()._add(piece, descriptor, size_bytes, may_take=may_take)
            self._header_bytes = body
            return
        if body != self._header_bytes or not is_same_start(descriptor, file.descriptor, body):
            first = Header(self.path, file.descriptor, self._header_bytes)
            self._rule.check_header(first, Header(piece, descriptor, body))
        if body == size_bytes:
            return
        with file.adding():
            if not file.ends_with_newline():
                file.write(_line_end(descriptor, body))
            file.copy(descriptor, body, size_bytes)


def _line_end(descriptor: int, header_bytes: int) -> bytes:
    r"""What ends lines in a piece, as its header tells: \n or \r\n."""
    is_carriage_return = header_bytes > 1 and os.pread(descriptor, 2, header_bytes - 2) == b"\r\n"
    return b"\r\n" if is_carriage_return else b"\n"
