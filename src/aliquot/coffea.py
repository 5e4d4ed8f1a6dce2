"""Run a coffea processor, as it is, over a fileset, without a chunk size: `run`; or coffea's own Runner: `Executor`.

Written for the processors, filesets and schemas of coffea 2026 (2026.4 and later). Any other year is refused: what a
Runner does with each chunk is done here, and has changed between them.

    fileset -> FileMeta of each file    as Runner takes it apart
            -> EntriesSource            its units: the entries of all files, one after the other
            -> _Process                 in a worker: some entries -> NanoEvents -> processor.process()
            -> accumulate               coffea's own, in the workers and here
            -> processor.postprocess()
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import accumulate as running_sum
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from msgspec import Struct

from aliquot import workers
from aliquot.errors import DataError, MissingExtraError, SourceChangedError, UsageError
from aliquot.job import Description
from aliquot.virtual_file import ByteRange, VirtualFile
from aliquot.virtual_file.source import Source
from aliquot.virtual_file.tables.looking import HowRead, Known, TablePlace, recall, remember, stat_of
from aliquot.virtual_file.tables.table import Facts
from aliquot.workers.nursery import the_nursery

if TYPE_CHECKING:
    from aliquot.sites.local import Local

__all__ = ["Executor", "run"]  # noqa: F822  # Executor is made when it is first wanted

_YEAR, _FIRST_MONTH = 2026, 4
# Imported once, before workers are forked.
_LIBRARIES = ("coffea.processor", "aliquot.coffea", "cloudpickle")
# As Runner's xrootdtimeout.
_OPEN_TIMEOUT_SECONDS = 60
# The key under which what was found in files is remembered.
_HOW = HowRead("coffea entries", "awkward")
# Fewer files than this are looked at here: no worker would be quicker.
_FILES_FOR_WORKERS = 3
# A cut is moved to where a cluster ends if so much of the step is left.
_LEAST_PART = 0.75
_NO_BYTES = "entries of ROOT files have no bytes of their own: they cannot be written to a file"


def run(
    fileset: Mapping[str, Any] | str,
    treename: Any = None,
    processor_instance: Any = None,
    *,
    schema: Any = None,
    metadata: Mapping[str, Any] | None = None,
    uproot_options: Mapping[str, Any] | None = None,
    iteritems_options: Mapping[str, Any] | None = None,
    savemetrics: bool = False,
    ordered: bool = False,
    on: Local | None = None,
    memory: int | str | None = None,
    disk: int | str | None = None,
    max_failures: float = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    target_bytes: int | str | None = None,
    wall_seconds: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    resume_anyway: bool = False,
    progress: bool | None = None,
) -> Any:
    """Run a coffea processor over a fileset on all cores, and return what it accumulates, after its ``postprocess``.

    What ``coffea.processor.Runner(executor, schema=schema)(fileset, processor_instance, treename=treename)`` returns,
    with nothing to tune: how many entries make a chunk is found out while running. For coffea 2026.4 and later. The
    tree name comes before the processor, or after it as a Runner has it.

    ``fileset`` is whatever a Runner takes: ``{dataset: [files]}``, ``{dataset: {"files": ..., "treename": ...,
    "metadata": ..., "preload": ...}}``, or the path of a JSON file with that. ``metadata`` is put on the events of
    every dataset, beside the fileset's own. ``schema`` is NanoAODSchema unless said otherwise. ``uproot_options``,
    ``iteritems_options`` and ``savemetrics`` (return the output and the metrics) are those of the Runner.

    The units are the entries of all files, one after the other. A file that cannot be opened is one unit, and so is a
    file without entries, which the processor is given too. Instead of ``skipbadfiles``, ``max_failures`` says how many
    may fail. The other arguments are those of `aliquot.map_batches`; with ``ordered=True``, outputs are accumulated in
    the order of the files, so that lists and categories come in the same order every time.
    """
    if isinstance(processor_instance, str | None) and not isinstance(treename, str | None):
        processor_instance, treename = treename, processor_instance
    if not workers.inside_worker and find_spec("coffea") is not None:
        # Imported there once, for all workers, and at the same time as here.
        the_nursery(preload=_LIBRARIES)
    executor_module = _coffea_executors()
    if not hasattr(processor_instance, "process") and not callable(processor_instance):
        raise UsageError(f"{processor_instance!r:.200} is not a processor: it has no method process(events)")
    files = _files_of(executor_module, fileset, treename, metadata)
    options = {"timeout": _OPEN_TIMEOUT_SECONDS, **(uproot_options or {})}
    source = EntriesSource(_look_at([(file.path, file.tree) for file in files], options, on))
    process = _Process(
        processor_instance, files, schema, options, dict(iteritems_options or {}), measures=bool(savemetrics)
    )

    import aliquot

    joined = aliquot.map_batches(
        process,
        VirtualFile(source),
        join=_join,
        ordered=ordered,
        on=on,
        memory=memory,
        disk=disk,
        max_failures=max_failures,
        set_aside=set_aside,
        size=size,
        target_seconds=target_seconds,
        target_bytes=target_bytes,
        wall_seconds=wall_seconds,
        run_dir=run_dir,
        fresh=fresh,
        resume_anyway=resume_anyway,
        progress=progress,
    )
    if joined is None:
        raise UsageError("there is no output: every entry failed, and max_failures allows for that")
    return _finished(joined.value, processor_instance, savemetrics=savemetrics)


def _finished(wrapped: dict[str, Any], processor_instance: Any, *, savemetrics: bool) -> Any:
    """As Runner ends: postprocess may change the output, or return another."""
    output = wrapped["out"]
    postprocess = getattr(processor_instance, "postprocess", None)
    if callable(postprocess):
        changed = postprocess(output)
        output = output if changed is None else changed
    if not savemetrics:
        return output
    metrics = {name: list(value) if isinstance(value, set) else value for name, value in wrapped["metrics"].items()}
    return output, metrics


# What there is to process


class _File(NamedTuple):
    """One file of a fileset, and what its events carry with them."""

    path: str
    tree: str
    dataset: str
    metadata: dict[str, Any]
    preload: tuple[str, ...] | None


def _files_of(
    executor_module: Any, fileset: Any, treename: str | None, metadata: Mapping[str, Any] | None
) -> list[_File]:
    """Take a fileset apart, as Runner does."""
    reserved = executor_module._PROTECTED_NAMES
    taken = sorted(reserved.intersection(metadata or {}))
    if taken:
        raise UsageError(f"metadata={{{taken[0]!r}: ...}}: coffea itself puts that on the events; choose another name")
    try:
        found = list(executor_module.Runner._normalize_fileset(fileset, treename))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"coffea does not take this fileset: {type(error).__name__}: {error}") from error
    if not found:
        raise UsageError("the fileset names no files")
    return [
        _File(
            os.fspath(file.filename),
            file.treename,
            file.dataset,
            {**(metadata or {}), **(file.metadata or {})},
            None if file.preload is None else tuple(sorted(file.preload)),
        )
        for file in found
    ]


class TreeFacts(Struct, frozen=True):
    """How many entries a tree has and where its clusters end; or why it cannot be read."""

    path: str
    tree: str
    entries: int
    ends: tuple[int, ...] = ()
    problem: str = ""


def _look_at(trees: Sequence[tuple[str, str]], options: dict[str, Any], on: Local | None) -> list[TreeFacts]:
    """Count the entries of each tree: once, by all workers, and only where nobody has before."""
    places = {tree: TablePlace(os.path.abspath(tree[0]), tree[1]) for tree in dict.fromkeys(trees)}
    remembered = recall(_HOW, [place for (path, _), place in places.items() if _is_local(path)])
    found = {
        tree: _facts_from(tree, remembered[place].facts)
        for tree, place in places.items()
        if place in remembered and _is_unchanged(place, remembered[place])
    }
    unknown = [tree for tree in places if tree not in found]
    look = functools.partial(_look, options)
    look.libraries = _LIBRARIES  # type: ignore[attr-defined]  # so that the workers are those of the run
    if len(unknown) < _FILES_FOR_WORKERS:
        looked = [look(tree) for tree in unknown]
    else:
        import aliquot

        looked = aliquot.map(look, unknown, on=on, progress=False)
    kept = {}
    for tree, (facts, stat) in zip(unknown, looked, strict=True):
        found[tree] = facts
        if stat is not None:
            kept[places[tree]] = Known(*stat, Facts(facts.entries, facts.ends, problem=facts.problem))
    remember(_HOW, kept)
    return [found[tree] for tree in trees]


def _look(options: dict[str, Any], tree: tuple[str, str]) -> tuple[TreeFacts, tuple[int, int] | None]:
    """Open a file and look at its tree; also the size and time of the file, where it has them."""
    import uproot

    path, name = tree
    try:
        stat = stat_of(path) if _is_local(path) else None
        with uproot.open({path: None}, **options) as file:
            found = file[name]
            facts = TreeFacts(path, name, int(found.num_entries), _cluster_ends(found))
    except MemoryError:
        raise
    except DataError as error:
        return TreeFacts(path, name, 0, problem=error.problem), None
    except Exception as error:  # whatever uproot makes of bytes that are not what they should be
        return TreeFacts(path, name, 0, problem=f"cannot be read: {_in_a_line(error)}"), None
    return facts, stat


def _cluster_ends(tree: Any) -> tuple[int, ...]:
    """Where all branches have the end of a basket: cut there, no basket is read twice."""
    with contextlib.suppress(Exception):  # without them, steps are only cut elsewhere
        if hasattr(tree, "cluster_summaries"):  # an RNTuple
            starts = [int(cluster.num_first_entry) for cluster in tree.cluster_summaries]
            return (*starts[1:], int(tree.num_entries))
        return tuple(map(int, tree.common_entry_offsets()))[1:]
    return ()


def _in_a_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}"


def _facts_from(tree: tuple[str, str], facts: Facts) -> TreeFacts:
    return TreeFacts(*tree, facts.units, facts.ends, facts.problem)


def _is_unchanged(place: TablePlace, known: Known) -> bool:
    with contextlib.suppress(DataError):
        return stat_of(place.path) == (known.size_bytes, known.mtime_ns)
    return False


def _is_local(path: str) -> bool:
    return "://" not in path


class _Part(NamedTuple):
    """Some entries of one file."""

    number: int  # of the file, in the fileset
    first_unit: int  # that of the file's first entry
    path: str
    tree: str
    start: int
    stop: int


class _Entries(Sequence[str]):
    """Some units: which entries of which files they are. Nothing of them has been read."""

    def __init__(self, units: int, parts: list[_Part]) -> None:
        self._units = units
        self.parts = parts

    def __len__(self) -> int:
        return self._units

    def __getitem__(self, where: Any) -> Any:
        """Tell which one it is, for those who read about a failure."""
        at = range(self._units)[where]
        for part in self.parts:
            units = max(1, part.stop - part.start)
            if at < units:
                return f"entry {part.start + at} of {part.tree} in {part.path}"
            at -= units
        raise IndexError(where)


class EntriesSource(Source):
    """The entries of trees, one after the other. A tree without entries, or that cannot be read, is one unit."""

    kind = "coffea entries"

    def __init__(self, trees: Sequence[TreeFacts]) -> None:
        self._trees = tuple(trees)
        self._ends = list(running_sum(max(1, tree.entries) for tree in self._trees))

    @property
    def known_units(self) -> int:
        """All of them."""
        return self._ends[-1]

    @property
    def complete(self) -> bool:
        """Always."""
        return True

    def records_of(self, start: int, stop: int) -> _Entries:
        """Which entries they are: reading them is left to coffea."""
        parts = []
        for number, begin, end in self._touched(start, stop):
            tree = self._trees[number]
            first = self._first_of(number)
            if tree.problem:
                raise DataError(tree.problem, path=tree.path, spoiled_units=(first, first + 1))
            parts.append(_Part(number, first, tree.path, tree.tree, begin, min(end, tree.entries)))
        return _Entries(stop - start, parts)

    def good_cut(self, start: int, stop: int) -> int:
        """Where a cluster ends shortly before ``stop``, else there."""
        number = bisect_left(self._ends, stop)
        first, ends = self._first_of(number), self._trees[number].ends
        before = bisect_right(ends, stop - first) - 1
        cut = first + (ends[before] if before >= 0 else 0)
        return cut if cut - start >= _LEAST_PART * (stop - start) else stop

    def typical_batch_units(self) -> int:
        """As many as Runner takes by default."""
        return 100_000

    def header(self, units: int) -> bytes:
        """They have none."""
        raise UsageError(_NO_BYTES)

    def body_pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """They have none."""
        raise UsageError(_NO_BYTES)

    def byte_ranges(self, start: int, stop: int) -> list[ByteRange]:
        """Whole files: which columns will be read, nobody knows."""
        paths = (self._trees[number].path for number, _, _ in self._touched(start, stop))
        return [ByteRange(path, 0, stat_of(path)[0]) for path in paths if _is_local(path)]

    def paths(self) -> list[str]:
        """Each file once, but for those that are far away."""
        return list(dict.fromkeys(os.path.abspath(tree.path) for tree in self._trees if _is_local(tree.path)))

    def to_desc(self, start: int, stop: int | None) -> Description:
        """All trees, and what is known of them."""
        return {"kind": self.kind, "trees": msgspec.to_builtins(self._trees)}

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild it."""
        return cls(msgspec.convert(desc["trees"], list[TreeFacts]))

    def _first_of(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def _touched(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The trees that hold some units, and which of their units these are."""
        number = bisect_right(self._ends, start)
        while start < stop:
            first, end = self._first_of(number), min(stop, self._ends[number])
            yield number, start - first, end - first
            start, number = end, number + 1


# In a worker


class _Output:
    """What a processor returned for some entries, as Runner wraps it; ``is_own`` if nobody else holds it."""

    def __init__(self, value: Any, *, is_own: bool = False) -> None:
        self.value = value
        self.is_own = is_own

    def __reduce__(self) -> tuple[object, ...]:
        return (_own_output, (self.value,))


def _own_output(value: Any) -> _Output:
    return _Output(value, is_own=True)


def _join(first: _Output, second: _Output) -> _Output:
    """Add two outputs as coffea does; in place where the first is not one that the processor may still hold."""
    from coffea.processor import accumulate

    if first.is_own:
        return _own_output(accumulate([second.value], first.value))
    return _own_output(accumulate([first.value, second.value]))


def _steady(value: Any) -> Any:
    """The same thing in the same order in every process: a set has another in each."""
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, dict):
        return [(key, _steady(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [_steady(inner) for inner in value]
    return value


class _Process:
    """Calls a processor on some entries, file by file. The last file stays open for the entries that come next."""

    libraries = _LIBRARIES

    def __init__(
        self,
        processor_instance: Any,
        files: list[_File],
        schema: Any,
        uproot_options: dict[str, Any],
        iteritems_options: dict[str, Any],
        *,
        measures: bool,
    ) -> None:
        self._processor = processor_instance
        self._files = files
        self._schema = schema
        self._uproot_options = uproot_options
        self._iteritems_options = iteritems_options
        self._measures = measures
        self._open: _OpenTree | None = None
        # As functions have them: by these and the next two, what was learned of a processor, and its run, are found
        # again in another process.
        named = processor_instance if isinstance(processor_instance, FunctionType) else type(processor_instance)
        self.__name__, self.__qualname__, self.__module__ = named.__name__, named.__qualname__, named.__module__

    @property
    def __code__(self) -> CodeType | None:
        """That of process()."""
        return getattr(getattr(self._processor, "process", self._processor), "__code__", None)

    @property
    def __defaults__(self) -> tuple[Any, ...]:
        """All else that the output depends on.

        Not the processor itself: two pickles of one that is defined in a script differ.
        """
        kind = type(self._processor)
        classes = [] if kind is FunctionType else [each for each in kind.__mro__ if each is not object]
        methods = [method for each in classes for method in vars(each).values() if isinstance(method, FunctionType)]
        own = self._processor if kind is FunctionType else _steady(getattr(self._processor, "__dict__", {}))
        rest = (self._schema, *self._uproot_options.items(), *self._iteritems_options.items(), self._measures)
        return (own, *methods, _steady(self._files), repr(rest))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def __call__(self, entries: _Entries) -> _Output:
        try:
            return functools.reduce(_join, map(self._process_part, entries.parts))
        except BaseException:
            self._close()
            raise

    def _process_part(self, part: _Part) -> _Output:
        file = self._files[part.number]
        tree = self._tree(part)
        log: list[Any] = []
        try:
            events = tree.events(part, file, log, self._iteritems_options)
            began_seconds = time.time()
            output = self._called(events)
            seconds = time.time() - began_seconds
        except Exception as error:
            spoiled = tree.spoiled_entries(part, log)
            if spoiled is not None:
                branch, start, stop = spoiled
                raise DataError(
                    f"the entries {start} to {stop - 1} of its branch {branch!r} cannot be read: {_in_a_line(error)}",
                    path=part.path,
                    unit=start,
                    spoiled_units=(part.first_unit + start, part.first_unit + stop),
                ) from error
            error.add_note(
                f"while {self.__name__} worked on the entries {part.start} to {part.stop - 1} of {part.path}"
            )
            raise
        wrapped = {"out": output}
        if self._measures:
            wrapped["metrics"] = {
                "bytesread": tree.newly_read_bytes(),
                "columns": _columns_in(log),
                "entries": len(events),
                "processtime": seconds,
                "chunks": 1,
            }
        tree.forget_arrays()
        return _Output(wrapped)

    def _called(self, events: Any) -> Any:
        process = getattr(self._processor, "process", self._processor)
        output = process(events)
        if output is None:
            raise UsageError(f"{self.__name__} returned None: process() must return what is to be accumulated")
        return output

    def _tree(self, part: _Part) -> _OpenTree:
        if self._open is None or self._open.number != part.number:
            self._close()
            from coffea.nanoevents import NanoAODSchema

            self._open = _OpenTree(part, self._schema or NanoAODSchema, self._uproot_options)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class _OpenTree:
    """A file that stays open, with its tree and what its schema made of it.

    For a NanoAOD tree of 1500 branches to read the tree takes more than a second, and to build its schema a tenth: that
    is paid once for each file and worker here, not for every chunk.
    """

    def __init__(self, part: _Part, schema_class: Any, uproot_options: dict[str, Any]) -> None:
        import uproot

        self.number = part.number
        self._schema_class = schema_class
        self._schema: Any = None
        self._read_bytes = 0
        self._directory = uproot.open({part.path: None}, **uproot_options)

    def events(self, part: _Part, file: _File, log: list[Any], iteritems_options: dict[str, Any]) -> Any:
        """As Runner makes them: virtual arrays, read when they are used."""
        import uuid

        from coffea.nanoevents import NanoEventsFactory

        file_uuid = self._directory.file.fUUID
        metadata = {
            "dataset": file.dataset,
            "filename": part.path,
            "treename": part.tree,
            "entrystart": part.start,
            "entrystop": part.stop,
            "fileuuid": str(uuid.UUID(bytes=file_uuid)) if file_uuid else "",
            **file.metadata,
        }
        is_known = self._schema is not None
        factory = NanoEventsFactory.from_root(
            self._directory,
            treepath=part.tree,
            schemaclass=self._schema_again if is_known else self._schema_class,
            metadata=metadata,
            access_log=log,
            mode="virtual",
            entry_start=part.start,
            entry_stop=part.stop,
            iteritems_options={"filter_name": _no_branch} if is_known else iteritems_options,
            preload=None if file.preload is None else frozenset(file.preload),
        )
        if not is_known and "_form" in vars(factory._schema):
            self._schema = factory._schema
        if len(factory) != part.stop - part.start:
            raise SourceChangedError(
                f"the file has lost entries since it was looked at: {part.start} to {part.stop - 1} were wanted",
                path=part.path,
                advice="Wait until it is complete",
            )
        return factory.events()

    def _schema_again(self, base_form: dict[str, Any]) -> Any:
        """The schema of this tree, with the metadata of other entries."""
        schema = copy.copy(self._schema)
        parameters = {**schema._form["parameters"], "metadata": base_form["parameters"]["metadata"]}
        schema._form = {**schema._form, "parameters": parameters}
        return schema

    def spoiled_entries(self, part: _Part, log: list[Any]) -> tuple[str, int, int] | None:
        """The first basket that cannot be read of the branch that was read last: its branch and its entries."""
        try:
            name = log[-1].branch
            branch = self._directory[part.tree][name]
            baskets = [branch.basket_entry_start_stop(number) for number in range(branch.num_baskets)]
        except Exception:
            return None  # nothing was read, or an RNTuple, or the tree itself cannot be read any more
        for start, stop in baskets:
            if start < part.stop and part.start < stop:
                try:
                    branch.array(entry_start=start, entry_stop=stop, array_cache=None)
                except Exception:
                    return name, int(start), int(stop)
        return None

    def newly_read_bytes(self) -> int:
        """Since this was last asked."""
        before, self._read_bytes = self._read_bytes, int(self._directory.file.source.num_requested_bytes)
        return self._read_bytes - before

    def forget_arrays(self) -> None:
        """Entries that were processed are not read again."""
        cache = self._directory.file.array_cache
        if cache is not None:
            cache.clear()

    def close(self) -> None:
        """Let go of the file."""
        self._directory.close()


def _no_branch(name: str) -> bool:
    return False


def _columns_in(log: Iterable[Any]) -> set[str]:
    """As the metrics of Runner call them."""
    from coffea.nanoevents.util import key_to_tuple

    return {f"{accessed.branch}-{key_to_tuple(accessed.buffer_key)[3]}" for accessed in log}


# coffea itself


def _coffea_executors() -> Any:
    """The module of coffea's Runner, if it is of the right year."""
    try:
        import coffea
        from coffea.processor import executor
    except ImportError as error:
        raise MissingExtraError("running a coffea processor", "coffea") from error
    year, month = (int(number) for number in coffea.__version__.split(".")[:2])
    if year != _YEAR or month < _FIRST_MONTH:
        raise UsageError(
            f"aliquot.coffea is written for coffea {_YEAR}.{_FIRST_MONTH} and later ones of {_YEAR}, "
            f"and this is coffea {coffea.__version__}: pip install 'aliquot[coffea]'"
        )
    return executor


@functools.cache
def _executor_class() -> type[Any]:
    """Made when it is first wanted, as coffea takes seconds to import."""
    from dataclasses import dataclass

    executors = _coffea_executors()

    @dataclass
    class Executor(executors.ExecutorBase):  # type: ignore[misc, name-defined]  # known only now
        """Have coffea's own Runner run its chunks by aliquot: ``Runner(executor=aliquot.coffea.Executor())``.

        Chunks that fail are tried again, set aside and counted as in `aliquot.imap`, of which the arguments are.
        Outputs are accumulated as they come. Who wants no chunk size uses `aliquot.coffea.run`.
        """

        on: Any = None
        memory: int | str | None = None
        max_failures: float = 0
        wall_seconds: float | None = None
        retries: int = 0  # by Runner: a chunk that fails is run again by another worker anyway

        def __call__(self, items: Iterable[Any], function: Callable[[Any], Any], accumulator: Any) -> tuple[Any, int]:
            """Add what the function returns for each item to the accumulator."""
            import aliquot

            outputs = aliquot.imap(
                function,
                list(items),
                ordered=False,
                on=self.on,
                memory=self.memory,
                max_failures=self.max_failures,
                wall_seconds=self.wall_seconds,
                progress=None if self.status else False,
            )
            good = (output for output in outputs if not isinstance(output, aliquot.Failure))
            return executors.accumulate(good, accumulator), 0

    Executor.__module__, Executor.__qualname__ = __name__, "Executor"
    return Executor


def __getattr__(name: str) -> Any:
    if name == "Executor":
        return _executor_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
