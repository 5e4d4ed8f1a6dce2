from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from aliquot.errors import DataError, Malformed, UsageError
from aliquot.quantities import number_of
from aliquot.virtual_file.boundaries import Boundaries, EveryLines, QuotedLines
from aliquot.virtual_file.formats.format import Format
from aliquot.virtual_file.formats.lines import check_encoding, decode_text, refuse_utf16

if TYPE_CHECKING:
    from aliquot.virtual_file.storage import Storage

_LARGEST_HEADER_BYTES = 16 * 1024 * 1024
# Spreadsheets begin a file with it; it is kept with the header and is no part of the first field.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, eq=False)
class Csv(Format):
    """Comma-separated rows as in RFC 4180: a quoted field may hold delimiters, newlines and doubled quotes.

    Records are dicts from the column names to text, or lists of text where ``header`` is False. The header is known
    and is repeated in front of every slice that is made into a file.
    """

    name: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)

    delimiter: str = ","
    quote: str | None = '"'
    header: bool = True
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        for what, character in (("delimiter", self.delimiter), ("quote", self.quote)):
            one_character = isinstance(character, str) and len(character) == 1
            if character is not None and not (one_character and character.isascii() and character not in "\r\n"):
                raise UsageError(f"the {what} of a CSV file is one ASCII character, not {character!r}")
        if not isinstance(self.header, bool):
            raise UsageError(f"header is True or False, not {self.header!r}")
        if self.delimiter == self.quote:
            raise UsageError(f"the delimiter and the quote of a CSV file cannot both be {self.quote!r}")

    def boundaries_for(self, header: bytes) -> Boundaries:
        """Newlines, but for those between quotes."""
        if self.quote is None:
            return EveryLines(1)
        return QuotedLines(self.quote.encode(), self.delimiter.encode())

    def read_header(self, storage: Storage) -> bytes:
        """The first row."""
        if not self.header:
            mark = storage.read_at(0, len(_BYTE_ORDER_MARK))
            return mark if mark == _BYTE_ORDER_MARK else b""
        length = 64 * 1024
        while True:
            data = storage.read_at(0, length)
            ends = self.boundaries_for(b"").find(data, 0, 0)
            if len(ends) or len(data) < length:
                header = data[: int(ends[0])] if len(ends) else data
                self._check_columns(header, storage.path)
                return header
            if length > _LARGEST_HEADER_BYTES:
                raise DataError(
                    f"the header row is longer than {_LARGEST_HEADER_BYTES} bytes",
                    path=storage.path,
                    byte=0,
                    advice="Is a quote missing in it? Open it with header=False if it has none",
                )
            length *= 4

    def header_for(self, header: bytes, units: int) -> bytes:
        """The header, ended where the file ended without a newline."""
        return header if not self.header or not header or header.endswith(b"\n") else header + b"\n"

    def check(self, data: bytes) -> None:
        """A file that is plainly not what it was opened as is refused."""
        refuse_utf16(data)

    def parse(self, data: bytes, header: bytes) -> Sequence[dict[str, str] | list[str]]:
        """One dict, or one list, for each row."""
        rows = self._rows(data)
        if not self.header:
            return rows
        columns = self._columns(header)
        for number, row in enumerate(rows):
            if len(row) != len(columns):
                problem = (
                    f"has {number_of(len(row), 'field')}, and the header has {len(columns)}"
                    if row
                    else "is a blank row"
                )
                raise Malformed(problem, unit_within=number, advice="Mend the row, or check the delimiter")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _columns(self, header: bytes) -> list[str]:
        rows = self._rows(header.removeprefix(_BYTE_ORDER_MARK))
        return rows[0] if rows else []

    def _check_columns(self, header: bytes, path: str) -> None:
        try:
            refuse_utf16(header)
            row = header.removeprefix(_BYTE_ORDER_MARK)
            self.boundaries_for(header).scan(row, 0, 0)
            columns = self._columns(header)
        except Malformed as fault:
            byte = fault.byte_within or 0
            raise DataError(f"the header {fault.problem}", path=path, byte=byte, advice=fault.advice) from fault
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise DataError(
                f"has two columns that are called {twice!r}, of which a dict keeps only one",
                path=path,
                byte=0,
                advice="Rename one, or open it with header=False and skip the first row",
            )

    def _rows(self, data: bytes) -> list[list[str]]:
        # The limit of 128 KiB for a field guards those who read rows without knowing their size; here it is known.
        csv.field_size_limit(sys.maxsize)
        text = io.StringIO(decode_text(data, self.encoding), newline="")
        quoting: Any = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        reader = csv.reader(text, delimiter=self.delimiter, quotechar=self.quote or '"', quoting=quoting, strict=True)
        rows = []
        try:
            for row in reader:
                rows.append(row)  # the length is what tells the bad row
        except csv.Error as error:
            raise Malformed(f"is not a row ({error})", unit_within=len(rows), advice="Check its quotes") from error
        return rows


@dataclass(frozen=True, eq=False)
class Tsv(Csv):
    """Tab-separated rows, otherwise as `Csv`."""

    name: ClassVar[str] = "tsv"
    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".tab")

    delimiter: str = "\t"
