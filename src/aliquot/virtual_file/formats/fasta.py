from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, ClassVar

from aliquot.errors import Malformed
from aliquot.virtual_file.boundaries import LineBeginningWith
from aliquot.virtual_file.formats.fastq import import_dnaio
from aliquot.virtual_file.formats.format import Format


class Fasta(Format):
    """A unit is a sequence: a line that begins with > and all lines up to the next one.

    Records are `dnaio.SequenceRecord`.
    """

    name: ClassVar[str] = "fasta"
    suffixes: ClassVar[tuple[str, ...]] = (".fasta", ".fa", ".fna", ".faa", ".ffn", ".frn")
    boundaries = LineBeginningWith(b">")

    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """One record for each sequence."""
        dnaio = import_dnaio("FASTA")
        try:
            return list(dnaio.FastaReader(io.BytesIO(data)))
        except (dnaio.FileFormatError, UnicodeDecodeError, ValueError) as error:
            raise _explained(data, error) from error

    def looks_like(self, head: bytes) -> bool:
        """Whether the first line is a FASTA title."""
        return head[:1] == b">"

    def check(self, data: bytes) -> None:
        """A sequence begins with its title."""
        if data[:1] != b">":
            raise Malformed(
                f"a FASTA sequence must begin with '>', not with {data[:1]!r}",
                byte_within=0,
                advice="Remove what stands before the first sequence, or say what format it is in",
            )


def _explained(data: bytes, error: Exception) -> Malformed:
    outside = next((at for at, byte in enumerate(data) if byte > 127), None)
    if outside is not None:
        before = data[: outside + 1]
        return Malformed(
            "has bytes that are not ASCII",
            unit_within=before.count(b"\n>"),
            byte_within=outside,
            advice="Remove or replace them, with 'LC_ALL=C sed' for example",
        )
    return Malformed(f"is not FASTA ({error})", advice="Is it of another format?")
