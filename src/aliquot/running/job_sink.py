from __future__ import annotations

from typing import Any

from aliquot.job import Done, Job
from aliquot.running.outcome import Failure
from aliquot.workers.stepping import joined_job, part_of


class JobSink:
    """The result of a job, by its own join, from the first unit upward.

    Where units were set aside, the parts before and behind them are no neighbours. A job that cannot join those has
    several results, which become a list.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._done: Job | None = None
        self._before: list[Any] = []  # results of parts that end where units were set aside
        self._has_gap = False

    def append(self, start: int, stop: int, value: Any) -> None:
        """Join the part that this is the result of."""
        part = part_of(self._job, start, stop).with_result(Done(value))
        if self._done is None:
            self._done = part
        elif self._has_gap:
            *before, self._done = self._done.join(part)
            self._before += [job.result.value for job in before]  # type: ignore[union-attr]  # it is Done
        else:
            self._done = joined_job(self._done, part)
        self._has_gap = False

    def skip(self, failure: Failure) -> None:
        """What comes next does not touch what came before."""
        self._has_gap = True

    def finish(self, value: Any) -> Any:
        """The result of the whole, or those of its parts."""
        last = None if self._done is None else self._done.result.value  # type: ignore[union-attr]  # it is Done
        return [*self._before, last] if self._before else last
