"""Bundles: any number of slices of one job, in any mix of states.

A bundle frees the coordinator from the application: it knows where in the whole job each of its parts lies, so that it
can sort, join and pack parts that do not touch, and never asks the application where they are.

    whole job    0 ........................................ size
    a bundle        [ done )   [failed)[not run )     [not run)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Self

from aliquot.errors import DescriptionError, JobStateError, UsageError
from aliquot.job.description import Description
from aliquot.job.job import Job
from aliquot.job.result import NOT_RUN, Done, Failed
from aliquot.slices import Slice, check_split_arguments


class Part(NamedTuple):
    """A job and the slice of the whole job that it is."""

    where: Slice
    job: Job


class Bundle(Job):
    """Slices of one job, kept sorted, joined where they touch and their states allow it."""

    type_name = "aliquot.bundle"

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = _joined_where_possible(_checked_in_order(parts))
        self.size = sum(len(part.where) for part in self.parts)

    @classmethod
    def of(cls, job: Job) -> Self:
        """Make a bundle of one whole job."""
        return cls([Part(Slice(0, job.size), job)] if job.size else [])

    @property
    def not_run(self) -> Self:
        """The parts that wait to be executed."""
        return self._only("not run")

    @property
    def done(self) -> Self:
        """The parts that have a value."""
        return self._only("done")

    @property
    def failed(self) -> Self:
        """The parts that raised."""
        return self._only("failed")

    def values(self) -> list[Any]:
        """List the values of all parts, in order: one, where all of them have joined.

        Raises where a part is not done; `bundle.done.values()` gives what there is.
        """
        values = []
        for part in self.parts:
            if not isinstance(part.job.result, Done):
                raise JobStateError(
                    f"the units {part.where} are {part.job.result.state}: bundle.done.values() gives what there is"
                )
            values.append(part.job.result.value)
        return values

    def split(self, count: int, size: int) -> list[Self]:
        """Cut by units, across slices: at most ``count`` bundles of ``size`` units, then one with what remains.

        A part that failed is cut into parts that are not run. One that is done is never cut, as its value cannot be.
        """
        check_split_arguments(count, size)
        bundles: list[Self] = []
        waiting = list(reversed(self.parts))
        while waiting and len(bundles) < count:
            taken: list[Part] = []
            room = size
            while waiting and room:
                part = waiting.pop()
                if len(part.where) > room:
                    part, remainder = _cut(part, room)
                    waiting.append(remainder)
                taken.append(part)
                room -= len(part.where)
            bundles.append(type(self)(taken))
        if waiting:
            bundles.append(type(self)(reversed(waiting)))
        return bundles

    def join(self, other: Self) -> list[Self]:
        """Always one bundle: parts need not touch, and may be in any state."""
        return [type(self)(self.parts + other.parts)]

    def pack(self, size: int) -> list[Self]:
        """Group whole parts, in order, into bundles of at most ``size`` units; nothing is cut.

        A part that is larger by itself makes a bundle of its own.
        """
        check_split_arguments(1, size)
        bundles: list[list[Part]] = []
        room = 0
        for part in self.parts:
            if len(part.where) > room:
                bundles.append([])
                room = size
            bundles[-1].append(part)
            room -= len(part.where)
        return [type(self)(parts) for parts in bundles]

    def attempt(self) -> Self:
        """Execute the parts that are not run, each by itself: one that fails stops no other."""
        return type(self)(
            Part(part.where, part.job.attempt() if part.job.result == NOT_RUN else part.job) for part in self.parts
        )

    def execute(self) -> list[Any]:
        """Execute all that is not run; the values in order, or an error if any part failed."""
        executed = self.attempt()
        failed = executed.failed.parts
        if failed:
            first = failed[0].job.result
            assert isinstance(first, Failed)
            raise JobStateError(
                f"{len(failed)} of {len(executed.parts)} parts failed, the first at units {failed[0].where}: "
                f"{first.error}"
            )
        return executed.values()

    def to_desc(self) -> Description:
        """Describe all parts, with their states and results."""
        return self.describe(
            parts=[
                {"start": part.where.start, "stop": part.where.stop, "job": part.job.to_desc()} for part in self.parts
            ]
        )

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild a described bundle."""
        parts = []
        for described in desc.get("parts", ()):
            match described:
                case {"start": int(start), "stop": int(stop), "job": dict(job)}:
                    parts.append(Part(Slice(start, stop), Job.from_desc(job)))
                case _:
                    raise DescriptionError(f"this does not describe a part of a bundle: {described!r:.200}")
        return cls(parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bundle):
            return NotImplemented
        return self.parts == other.parts

    __hash__ = None  # equal by its parts, which are equal by description

    def __repr__(self) -> str:
        parts = ", ".join(f"{part.where} {part.job.result.state}" for part in self.parts[:8])
        more = f", and {len(self.parts) - 8} more" if len(self.parts) > 8 else ""
        return f"<Bundle: {self.size} units: {parts}{more}>"

    def _only(self, state: str) -> Self:
        return type(self)(part for part in self.parts if part.job.result.state == state)


def _checked_in_order(parts: Iterable[Part]) -> list[Part]:
    ordered = sorted(parts, key=lambda part: part.where)
    for part in ordered:
        if len(part.where) != part.job.size or not part.job.size:
            raise UsageError(f"a part at units {part.where} holds a job of {part.job.size} units")
    for first, second in pairwise(ordered):
        if first.where.overlaps(second.where):
            raise UsageError(f"two parts of a bundle overlap: {first.where} and {second.where}")
    return ordered


def _joined_where_possible(ordered: list[Part]) -> tuple[Part, ...]:
    """Join neighbours that touch and are both done or both not run, where the application can."""
    joined: list[Part] = []
    for part in ordered:
        if joined and joined[-1].where.stop == part.where.start and _same_state(joined[-1].job, part.job):
            together = _join_or_warn(joined[-1], part)
            if len(together) == 1:
                joined[-1] = Part(Slice(joined[-1].where.start, part.where.stop), together[0])
                continue
        joined.append(part)
    return tuple(joined)


def _join_or_warn(first: Part, second: Part) -> list[Job]:
    """Join as the application does; where that raises, its values are kept apart and not lost."""
    try:
        return first.job.join(second.job)
    except Exception as error:
        warnings.warn(
            f"the values of units {first.where} and {second.where} stay apart, as joining them raised "
            f"{type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return [first.job, second.job]


def _same_state(first: Job, second: Job) -> bool:
    # Failures stay apart: each has an error and units of its own.
    return first.result.state == second.result.state and not isinstance(first.result, Failed)


def _cut(part: Part, units: int) -> tuple[Part, Part]:
    if isinstance(part.job.result, Done):
        raise JobStateError(
            f"units {part.where} are done and their value cannot be cut: split what is not run, bundle.not_run.split()"
        )
    head, tail = part.job.with_result(NOT_RUN).split(1, units)
    middle = part.where.start + units
    return Part(Slice(part.where.start, middle), head), Part(Slice(middle, part.where.stop), tail)
