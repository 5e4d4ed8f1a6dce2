from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import local
from typing import Any, ClassVar, Protocol

from aliquot.errors import MissingExtraError, UsageError
from aliquot.virtual_file.source import ByteRange
from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable, check_columns

_KEPT_BYTES = 32 * 1024 * 1024  # of decoded rows that were not asked for yet
_MOST_ENDS = 2000  # a stream is not cut more often, and every source of many files has them in memory
_FLAT = ("numpy", "pandas")
_NOT_THE_FILE = (MemoryError, ImportError, NotImplementedError)
_TREES = ("TTree", "TNtuple", "TNtupleD")
_NTUPLE = "ROOT::RNTuple"
_AGAIN = "Was it copied or downloaded completely? Get it again from where it came"
_OVERLAP = "the entries overlap"
_BROKEN = "Is the file damaged? Get it again from where it came, or read other columns"
_OTHERS = "Name the columns to read: columns=[...]"


class RootTable(Table):
    """A TTree or an RNTuple: a unit is an entry.

    Baskets are read and decoded one by one, not by ``tree.arrays``: so each is decoded once however its entries are
    divided, a damaged one is known by its entries and its byte, and a call costs nothing for branches nobody wants.
    """

    name: ClassVar[str] = "root"
    suffixes: ClassVar[tuple[str, ...]] = (".root",)
    forms: ClassVar[tuple[str, ...]] = ("awkward", "numpy", "pandas", "records")
    extra: ClassVar[str] = "hep"
    _file: Any = None
    _entries: _Entries | None = None

    @classmethod
    def looks_like(cls, head: bytes) -> bool:
        """Whether it begins as ROOT files do."""
        return head[:4] == b"root"

    def facts(self) -> Facts:
        """Look at the tree, and where its baskets or clusters end."""
        entries = self._opened()
        return Facts(entries.units, _thinned(entries.ends()), dict(entries.types))

    def read(self, start: int, stop: int) -> Any:
        """Decode what of it is not decoded yet."""
        entries = self._opened()
        try:
            columns = entries.columns(start, stop)
        except ImportError as error:  # a compression whose library is not there says nothing about the file
            raise MissingExtraError(f"Reading {self.path} ({error})", self.extra) from error
        except NotImplementedError as error:  # nor does a kind of object that uproot does not know yet
            raise UnreadableTable(f"has what uproot cannot read ({_said(error)})", advice=_OTHERS) from error
        if self.form in _FLAT:
            from aliquot.virtual_file.tables.forms import from_numpy

            return from_numpy(_one_dimensional(columns) if self.form == "pandas" else columns, self.form)
        if self.form == "records":
            names = tuple(columns)
            return [
                dict(zip(names, row, strict=True))
                for row in zip(*(array.tolist() for array in columns.values()), strict=True)
            ]
        return _record_array(columns, stop - start)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """The baskets or pages of the wanted columns."""
        return [ByteRange(self.path, *place) for place in _joined(self._opened().places(start, stop))]

    def close(self) -> None:
        """Let go of the file, and of what was decoded."""
        file, self._file, self._entries = self._file, None, None
        if file is not None:
            file.close()

    def _opened(self) -> _Entries:
        if self._entries is None:
            try:
                self._entries = self._open()
            except BaseException:
                self.close()
                raise
        return self._entries

    def _open(self) -> _Entries:
        _check_header(self.path)
        try:
            import awkward  # noqa: F401  # uproot does not ask for it before it is used
            import uproot
            from uproot.source.file import MultithreadedFileSource
        except ImportError:
            raise MissingExtraError("Reading ROOT files", self.extra) from None
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
                return _Ntuple(found, self.columns, self.form)
            return _Tree(found, self.columns, self.form)
        except (UnreadableTable, UsageError, MemoryError):
            raise
        except ImportError as error:
            raise MissingExtraError(f"Reading {self.path} ({error})", self.extra) from error
        except NotImplementedError as error:
            raise UnreadableTable(f"has what uproot cannot read ({_said(error)})", advice=_OTHERS) from error
        except OSError as error:
            raise UnreadableTable(f"cannot be read ({_said(error)})", advice=_AGAIN) from error
        except Exception as error:
            raise UnreadableTable(
                f"is damaged: uproot cannot make out what it has ({_said(error)})", advice=_AGAIN
            ) from error

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


