from __future__ import annotations

from collections.abc import Callable

from aliquot.sizing.step_sizer import StepSizer

# A program that is fed lasts so many times as long as a step should: its results come only when it has ended.
_STEPS = 2.0


class StreamSizer(StepSizer):
    """For a program that is fed as it reads: a step is as long as that lasts, and is left after a while.

    How many units are fed at once is for whoever sees how fast they are read, ``units_at_once``.
    """

    __slots__ = ("_units_at_once", "patience_seconds")

    def __init__(self, units_at_once: Callable[[], int], *, longest_seconds: float = 1.0) -> None:
        super().__init__(longest_seconds=longest_seconds)
        self._units_at_once = units_at_once
        self.patience_seconds = _STEPS * longest_seconds

    def choose(self, remaining_units: int, *, is_end: bool = True) -> int:
        """As many as are fed at once."""
        return min(1 if self.is_one_by_one else self._units_at_once(), remaining_units)
