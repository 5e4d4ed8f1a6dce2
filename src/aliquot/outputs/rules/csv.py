from __future__ import annotations

import os
import re

from aliquot.outputs.copying import BLOCK_BYTES
from aliquot.outputs.errors import OutputError
from aliquot.outputs.rules.appending import HeadedRule, Header

_FIRST_BLOCK_BYTES = 4096
_LARGEST_HEADER_BYTES = 16 * BLOCK_BYTES
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_QUOTED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')
# Whatever separates the fields of this file, a quote that opens a field stands behind one of these.
_FIELD_OR_ROW_ENDS = re.compile(rb"[,;\t|\n]")


class Csv(HeadedRule):
    """Tables whose first row names the columns: that row once, then the rows of all pieces.

    The row may hold quoted newlines. For tables without such a row use concat.
    """

    name = "csv"

    def header_end(self, descriptor: int, size_bytes: int, piece: str) -> int:
        """Behind the first row."""
        count = _FIRST_BLOCK_BYTES
        while True:
            data = os.pread(descriptor, count, 0)
            end = end_of_row(data)
            if end is not None:
                return end
            if len(data) >= size_bytes:
                return size_bytes
            if count >= _LARGEST_HEADER_BYTES:
                raise OutputError(
                    f"its header row is longer than {_LARGEST_HEADER_BYTES} bytes",
                    path=piece,
                    advice="Is a quote missing in it? Where pieces have no header, name the rule concat",
                )
            count = min(count * 4, _LARGEST_HEADER_BYTES)

    def check_header(self, first: Header, other: Header) -> None:
        """They may differ only in what ends the row, which is missing where a file ends with it."""
        mine, theirs = (os.pread(one.descriptor, one.size_bytes, 0).rstrip(b"\r\n") for one in (first, other))
        if mine != theirs:
            raise OutputError(
                f"its header row is {_shown(theirs)}, and that of the first piece, which {first.path} begins with, is "
                f"{_shown(mine)}",
                path=other.path,
                advice="Where pieces have no header row, name the rule concat: NAME=PATH:concat",
            )


def end_of_row(data: bytes) -> int | None:
    """The byte behind the first row; None where it does not end in these bytes."""
    at = len(_BYTE_ORDER_MARK) if data.startswith(_BYTE_ORDER_MARK) else 0
    while True:
        if data[at : at + 1] == b'"':
            quoted = _QUOTED.match(data, at)
            if quoted is None:
                return None
            at = quoted.end()
        found = _FIELD_OR_ROW_ENDS.search(data, at)
        if found is None:
            return None
        at = found.end()
        if found[0] == b"\n":
            return at


def _shown(row: bytes) -> str:
    return repr(row.decode(errors="backslashreplace"))[:300]
