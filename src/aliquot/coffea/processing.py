from __future__ import annotations

import functools
import time
from types import CodeType, FunctionType
from typing import Any

from aliquot.coffea.counting import in_a_line
from aliquot.coffea.entries import Entries, EntriesOf
from aliquot.coffea.fileset import FileOfSet
from aliquot.coffea.open_tree import OpenTree, columns_in
from aliquot.coffea.outputs import Output, join_outputs
from aliquot.coffea.release import LIBRARIES
from aliquot.errors import DataError, UsageError


class UnreadableBasketError(DataError):
    """Some entries of a branch are stored together, and cannot be read."""


def _steady(value: Any) -> Any:
    """The same thing in the same order in every process: a set has another in each."""
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, dict):
        return [(key, _steady(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [_steady(inner) for inner in value]
    return value


class Process:
    """Calls a processor on some entries, file by file. The last file stays open for the entries that come next."""

    libraries = LIBRARIES

    def __init__(
        self,
        processor_instance: Any,
        files: list[FileOfSet],
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
        self._open: OpenTree | None = None
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

    def __call__(self, entries: Entries) -> Output:
        """What the processor makes of them, accumulated."""
        try:
            return functools.reduce(join_outputs, map(self._process_part, entries.parts))
        except UnreadableBasketError:
            raise  # all else of the file can be read, and comes next
        except BaseException:
            self._close()
            raise

    def _process_part(self, part: EntriesOf) -> Output:
        file = self._files[part.number]
        tree = self._tree(part)
        log: list[Any] = []
        try:
            events = tree.events(part, file, log, self._iteritems_options)
            began_seconds = time.time()
            output = self._called(events)
            seconds = time.time() - began_seconds
        except Exception as error:
            part.tree.check_file()  # if that is why
            self._tell_spoiled(part, tree, log, error)
            error.add_note(f"while {self.__name__} worked on {part}")
            raise
        part.tree.check_file()
        wrapped = {"out": output}
        if self._measures:
            wrapped["metrics"] = {
                "bytesread": tree.newly_read_bytes(),
                "columns": columns_in(log),
                "entries": len(events),
                "processtime": seconds,
                "chunks": 1,
            }
        tree.forget_arrays()
        return Output(wrapped)

    def _tell_spoiled(self, part: EntriesOf, tree: OpenTree, log: list[Any], error: Exception) -> None:
        """Raise, if an error comes of a basket that cannot be read."""
        # Of what is read before the processor is called, nothing is logged.
        branches = [log[-1].branch] if log else self._files[part.number].preload or ()
        spoiled = tree.spoiled_entries(part, branches)
        if spoiled is None:
            return
        branch, start, stop = spoiled
        raise UnreadableBasketError(
            f"the entries {start} to {stop - 1} of its branch {branch!r} cannot be read: {in_a_line(error)}",
            path=part.tree.path,
            unit=start,
            unit_name=f"entry {start}",
            spoiled_units=(part.first_unit + start, part.first_unit + stop),
        ) from error

    def spoiled_units(self, error: BaseException) -> tuple[int, int] | None:
        """The units that cannot be had for the same reason as those that it was called on, if this can tell.

        Entries are read while they are processed: only here can be known that it was not the processor that failed.
        """
        return error.spoiled_units if isinstance(error, UnreadableBasketError) else None

    def _called(self, events: Any) -> Any:
        process = getattr(self._processor, "process", self._processor)
        output = process(events)
        if output is None:
            raise UsageError(f"{self.__name__} returned None: process() must return what is to be accumulated")
        return output

    def _tree(self, part: EntriesOf) -> OpenTree:
        if self._open is None or self._open.number != part.number:
            self._close()
            from coffea.nanoevents import NanoAODSchema

            self._open = OpenTree(part, self._schema or NanoAODSchema, self._uproot_options)
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
