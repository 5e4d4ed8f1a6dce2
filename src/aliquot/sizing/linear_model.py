"""What n units cost: ``overhead + n * per_unit``, learned from steps of different sizes as they finish.

Observations are kept per size class (1, 2-3, 4-7, 8-15, ... units), each as a centre that forgets slowly:

    cost |                      x          one x a class; the line is fitted to them by relative error,
         |            x                    so that small and large sizes count alike
         |     x  x
         |  x                              overhead = where it meets the axis
         +----------------------------- n

So one size that runs ten thousand times does not wipe out what the few smaller ones told about the overhead, an
outlier is clipped before it moves a centre, and costs that drift are followed. What was not seen for long counts less,
but never nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # workers import this, and need not import typing for it
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

# A centre follows the last so many observations of its class.
_MEMORY_OBSERVATIONS = 32
# With each observation of another size, a class loses this part of its weight, down to a least one.
_FORGET = 0.02
_LEAST_COUNT = 0.25
# An observation farther from its centre than so many typical deviations is pulled in to there.
_CLIP_DEVIATIONS = 4.0
_QUANTILE = 0.95
# A step that is too long is late; one that is too large was done for nothing.
MEMORY_QUANTILE = 0.99


class Observation(tuple[float, float, float]):
    """The units of a step, what it cost, and of how many such steps that is the average."""

    __slots__ = ()

    def __new__(cls, units: float, cost: float, steps: float = 1.0) -> Observation:
        """Make one."""
        return tuple.__new__(cls, (units, cost, steps))

    def __getnewargs__(self) -> tuple[float, float, float]:
        return self[0], self[1], self[2]


class _Centre:
    """The typical size and cost of the steps of one size class."""

    __slots__ = ("cost", "count", "deviation", "is_hint", "units")

    def __init__(self, units: float, cost: float, count: float, *, is_hint: bool = False) -> None:
        self.units = units
        self.cost = cost
        self.count = count
        self.deviation = 0.0
        self.is_hint = is_hint  # of this size, nothing was seen yet

    def follow(self, units: float, cost: float, count: float) -> None:
        # Sizes differ within a class: compare as if the cost grew with the size, which a centre next to it does.
        surprise = cost - self.cost * (units / self.units)
        if self.count >= 3:
            limit = _CLIP_DEVIATIONS * max(self.deviation, 0.02 * self.cost)
            surprise = min(max(surprise, -limit), limit)
        rate = count / min(self.count + count, max(_MEMORY_OBSERVATIONS, count))
        self.cost = max(0.0, self.cost * (1 + rate * (units / self.units - 1)) + rate * surprise)
        self.units += rate * (units - self.units)
        self.deviation += rate * (abs(surprise) - self.deviation)
        self.count = min(self.count + count, _MEMORY_OBSERVATIONS)


class LinearModel:
    """``cost(n) = overhead + n * per_unit``, and how far above it the worst of twenty steps lies.

    Or of another number: ``quantile`` is the part of the steps that stay below.
    """

    __slots__ = ("_centres", "_fitted", "_quantile", "_refit_at", "_upper_ratio", "observations")

    def __init__(self, quantile: float = _QUANTILE) -> None:
        self._quantile = quantile
        self._centres: dict[int, _Centre] = {}
        self._fitted = (0.0, 0.0)
        self._refit_at = 0.0  # so many observations
        self._upper_ratio = 1.0
        self.observations = 0.0

    def observe(self, units: float, cost: float, count: float = 1.0) -> None:
        """Learn from a step, or from ``count`` steps that were alike."""
        if units <= 0:
            return
        if self.observations:
            self._follow_upper_ratio(cost, self.predict(units))
        size_class = int(units).bit_length()
        for other_class, other in self._centres.items():
            if other_class != size_class and other.count > _LEAST_COUNT:
                other.count = max(_LEAST_COUNT, other.count * (1 - _FORGET))
        centre = self._centres.get(size_class)
        if centre is None or centre.is_hint:
            self._centres[size_class] = _Centre(units, cost, min(count, _MEMORY_OBSERVATIONS))
            self._refit_at = 0.0
        else:
            centre.follow(units, cost, count)
        self.observations += count

    def observe_all(self, observations: Iterable[Sequence[float]]) -> None:
        """Learn from what another model learned."""
        for units, cost, count in observations:
            self.observe(units, cost, count)

    def take_hints(self, observations: Iterable[Sequence[float]]) -> None:
        """Start from what was learned elsewhere: it gives way to the first that is seen of such a size."""
        for units, cost, count in observations:
            size_class = int(units).bit_length()
            if units > 0 and size_class not in self._centres:
                self._centres[size_class] = _Centre(units, cost, count, is_hint=True)
                self.observations += count
                self._refit_at = 0.0

    @property
    def size_classes(self) -> int:
        """How many different sizes were seen, roughly: two tell overhead from cost per unit."""
        return len(self._centres)

    @property
    def largest_units(self) -> float:
        """The largest size seen, on the average of its class."""
        return self._centres[max(self._centres)].units if self._centres else 0.0

    @property
    def smallest_units(self) -> float:
        """The smallest size seen, on the average of its class."""
        return self._centres[min(self._centres)].units if self._centres else 0.0

    @property
    def overhead(self) -> float:
        """What a step costs before its first unit."""
        return self._line()[0]

    @property
    def per_unit(self) -> float:
        """What each unit adds."""
        return self._line()[1]

    def predict(self, units: float) -> float:
        """What a step of so many units costs, typically."""
        overhead, per_unit = self._line()
        return overhead + units * per_unit

    def measured(self, units: float) -> float | None:
        """What steps of about that size took, where there were some."""
        centre = self._centres.get(int(units).bit_length())
        return None if centre is None else centre.cost * units / centre.units

    def predict_upper(self, units: float) -> float:
        """What nearly all such steps stay below."""
        return self.predict(units) * self._upper_ratio

    def units_within(self, cost: float) -> float:
        """How many units nearly all steps of that size can do for a cost; infinite if units cost nothing."""
        overhead, per_unit = self._line()
        affordable = cost / self._upper_ratio - overhead
        return affordable / per_unit if per_unit > 0 else float("inf") if affordable >= 0 else 0.0

    def summary(self) -> list[Observation]:
        """All that is known, as some observations."""
        return [Observation(centre.units, centre.cost, centre.count) for centre in self._centres.values()]

    def to_dict(self) -> dict[str, Any]:
        """As JSON, to be kept for the next run."""
        return {"upper_ratio": self._upper_ratio, "observations": [list(seen) for seen in self.summary()]}

    @classmethod
    def from_dict(cls, kept: dict[str, Any], quantile: float = _QUANTILE) -> LinearModel:
        """Rebuild what `to_dict` kept."""
        model = cls(quantile)
        # Where it starts, not what it insists on: the data may be other data now.
        model.observe_all((units, cost, min(count, 2.0)) for units, cost, count in kept["observations"])
        model._upper_ratio = max(1.0, float(kept["upper_ratio"]))
        return model

    def _follow_upper_ratio(self, cost: float, predicted: float) -> None:
        # Stochastic approximation of a quantile: it rests where that part of the observations lies below it.
        if predicted <= 0:
            return
        step = 0.2 if self.observations < 20 else 0.05
        margin, seen = self._upper_ratio - 1, cost / predicted - 1
        if seen > margin:
            # In parts of the margin, so that it suits any scatter; never farther than the observation that moves it.
            margin = min(max(margin * (1 + step * self._quantile * 2), step * seen), seen)
        else:
            margin *= 1 - step * (1 - self._quantile) * 2
        self._upper_ratio = 1 + margin

    def _line(self) -> tuple[float, float]:
        # Often while little is known; one more of many changes little, and a fit takes longer than a short step may.
        if self.observations >= self._refit_at:
            self._fitted = _fit(self._centres.values())
            self._refit_at = self.observations + min(1 + self.observations / 16, _MEMORY_OBSERVATIONS)
        return self._fitted


def _fit(centres: Collection[_Centre]) -> tuple[float, float]:
    """Least squares of relative errors with neither part below zero: (overhead, per_unit)."""
    s_w = s_n = s_nn = s_t = s_nt = 0.0
    # What was too short to be measured did not cost nothing, and must not weigh as if that were certain.
    least = min((centre.cost / centre.units for centre in centres if centre.cost > 0), default=0.0)
    for centre in centres:
        weight = centre.count / max(centre.cost, least * centre.units, 1e-12) ** 2
        s_w += weight
        s_n += weight * centre.units
        s_nn += weight * centre.units**2
        s_t += weight * centre.cost
        s_nt += weight * centre.units * centre.cost
    if not s_w:
        return 0.0, 0.0
    spread = s_w * s_nn - s_n * s_n
    if spread <= 1e-9 * s_w * s_nn:
        # One size tells nothing of the overhead.
        return 0.0, s_nt / s_nn
    per_unit = (s_w * s_nt - s_n * s_t) / spread
    overhead = (s_t - per_unit * s_n) / s_w
    if overhead < 0:
        return 0.0, s_nt / s_nn
    if per_unit < 0:
        return s_t / s_w, 0.0
    return overhead, per_unit