class _Entries(Protocol):
    """The wanted columns of a tree."""

    units: int
    types: dict[str, str]

    def ends(self) -> list[int]:
        """Where it costs nothing to cut."""

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        """An array for each column: numpy's for the flat forms; for the others awkward's, or numpy's with one axis."""

    def places(self, start: int, stop: int) -> Iterable[tuple[int, int]]:
        """The bytes of these entries, in any order."""


class _Tree:
    """The wanted branches of a TTree."""

    def __init__(self, tree: Any, wanted: Sequence[str] | None, form: str) -> None:
        from uproot.interpretation.library import Awkward, NumPy

        self.units = int(tree.num_entries)
        self._numpy = NumPy()
        self._library = self._numpy if form in _FLAT else Awkward()
        self._branches: dict[str, _Branch | _Group] = {}
        self._counters: dict[int, _Branch] = {}  # by the branch: one counts the entries of many
        self.types = {}
        for name, branch in _chosen_branches(tree, wanted):
            if form in _FLAT:
                _check_flat(name, _is_flat(branch.interpretation), form)
            self._branches[name] = self._made(name, branch)
            self.types[name] = str(branch.typename)
        self._leaves = [leaf for branch in self._branches.values() for leaf in branch.leaves()]

    def _made(self, name: str, branch: Any) -> _Branch | _Group:
        from uproot.interpretation.grouped import AsGrouped

        if isinstance(branch.interpretation, AsGrouped):
            return _Group({sub: self._made(f"{name}/{sub}", branch[sub]) for sub in branch.interpretation.subbranches})
        _check_readable(name, branch)
        made = _Branch(name, branch, self._numpy if _is_plain(branch.interpretation) else self._library, self._counter)
        if made.offsets[-1] != self.units:
            raise UnreadableTable(
                f"has {made.offsets[-1]:,} entries of column {name!r}, and {self.units:,} of the tree",
                advice="It cannot be read together with others: leave it out of 'columns'",
            )
        return made

    def ends(self) -> list[int]:
        common: set[int] | None = None
        for offsets in {tuple(leaf.offsets) for leaf in self._leaves}:  # mostly all the same
            common = set(offsets) if common is None else common.intersection(offsets)
        return sorted(common - {0}) if common else []

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        first: BadRows | None = None
        arrays = {}
        for name, branch in self._branches.items():
            try:
                arrays[name] = branch.array(start, stop)
            except BadRows as bad:
                first = bad if first is None or bad.start < first.start else first
        room_bytes = _KEPT_BYTES
        for leaf in (*self._leaves, *self._counters.values()):
            room_bytes -= leaf.forget(stop, room_bytes)
        if first is not None:
            first.start, first.stop = max(start, first.start), min(stop, first.stop)
            raise first
        return arrays

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for leaf in (*self._leaves, *self._counters.values()):
            yield from leaf.places(start, stop)

    def _counter(self, branch: Any) -> _Branch:
        for leaf in self._leaves:
            if leaf.branch is branch:
                return leaf
        if id(branch) not in self._counters:
            self._counters[id(branch)] = _Branch(branch.name, branch, self._numpy, self._counter)
        return self._counters[id(branch)]


class _Group:
    """A branch that is nothing but its branches."""

    def __init__(self, parts: dict[str, _Branch | _Group]) -> None:
        self._parts = parts

    def leaves(self) -> Iterator[_Branch]:
        for part in self._parts.values():
            yield from part.leaves()

    def array(self, start: int, stop: int) -> Any:
        return _record_array({name: part.array(start, stop) for name, part in self._parts.items()}, stop - start)


