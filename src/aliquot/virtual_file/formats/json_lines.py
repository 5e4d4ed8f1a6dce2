from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from aliquot.errors import Malformed
from aliquot.virtual_file.boundaries import EveryLines
from aliquot.virtual_file.formats.format import Format


class JsonLines(Format):
    """A unit is a line that is one JSON value."""

    name: ClassVar[str] = "jsonl"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".jsonlines")
    boundaries = EveryLines(1)

    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """One Python value for each line."""
        decoder = msgspec.json.Decoder()
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        records = []
        try:
            for line in lines:
                records.append(decoder.decode(line))  # the length is what tells the bad line
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            blank = not lines[len(records)].strip()
            problem = "is a blank line" if blank else f"is not JSON ({error}): {lines[len(records)][:60]!r}"
            raise Malformed(problem, unit_within=len(records), advice="Each line must be one JSON value") from error
        return records

    def check(self, data: bytes) -> None:
        """The first line, if all of it is there, is JSON."""
        first_line, newline, _ = data.partition(b"\n")
        if newline:
            self.parse(first_line + b"\n", b"")

    def looks_like(self, head: bytes) -> bool:
        """Whether the first line is a JSON object or array."""
        first_line, newline, _ = head.partition(b"\n")
        if not newline or not first_line.startswith((b"{", b"[")):
            return False
        try:
            msgspec.json.decode(first_line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        return True
