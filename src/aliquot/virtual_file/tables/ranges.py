from __future__ import annotations

import os
from collections.abc import Iterable

from aliquot.virtual_file.source import ByteRange


def possible_byte(byte: int | None, size_bytes: int) -> int | None:
    """The byte, unless a file of that size cannot have it: what says where something is may be damaged, too."""
    return byte if byte is not None and 0 <= byte <= size_bytes else None


def joined(path: str, places: Iterable[tuple[int, int]]) -> list[ByteRange]:
    """The bytes of a file, in order: what touches or overlaps is one range. Places that it cannot have are left out."""
    try:
        size_bytes = os.path.getsize(path)
    except OSError:  # it is gone, which is told by whoever reads it
        return []
    found: list[ByteRange] = []
    for start, stop in sorted(place for place in places if 0 <= place[0] <= place[1] <= size_bytes):
        if found and start <= found[-1].stop:
            found[-1] = ByteRange(path, found[-1].start, max(stop, found[-1].stop))
        else:
            found.append(ByteRange(path, start, stop))
    return found
