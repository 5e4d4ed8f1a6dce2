from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from aliquot.errors import MissingExtraError, UsageError
from aliquot.virtual_file.source import ByteRange
from aliquot.virtual_file.tables.forms import concatenate, from_numpy
from aliquot.virtual_file.tables.ranges import joined
from aliquot.virtual_file.tables.root.entries import FLAT, OTHERS, Entries, record_array
from aliquot.virtual_file.tables.root.finding import find_layout, pack_layout, unpack_layout
from aliquot.virtual_file.tables.root.layout import TreeLayout
from aliquot.virtual_file.tables.root.ntuple import NtupleEntries
from aliquot.virtual_file.tables.root.pieces import Pieces
from aliquot.virtual_file.tables.root.plain import PlainEntries
from aliquot.virtual_file.tables.root.tree import tree_entries
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable
from aliquot.virtual_file.tables.wording import one_line

_MOST_ENDS = 2000  # a stream is not cut more often, and every source of many files has them in memory
_MOST_DETAIL_BYTES = 1024  # sent to each worker, for each file: to find out again takes longer than to read a small one
_TREES = ("TTree", "TNtuple", "TNtupleD")
_NTUPLE = "ROOT::RNTuple"
_AGAIN = "Was it copied or downloaded completely? Get it again from where it came"


class RootTable(Table):
    """A TTree or an RNTuple: a unit is an entry.

    Baskets are read and decoded one by one, not by ``tree.arrays``: so each is decoded once however its entries are
    divided, a damaged one is known by its entries and its byte, and a call costs nothing for branches nobody wants.
    """

    name: ClassVar[str] = "root"
    suffixes: ClassVar[tuple[str, ...]] = (".root",)
    library: ClassVar[str] = "uproot"
    forms: ClassVar[tuple[str, ...]] = ("awkward", "numpy", "pandas", "records")
    extra: ClassVar[str] = "hep"
    _file: Any = None
    _entries: Entries | None = None
    _layout: TreeLayout | None = None  # where it is a plain tree
    _leave_to_uproot = False

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """Whether it begins as ROOT files do."""
        return head[:4] == b"root"

    def facts(self) -> Facts:
        """Look at the tree, and where its baskets or clusters end."""
        entries = self._opened()
        return Facts(entries.units, _thinned(entries.ends()), dict(entries.types), detail=self._detail())

    def _detail(self) -> bytes:
        layout = self._layout
        if layout is None:
            return b""
        # A basket takes three bytes at least: of a large tree, not even the length is worth finding out.
        if 3 * sum(len(branch.seeks) for branch in layout.branches.values()) > _MOST_DETAIL_BYTES:
            return b""
        detail = pack_layout(self._file.descriptor, layout)
        return detail if len(detail) <= _MOST_DETAIL_BYTES else b""

    def read(self, start: int, stop: int) -> Any:
        """As a batch."""
        return self.put_together([self.pieces(start, stop, checked=True)], self.form)

    def pieces(self, start: int, stop: int, *, checked: bool = False) -> _Entries:
        """Decode what of it is not decoded yet."""
        try:
            columns = self._opened().columns(start, stop)
            for array in columns.values() if checked else ():
                if isinstance(array, Pieces):
                    array.array()
        except BadRows:
            if not isinstance(self._file, PlainFile):
                raise
            # It may have been taken for plain, and uproot knows better: it has the last word.
            self.close()
            self._leave_to_uproot = True
            return self.pieces(start, stop, checked=checked)
        except ImportError as error:  # a compression whose library is not there says nothing about the file
            raise MissingExtraError(f"Reading {self.path} ({error})", self.extra) from error
        except NotImplementedError as error:  # nor does a kind of object that uproot does not know yet
            raise self._not_known(error) from error
        return _Entries(stop - start, columns)

    @classmethod
    def put_together(cls, parts: Sequence[_Entries], form: str) -> Any:
        """Numbers of all files at once, where nothing else is among them. The parts are used up."""
        if all(isinstance(array, Pieces) for part in parts for array in part.columns.values()):
            # Column by column: what each was made of is let go before the next is made.
            known: dict[Any, Any] = {}
            columns = {
                name: Pieces.together([part.columns.pop(name) for part in parts]).array(known)
                for name in tuple(parts[0].columns)
            }
            return _batch(_Entries(sum(part.units for part in parts), columns), form)
        return concatenate([_batch(part, form) for part in parts], form)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """The baskets or pages of the wanted columns."""
        return joined(self.path, self._opened().places(start, stop))

    def close(self) -> None:
        """Let go of the file, and of what was decoded."""
        file, self._file, self._entries, self._layout = self._file, None, None, None
        if file is not None:
            file.close()

    def _opened(self) -> Entries:
        if self._entries is None:
            try:
                self._entries = self._open()
            except BaseException:
                self.close()
                raise
        return self._entries

    def _open(self) -> Entries:
        layout = self._find_plain()
        if layout is None:
            import uproot

            return self._open_by(uproot)
        return PlainEntries(self._file.descriptor, layout, self.columns or tuple(layout.branches), self.form)

    def _find_plain(self) -> TreeLayout | None:
        """Where a plain tree has its baskets, with its file open; None where uproot is to read it."""
        try:
            import awkward  # noqa: F401  # uproot does not ask for it before it is used
            import uproot
        except ImportError:
            raise MissingExtraError("Reading ROOT files", self.extra) from None
        # Whoever has told uproot how to interpret some branches is asked about all.
        is_told = bool(getattr(uproot.interpretation.identify, "_registered_interpretations", None))
        if self.columns != () and not self._leave_to_uproot and not is_told:
            self._file = PlainFile(self.path)
            layout = unpack_layout(self._file.descriptor, self.detail) if self.detail else None
            if layout is None:
                layout = find_layout(self._file.descriptor, self.inner, self.columns)
            if layout is not None:
                self._layout = layout
                return layout
            self._file.close()
            self._file = None
            self._leave_to_uproot = True
        return None

    def _open_by(self, uproot: Any) -> Entries:
        check_root_header(self.path)
        from uproot.source.file import MultithreadedFileSource

        try:
            # Without threads, in spite of the name. A mapped file is read a little faster, but one that is cut off
            # meanwhile would kill the process.
            self._file = uproot.open(
                {self.path: None},
                handler=MultithreadedFileSource,
                use_threads=False,
                object_cache=None,
                array_cache=None,
            )
            found = self._find(uproot)
            if isinstance(found, uproot.behaviors.RNTuple.RNTuple):
                return NtupleEntries(found, self.columns, self.form)
            return tree_entries(found, self.columns, self.form)
        except (UnreadableTable, UsageError, MemoryError):
            raise
        except ImportError as error:
            raise MissingExtraError(f"Reading {self.path} ({error})", self.extra) from error
        except NotImplementedError as error:
            raise self._not_known(error) from error
        except OSError as error:
            raise UnreadableTable(f"cannot be read ({one_line(error)})", advice=_AGAIN) from error
        except Exception as error:
            raise UnreadableTable(
                f"is damaged: uproot cannot make out what it has ({one_line(error)})", advice=_AGAIN
            ) from error

    def _not_known(self, error: NotImplementedError) -> UnreadableTable:
        advice = f"Other columns may do, or the file is damaged. {_AGAIN}" if self.columns else OTHERS
        return UnreadableTable(f"has what uproot cannot read ({one_line(error)})", advice=advice)

    def _find(self, uproot: Any) -> Any:
        """The tree that is meant."""
        if self.inner:
            try:
                found = self._file[self.inner]
            except uproot.exceptions.KeyInFileError:
                trees = self._trees()
                near = [name for name in trees if name.lower() == self.inner.lower()]
                it_has = f"It has {', '.join(near or trees)}" if trees else "It has none at all"
                raise UnreadableTable(f"has no tree {self.inner!r}", advice=it_has) from None
            if isinstance(found, uproot.behaviors.TTree.TTree | uproot.behaviors.RNTuple.RNTuple):
                return found
            kind = getattr(found, "classname", type(found).__name__)
            raise UnreadableTable(
                f"has {self.inner!r}, but that is a {kind} and not a tree",
                advice=f"It has {', '.join(self._trees()) or 'no trees'}",
            )
        trees = self._trees()
        if not trees:
            raise UnreadableTable(
                "has no tree", advice="If the program that wrote it did not end properly, have ROOT recover the file"
            )
        if len(trees) > 1:
            raise UnreadableTable(
                f"has several trees: {', '.join(trees)}", advice=f"Say which: {self.path}:{trees[0]}, for example"
            )
        return self._file[trees[0]]

    def _trees(self) -> list[str]:
        named = self._file.classnames(recursive=True, cycle=False)
        return [name for name, kind in named.items() if kind in _TREES or kind == _NTUPLE]


