from __future__ import annotations

from collections.abc import Iterable

from aliquot.virtual_file.source import ByteRange


def joined(path: str, places: Iterable[tuple[int, int]]) -> list[ByteRange]:
    """The bytes of a file, in order: what touches or overlaps is one range."""
    found: list[ByteRange] = []
    for start, stop in sorted(places):
        if found and start <= found[-1].stop:
            found[-1] = ByteRange(path, found[-1].start, max(stop, found[-1].stop))
        else:
            found.append(ByteRange(path, start, stop))
    return found
