from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from aliquot.errors import AliquotError, DescriptionError
from aliquot.job import Description
from aliquot.virtual_file.storage import write_all

SEVERAL_SOURCES = (
    "these are several files, cut at the same units: use pipes() or instantiate() with a path for each, "
    "or take them one by one from vf.members"
)


# Kinds that a worker imports only where it needs them.
_MODULES = {"tables": "aliquot.virtual_file.tables.source", "datasets": "aliquot.virtual_file.datasets"}


class ByteRange(NamedTuple):
    """Bytes ``start`` up to ``stop`` of a file; of its uncompressed content where it is compressed."""

    path: str
    start: int
    stop: int


class RowRange(NamedTuple):
    """Rows ``start`` up to ``stop`` of a table, numbered within its file; ``word`` is what one of them is called."""

    path: str
    start: int
    stop: int
    word: str = "row"

    @property
    def name(self) -> str:
        """As a part of a sentence: row 345, rows 345 to 350."""
        if self.stop == self.start + 1:
            return f"{self.word} {self.start}"
        return f"{self.word}s {self.start} to {self.stop - 1}"


def concatenate(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Records of neighbouring units put together, of the type that they have."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if hasattr(first, "__array__"):
        import numpy

        return numpy.concatenate(parts)  # type: ignore[return-value]  # arrays are sequences, but for numpy
    together = [record for part in parts for record in part]
    return tuple(together) if isinstance(first, tuple) else together


class Source(ABC):
    """What holds the units, in order, counted from 0. A `VirtualFile` is a view of some of them.

    How many there are may not be known yet: ``known_units`` grows with `advance` until ``complete``.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Source]]] = {}

    def __init_subclass__(cls) -> None:
        Source._kinds[cls.kind] = cls

    @property
    def first_unit(self) -> int:
        """The first unit that is here, where only some of a source have travelled."""
        return 0

    @property
    @abstractmethod
    def known_units(self) -> int:
        """How many units are known to be there."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether all units are known."""

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Look further, until that many units are known or the end is reached; None: to the end."""

    @property
    def can_be_counted_meanwhile(self) -> bool:
        """Whether it is as well looked through by one process, bit by bit, while others work on what is known of it."""
        return False

    def share_index(self) -> None:
        """Let other processes that have opened it know what is known here."""

    def expect_bad_units(self) -> None:
        """Whoever reads a bad unit will see to it: do not refuse all for one that is found while counting."""

    def expected_units(self) -> int:
        """About how many units there will be, by what is known."""
        return self.known_units

    def forget_index(self) -> None:
        """Remove what was remembered of earlier looks at the source."""

    @abstractmethod
    def records_of(self, start: int, stop: int) -> Sequence[Any]:
        """The records of some units, all at once."""

    def batches(self, start: int, stop: int, units: int) -> Iterator[Sequence[Any]]:
        """The records of some units, so many at a time."""
        for at in range(start, stop, units):
            yield self.records_of(at, min(at + units, stop))

    def by_unit(self) -> Source:
        """The same units, with records that can be taken one by one."""
        return self

    def good_cut(self, start: int, stop: int) -> int:
        """Where to cut a step from ``start`` to ``stop``: there, or a little before where that is cheaper to read."""
        return stop

    def read_ahead(self, start: int, stop: int) -> None:
        """These units will be read next, if nobody takes them."""

    @abstractmethod
    def typical_batch_units(self) -> int:
        """How many units make a batch that is neither too small to be quick nor too large for the caches."""

    @abstractmethod
    def header(self, units: int) -> bytes:
        """What a file of that many units begins with."""

    @abstractmethod
    def body_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """The bytes of some units; each piece is valid only until the next is asked for."""

    def raw_pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """As `body_pieces`, whatever they look like."""
        return self.body_pieces(start, stop)

    def copy_body(self, descriptor: int, start: int, stop: int) -> None:
        """Write the bytes of some units to an open file."""
        for piece in self.body_pieces(start, stop):
            write_all(descriptor, piece)

    @abstractmethod
    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Where the bytes of some units are."""

    def row_ranges(self, start: int, stop: int) -> list[RowRange]:
        """Which rows of which files some units are, where they are rows of tables."""
        return []

    def problems(self) -> list[tuple[str, str]]:
        """Files that cannot be read at all, and why, where that is known."""
        return []

    def reading(self) -> Any:
        """How units are read from the files, as JSON: a run that goes on must not read others."""
        return None

    def paths(self) -> list[str]:
        """All files that the units are read from."""
        return []

    def check_same(self, records: tuple[Any, ...]) -> None:
        """Raise `Malformed` if records at the same place of several sources do not belong together."""

    def check_ends(self, start: int, stop: int) -> None:
        """Raise if the first or the last of some units shows that they should not be copied."""

    def members(self) -> tuple[Source, ...]:
        """The sources that are cut at the same units; only itself where there is one."""
        return (self,)

    def constituents(self) -> tuple[Source, ...]:
        """The sources that this one is made of; only itself where it is made of none."""
        return (self,)

    def covering(self, other: Source) -> Source | None:
        """A source that holds the units of both, or None where they have nothing to do with each other."""
        return self if self == other else None

    @abstractmethod
    def to_desc(self, start: int, stop: int | None) -> Description:
        """Say as JSON what is needed to read these units elsewhere."""

    @classmethod
    @abstractmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild a described source of this kind."""

    @staticmethod
    def any_from_desc(desc: Description) -> Source:
        """Rebuild a described source, of whatever kind it is."""
        if desc.get("kind") in _MODULES:
            importlib.import_module(_MODULES[desc["kind"]])
        match desc:
            case {"kind": str(kind)} if kind in Source._kinds:
                try:
                    return Source._kinds[kind].from_desc(desc)
                except (KeyError, TypeError, ValueError) as error:
                    if isinstance(error, AliquotError):
                        raise
                    raise DescriptionError(f"the description of a source is malformed: {desc!r:.300}") from error
        raise DescriptionError(
            f"this does not describe a source of units (kinds: {', '.join(sorted(Source._kinds))}): {desc!r:.200}"
        )

    def __str__(self) -> str:
        paths = self.paths()
        if not paths:
            return f"a {self.kind}"
        return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self.to_desc(0, None) == other.to_desc(0, None)

    def __hash__(self) -> int:
        return hash(type(self))
