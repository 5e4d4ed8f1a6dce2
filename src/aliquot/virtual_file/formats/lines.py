from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import AnyStr, ClassVar

from aliquot.errors import Malformed, UsageError
from aliquot.virtual_file.boundaries import EveryLines
from aliquot.virtual_file.formats.format import Format


@dataclass(frozen=True, eq=False)
class Lines(Format):
    r"""A unit is a line, ended by \n or \r\n, which is not part of the record.

    Records are text in ``encoding``, or bytes where ``encoding`` is None.
    """

    name: ClassVar[str] = "lines"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".log", ".lines", ".list")
    boundaries = EveryLines(1)

    encoding: str | None = "utf-8"

    def __post_init__(self) -> None:
        if self.encoding is not None:
            check_encoding(self.encoding)

    def parse(self, data: bytes, header: bytes) -> Sequence[str | bytes]:
        """One text, or bytes, for each line."""
        if self.encoding is None:
            return split_lines(data, b"\n", b"\r")
        return split_lines(decode_text(data, self.encoding), "\n", "\r")

    def check(self, data: bytes) -> None:
        """A file that is plainly not what it was opened as is refused."""
        if self.encoding is not None:
            refuse_utf16(data)


def refuse_utf16(data: bytes) -> None:
    """Refuse a file that begins with the mark of UTF-16, in which a newline is two bytes."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Malformed(
            "is UTF-16 text, which cannot be divided at newline bytes",
            byte_within=0,
            advice="Convert it: iconv -f UTF-16 -t UTF-8",
            is_of_file=True,
        )


def check_encoding(encoding: str) -> None:
    """Refuse an encoding in which a newline is not the byte that is counted."""
    try:
        newline = "\n".encode(encoding)
    except (LookupError, TypeError):
        raise UsageError(f"unknown encoding {encoding!r}: it is a name such as 'utf-8' or 'latin-1'") from None
    if newline != b"\n":
        raise UsageError(f"text in {encoding} cannot be divided at newline bytes: convert it to UTF-8 first")


def decode_text(data: bytes, encoding: str) -> str:
    """Text, or which of its lines is none."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Malformed(
            f"is not {encoding} text ({error.reason})",
            unit_within=data.count(b"\n", 0, error.start),
            byte_within=error.start,
            advice="Open it with the encoding that it has, such as encoding='latin-1', or as bytes with "
            "format='lines', encoding=None",
        ) from error


def split_lines(data: AnyStr, newline: AnyStr, carriage_return: AnyStr) -> list[AnyStr]:
    """Lines without what ends them."""
    lines = data.split(newline)
    if not lines[-1]:
        lines.pop()
    if carriage_return in data:
        lines = [line.removesuffix(carriage_return) for line in lines]
    return lines
