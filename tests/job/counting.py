"""An application of five functions, as a user would write it: the sum of some numbers."""

from __future__ import annotations

import operator
from typing import Self

import aliquot
from aliquot.job.description import Description


class Counting(aliquot.Job):
    def __init__(self, start: int, stop: int, bad_unit: int | None = None) -> None:
        self.start = start
        self.stop = stop
        self.bad_unit = bad_unit
        self.size = stop - start

    def split(self, count: int, size: int) -> list[Self]:
        parts = aliquot.Slice(self.start, self.stop).split(count, size)
        return [type(self)(part.start, part.stop, self.bad_unit) for part in parts]

    def join(self, other: Self) -> list[Self]:
        first, second = sorted((self, other), key=lambda job: job.start)
        if first.stop != second.start:
            return [first, second]
        whole = type(self)(first.start, second.stop, self.bad_unit)
        return [whole.with_result(first.joined_result(second, operator.add))]

    def execute(self) -> int:
        if self.bad_unit is not None and self.start <= self.bad_unit < self.stop:
            raise ValueError(f"unit {self.bad_unit} is bad")
        return sum(range(self.start, self.stop))

    def to_desc(self) -> Description:
        return self.describe(start=self.start, stop=self.stop, bad_unit=self.bad_unit)

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        return cls(desc["start"], desc["stop"], desc["bad_unit"])
