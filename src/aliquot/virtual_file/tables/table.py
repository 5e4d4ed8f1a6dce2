from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from aliquot.errors import UsageError
from aliquot.virtual_file.source import ByteRange


class Facts(Struct, frozen=True):
    """What is known of a table before any of its rows is read.

    A table that cannot be read at all has a ``problem``. It counts as one unit, which fails: how many rows it has,
    nobody knows.
    """

    units: int
    # Where the groups of rows end that are stored together (baskets, row groups): to cut there costs nothing.
    ends: tuple[int, ...] = ()
    columns: dict[str, str] = {}  # those that are read: a type, as text, for each
    problem: str = ""
    # What the table itself would have to find out again before it can read rows: for those who read it, if it is short.
    detail: bytes = b""


class BadRows(Exception):  # noqa: N818  # a verdict for the caller, who knows the file; users see a DataError
    """Raised by a table: the rows ``start`` up to ``stop`` cannot be had, none of them, however they are divided.

    They may reach beyond those that were asked for, in both directions: all that are stored together are lost together,
    and told together. Where the table cannot be certain of that (``is_certain``), they are divided to find out.
    """

    def __init__(
        self,
        problem: str,
        start: int,
        stop: int,
        byte: int | None = None,
        advice: str | None = None,
        *,
        is_certain: bool = True,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.start = start
        self.stop = stop
        self.byte = byte
        self.advice = advice
        self.is_certain = is_certain


class UnreadableTable(Exception):  # noqa: N818  # as above
    """Raised by a table, when it is opened: it cannot be read at all."""

    def __init__(self, problem: str, byte: int | None = None, advice: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.byte = byte
        self.advice = advice


class ChangedTable(Exception):  # noqa: N818  # as above
    """Raised by a table: it is no longer what it was when its rows were counted."""

    def __init__(self, problem: str, advice: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.advice = advice


class Table(ABC):
    """The rows of one table in one file, read by columns. A format is a small subclass.

    Made by each process for itself, and used by one thread. Nothing is opened until `facts`, `read`, `pieces` or
    `byte_ranges` is called. All of them, and only they, may raise `UnreadableTable`.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    forms: ClassVar[tuple[str, ...]]  # what a batch can be, by the names in `forms`; the first is the default
    library: ClassVar[str] = ""  # what must be imported to look at it
    extra: ClassVar[str] = ""  # what installs that
    option_names: ClassVar[tuple[str, ...]] = ()  # keywords of `aliquot.open`, beyond columns and as_
    detail: bytes = b""  # of the `Facts` that somebody has found in this file for the same columns

    def __init__(
        self,
        path: str,
        inner: str = "",
        *,
        columns: Sequence[str] | None = None,
        form: str,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.inner = inner  # which table of the file, where it can have several: a tree, a dataset
        self.columns = None if columns is None else tuple(columns)
        self.form = form
        self.options = dict(options or {})
        self.check_options()

    @property
    def unit_word(self) -> str:
        """What a unit is called where its number within the file is told."""
        return "row"

    def check_options(self) -> None:
        """Raise `UsageError` where an option makes no sense."""

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """Whether a file that begins with these bytes is of this format."""
        return False

    @classmethod
    def companions(cls, path: str) -> tuple[str, ...]:
        """The files beside it that hold a part of its content, if they are there."""
        return ()

    @abstractmethod
    def facts(self) -> Facts:
        """Look at the metadata: no rows are read. Raise `UnreadableTable` where a wanted column is missing."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Any:
        """These rows, the wanted columns of them, in ``self.form``. Raise `BadRows` for those that cannot be had.

        Called with consecutive ranges, mostly: what was decoded beyond ``stop`` may be kept for the next call. Raise
        `ChangedTable` where there are not as many rows as were counted.
        """

    def pieces(self, start: int, stop: int, *, checked: bool = False) -> Any:
        """The same rows as `put_together` takes them: by default, as a batch.

        What can be checked faster for many tables at once, `put_together` checks, which raises `BadRows` then. After
        that each table is asked for ``checked`` pieces, so that the table is known.
        """
        return self.read(start, stop)

    @classmethod
    def put_together(cls, parts: Sequence[Any], form: str) -> Any:
        """One batch of what `pieces` gave, for one table or for several, which is used up."""
        from aliquot.virtual_file.tables.forms import concatenate  # which needs this module

        return concatenate(parts, form)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Where the bytes of the wanted columns of these rows are; empty where nobody can tell."""
        return []

    def close(self) -> None:
        """Let go of the file."""


def check_columns(wanted: Sequence[str] | None, available: Sequence[str]) -> tuple[str, ...]:
    """The wanted columns, all of them by default; raises where one is not there."""
    if wanted is None:
        return tuple(available)
    if not wanted:
        raise UsageError("columns=[]: name at least one column, or leave it out for all")
    missing = [name for name in wanted if name not in available]
    if missing:
        import difflib

        near = difflib.get_close_matches(missing[0], available, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"It has {_listed(available)}"
        raise UnreadableTable(f"has no column {missing[0]!r}", advice=advice)
    return tuple(wanted)


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
