from __future__ import annotations

import dataclasses
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aliquot.virtual_file.boundaries import Boundaries, EqualSizes

if TYPE_CHECKING:
    from aliquot.virtual_file.storage import Storage


class Format(ABC):
    """How the bytes of a file are divided into units, and what a unit is to Python.

    A format says its ``name``, the file name ``suffixes`` that mean it, the ``boundaries`` between units, and how to
    `parse` the bytes of some whole units. The rest has defaults. A format with options is a frozen dataclass; its
    options are the keywords of `aliquot.open`.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    boundaries: ClassVar[Boundaries | EqualSizes]

    @abstractmethod
    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """The records in ``data``, which is some whole units. Raise `Malformed` where one is not as it should be."""

    def stream(self, file: io.RawIOBase) -> Iterator[Any] | None:
        """The records of a file of whole units, where reading them one after the other is quicker than `parse`.

        Where it raises, the units are parsed to find out why.
        """
        return None

    def looks_like(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes is of this format, as far as one can tell."""
        return False

    def read_header(self, storage: Storage) -> bytes:
        """What stands before the first unit."""
        return b""

    def boundaries_for(self, header: bytes) -> Boundaries | EqualSizes:
        """The boundaries between the units of a file with this header."""
        return self.boundaries

    def header_for(self, header: bytes, units: int) -> bytes:
        """What a slice of some units begins with when it is made into a file."""
        return header

    def check(self, data: bytes) -> None:
        """Raise `Malformed` if no unit of this format can begin as ``data`` does. Called on samples, so be quick."""

    def check_total(self, header: bytes, units: int) -> None:
        """Raise `Malformed` if a file with this header cannot have that many units."""

    def check_same(self, records: tuple[Any, ...]) -> None:
        """Raise `Malformed` if records at the same place of several files do not belong together."""

    def options(self) -> dict[str, Any]:
        """The keywords that make this format again."""
        return {name: getattr(self, name) for name in self.option_names()}

    @classmethod
    def option_names(cls) -> list[str]:
        """The keywords that this format takes."""
        as_any: Any = cls  # a user's format need not be a dataclass
        return [field.name for field in dataclasses.fields(as_any)] if dataclasses.is_dataclass(as_any) else []

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and type(self) is type(other) and self.options() == other.options()

    def __hash__(self) -> int:
        return hash(self.name)
