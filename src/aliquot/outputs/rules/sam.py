from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

from aliquot.outputs.copying import BLOCK_BYTES
from aliquot.outputs.errors import OutputError
from aliquot.outputs.rules.appending import HeadedRule, Header

_FIRST_BLOCK_BYTES = 4096
_HEADER_ENDS = re.compile(rb"\n[^@]")
_COMMAND_LINE = re.compile(rb"\tCL:[^\t]*")


class Sam(HeadedRule):
    """SAM text: the header lines (@) of the first piece, then the records of all.

    Headers may differ in the command lines of @PG, which name the files of each piece, and in the comments of @CO.
    Any other difference is refused: records would mean something else under the first header.
    """

    name = "sam"

    def header_end(self, descriptor: int, size_bytes: int, piece: str) -> int:
        """Behind the last of the lines at the beginning that begin with @; no name of a record does."""
        at, count = 0, _FIRST_BLOCK_BYTES
        while True:
            data = os.pread(descriptor, count, at)
            if not at and not data.startswith(b"@"):
                return 0
            found = _HEADER_ENDS.search(data)
            if found:
                return at + found.start() + 1
            if at + len(data) >= size_bytes or len(data) < 2:
                return size_bytes
            at += len(data) - 1  # a newline at the end of a block is looked at again with what follows it
            count = BLOCK_BYTES

    def check_header(self, first: Header, other: Header) -> None:
        """Line by line, without what may differ."""
        for number, (mine, theirs) in enumerate(itertools.zip_longest(_lines_of(first), _lines_of(other))):
            if mine != theirs:
                raise OutputError(
                    f"its SAM header differs from that of the first piece: line {number + 1} (without @CO lines, and "
                    f"@PG lines without CL) is {_shown(theirs)}, and in the first, which {first.path} begins with, "
                    f"it is {_shown(mine)}",
                    path=other.path,
                    advice="Every piece must be made with the same reference and options",
                )


def _lines_of(header: Header) -> Iterator[bytes]:
    # Moves on in the file, which does not matter: all that is copied is read and written from where it is told.
    with open(header.descriptor, "rb", closefd=False) as file:
        file.seek(0)
        left_bytes = header.size_bytes
        while left_bytes > 0:
            line = file.readline(left_bytes)
            if not line:
                return
            left_bytes -= len(line)
            line = line.rstrip(b"\r\n")
            if line.startswith(b"@PG"):
                line = _COMMAND_LINE.sub(b"", line)
            if not line.startswith(b"@CO"):
                yield line


def _shown(line: bytes | None) -> str:
    return "not there" if line is None else repr(line.decode(errors="backslashreplace"))[:300]
