from __future__ import annotations

from typing import Any

from aliquot.job import Done, Job
from aliquot.workers.stepping import joined_job, part_of


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
