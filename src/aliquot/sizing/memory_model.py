"""How many units fit into so many bytes: ``peak(n) = base + the sum over n units``, learned from steps as they finish.

The base belongs to the program and stays; what a unit adds belongs to the data, and changes along them. So the base is
taken from the first few sizes, and the rest is followed closely: a mean that forgets within a few steps, and how far
units scatter about it. A step of n units is then within

    base + n * mean + z * scatter * sqrt(n)          nearly always,

since units that are heavier by chance meet others that are lighter.
"""

from __future__ import annotations

from aliquot.sizing.linear_model import LinearModel

TYPE_CHECKING = False
if TYPE_CHECKING:  # workers import this, and need not import typing for it
    from collections.abc import Iterable, Sequence

# A mean over the last four steps or so.
_FADE = 0.75
# One step of a thousand is larger, if units scatter like a bell.
_SIGMAS = 3.0
# Farther from the mean than four times the scatter, after three steps or so, units have changed.
_CHANGED = 16.0
_KNOWN_WEIGHT = 2.0
# So many different sizes tell what the base is.
_SIZES_FOR_BASE = 3
# If none is off the line by more than this part.
_STRAIGHT = 0.1
# After a step that did not fit, the next has this part of its units: where units scatter, it was bad luck; where they
# do not, they have changed, and nobody knows by how much.
_SHRINK_BY_CHANCE, _SHRINK_BY_CHANGE = 0.5, 1 / 16
# Scatter counts where it is this part of what a step holds.
_SCATTERS = 0.1
# And no step has more than so many times the units of the last one; or, where that would take it to no more than this
# part of the limit, so many; but fewer once a step did not fit.
_GROWTH, _FASTEST_GROWTH, _FASTEST_AFTER_EXHAUSTION = 2.0, 64.0, 8.0
_GROWTH_PART = 0.25
# What is less than this in all is not seen.
_LEAST_SEEN_BYTES = 4 << 20
# What a step is seen to hold is a little less than what it will be refused at.
_PART = 0.94


