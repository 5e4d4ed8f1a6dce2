"""What each worker did, and where its time went.

Between two events of a worker lies some time. What of it was busy or stopped is told by a report; the rest belongs to
what the worker was about:

    joined        span         report        report     span (steal)   report            the run is over
      |- startup -|-- startup ---|--- between --|- waiting -|-- steals ---|------- end -------|
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

# Everything but useful work; the sentences are in losses.py.
Purpose: TypeAlias = Literal[
    "startup",
    "steals",
    "between",
    "stopped",
    "failed",
    "lost",
    "again",
    "waiting",
    "end",
    "finishing",
    "absent",
    "open",
]
MarkKind: TypeAlias = Literal["trim", "stopped", "lost", "failed", "exhausted"]


class Bar(NamedTuple):
    """A span, as long as a worker had it: ``steps_seconds`` is when its first step began."""

    begin_seconds: float
    steps_seconds: float
    end_seconds: float
    start: int
    stop: int  # as it was assigned; a trim may have come
    is_steal: bool
    done_units: int
    spans: int = 1  # how many are drawn as one


class Mark(NamedTuple):
    """Something that happened to a worker at a moment."""

    seconds: float
    kind: MarkKind
    text: str


class Lane(NamedTuple):
    """All that a worker did: a line of the timeline."""

    worker: int
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    report_seconds: tuple[float, ...]  # empty where there are too many to be drawn


class _Span:
    """What a worker has now."""

    def __init__(
        self, number: int | None, begin_seconds: float, start: int, stop: int, *, is_steal: bool, is_open: bool
    ) -> None:
        self.number = number
        self.begin_seconds = begin_seconds
        self.start = start
        self.stop = stop  # as it was assigned, and extended
        self.is_steal = is_steal
        self.is_open = is_open  # it grows with the source: its worker waits at its end
        self.end = stop  # where it ends now
        self.reached = -1  # all before is reported
        self.done_units = 0
        self.steps_seconds: float | None = None  # when its first step began


class Worker:
    """Follows one worker through the events, over all sittings."""

    def __init__(self, number: int, spent: dict[Purpose, float]) -> None:
        self.number = number
        self.bars: list[Bar] = []
        self.marks: list[Mark] = []
        self.report_seconds: list[float] = []
        self.present_seconds = 0.0  # that it was there, in all
        self.is_here = False
        self._spent = spent
        self._since_seconds = 0.0  # all before is accounted for
        self._purpose: Purpose = "startup"
        self._has_reported = False
        self._span: _Span | None = None

    @property
    def has_span(self) -> bool:
        """Whether it has something to do, as far as is known."""
        return self._span is not None

    def appear(self, since_seconds: float) -> None:
        """It is there, and has nothing to do; its start-up counts from ``since_seconds``."""
        self.is_here = True
        self._since_seconds = since_seconds
        self._purpose = "startup"
        self._has_reported = False
        self._span = None

    def assign(self, seconds: float, about: Mapping[str, Any]) -> None:
        """A span is handed to it."""
        self._end_bar(self._since_seconds)
        self._account(seconds, self._purpose)
        start, stop, is_steal = int(about["start"]), int(about["stop"]), bool(about.get("is_steal"))
        is_open = bool(about.get("is_open"))
        self._span = _Span(about.get("span"), seconds, start, stop, is_steal=is_steal, is_open=is_open)
        if self._has_reported:
            self._purpose = "steals" if is_steal else "between"

    def report(self, seconds: float, about: Mapping[str, Any]) -> float:
        """Some of its span is done; gives back when the work that is reported began."""
        busy_seconds = float(about.get("busy_seconds") or 0.0)
        stopped_seconds = float(about.get("stopped_seconds") or 0.0)
        stopped_steps = int(about.get("stopped_steps") or 0)
        waited_seconds = float(about.get("waited_seconds") or 0.0)
        told_seconds = busy_seconds + stopped_seconds + waited_seconds
        began_seconds = min(seconds, max(self._since_seconds, seconds - told_seconds))
        # One that is heard of after its span ended had more of it than was known.
        self._account(seconds, "between" if self._purpose == "waiting" else self._purpose, told_seconds)
        self._spent["stopped"] += stopped_seconds
        self._spent["waiting"] += waited_seconds
        self._has_reported = True
        self._purpose = "between"
        self.report_seconds.append(seconds)
        if stopped_steps:
            self.mark(seconds, "stopped", f"{stopped_steps} step{'s' * (stopped_steps > 1)} stopped for memory")
        span = self._span
        if span is None:
            self._purpose = "waiting"
        else:
            if span.steps_seconds is None:
                span.steps_seconds = began_seconds
            span.done_units += int(about["stop"]) - int(about["start"])
            span.reached = int(about["stop"])
            self._rest_if_done(span)
        return began_seconds

    def extend(self, about: Mapping[str, Any]) -> None:
        """Its open span ends later than it was told, as more of the source is known; or now for good."""
        span = self._span
        if span is None or about.get("span") != span.number:
            return
        span.stop = span.end = int(about["stop"])
        span.is_open = bool(about.get("is_open"))
        self._rest_if_done(span)

    def trim(self, seconds: float, about: Mapping[str, Any]) -> None:
        """The tail of its span was taken back; nothing of it where the stop is what it was."""
        span, stop = self._span, int(about["stop"])
        # An answer may come when it has another span already.
        if span is None or about.get("span") != span.number or stop >= span.end:
            return
        self.mark(seconds, "trim", f"gave away what came from unit {stop:,} on")
        span.end = stop
        span.is_open = False
        self._rest_if_done(span)

    def fail(self, seconds: float, kind: Literal["failed", "exhausted"], text: str) -> None:
        """A step of it failed, or was too large and cannot be smaller; the rest of its span is dropped."""
        self._account(seconds, "failed" if kind == "failed" else "stopped")
        self.mark(seconds, kind, text)
        self._has_reported = True
        self._end_bar(seconds)
        self._purpose = "waiting"

    def lose(self, seconds: float, reason: str) -> None:
        """It is gone."""
        self._account(seconds, self._purpose if self._span is None else "lost")
        self.mark(seconds, "lost", f"lost: {reason}" if reason else "lost")
        self._end_bar(seconds)
        self.is_here = False

    def leave(self, seconds: float, finishing_seconds: float, *, is_last: bool, has_begun: bool) -> None:
        """A sitting is over. What it was about is lost, or open where this is the last that is known.

        From ``finishing_seconds`` on there was nothing left to do for anybody. Before any worker had reported, while
        the run had not ``has_begun``, one without work was still starting.
        """
        if self._span is not None:
            self._account(seconds, "open" if is_last else "lost")
            self._end_bar(seconds)
        else:
            waited_for: Purpose = "end" if has_begun else "startup"
            self._account(max(self._since_seconds, min(seconds, finishing_seconds)), waited_for)
            self._account(seconds, "finishing" if self._has_reported else waited_for)
        self.is_here = False

    def mark(self, seconds: float, kind: MarkKind, text: str) -> None:
        """Note a moment."""
        self.marks.append(Mark(seconds, kind, text))

    def _account(self, seconds: float, purpose: Purpose, told_seconds: float = 0.0) -> None:
        """All time up to now; what of it is told otherwise does not count for the purpose."""
        passed_seconds = max(0.0, seconds - self._since_seconds)
        self.present_seconds += passed_seconds
        self._spent[purpose] += max(0.0, passed_seconds - told_seconds)
        self._since_seconds = max(seconds, self._since_seconds)

    def _rest_if_done(self, span: _Span) -> None:
        if span.reached >= span.end and not span.is_open:
            self._end_bar(self._since_seconds)
            self._purpose = "waiting"

    def _end_bar(self, seconds: float) -> None:
        span, self._span = self._span, None
        if span is not None:
            steps_seconds = seconds if span.steps_seconds is None else span.steps_seconds
            self.bars.append(
                Bar(span.begin_seconds, steps_seconds, seconds, span.start, span.stop, span.is_steal, span.done_units)
            )
