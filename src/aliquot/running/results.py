"""What the results that workers send up become: a list, one joined value, or values one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from aliquot.coordinator import Append, Finish, Merge, Skip, Spill
from aliquot.running.outcome import Failure
from aliquot.running.spoiled import told_as_one
from aliquot.workers.packing import Packed, PackedLists, pack
from aliquot.workers.stepping import JoinedValues, add_note, watch_of

_MOST_UNPACKED_BYTES = 64 << 20
_MOST_KEPT_FILES = 64

ResultCommand = Append | Skip | Merge | Spill | Finish


class Sink(Protocol):
    """What becomes of the results."""

    def append(self, start: int, stop: int, value: Any) -> None:
        """Take the next result."""

    def skip(self, failure: Failure) -> None:
        """There is no result for these units."""

    def finish(self, value: Any) -> Any:
        """The outcome; ``value`` is that of the last merge, where results are merged."""


class ListSink:
    """All values in a list."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def append(self, start: int, stop: int, value: list[Any]) -> None:
        """Add them to the end."""
        self._values += value

    def skip(self, failure: Failure) -> None:
        """The failure stands where the values would."""
        self._values += [failure] * (failure.stop - failure.start)

    def finish(self, value: Any) -> list[Any]:
        """The list."""
        return self._values


class JoinSink:
    """One value, joined from the first unit upward."""

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._joined = JoinedValues(join)

    def append(self, start: int, stop: int, value: Any) -> None:
        """Join it to what came before."""
        self._joined.add(value, stop - start)

    def skip(self, failure: Failure) -> None:
        """Go on without them."""

    def finish(self, value: Any) -> Any:
        """The joined value, or the one that was merged."""
        return value if self._joined.is_empty else self._joined.take()


class StreamSink:
    """Each value is passed on."""

    def __init__(self, emit: Callable[[list[Any]], None]) -> None:
        self._emit = emit

    def append(self, start: int, stop: int, value: list[Any]) -> None:
        """Pass them on."""
        self._emit(value)

    def skip(self, failure: Failure) -> None:
        """The failure is passed on where the values would be."""
        self._emit([failure] * (failure.stop - failure.start))

    def finish(self, value: Any) -> None:
        """Nothing is left."""