class MemoryModel:
    """What steps hold."""

    __slots__ = (
        "_base",
        "_has_exhausted",
        "_last_peak",
        "_last_units",
        "_line",
        "_scatter",
        "_tried_twice_bytes",
        "_unit_bytes",
        "_weight",
        "floor_bytes",
    )

    def __init__(self) -> None:
        self.floor_bytes = 0  # what is held without any step
        self._line = LinearModel()  # while the base is not certain
        self._base: float | None = None
        self._unit_bytes = 0.0
        self._scatter = 0.0  # the variance of a single unit
        self._weight = 0.0  # of what both are means of
        self._last_units = 0.0
        self._last_peak = 1.0
        self._has_exhausted = False
        self._tried_twice_bytes = 0.0  # with which more units were tried than those of which it is known, in vain

    @property
    def is_empty(self) -> bool:
        """Whether nothing was observed."""
        return not self._last_units

    @property
    def is_certain(self) -> bool:
        """Whether it is known what of it units make."""
        return self._base is not None

    @property
    def base_bytes(self) -> float:
        """What a step holds before its first unit."""
        if self._base is not None:
            return self._base
        is_known = self._line.size_classes < _SIZES_FOR_BASE or self._is_line_straight()
        return max(self._line.overhead, self.floor_bytes) if is_known else self.floor_bytes

    def observe(self, units: float, peak_bytes: float) -> None:
        """A step of so many units has held so much at its peak."""
        if units <= 0:
            return
        if self._base is None:
            sizes_before = self._line.size_classes
            self._line.observe(units, peak_bytes)
            self._look_at_line(sizes_before)
        self._follow(units, peak_bytes)

    def take_hints(self, observations: Iterable[Sequence[float]]) -> None:
        """Start from what was learned elsewhere; of each size, it gives way to the first that is seen.

        Elsewhere a step may have been stopped: it would have held more than it is said to.
        """
        for observation in observations:
            sizes_before = self._line.size_classes
            self._line.take_hints([observation])
            self._look_at_line(sizes_before)
            self._follow(observation[0], observation[1])

    def _look_at_line(self, sizes_before: int) -> None:
        """Whether it tells the base, now that it knows of one more step."""
        if self._base is None:
            is_certain = self._line.size_classes >= _SIZES_FOR_BASE and self._is_line_straight()
            if is_certain:
                self._base = self.base_bytes
            if is_certain or sizes_before < self._line.size_classes == _SIZES_FOR_BASE - 1:
                # Before, all or some of it was taken for what units weigh.
                self._unit_bytes, self._scatter, self._weight = self._line.per_unit, 0.0, 0.0

    def _follow(self, units: float, peak_bytes: float) -> None:
        if self._base is not None and peak_bytes < self._base:
            self._base = float(peak_bytes)
        seen = max(0.0, peak_bytes - self.base_bytes) / units
        surprise = seen - self._unit_bytes
        if self._weight >= _KNOWN_WEIGHT and units * surprise * surprise > _CHANGED * self._scatter:
            self._weight = 0.0  # other units than before: what they weigh, not how they scatter, is new
        self._weight = self._weight * _FADE + 1
        rate = 1 / self._weight
        self._unit_bytes += rate * surprise
        if self._weight > 1:
            self._scatter += rate * (units * surprise * surprise * (1 - rate) - self._scatter)
        self._last_units = units
        self._last_peak = max(1.0, peak_bytes)

    def _is_line_straight(self) -> bool:
        """Whether steps of all sizes hold what the line says; else units have changed meanwhile."""
        return all(
            abs(held_bytes - self._line.predict(units)) < _STRAIGHT * held_bytes
            for units, held_bytes, _ in self._line.summary()
        )

    def exhausted(self, units: float, allowed_bytes: float) -> None:
        """A step of so many units held all that it was allowed, and would have held more."""
        scatter_bytes = _SIGMAS * (units * self._scatter) ** 0.5
        is_chance = self._weight >= _KNOWN_WEIGHT and scatter_bytes > _SCATTERS * allowed_bytes
        fewer = max(1.0, units * (_SHRINK_BY_CHANCE if is_chance else _SHRINK_BY_CHANGE))
        self._unit_bytes = max(self._unit_bytes, (allowed_bytes * _PART - self.base_bytes) / fewer)
        self._last_units = fewer / _GROWTH
        self._last_peak = max(self._last_peak, allowed_bytes)
        self._has_exhausted = True
        if units > self._line.largest_units > 0:
            self._tried_twice_bytes = max(self._tried_twice_bytes, allowed_bytes)
        self._weight = 0.0

    def _growth(self, allowed_bytes: float) -> float:
        """How many times as many units as the last one the next step may have."""
        enough_bytes = _GROWTH_PART * allowed_bytes
        if self._has_exhausted:
            return max(_GROWTH, min(_FASTEST_AFTER_EXHAUSTION, enough_bytes / self._last_peak))
        of_units = max(self._last_peak - self.base_bytes, _LEAST_SEEN_BYTES)
        return max(_GROWTH, min(_FASTEST_GROWTH, (enough_bytes - self.base_bytes) / of_units))

    def units_within(self, allowed_bytes: float) -> float:
        """How many units fit, nearly always; at least one, as it cannot be less."""
        if self.is_empty:
            return float("inf")
        room = allowed_bytes * _PART - self.base_bytes
        if room <= 0:
            return 1.0
        # n * mean + z * sqrt(n * scatter) = room, for the square root of n.
        spread = _SIGMAS * self._scatter**0.5
        unit_bytes = self._unit_bytes
        if self._base is None:
            unit_bytes = max(unit_bytes, min(_LEAST_SEEN_BYTES, room / _GROWTH) / self._last_units)
        if unit_bytes > 0:
            root = ((spread * spread + 4 * unit_bytes * room) ** 0.5 - spread) / (2 * unit_bytes)
            fitting: float = root * root
        else:
            fitting = (room / spread) ** 2 if spread > 0 else float("inf")
        is_worth_trying = self._last_peak < allowed_bytes * _PART and self._tried_twice_bytes < allowed_bytes
        if self._line.size_classes == 1 and is_worth_trying:
            # Of one size, nobody knows what is base. It is worth a step that may be too large: where it was all base,
            # steps would stay as small for ever.
            return max(1.0, fitting, _GROWTH * self._line.largest_units)
        # Of the first sizes, others see to it that they do not grow too fast: by how long they take.
        is_careful = self._line.size_classes >= _SIZES_FOR_BASE or self._base is not None or self._has_exhausted
        most = self._last_units * self._growth(allowed_bytes) if is_careful else float("inf")
        return max(1.0, min(fitting, most))
