from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from aliquot.errors import Malformed, MissingExtraError
from aliquot.virtual_file.boundaries import EveryLines
from aliquot.virtual_file.formats.format import Format

_BUFFER_BYTES = 64 * 1024
_ONLY_FOUR_LINES = (
    "A FASTQ record must be four lines; one whose sequence is wrapped over several lines is unwrapped by 'seqtk seq'"
)


class Fastq(Format):
    """A unit is a read: four lines. Records are `dnaio.SequenceRecord`."""

    name: ClassVar[str] = "fastq"
    suffixes: ClassVar[tuple[str, ...]] = (".fastq", ".fq")
    boundaries = EveryLines(4)

    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """One record for each read."""
        dnaio = import_dnaio("FASTQ")
        try:
            return list(dnaio.FastqReader(io.BytesIO(data), buffer_size=min(len(data) + 1, _BUFFER_BYTES)))
        except dnaio.FileFormatError as error:
            raise _explained(data, error) from error

    def stream(self, file: io.RawIOBase) -> Iterator[Any]:
        """As dnaio reads a file."""
        return iter(import_dnaio("FASTQ").FastqReader(file, buffer_size=_BUFFER_BYTES))

    def looks_like(self, head: bytes) -> bool:
        """Whether the first and third line begin as in FASTQ."""
        lines = head.split(b"\n", 3)
        return len(lines) >= 3 and lines[0][:1] == b"@" and lines[2][:1] == b"+"

    def check(self, data: bytes) -> None:
        """Look at the first read, as far as the data has it."""
        lines = data.split(b"\n", 4)
        if lines[0][:1] != b"@":
            raise Malformed(f"a read must begin with '@', not with {data[:1]!r}", advice=_ONLY_FOUR_LINES)
        if len(lines) > 3 and lines[2][:1] != b"+":
            raise Malformed(
                f"the third line of a read must begin with '+', not with {lines[2][:1]!r}",
                advice=_ONLY_FOUR_LINES,
            )
        if len(lines) == 5:
            sequence, qualities = lines[1].rstrip(b"\r"), lines[3].rstrip(b"\r")
            if len(sequence) != len(qualities):
                raise Malformed(
                    f"a read has {len(sequence)} bases and {len(qualities)} qualities",
                    advice=f"Is the file complete? {_ONLY_FOUR_LINES}",
                )

    def check_same(self, records: tuple[Any, ...]) -> None:
        """Mates have the same name, but for a last 1, 2 or 3 (dnaio's rule)."""
        names = [record.name for record in records]
        first = records[0]
        for other in records[1:]:
            if not first.is_mate(other):
                raise Malformed(
                    f"the reads are not mates: they are called {' and '.join(map(repr, names))}",
                    advice="Are the files of one run, and in the same order? Files that are only read together, "
                    "and are not mates, can be opened with same_names=False",
                )


def import_dnaio(format_name: str) -> Any:
    """The library that parses reads and sequences, or which extra brings it."""
    try:
        import dnaio
    except ImportError:
        raise MissingExtraError(f"Reading {format_name} records", "bio") from None
    return dnaio


def _explained(data: bytes, error: Exception) -> Malformed:
    """Say which read is malformed: dnaio counts lines."""
    line = getattr(error, "line", None)
    problem = str(error)
    if line is None:
        # Only about bytes that are not ASCII dnaio does not say where they are.
        outside = next((at for at, byte in enumerate(data) if byte > 127), 0)
        return Malformed(
            "has bytes that are not ASCII",
            unit_within=data.count(b"\n", 0, outside) // 4,
            byte_within=outside,
            advice="Remove or replace them, with 'LC_ALL=C sed' for example",
        )
    problem = problem.partition(": ")[2] or problem
    return Malformed(f"is not FASTQ ({problem})", unit_within=line // 4, advice=_ONLY_FOUR_LINES)
