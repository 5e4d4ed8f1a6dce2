from __future__ import annotations

from aliquot.sizing.linear_model import LinearModel
from aliquot.sizing.memory_model import MemoryModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# What a step costs besides the call itself: claiming its units, clocks, adding up.
_HARNESS_SECONDS = 3e-5
# Overhead may be this part of a step while steps stay short, and this much where that would make them too long.
OVERHEAD_SHARE = 0.005
_OVERHEAD_SHARE_OF_LONG_STEPS = 0.05
# No more of what a step should take is believed to be overhead.
_MOST_OVERHEAD_PART = 0.9
# Where a step that takes too long is stopped, one should take no more than such a part of that: it may happen to take
# longer than most. But if its overhead alone takes about as long, as much more as this part of what that leaves.
_PART_OF_STOPPED, _PART_OF_REST = 3, 4
# At the end of a span, balance is worth more than overhead.
_OVERHEAD_SHARE_AT_THE_END = 0.05
# Towards the end of a span, a step has such a part of what is left: the other part can be given to another worker.
_END_PARTS = 2.5
_SHORTEST_SECONDS = 0.01
# A step may be so many times as large as it should be, if that is the rest of a span, which would be a step of its own.
WITH_REST = 1.25
_SHORTEST_SECONDS_AT_THE_END = 0.002
# A line is not trusted farther than so many times the largest size that was tried.
_GROWTH = 4
# Nor so far where a step that takes too long is stopped.
_GROWTH_TO_BE_STOPPED = 2
# Where that one took so little time that many more units cannot take too long, farther, up to this; and up to the other
# where nearly all of it was overhead. While sizes are tried, of which less is known, up to a part of too long.
_GROWTH_OF_SHORT_STEPS = 64
_GROWTH_OF_OVERHEAD = 16
_SHORT_PART = 1 / 2
# Where a much larger size cannot be tried, one so many times as small is, or a single unit.
_SMALLER = 16
# So many different sizes are tried before the line is used at all; or two, if one is so many times the other, or takes
# as long as a step may.
_SIZES_TO_TRY = 3
_FAR_APART = 32
# One step of so many is twice as large as it would be: what larger ones cost is otherwise never seen again.
_STEPS_A_PROBE = 8
# Or longer by less than this.
_LITTLE_MORE = 1.25
# No single step takes more than this part of a span while nothing is known.
_FIRST_PART = 16
# Nor more than this part where it is said what one should hold.
_FIRST_PART_OF_MEMORY = 256
# Once it is known how long a step can take at most, a larger part: of few units, three sizes could else not be tried.
_NEXT_PART = 8