class Results:
    """Holds what has arrived and is not yet joined: in memory, or on disk where it was spilled."""

    def __init__(
        self,
        sink: Sink,
        join: Callable[[Any, Any], Any] | None = None,
        locate: Callable[[Failure], Failure] = lambda failure: failure,
    ) -> None:
        self._sink = sink
        self._locate = locate  # adds where the units of a failure are
        self._join = join
        self._watch = None if join is None else watch_of(join)
        self._kept: dict[int, tuple[int, int, Packed | _Spilled | _Loaded]] = {}
        self._lent: dict[int, int] = {}  # pairs of results that workers join
        self._spill_file: SpillFile | None = None
        self._unpacked_bytes = 0  # of results that wait unpickled, as they were when pickled
        self._failures: dict[int, Failure] = {}  # by their first units
        self.spilled_bytes = 0
        self.outcome: Any = None

    def arrived(self, result: int, start: int, stop: int, packed: Packed) -> None:
        """A worker has sent the result of some units."""
        # A process has about a thousand descriptors, and more results than that may have to wait.
        if packed.descriptor is not None and len(self._kept) >= _MOST_KEPT_FILES:
            packed = packed.in_memory()
        self._kept[result] = (start, stop, packed)

    def lend(self, first: int, second: int) -> tuple[Packed, Packed]:
        """Copies of two results, which a worker will join; they stay here until it has."""
        self._lent[first] = second
        return self._packed(first).copy(), self._packed(second).copy()

    def joined(self, first: int, packed: Packed) -> None:
        """They have become one."""
        second = self._lent.pop(first)
        for result in (first, second):
            start, stop, kept = self._kept.pop(result)
            if isinstance(kept, Packed):
                kept.close()
        self._kept[first] = (start, stop, packed)

    def _packed(self, result: int) -> Packed:
        start, stop, kept = self._kept[result]
        if not isinstance(kept, Packed):
            kept = pack(self._load(kept))
            self._kept[result] = (start, stop, kept)
        return kept

    def failed(self, failure: Failure) -> Failure:
        """Some units were given up; `Skip` follows where it is their turn. The failure, with where its units are."""
        located = self._failures[failure.start] = self._locate(failure)
        return located

    @property
    def failures(self) -> tuple[Failure, ...]:
        """All units that were given up, the first ones first."""
        return tuple(told_as_one(self._failures.values()))

    def perform(self, command: ResultCommand) -> None:
        """Do as the coordinator says."""
        match command:
            case Append(result):
                start, stop, kept = self._kept.pop(result)
                self._sink.append(start, stop, self._load_of(start, stop, kept))
            case Skip(start, _):
                self._sink.skip(self._failures[start])
            case Merge(first, second):
                self._merge(first, second)
            case Spill(result):
                self._spill(result)
            case Finish(result):
                merged = None if result is None else self._load(self._kept.pop(result)[2])
                self.outcome = self._sink.finish(merged)

    def close(self) -> None:
        """Drop what is left."""
        for _, _, kept in self._kept.values():
            if isinstance(kept, Packed):
                kept.close()
        self._kept.clear()
        if self._spill_file is not None:
            self._spill_file.close()
            self._spill_file = None

    def unpack_early(self, result: int) -> None:
        """Unpickle a result that has to wait, unless many do: at the end of a run, all would be unpickled at once."""
        if self._join is not None:
            return  # it may go to a worker as it is
        start, stop, kept = self._kept.get(result, (0, 0, None))
        if isinstance(kept, Packed) and self._unpacked_bytes + kept.total_bytes <= _MOST_UNPACKED_BYTES:
            loaded = _Loaded(self._load_of(start, stop, kept), kept.total_bytes)
            self._unpacked_bytes += kept.total_bytes
            self._kept[result] = (start, stop, loaded)

    def _merge(self, first: int, second: int) -> None:
        assert self._join is not None
        start, stop, kept = self._kept.pop(first)
        other_start, other_stop, other = self._kept.pop(second)
        # What was made here of two may be changed, where there is a way to: nobody else has it.
        join = getattr(self._join, "into", self._join) if isinstance(kept, _Loaded) else self._join
        value, more = self._load(kept), self._load(other)
        if self._watch is not None:
            self._watch.look(value, stop - start, is_joined=False)
            self._watch.look(more, other_stop - other_start, is_joined=True)
        self._kept[first] = (start, stop, _Loaded(join(value, more)))

    def _spill(self, result: int) -> None:
        start, stop, kept = self._kept[result]
        if self._spill_file is None:
            self._spill_file = SpillFile()
        packed = pack(self._load_of(start, stop, kept)) if isinstance(kept, _Loaded | PackedLists) else kept
        assert isinstance(packed, Packed)
        self.spilled_bytes += packed.total_bytes
        self._kept[result] = (start, stop, self._spill_file.write(packed))

    def _load_of(self, start: int, stop: int, kept: Packed | _Spilled | _Loaded) -> Any:
        try:
            return self._load(kept)
        except Exception as error:
            add_note(error, f"aliquot: what was returned for units {start} to {stop - 1} cannot be unpickled here")
            raise

    def _load(self, kept: Packed | _Spilled | _Loaded) -> Any:
        if isinstance(kept, _Loaded):
            self._unpacked_bytes -= kept.packed_bytes
            return kept.value
        if isinstance(kept, _Spilled):
            assert self._spill_file is not None
            kept = self._spill_file.read(kept)
        try:
            return kept.load()
        finally:
            kept.close()


class _Loaded:
    """A result that was unpickled before it was wanted, or made here."""

    __slots__ = ("packed_bytes", "value")

    def __init__(self, value: Any, packed_bytes: int = 0) -> None:
        self.value = value
        self.packed_bytes = packed_bytes


class _Spilled:
    """Where a spilled result is."""

    __slots__ = ("offset", "sizes", "was_inline")

    def __init__(self, offset: int, sizes: tuple[int, ...], was_inline: bool) -> None:
        self.offset = offset
        self.sizes = sizes
        self.was_inline = was_inline


class SpillFile:
    """Results that wait on disk, in a file without a name: it is gone with this process."""

    def __init__(self) -> None:
        import tempfile

        self._file = tempfile.TemporaryFile(prefix="aliquot-")  # noqa: SIM115  # closed by close()
        self._end = 0

    def write(self, packed: Packed) -> _Spilled:
        """Move a result to disk."""
        content = packed.content()
        descriptor = self._file.fileno()
        spilled = _Spilled(self._end, packed.sizes, packed.descriptor is None)
        written = 0
        while written < len(content):
            written += os.pwrite(descriptor, content[written:], self._end + written)
        self._end += len(content)
        packed.close()
        return spilled

    def read(self, spilled: _Spilled) -> Packed:
        """Bring it back."""
        return Packed.from_content(
            lambda offset, size: os.pread(self._file.fileno(), size, spilled.offset + offset),
            spilled.sizes,
            was_inline=spilled.was_inline,
        )

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()
