"""Small ROOT files, as the real ones are built: several baskets, jagged branches with their counters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import awkward
import numpy
import uproot


def events(start: int, stop: int) -> dict[str, Any]:
    """Entries that say which they are: ``run`` is the number of each, and it has ``run % 4`` muons."""
    numbers = numpy.arange(start, stop)
    counts = numbers % 4
    first = numpy.concatenate([[0], numpy.cumsum(counts)])
    within = numpy.arange(first[-1]) - numpy.repeat(first[:-1], counts)
    pt = awkward.unflatten((numpy.repeat(numbers, counts) + within / 8).astype("f4"), counts)
    charge = awkward.unflatten((1 - 2 * (within % 2)).astype("i4"), counts)
    return {
        "run": numbers.astype("i8"),
        "MET_pt": numpy.sqrt(numbers),
        "Vertex": numpy.stack([numbers, -numbers, 2 * numbers], axis=1).astype("f4"),
        "Muon": awkward.zip({"pt": pt, "charge": charge}),
    }


def write_tree(
    path: Path, per_basket: Sequence[int] = (100, 100, 100), name: str = "Events", compression: Any = None
) -> Path:
    """A tree with these numbers of entries in its baskets. Its muons are branches: nMuon, Muon_pt, Muon_charge."""
    sample = events(0, 4)
    types = {column: array.type if column == "Muon" else array[0].dtype for column, array in sample.items()}
    types["Vertex"] = numpy.dtype(("f4", (3,)))
    with uproot.recreate(path, compression=compression or uproot.ZLIB(1)) as file:
        made = file.mktree(name, types)
        for start, stop in _ranges(per_basket):
            made.extend(events(start, stop))
    return path


def write_ntuple(path: Path, per_cluster: Sequence[int] = (100, 100, 100), name: str = "Events") -> Path:
    """An RNTuple with these numbers of entries in its clusters. Its muons are one field, a list of records."""
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        made = None
        for start, stop in _ranges(per_cluster):
            if made is None:
                made = file.mkrntuple(name, events(start, stop))
            else:
                made.extend(events(start, stop))
    return path


def overwrite(path: Path, byte: int, count: int = 8) -> None:
    """Damage a file."""
    with path.open("r+b") as file:
        file.seek(byte)
        file.write(b"\xa5" * count)


def _ranges(counts: Sequence[int]) -> list[tuple[int, int]]:
    stops = [sum(counts[: at + 1]) for at in range(len(counts))]
    return [(stop - count, stop) for stop, count in zip(stops, counts, strict=True)]
