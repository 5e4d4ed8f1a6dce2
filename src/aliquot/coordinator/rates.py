"""How long a unit takes a worker, followed through reports that are noisy where units differ."""

from __future__ import annotations

# Costs change along the data: by about a hundredth from one report to the next. As a relative variance.
_DRIFT = 0.01**2
# No clock is better than to a hundredth. As a relative variance, of one unit.
_LEAST_NOISE = 0.01**2
# The noise is an average over at least so many reports, and over some of each worker; a single one that shows more than
# so many times the average counts no more than that, as it rather is a change.
_LEAST_MEMORY = 64
_MEMORY_A_WORKER = 4
_MOST_SHOWN = 100.0
# Less than a clock can tell, but not nothing: rates are divided by.
_LEAST_SECONDS = 1e-15
# So many reports in a row that are off by so many deviations are a change.
_CHANGE_REPORTS = 3
_CHANGE_DEVIATIONS = 3.0


class Noise:
    """By how much single units differ from their like: a relative variance, over the reports of all workers."""

    __slots__ = ("variance",)

    def __init__(self) -> None:
        self.variance = _LEAST_NOISE

    def follow(self, variance: float, workers: int) -> None:
        """Take in what one report showed."""
        shown = min(variance, _MOST_SHOWN * self.variance)
        self.variance += (shown - self.variance) / (_LEAST_MEMORY + _MEMORY_A_WORKER * workers)
        self.variance = max(_LEAST_NOISE, self.variance)


class UnitSeconds:
    """What a unit takes one worker in one span: an average that forgets.

    Where units are alike, the last report is nearly all that counts; where they are not, many are averaged, until
    several in a row tell of a change. What was known before any report counts like some units.
    """

    __slots__ = ("_far_off", "_noise", "_units", "seconds")

    def __init__(self, units: float, seconds: float, noise: Noise) -> None:
        self.seconds = seconds / units
        self._units = float(units)  # that the average is worth
        self._noise = noise
        self._far_off = 0  # reports in a row, all above or all below

    @property
    def doubt(self) -> float:
        """A relative variance."""
        return self._noise.variance / self._units

    def follow(self, units: int, seconds: float, workers: int) -> None:
        """Take in a report."""
        error = seconds / units / self.seconds - 1
        # What the drift since the last report has left of the average's worth.
        known_units = self._units / (1 + self._units * _DRIFT / self._noise.variance)
        shown = error * error / (1 / units + 1 / known_units)
        if shown <= _CHANGE_DEVIATIONS**2 * self._noise.variance:
            self._far_off = 0
        else:
            sign = 1 if error > 0 else -1
            self._far_off = self._far_off + sign if self._far_off * sign > 0 else sign
        if abs(self._far_off) >= _CHANGE_REPORTS:
            known_units = 0.0
        self._noise.follow(shown, workers)
        self._units = known_units + units
        self.seconds = max(_LEAST_SECONDS, self.seconds * (1 + error * units / self._units))