class PlainFile:
    """A file that nobody but this reads: closed when it is let go, without a warning, as uproot's are."""

    descriptor = -1

    def __init__(self, path: str) -> None:
        try:
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _cannot_be_opened(error) from error

    def close(self) -> None:
        """Once is enough."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class _Entries(NamedTuple):
    """Some entries: for each column, an array or the pieces of one."""

    units: int
    columns: dict[str, Any]


def _batch(entries: _Entries, form: str) -> Any:
    columns = {name: array.array() if isinstance(array, Pieces) else array for name, array in entries.columns.items()}
    if form in FLAT:
        return from_numpy(_one_dimensional(columns) if form == "pandas" else columns, form)
    if form == "records":
        names = tuple(columns)
        return [
            dict(zip(names, row, strict=True))
            for row in zip(*(array.tolist() for array in columns.values()), strict=True)
        ]
    return record_array(columns, entries.units)


def check_root_header(path: str) -> None:
    """Refuse what is not a whole ROOT file, before uproot stumbles over it."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(20)
            there_bytes = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _cannot_be_opened(error) from error
    if not head:
        raise UnreadableTable("is empty", byte=0, advice=_AGAIN)
    if head[:4] != b"root":
        raise UnreadableTable(
            f"is not a ROOT file: it begins with {head[:4]!r}", byte=0, advice="Is it the right file?"
        )
    # Then its version, where its data begins, and where it ends; the last has 8 bytes in files above 2 GB.
    large = int.from_bytes(head[4:8], "big") >= 1_000_000
    end = int.from_bytes(head[12:20] if large else head[12:16], "big")
    if there_bytes < max(end, 20):
        raise UnreadableTable(
            f"is cut off: {there_bytes:,} of its {max(end, 20):,} bytes are there", byte=there_bytes, advice=_AGAIN
        )


def _cannot_be_opened(error: OSError) -> UnreadableTable:
    return UnreadableTable(f"cannot be opened: {error.strerror or error}")


def _one_dimensional(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A column for each value, where an entry has several: ``x[0]``, ``x[1]``, as uproot names them."""
    import numpy

    single = {}
    for name, array in columns.items():
        if array.ndim == 1:
            single[name] = array
            continue
        for place in numpy.ndindex(array.shape[1:]):
            single[name + "".join(f"[{at}]" for at in place)] = array[(slice(None), *place)]
    return single


def _thinned(ends: Sequence[int]) -> tuple[int, ...]:
    """Some of them, evenly, if there are many; the last in any case."""
    every = -(-len(ends) // _MOST_ENDS) or 1
    return tuple(ends[(len(ends) - 1) % every :: every])
