from __future__ import annotations

from aliquot.sizing.step_sizer import StepSizer


class StreamSizer(StepSizer):
    """For a program that is fed as it reads: a step is as long as it lasts, and only what is fed at once is chosen."""

    __slots__ = ("_fed_units",)

    def __init__(self, fed_units: int, *, is_one_by_one: bool = False) -> None:
        super().__init__(longest_seconds=0.0 if is_one_by_one else 1.0)
        self._fed_units = fed_units

    def choose(self, remaining_units: int, *, is_end: bool = True) -> int:
        """As many as the pipe takes at once."""
        return min(1 if self.is_one_by_one else self._fed_units, remaining_units)