class StepSizer:
    """Chooses how many units the next step of a span has, and learns from each step.

    As many as it takes for the overhead to be a small part; no more than finish in ``longest_seconds``, or a quarter
    more if nothing is left then; no more than fit into ``allowed_bytes``; fewer towards the end of the span, where what
    a step holds can no longer be given to others. One that takes ``stopped_seconds`` would be stopped.
    """

    __slots__ = (
        "_first_units",
        "_largest_run",
        "_longest_seconds",
        "_next_probe",
        "_overhead_share",
        "_preferred",
        "_refit_at",
        "_stopped_seconds",
        "_target_bytes",
        "allowed_bytes",
        "is_held_back",
        "memory",
        "time",
    )

    def __init__(
        self,
        *,
        first_units: int = 1,
        longest_seconds: float = 1.0,
        allowed_bytes: int | None = None,
        target_bytes: int | None = None,
        overhead_share: float = OVERHEAD_SHARE,
        stopped_seconds: float = 0.0,
    ) -> None:
        self._overhead_share = overhead_share
        self._stopped_seconds = stopped_seconds or float("inf")
        self._first_units = first_units
        self._largest_run = 0  # units of a step here; others may have told of larger ones
        self._longest_seconds = longest_seconds
        self._target_bytes = target_bytes
        self.allowed_bytes = allowed_bytes
        self.is_held_back = False  # whether steps would be larger, were it not for memory
        self._preferred: tuple[float, float] | None = None
        self._refit_at = 0.0
        self._next_probe = _STEPS_A_PROBE
        self.time = LinearModel()
        self.memory = MemoryModel()

    def observe(self, units: int, seconds: float, peak_bytes: int | None = None, count: int = 1) -> None:
        """Learn what a step took, or each of ``count`` like steps."""
        self.time.observe(units, seconds, count)
        if units > self._largest_run:
            self._largest_run = units
            self._preferred = None  # larger ones can be told now
        if peak_bytes is not None:
            self.observe_memory(units, peak_bytes)
        if self.time.observations >= self._refit_at:
            self._preferred = None

    # A step is one call, which cannot be left.
    patience_seconds: float | None = None

    @property
    def unit_seconds(self) -> float | None:
        """What a single unit takes, alone; None if nothing is known."""
        return self.time.predict(1) if self.time.observations else None

    @property
    def is_trying(self) -> bool:
        """Whether it still tries sizes, and so should hear of each step at once."""
        time = self.time
        if time.size_classes < 2:
            return True
        if time.size_classes >= _SIZES_TO_TRY or time.largest_units >= _FAR_APART * time.smallest_units:
            return False
        # Larger ones would take too long.
        return (time.measured(time.largest_units) or 0.0) < min(self._longest_seconds, self._most_seconds)

    @property
    def is_weighing(self) -> bool:
        """Whether too little is known of what steps hold, so that the peak of each is worth a look."""
        return not self.memory.is_certain

    @property
    def is_one_by_one(self) -> bool:
        """Whether every step has one unit, by the user's wish."""
        return self._longest_seconds == 0

    def begin_span(self, first_units: int, allowed_bytes: int | None = None) -> None:
        """Another span: what the first step has where nothing is known, and what each may hold."""
        self._first_units = first_units
        self.allow(allowed_bytes)

    def allow(self, allowed_bytes: int | None) -> None:
        """Steps may hold so much from now on."""
        if allowed_bytes != self.allowed_bytes:
            self.allowed_bytes = allowed_bytes
            self._preferred = None

    def observe_memory(self, units: int, peak_bytes: int) -> None:
        """Learn what a step held."""
        self.memory.observe(units, peak_bytes)
        if self._limit_bytes is not None:
            self._preferred = None

    def exhausted(self, units: int) -> None:
        """A step held more than it was allowed, and was stopped at that."""
        self.memory.exhausted(units, self.allowed_bytes or 0)
        self._preferred = None

    @property
    def _limit_bytes(self) -> int | None:
        limits = [limit for limit in (self.allowed_bytes, self._target_bytes) if limit is not None]
        return min(limits, default=None)

    def learn(self, seconds: Sequence[Sequence[float]], peak_bytes: Sequence[Sequence[float]]) -> None:
        """Start from what others learned, unless enough was learned here."""
        if not self.is_trying:
            return
        self.time.take_hints(seconds)
        if self.memory.is_empty:
            # Else units elsewhere, which may weigh far less than those here, would be taken for the next ones.
            self.memory.take_hints(peak_bytes)
        self._preferred = None

    def choose(self, remaining_units: int, *, is_end: bool = True) -> int:
        """How many of the remaining units of the span to run next; ``is_end`` says that nothing waits behind it."""
        if remaining_units <= 1 or self._longest_seconds == 0:
            return min(1, remaining_units)
        if self.is_trying:
            tried = self._try_another_size(remaining_units, is_end=is_end)
            is_new = not self.time.smallest_units <= tried <= self.time.largest_units
            if is_new or self.time.size_classes < 2:
                return tried
        if self._preferred is None:
            self._preferred = self._prefer()
            # Often while little is known, then ever more rarely: what a step prefers changes slowly.
            self._refit_at = self.time.observations * 1.1 + 1
        preferred, least = self._preferred
        self._next_probe -= 1
        if not self._next_probe:
            self._next_probe = _STEPS_A_PROBE
            preferred = self._probe(preferred)
        units = min(preferred, max(least, remaining_units / _END_PARTS)) if is_end else preferred
        if remaining_units <= min(WITH_REST * units, self.fitting_units):
            return remaining_units
        return max(1, int(units))

    def _prefer(self) -> tuple[float, float]:
        """How many units a step should have, and how few it may have at the end of a span."""
        overhead = self.time.overhead + _HARNESS_SECONDS
        wanted_seconds = max(_SHORTEST_SECONDS, overhead / self._overhead_share)
        if wanted_seconds > self._longest_seconds:
            wanted_seconds = max(self._longest_seconds, overhead / _OVERHEAD_SHARE_OF_LONG_STEPS)
        wanted_seconds = min(wanted_seconds, self._most_seconds)
        least_seconds = min(wanted_seconds, max(_SHORTEST_SECONDS_AT_THE_END, overhead / _OVERHEAD_SHARE_AT_THE_END))
        memory_limit = self.fitting_units
        limit = min(self._growth_limit(), memory_limit)
        preferred = min(self._smaller_than_tried() or self._units_in(wanted_seconds), limit)
        self.is_held_back = preferred == memory_limit
        tried = min(preferred, self._largest_run)
        measured = self.time.measured(tried)
        known_overhead = min(self.time.overhead, _MOST_OVERHEAD_PART * wanted_seconds)
        units_seconds = 0.0 if measured is None else max(0.0, measured - known_overhead)
        if known_overhead * tried + units_seconds * preferred > 1.5 * wanted_seconds * tried:
            # Units have become dearer than the small steps of the beginning said; in larger steps than were tried, a
            # unit takes no longer than in these.
            preferred = (wanted_seconds - known_overhead) * tried / units_seconds
        return preferred, min(self._units_in(least_seconds), preferred)

    def _probe(self, preferred: float) -> float:
        """Twice as many units, where that is neither too much nor too long, nor a size that is seen anyway."""
        larger = 2 * max(1.0, preferred)
        seconds = self.time.predict(larger)
        is_short = seconds < max(self._longest_seconds / 4, _LITTLE_MORE * self.time.predict(larger / 2))
        return larger if is_short and larger <= min(self._growth_limit(), self.fitting_units) else preferred

    def _smaller_than_tried(self) -> float | None:
        """A size below all that were tried, where even the smallest of them took too long to tell anything."""
        smallest = self.time.smallest_units
        too_long_seconds = min(self._longest_seconds, self._most_seconds)
        if smallest > 1 and (self.time.measured(smallest) or 0.0) > too_long_seconds:
            return smallest / _GROWTH
        return None

    def _try_another_size(self, remaining_units: int, *, is_end: bool) -> int:
        tried = self.time.largest_units
        wanted = self._smaller_than_tried() or (tried * self._growth() if tried else self._first_units)
        most: float = remaining_units // _FIRST_PART if is_end else remaining_units
        if tried and is_end:
            # At most as much for each unit as before: there may be overhead, of which more units make less.
            unit_seconds = (self.time.measured(tried) or 0.0) / tried
            short_enough = self._longest_seconds / unit_seconds if unit_seconds > 0 else remaining_units
            most = max(most, min(short_enough, remaining_units // _NEXT_PART))
        most = min(most, self.fitting_units, self._units_in_time())
        if self._target_bytes is not None and self.memory.is_empty and not tried:
            most = min(most, remaining_units // _FIRST_PART_OF_MEMORY)
        smallest = self.time.smallest_units
        if is_end and most < _GROWTH * tried and wanted > tried and smallest >= _GROWTH:
            # Much larger ones are out of question: a much smaller one tells the overhead as well.
            wanted = smallest / _SMALLER
        units = max(1, int(min(wanted, most)))
        return remaining_units if remaining_units <= min(WITH_REST * units, self.fitting_units) else units

    @property
    def _most_seconds(self) -> float:
        """How long a step should take at most, so that none is stopped."""
        overhead = min(self.time.overhead, self._stopped_seconds) if self.time.size_classes > 1 else 0.0
        beyond_overhead = (self._stopped_seconds - overhead) / _PART_OF_REST
        return max(self._stopped_seconds / _PART_OF_STOPPED, overhead + beyond_overhead)

    def _units_in_time(self) -> float:
        """Up to how many units may be tried where a step that takes too long is stopped."""
        tried = self.time.largest_units
        if not tried or self._stopped_seconds == float("inf"):
            return float("inf")
        by_rate = tried * self._most_seconds / max(self.time.measured(tried) or 0.0, 1e-9)
        # It may all be overhead, in which case more units take no longer.
        by_line = self._units_in(self._most_seconds) if self.time.size_classes > 1 else float("inf")
        return max(by_rate, min(_GROWTH_TO_BE_STOPPED * tried, by_line))

    def _units_in(self, seconds: float) -> float:
        per_unit = self.time.per_unit
        return (seconds - self.time.overhead) / per_unit if per_unit > 0 else float("inf")

    def _growth_limit(self) -> float:
        return max(self._first_units, self.time.largest_units * self._growth())

    def _growth(self) -> float:
        largest = self.time.largest_units
        took_seconds = self.time.measured(largest) or 0.0
        longest_seconds = min(self._longest_seconds, self._most_seconds)
        if self.is_trying:
            by_time = _SHORT_PART * longest_seconds / max(took_seconds, 1e-9)
        else:
            by_time = longest_seconds / max(took_seconds - self.time.overhead, took_seconds / 2, 1e-9)
        growth = max(_GROWTH, min(_GROWTH_OF_SHORT_STEPS, by_time))
        # By two sizes at least, and where a mistake costs no more than a long step.
        is_overhead = (
            self.time.size_classes > 1
            and self._stopped_seconds == float("inf")
            and self.time.predict(_GROWTH_OF_OVERHEAD * largest) < 2 * max(took_seconds, self._longest_seconds / 4)
        )
        return max(growth, _GROWTH_OF_OVERHEAD) if is_overhead else growth

    @property
    def fitting_units(self) -> float:
        """How many units fit into what a step may hold, by what is known."""
        limit_bytes = self._limit_bytes
        return float("inf") if limit_bytes is None else self.memory.units_within(limit_bytes)
