from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

from aliquot.errors import JobStateError, UsageError
from aliquot.job import NOT_RUN, Description, Done, Job, Result
from aliquot.jobs.merging import merge
from aliquot.jobs.travelling import TravellingFunction
from aliquot.virtual_file import VirtualFile, open


class FunctionJob(Job):
    """A Python function over a source of units.

    ``function(batch)`` is given all records of a part at once, as `VirtualFile.batch` gives them, and returns a value.
    ``source`` is a virtual file, or anything that `aliquot.open` opens. ``join(first, second)`` makes one value of
    those of two neighbouring parts; by default `merge` does, by what they are.
    """

    type_name = "aliquot.function"

    def __init__(
        self,
        function: Callable[[Any], Any],
        source: VirtualFile | str | os.PathLike[str] | Sequence[Any],
        join: Callable[[Any, Any], Any] = merge,
    ) -> None:
        self._function = TravellingFunction(function)
        self._join = TravellingFunction(join)
        self.source = source if isinstance(source, VirtualFile) else open(source)

    @property
    def function(self) -> Callable[[Any], Any]:
        """What is called on the units of a part."""
        return self._function.function

    @property
    def join_values(self) -> Callable[[Any, Any], Any]:
        """What makes one value of two."""
        return self._join.function

    @property
    def size(self) -> int:  # type: ignore[override]  # looked for when it is first wanted
        """How many units the source has."""
        return len(self.source)

    def split(self, count: int, size: int) -> list[Self]:
        """Split the source."""
        if isinstance(self.result, Done):
            raise JobStateError("this job is done, and its value cannot be cut: split it before it is executed")
        return [self._over(source, NOT_RUN) for source in self.source.split(count, size)]

    def join(self, other: Self) -> list[Self]:
        """Join the sources where they touch and, if both are done, the values."""
        if not (self._function.is_same_as(other._function) and self._join.is_same_as(other._join)):
            raise UsageError("these are parts of different jobs: their functions differ, and so they cannot be joined")
        first, second = (self, other) if self.source.start <= other.source.start else (other, self)
        sources = first.source.join(second.source)
        if len(sources) == 2:
            return [first, second]
        return [self._over(sources[0], first.joined_result(second, self._join.function))]

    def execute(self) -> Any:
        """Call the function on all units at once."""
        return self._function.function(self.source.batch())

    def to_desc(self) -> Description:
        """Say as JSON which function, source and join."""
        return self.describe(function=self._function.to_desc(), source=self.source.to_desc(), join=self._join.to_desc())

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild the job."""
        job = cls.__new__(cls)
        job._function = TravellingFunction.from_desc(desc["function"])
        job._join = TravellingFunction.from_desc(desc["join"])
        job.source = VirtualFile.from_desc(desc["source"])
        return job

    def _over(self, source: VirtualFile, result: Result) -> Self:
        """Make the same job over other units."""
        job = self.with_result(result)
        job.source = source
        return job
