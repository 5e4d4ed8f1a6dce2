from __future__ import annotations

from collections.abc import Iterable

from aliquot.slices.slice import Slice


def find_cover_fault(whole: Slice, parts: Iterable[Slice]) -> str | None:
    """Say where the parts, taken in order, fail to cover the whole exactly once; None if they do."""
    at = whole.start
    for part in parts:
        if not len(part):
            return f"{part} is empty"
        if part.start != at:
            fault = "missing" if part.start > at else "covered twice or out of order"
            return f"units {min(at, part.start)} to {max(at, part.start)} are {fault}"
        at = part.stop
    if at != whole.stop:
        return f"the parts end at unit {at}, the whole at {whole.stop}"
    return None
