"""Small contents for tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random


def write(path: Path, data: bytes | str) -> Path:
    """Make a file of some content, and give its path back."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def numbered_lines(count: int) -> bytes:
    """Lines of different lengths that say which they are."""
    return b"".join(b"%d%s\n" % (number, b"x" * (number % 7)) for number in range(count))


@cache
def random_lines(count: int) -> bytes:
    """Lines that compress to about a third, as data does."""
    bases = Random(0).randbytes(60 * count).translate(b"ACGT" * 64)
    return b"".join(b"%d %s\n" % (number, bases[60 * number : 60 * number + 60]) for number in range(count))


def reads(count: int, suffix: str = "") -> bytes:
    """FASTQ reads of different lengths."""
    bases = "ACGTACGTAC"
    texts = (
        f"@read{number}{suffix}\n{bases[: number % 9 + 1]}\n+\n{'I' * (number % 9 + 1)}\n" for number in range(count)
    )
    return "".join(texts).encode()
