"""What the results that workers send up become: a list, one joined value, or values one after the other."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, Protocol

from aliquot.coordinator import Append, Finish, Merge, Spill
from aliquot.job import Done, Job
from aliquot.workers.packing import Packed
from aliquot.workers.stepping import joined_job, part_of

ResultCommand = Append | Merge | Spill | Finish


class Sink(Protocol):
    """What becomes of the results."""

    def append(self, start: int, stop: int, value: Any) -> None:
        """Take the next result."""

    def finish(self, value: Any) -> Any:
        """The outcome; ``value`` is that of the last merge, where results are merged."""


class ListSink:
    """All values in a list."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def append(self, start: int, stop: int, value: list[Any]) -> None:
        """Add them to the end."""
        self._values += value

    def finish(self, value: Any) -> list[Any]:
        """The list."""
        return self._values


class JoinSink:
    """One value, joined from the first unit upward."""

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join = join
        self._value: Any = None
        self._is_empty = True

    def append(self, start: int, stop: int, value: Any) -> None:
        """Join it to what came before."""
        self._value = value if self._is_empty else self._join(self._value, value)
        self._is_empty = False

    def finish(self, value: Any) -> Any:
        """The joined value, or the one that was merged."""
        return value if self._is_empty else self._value


class JobSink:
    """The result of a job, by its own join, from the first unit upward."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._done: Job | None = None

    def append(self, start: int, stop: int, value: Any) -> None:
        """Join the part that this is the result of."""
        part = part_of(self._job, start, stop).with_result(Done(value))
        self._done = part if self._done is None else joined_job(self._done, part)

    def finish(self, value: Any) -> Any:
        """The result of the whole."""
        return None if self._done is None else self._done.result.value  # type: ignore[union-attr]  # it is Done


class StreamSink:
    """Each value is passed on."""

    def __init__(self, emit: Callable[[list[Any]], None]) -> None:
        self._emit = emit

    def append(self, start: int, stop: int, value: list[Any]) -> None:
        """Pass them on."""
        self._emit(value)

    def finish(self, value: Any) -> None:
        """Nothing is left."""


class Results:
    """Holds what has arrived and is not yet joined: in memory, or on disk where it was spilled."""

    def __init__(self, sink: Sink, join: Callable[[Any, Any], Any] | None = None) -> None:
        self._sink = sink
        self._join = join
        self._kept: dict[int, tuple[int, int, Packed | _Spilled | _Loaded]] = {}
        self._spill_file: SpillFile | None = None
        self.spilled_bytes = 0
        self.outcome: Any = None

    def arrived(self, result: int, start: int, stop: int, packed: Packed) -> None:
        """A worker has sent the result of some units."""
        self._kept[result] = (start, stop, packed)

    def perform(self, command: ResultCommand) -> None:
        """Do as the coordinator says."""
        match command:
            case Append(result):
                start, stop, kept = self._kept.pop(result)
                self._sink.append(start, stop, self._load(kept))
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

    def unpack_waiting(self) -> None:
        """Use idle time: results that wait in memory are unpickled before they are wanted."""
        for result, (start, stop, kept) in self._kept.items():
            if isinstance(kept, Packed):
                self._kept[result] = (start, stop, _Loaded(self._load(kept)))
                return

    def _merge(self, first: int, second: int) -> None:
        assert self._join is not None
        start, stop, kept = self._kept.pop(first)
        _, _, other = self._kept.pop(second)
        self._kept[first] = (start, stop, _Loaded(self._join(self._load(kept), self._load(other))))

    def _spill(self, result: int) -> None:
        start, stop, kept = self._kept[result]
        if self._spill_file is None:
            self._spill_file = SpillFile()
        if isinstance(kept, Packed):
            spilled = self._spill_file.write(kept)
            self.spilled_bytes += kept.total_bytes
            self._kept[result] = (start, stop, spilled)

    def _load(self, kept: Packed | _Spilled | _Loaded) -> Any:
        if isinstance(kept, _Loaded):
            return kept.value
        if isinstance(kept, _Spilled):
            assert self._spill_file is not None
            kept = self._spill_file.read(kept)
        try:
            return kept.load()
        finally:
            kept.close()


class _Loaded:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


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