class _Branch:
    """A branch whose baskets are decoded once, if they are asked for in order."""

    def __init__(self, name: str, branch: Any, library: Any, counter_of: Callable[[Any], _Branch]) -> None:
        self._name = name
        self.branch = branch
        self._counter_of = counter_of
        self._library = library
        self._interpretation = branch.interpretation
        # What uproot finds out about objects in the first basket, it uses for the others.
        self._context = {**branch.context, "forth": local()}
        self.offsets: list[int] = [int(offset) for offset in branch.entry_offsets]
        # Those after the last of these are within the tree itself.
        separate = len(self.offsets) - 1 - len(branch.embedded_baskets)
        self._seeks: list[int] = branch.member("fBasketSeek")[:separate].tolist()
        self._sizes: list[int] = branch.member("fBasketBytes")[:separate].tolist()
        self._decoded: dict[int, tuple[Any, int]] = {}  # with the bytes it takes

    def leaves(self) -> Iterator[_Branch]:
        yield self

    def array(self, start: int, stop: int) -> Any:
        baskets = self._baskets(start, stop)
        arrays = {at: self._basket(number) for at, number in enumerate(baskets)}
        try:
            return self._interpretation.final_array(
                arrays, start, stop, self.offsets[baskets.start : baskets.stop + 1], self._library, self.branch, {}
            )
        except _NOT_THE_FILE:
            raise
        except Exception as error:
            raise BadRows(self._cannot(error), start, stop, self._byte(baskets.start), _BROKEN) from error

    def forget(self, stop: int, room_bytes: int) -> int:
        """Keep only the basket that goes on after ``stop``, and only if there is room; say how much it takes."""
        number = bisect_right(self.offsets, stop) - 1
        kept = self._decoded.get(number)
        self._decoded.clear()
        if kept is None or kept[1] > room_bytes or self.offsets[number] == stop:
            return 0
        self._decoded[number] = kept
        return kept[1]

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for number in self._baskets(start, stop):
            if number < len(self._seeks):
                yield self._seeks[number], self._seeks[number] + self._sizes[number]

    def _baskets(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(bisect_right(self.offsets, start) - 1, bisect_left(self.offsets, stop))

    def _basket(self, number: int) -> Any:
        kept = self._decoded.get(number)
        if kept is not None:
            return kept[0]
        try:
            basket = self.branch.basket(number)
            array = self._interpretation.basket_array(
                basket.data,
                self._byte_offsets(basket, number),
                basket,
                self.branch,
                self._context,
                basket.member("fKeylen"),
                self._library,
                {},
            )
            expected = self.offsets[number + 1] - self.offsets[number]
            if len(array) != expected:
                raise ValueError(f"{len(array)} entries instead of {expected}")  # noqa: TRY301  # as uproot's own
            _check_offsets(array)
        except _NOT_THE_FILE:
            raise
        except BadRows as bad:  # of its counter: without it, all of the basket is lost
            raise BadRows(bad.problem, self.offsets[number], self.offsets[number + 1], bad.byte, bad.advice) from bad
        except Exception as error:
            self._decoded.clear()
            start, stop = self.offsets[number], self.offsets[number + 1]
            raise BadRows(self._cannot(error), start, stop, self._byte(number), _BROKEN) from error
        self._decoded[number] = (array, basket.uncompressed_bytes)
        return array

    def _byte_offsets(self, basket: Any, number: int) -> Any:
        """Where its entries begin, which it may leave to its counter, whose baskets may end elsewhere."""
        import numpy
        from uproot.interpretation.jagged import AsJagged

        given, counting = basket.byte_offsets, self.branch.count_branch
        if given is not None or counting is None or not isinstance(self._interpretation, AsJagged):
            return given
        counts = self._counter_of(counting).array(self.offsets[number], self.offsets[number + 1])
        offsets = numpy.zeros(len(counts) + 1, numpy.int64)
        numpy.cumsum(counts, out=offsets[1:])
        return offsets * self._interpretation.content.from_dtype.itemsize

    def _cannot(self, error: Exception) -> str:
        return f"has a basket of column {self._name!r} that cannot be decoded ({_said(error)})"

    def _byte(self, number: int) -> int | None:
        return self._seeks[number] if number < len(self._seeks) else None


class _Ntuple:
    """The wanted fields of an RNTuple.

    Its own ``arrays`` decodes one cluster more than it needs wherever a range ends with a cluster.
    """

    def __init__(self, ntuple: Any, wanted: Sequence[str] | None, form: str) -> None:
        from uproot.behaviors.RNTuple import _recursive_find

        self.units = int(ntuple.num_entries)
        self._ntuple = ntuple
        self._flat = form in _FLAT
        fields = {field.name: field for field in ntuple.fields}
        available = list(fields) if wanted is None else list(ntuple.keys())
        names = check_columns(wanted, available)
        # By a function: a name can have what means something else in a pattern.
        chosen = set(names)
        self._form, _ = ntuple.to_akform(filter_field=lambda field: field.path in chosen)
        self.types = {name: str(ntuple[name].typename or _type_of(self._form, name)) for name in names}
        if self._flat:
            for name in self._form.fields:
                _check_flat(name, _is_flat_form(self._form.content(name)), form)
        # A part of a field comes within that field.
        self._names = list(dict.fromkeys(name if name in fields else name.partition(".")[0] for name in names))
        keys: list[str] = []
        _recursive_find(self._form, keys)
        self._keys = {key: int(key.split("-")[1]) for key in keys if "column" in key}
        clusters = ntuple.cluster_summaries
        self._starts: list[int] = [int(cluster.num_first_entry) for cluster in clusters]
        self._stops: list[int] = [int(cluster.num_first_entry + cluster.num_entries) for cluster in clusters]
        self._kept: tuple[int, int, Any] = (0, 0, None)  # entries, and what they are

    def ends(self) -> list[int]:
        return [stop for start, stop in zip(self._starts, self._stops, strict=True) if stop > start]

    def columns(self, start: int, stop: int) -> dict[str, Any]:
        parts = []
        kept_start, kept_stop, kept = self._kept
        at = start
        if kept_start <= start < kept_stop:
            at = min(stop, kept_stop)
            parts.append(kept[start - kept_start : at - kept_start])
        if at < stop or not parts:
            clusters = self._clusters(at, stop)
            first = self._starts[clusters.start] if clusters else at
            decoded = self._decoded(clusters, at, stop)
            parts.append(decoded[at - first : stop - first])
            last = self._stops[clusters[-1]] if clusters else stop
            keep = last > stop and decoded.nbytes <= _KEPT_BYTES
            self._kept = (first, last, decoded) if keep else (0, 0, None)
        if len(parts) > 1:
            import awkward

            together = awkward.concatenate(parts)
        else:
            together = parts[0]
        columns = {name: together[name] for name in self._names}
        return {name: _to_numpy(array) for name, array in columns.items()} if self._flat else columns

    def places(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for cluster in self._clusters(start, stop):
            for column in set(self._keys.values()):
                for page in self._pages(cluster, column):
                    yield int(page.locator.offset), int(page.locator.offset + page.locator.num_bytes)

    def _clusters(self, start: int, stop: int) -> range:
        if start >= stop:
            return range(0)
        return range(bisect_right(self._starts, start) - 1, bisect_left(self._starts, stop))

    def _decoded(self, clusters: range, start: int, stop: int) -> Any:
        try:
            return self._assembled(clusters)
        except _NOT_THE_FILE:
            raise
        except Exception as error:
            for cluster in clusters:
                first, last = max(start, self._starts[cluster]), min(stop, self._stops[cluster])
                damage = self._damage(cluster)
                if damage is not None:
                    raise BadRows(damage[0], first, last, damage[1], _BROKEN) from error
            raise BadRows(
                f"has clusters that cannot be decoded ({_said(error)})", start, stop, advice=_BROKEN
            ) from error

    def _assembled(self, clusters: range) -> Any:
        import awkward
        from uproot.behaviors.RNTuple import _fill_container_dict
        from uproot.const import rntuple_index_types

        buffers: dict[str, Any] = {}
        for key, column in self._keys.items():
            record = self._ntuple.column_records[column]
            first = self._starts[clusters.start] if clusters else 0
            content = self._ntuple.read_cluster_range(
                column,
                clusters.start,
                clusters.stop,
                missing_element_padding=max(record.first_element_index - first, 0),
            )
            if record.type in rntuple_index_types and (content[1:] < content[:-1]).any():
                raise ValueError(_OVERLAP)
            _fill_container_dict(buffers, content, key, record.type, None)
        entries = sum(self._stops[cluster] - self._starts[cluster] for cluster in clusters)
        return awkward.from_buffers(self._form, entries, buffers)

    def _damage(self, cluster: int) -> tuple[str, int | None] | None:
        """What is wrong with a cluster, and at which byte; None if nothing is."""
        import numpy

        names = self._ntuple.field_records
        for column in self._keys.values():
            metadata = self._ntuple.get_field_metadata(column)
            for number, page in enumerate(self._pages(cluster, column)):
                try:
                    space = numpy.empty(page.num_elements, metadata.dtype_result)
                    self._ntuple.read_page(space, cluster, column, number, metadata)
                except MemoryError:
                    raise
                except Exception as error:
                    field = names[self._ntuple.column_records[column].field_id].field_name
                    return f"has a page of field {field!r} that cannot be decoded ({_said(error)})", int(
                        page.locator.offset
                    )
        try:
            self._assembled(range(cluster, cluster + 1))
        except MemoryError:
            raise
        except Exception as error:
            return f"has a cluster that cannot be decoded ({_said(error)})", None
        return None

    def _pages(self, cluster: int, column: int) -> Sequence[Any]:
        links = self._ntuple.page_link_list[cluster]
        return links[column].pages if column < len(links) else ()


def _check_header(path: str) -> None:
    """Refuse what is not a whole ROOT file, before uproot stumbles over it."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(20)
            there_bytes = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise UnreadableTable(f"cannot be opened: {error.strerror or error}") from error
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


def _chosen_branches(tree: Any, wanted: Sequence[str] | None) -> list[tuple[str, Any]]:
    """The wanted branches by name; all that can be read by default, by their short names where these are unique."""
    if wanted is not None:
        within = tree.keys(recursive=True)
        known = set(within)
        short = [name for name in wanted if name not in known and tree.get(name) is not None]
        return [(name, tree[name]) for name in check_columns(wanted, [*within, *short])]
    from uproot.interpretation.grouped import AsGrouped
    from uproot.interpretation.identify import UnknownInterpretation

    every = [
        (path, branch)
        for path, branch in tree.iteritems(recursive=True)
        if not isinstance(branch.interpretation, AsGrouped | UnknownInterpretation)
    ]
    times: dict[str, int] = {}
    for _, branch in every:
        times[branch.name] = times.get(branch.name, 0) + 1
    return [(branch.name if times[branch.name] == 1 else path, branch) for path, branch in every]


def _check_readable(name: str, branch: Any) -> None:
    from uproot.interpretation.identify import UnknownInterpretation
    from uproot.interpretation.objects import AsObjects, CannotBeAwkward

    interpretation = branch.interpretation
    why = ""
    if isinstance(interpretation, UnknownInterpretation):
        why = "uproot does not know its type"
    elif isinstance(interpretation, AsObjects):
        try:
            interpretation.awkward_form(branch.file)
        except CannotBeAwkward as error:
            why = f"its objects do not fit into arrays: {_said(error)}"
    if why:
        raise UnreadableTable(f"has a column {name!r} that cannot be read ({why})", advice=_OTHERS)


def _check_flat(name: str, flat: bool, form: str) -> None:
    if not flat:
        raise UsageError(
            f"column {name!r} has no fixed number of values in each entry, and as_={form!r} has no place for them: "
            "open with as_='awkward', or name other columns"
        )


def _is_plain(interpretation: Any) -> bool:
    """Whether it is a number for each entry."""
    from uproot.interpretation.numerical import AsDtype

    if type(interpretation) is not AsDtype:
        return False
    return interpretation.to_dtype.names is None and interpretation.to_dtype.shape == ()


def _is_flat(interpretation: Any) -> bool:
    from uproot.interpretation.numerical import Numerical
    from uproot.interpretation.strings import AsStrings

    return isinstance(interpretation, Numerical | AsStrings)


def _is_flat_form(form: Any) -> bool:
    if form.parameter("__array__") == "string":
        return True
    return not form.is_record and not form.is_union and bool(form.purelist_isregular)


def _type_of(form: Any, path: str) -> str:
    for name in path.split("."):
        while not form.is_record:
            form = form.content
        form = form.content(name)
    return str(form.type)


def _check_offsets(array: Any) -> None:
    """Refuse entries that would reach beyond their basket: awkward believes what it is given."""
    from uproot.interpretation.jagged import JaggedArray

    if isinstance(array, JaggedArray):
        offsets = array.offsets
        if len(offsets) and (offsets[0] < 0 or offsets[-1] > len(array.content) or (offsets[1:] < offsets[:-1]).any()):
            raise ValueError(_OVERLAP)


def _record_array(columns: Mapping[str, Any], units: int) -> Any:
    import awkward

    # Much cheaper than to let awkward find out what they are.
    layouts = [
        array.layout if isinstance(array, awkward.Array) else awkward.contents.NumpyArray(array)
        for array in columns.values()
    ]
    return awkward.Array(awkward.contents.RecordArray(layouts, list(columns), length=units))


def _to_numpy(array: Any) -> Any:
    import awkward
    import numpy

    if awkward.parameters(array).get("__array__") == "string":
        return numpy.array(array.to_list(), dtype=object)
    return awkward.to_numpy(array)


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


def _joined(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(places):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _said(error: BaseException) -> str:
    """What a library says, in a line: uproot's messages go on with everything that it knows."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first[:200]}" if first else type(error).__name__
