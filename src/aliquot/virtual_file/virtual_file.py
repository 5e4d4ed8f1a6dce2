from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, overload

from aliquot.errors import DataError, DescriptionError, UsageError
from aliquot.job import Description
from aliquot.job.description import check_envelope, check_version
from aliquot.slices import Slice, check_split_arguments
from aliquot.virtual_file.background import index_in_background
from aliquot.virtual_file.piping import named_pipes
from aliquot.virtual_file.source import SEVERAL_SOURCES, ByteRange, RowRange, Source
from aliquot.virtual_file.storage import compression_by_name, write_all

_TYPE_NAME = "aliquot.virtual_file"
_VERSION = 1


class VirtualFile:
    """A read-only view of the units ``start`` up to ``stop`` of a source. Made by `aliquot.open`.

    It is split, joined and described for nothing, and read only when it is used. A view whose end is not known yet
    reaches to the end of its source, however far that is.
    """

    __slots__ = ("_start", "_stop", "source")

    def __init__(self, source: Source, start: int = 0, stop: int | None = None) -> None:
        self.source = source
        self._start = start
        self._stop = stop

    # How many units

    @property
    def start(self) -> int:
        """The number of the first unit in the source."""
        return self._start

    @property
    def stop(self) -> int:
        """The number after that of the last unit; looks to the end of the source if nobody has yet."""
        if self._stop is None:
            self.source.advance(None)
            self._stop = self.source.known_units
        return self._stop

    def __len__(self) -> int:
        return self.stop - self._start

    def count(self, *, wait: bool = True) -> int:
        """How many units there are; with ``wait=False``, at least how many, by what is known now."""
        if wait:
            return len(self)
        known = self.source.known_units if self._stop is None else self._stop
        return max(0, known - self._start)

    @property
    def is_open_ended(self) -> bool:
        """Whether it reaches to the end of its source, and nobody knows yet where that is."""
        return self._known_stop() is None

    def is_whole(self) -> bool:
        """Whether this is a view of all units of its source."""
        return self._start == 0 and (self._stop is None or self._stop == len(VirtualFile(self.source)))

    def index(self, *, wait: bool = True) -> None:
        """Look through the whole source now; with ``wait=False``, in a thread while you go on."""
        if wait:
            self.source.advance(None)
        else:
            index_in_background(self.source)

    # Dividing

    def split(self, count: int, size: int | None = None) -> list[VirtualFile]:
        """At most ``count`` views of ``size`` units, then one with what remains; never an empty one. Reads nothing.

        Without ``size``, ``count`` views that are as equal as possible. Only where the end of the source is not known
        yet, it is looked for, as far as needed.
        """
        source, start = self.source, self._start
        if size is None:
            return [VirtualFile(source, part.start, part.stop) for part in Slice(start, self.stop).split(count)]
        check_split_arguments(count, size)
        # Written out, as Slice.split does it: it is called a million times, and no slice is wanted.
        wanted_end = start + count * size
        stop = self._stop if self._stop is not None else self._end_if_within(wanted_end)
        if stop is None or wanted_end < stop:
            equal = [VirtualFile(source, at, at + size) for at in range(start, wanted_end, size)]
            return [*equal, VirtualFile(source, wanted_end, stop)]
        return [VirtualFile(source, at, min(at + size, stop)) for at in range(start, stop, size)]

    def join(self, other: VirtualFile) -> list[VirtualFile]:
        """One view if the two touch, else both in order."""
        first, second = sorted((self, other), key=lambda view: view._start)
        source = first.source.covering(second.source)
        if source is None:
            return [first, second]
        joined = Slice(first._start, first.stop).join(Slice(second._start, second.stop))
        return [VirtualFile(source, part.start, part.stop) for part in joined] if len(joined) == 1 else [first, second]

    @overload
    def __getitem__(self, where: int) -> Any: ...
    @overload
    def __getitem__(self, where: slice) -> VirtualFile: ...
    def __getitem__(self, where: int | slice) -> Any:
        """``vf[a:b]`` is a view of some units, ``vf[n]`` the record of one."""
        if isinstance(where, slice):
            return self._view(where)
        try:
            where = operator.index(where)
        except TypeError:
            raise UsageError(f"units are numbered: vf[{where!r}] is not possible") from None
        unit = where + len(self) if where < 0 else where
        self._end_if_within(self._start + unit)
        if not 0 <= unit < self.count(wait=False):
            raise IndexError(f"there is no unit {where}: there are {len(self)}")
        return self.source.by_unit().records_of(self._start + unit, self._start + unit + 1)[0]

    # Reading

    def __iter__(self) -> Iterator[Any]:
        return self.records()

    def records(self) -> Iterator[Any]:
        """Every unit, parsed: text, a dict, a read, a row of an array."""
        for batch in self.by_unit().batches():
            yield from batch

    def batches(self, units: int | None = None) -> Iterator[Any]:
        """Parsed units, some at a time: lists, or arrays where the format has them, or what ``as_`` says of a table.

        Without ``units``, as many as are quick to read and to work on.
        """
        if units is not None and units < 1:
            raise UsageError(f"batches of {units} units are not possible: at least 1")
        return self._batches(units)

    def by_unit(self) -> VirtualFile:
        """The same view, with batches whose records can be taken one by one: of a table, dicts instead of columns."""
        source = self.source.by_unit()
        return self if source is self.source else VirtualFile(source, self._start, self._stop)

    def batch(self) -> Any:
        """All units, parsed, at once: they must fit into memory."""
        return self.source.records_of(self._start, self.stop)

    def read(self) -> bytes:
        """All units as bytes, with the header where the format has one: what `instantiate` writes to a file."""
        source = self._single_source()
        return b"".join((source.header(len(self)), *map(bytes, source.body_pieces(self._start, self.stop))))

    def byte_range(self) -> tuple[int, int]:
        """Where the units are in their file: from which byte up to which (of its uncompressed content)."""
        ranges = self.byte_ranges()
        if len(ranges) != 1:
            raise UsageError(f"{self!r} is in {len(ranges)} files: use byte_ranges()")
        return ranges[0].start, ranges[0].stop

    def byte_ranges(self) -> list[ByteRange]:
        """Where the units are, in each of the files that hold them."""
        return self.source.byte_ranges(self._start, self.stop)

    def row_ranges(self) -> list[RowRange]:
        """Which rows of which files the units are, where these are tables; nothing where they are not."""
        return self.source.row_ranges(self._start, self.stop)

    @property
    def members(self) -> tuple[VirtualFile, ...]:
        """The same units of each of the sources that were opened `together`; only itself where there is one."""
        members = self.source.members()
        # Each by itself would go on to its own end; together they agree on one.
        stop = self.stop if len(members) > 1 else self._stop
        return tuple(VirtualFile(member, self._start, stop) for member in members)

    # Realising

    def instantiate(self, *paths: str | os.PathLike[str]) -> None:
        """Write the units to a file of their own, whole or not at all; one path for each of the `members`."""
        members = self.members
        if len(paths) != len(members):
            raise UsageError(f"instantiate() takes {len(members)} path(s) here, and got {len(paths)}")
        # A link is followed: what it points to is replaced, not the link.
        targets = [os.path.realpath(path) for path in paths]
        if len(set(targets)) < len(targets):
            raise UsageError(f"instantiate() was given the same path twice: {', '.join(map(str, paths))}")
        for target in targets:
            self.check_target(target)
        self.source.check_ends(self._start, self.stop)
        _write_whole_files(members, targets)

    def write_to(self, descriptor: int) -> None:
        """Write the units to a file, pipe or socket that is open already."""
        source = self._single_source()
        write_all(descriptor, source.header(len(self)))
        source.copy_body(descriptor, self._start, self.stop)

    @contextlib.contextmanager
    def pipe(self) -> Iterator[str]:
        """Give a path from which a program can read the units once, fed just in time, closed early without error."""
        self._single_source()
        with self.pipes() as paths:
            yield paths[0]

    @contextlib.contextmanager
    def pipes(self) -> Iterator[list[str]]:
        """As `pipe`, one path for each of the `members`."""
        stop = self.stop
        self.source.check_ends(self._start, stop)
        with named_pipes([partial(_pieces, member, self._start, stop) for member in self.source.members()]) as paths:
            yield paths

    # Describing

    def to_desc(self) -> Description:
        """Say as JSON which units of which source these are."""
        return {
            "type": _TYPE_NAME,
            "version": _VERSION,
            "source": self.source.to_desc(self._start, self._known_stop()),
            "start": self._start,
            "stop": self._known_stop(),
        }

    @classmethod
    def from_desc(cls, desc: Description) -> VirtualFile:
        """Rebuild a described view; refused where the source has changed since."""
        type_name, version = check_envelope(desc)
        if type_name != _TYPE_NAME:
            raise DescriptionError(f"this describes a {type_name!r}, not a {_TYPE_NAME!r}")
        check_version(type_name, version, _VERSION)
        match desc:
            case {"source": source, "start": int(start), "stop": int() | None as stop} if (
                0 <= start <= (start if stop is None else stop)
            ):
                described = Source.any_from_desc(source)
                if start < described.first_unit:
                    raise DescriptionError(
                        f"unit {start} of {described} is not here: only {described.first_unit} and on are"
                    )
                if stop is not None and described.complete and stop > described.known_units:
                    raise DescriptionError(
                        f"there is no unit {stop - 1} in {described}: it has {described.known_units}"
                    )
                return cls(described, start, stop)
        raise DescriptionError(f"this does not describe a virtual file: {desc!r:.300}")

    def __reduce__(self) -> tuple[object, ...]:
        return (VirtualFile.from_desc, (self.to_desc(),))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VirtualFile):
            return NotImplemented
        same_units = (self._start, self._known_stop()) == (other._start, other._known_stop())
        return same_units and (self.source is other.source or self.to_desc() == other.to_desc())

    def __hash__(self) -> int:
        return hash((self._start, type(self.source)))

    def __repr__(self) -> str:
        stop = self._known_stop()
        return f"<VirtualFile: units {self._start} to {'the end' if stop is None else stop} of {self.source}>"

    def _known_stop(self) -> int | None:
        if self._stop is None and self.source.complete:
            self._stop = self.source.known_units
        return self._stop

    def _end_if_within(self, limit: int) -> int | None:
        """Where this view ends if that is at or before a limit or is known anyway, else None."""
        if self._stop is None:
            self.source.advance(limit + 1)
        return self._known_stop()

    def _single_source(self) -> Source:
        (source, *others) = self.source.members()
        if others:
            raise UsageError(SEVERAL_SOURCES)
        return source

    def _view(self, where: slice) -> VirtualFile:
        if where.step not in (None, 1):
            raise UsageError(f"a view is contiguous: a step of {where.step} is not possible")
        first, last = where.start or 0, where.stop
        if first < 0 or (last is not None and last < 0):
            first, last, _ = where.indices(len(self))
        end = self._end_if_within(self._start + max(first, last or 0))
        start = self._start + first if end is None else min(self._start + first, end)
        if last is None:
            return VirtualFile(self.source, start, self._stop)
        stop = self._start + last if end is None else min(self._start + last, end)
        return VirtualFile(self.source, start, max(start, stop))

    def _batches(self, units: int | None) -> Iterator[Any]:
        size = units or self.source.typical_batch_units()
        at = self._start
        while True:
            end = self._end_if_within(at + size)
            if end is None:
                # As many whole batches as are known; there is at least one.
                end = at + (self.source.known_units - at) // size * size
            if at >= end:
                return
            yield from self.source.batches(at, end, size)
            at = end

    def check_target(self, path: str) -> None:
        """Refuse a path that a slice of this could not, or should not, be written to."""
        _, compressed = compression_by_name(path)
        if compressed:
            raise UsageError(f"a slice is written uncompressed: name it without {compressed} ({path})")
        if not os.path.exists(path):
            return
        if os.path.isdir(path):
            raise UsageError(f"{path} is a directory: name a file in it")
        if not os.path.isfile(path):
            raise UsageError(f"{path} is not a file that could be replaced: use write_to() for a pipe or a device")
        if any(os.path.exists(source) and os.path.samefile(path, source) for source in self.source.paths()):
            raise UsageError(f"{path} is the source itself: a slice cannot be written over what it is taken from")


def _write_whole_files(views: Sequence[VirtualFile], paths: Sequence[str]) -> None:
    """Write beside the targets, and move all of them there when all are written."""
    temporaries: list[str] = []
    path = ""
    try:
        for view, path in zip(views, paths, strict=True):
            temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{os.urandom(4).hex()}"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            temporaries.append(temporary)
            try:
                view.write_to(descriptor)
            finally:
                os.close(descriptor)
        for temporary, path in zip(temporaries, paths, strict=True):
            os.replace(temporary, path)
    except BaseException as error:
        for temporary in temporaries:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        if isinstance(error, OSError):
            is_missing = isinstance(error, FileNotFoundError)
            advice = "Make its folder first" if is_missing else "Is there room on the disk, and may you write there?"
            raise DataError(f"cannot be written: {error.strerror}", path=path, advice=advice) from error
        raise


def _pieces(source: Source, start: int, stop: int) -> Iterator[bytes | memoryview]:
    yield source.header(stop - start)
    yield from source.body_pieces(start, stop)
