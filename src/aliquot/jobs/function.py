from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

from aliquot.job import NOT_RUN, Description, Job, Result
from aliquot.jobs.travelling import TravellingFunction
from aliquot.virtual_file import VirtualFile


class FunctionJob(Job):
    """A Python function over a source of units.

    ``function(batch)`` is given the records of some units, as `VirtualFile.batches` gives them, and returns a value.
    ``join(first, second)`` makes one value of those of two neighbouring slices; by default it adds them.
    """

    type_name = "aliquot.function"

    def __init__(
        self,
        function: Callable[[Any], Any],
        source: VirtualFile,
        join: Callable[[Any, Any], Any] = operator.add,
    ) -> None:
        self._function = TravellingFunction(function)
        self._join = TravellingFunction(join)
        self.source = source

    @property
    def size(self) -> int:  # type: ignore[override]  # looked for when it is first wanted
        """How many units the source has."""
        return len(self.source)

    def split(self, count: int, size: int) -> list[Self]:
        """Split the source."""
        return [self._over(source, NOT_RUN) for source in self.source.split(count, size)]

    def join(self, other: Self) -> list[Self]:
        """Join the sources where they touch and, if both are done, the values."""
        first, second = (self, other) if self.source.start <= other.source.start else (other, self)
        sources = first.source.join(second.source)
        if len(sources) == 2:
            return [first, second]
        return [self._over(sources[0], first.joined_result(second, self._join.function))]

    def execute(self) -> Any:
        """Call the function on all units at once."""
        source = self.source
        return self._function.function(source.source.records_of(source.start, source.stop))

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
