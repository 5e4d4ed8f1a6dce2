from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Long enough for the handling of a step, some 150 microseconds where caches are cold, to be a few thousandths of it.
# Not longer: what a step has claimed cannot be given away before it is left.
_WANTED_SECONDS = 0.05
_WANTED_SECONDS_AT_THE_END = 0.002
# A step is left when it has taken so many times as long as wanted: its units are dearer than those before.
_PATIENCE = 1.5
# From one step to the next, at most so many times as many units.
_GROWTH = 4
# The first step has no more than this part of the span.
_FIRST_PART = 16
# An average over the last two steps or so: costs change along the data.
_FADE = 0.5


class ItemSizer:
    """Chooses steps for a function that takes one unit: calling it on many costs nothing besides.

    So a step is only what is done between two looks at the clock and the span. It can be left at any unit: where it
    takes longer than `patience_seconds`, the units that were not begun are given back.
    """

    __slots__ = (
        "_first_units",
        "_last_units",
        "_seconds",
        "_units",
        "_wanted_seconds",
        "is_one_by_one",
        "patience_seconds",
    )

    # It hears of each step when that is done, but sizes are not tried for their own sake.
    is_trying = True
    is_held_back = is_weighing = False
    fitting_units = float("inf")

    def __init__(self, *, longest_seconds: float = 1.0) -> None:
        self._wanted_seconds = min(_WANTED_SECONDS, longest_seconds)
        self._first_units = 1
        self._last_units = 0
        self._units = 0.0  # done lately, in
        self._seconds = 0.0  # so many seconds
        self.is_one_by_one = longest_seconds == 0  # by the user's wish
        self.patience_seconds = _PATIENCE * self._wanted_seconds

    @property
    def unit_seconds(self) -> float | None:
        """What a unit takes, lately; None if nothing is known."""
        return self._seconds / self._units if self._units else None

    def begin_span(self, first_units: int, allowed_bytes: int | None = None) -> None:
        """Another span: what the first step has where nothing is known."""
        self._first_units = first_units
        if self._last_units == 0:
            self._last_units = first_units

    def allow(self, allowed_bytes: int | None) -> None:
        """What steps may hold says nothing either."""

    def observe(self, units: int, seconds: float, count: int = 1) -> None:
        """Learn what each of some steps took."""
        self._units = self._units * _FADE**count + units
        self._seconds = self._seconds * _FADE**count + max(seconds, 1e-9)
        self._last_units = units

    def observe_memory(self, units: int, peak_bytes: int) -> None:
        """What a step held says nothing about how many units it should have: they are done one after the other."""

    def exhausted(self, units: int) -> None:
        """A step held more than it was allowed: of its units one after the other, and so only the last is at fault."""
        self._last_units = 1

    def learn(self, seconds: Sequence[Sequence[float]], peak_bytes: Sequence[Sequence[float]]) -> None:
        """Start from what others learned, where nothing was learned here."""
        if not self._units and seconds:
            units, cost, _ = max(seconds, key=lambda seen: seen[0])
            self._units, self._seconds = units, max(cost, 1e-9)
            self._last_units = int(units)

    def choose(self, remaining_units: int, *, is_end: bool = True) -> int:
        """How many of the remaining units of the span to run next; ``is_end`` says that nothing waits behind it."""
        if remaining_units <= 1 or self.is_one_by_one:
            return min(1, remaining_units)
        if not self._units:
            return max(1, min(self._first_units, remaining_units // _FIRST_PART))
        rate = self._units / self._seconds
        wanted = min(self._wanted_seconds * rate, self._last_units * _GROWTH)
        least = _WANTED_SECONDS_AT_THE_END * rate
        most = max(int(least), remaining_units // 3) if is_end else remaining_units
        return max(1, min(int(wanted), most, remaining_units))
