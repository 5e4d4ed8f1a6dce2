from __future__ import annotations

import math
from collections import deque

from aliquot.coordinator.rates import UnitSeconds
from aliquot.coordinator.speeds import Speed
from aliquot.coordinator.transitions import State

OWNING = ("running", "trimming")
# Those that have an allowance of memory.
HOLDING = (*OWNING, "joining")


class Worker:
    """What is known of a worker. ``done_to`` up to ``stop`` is its span without what was sent up."""

    __slots__ = (
        "allowed_bytes",
        "attempts",
        "blames",
        "blaming",
        "done_to",
        "error",
        "finish_seconds",
        "first_rate",
        "first_start",
        "has_given_nothing",
        "id",
        "is_compared",
        "is_drained",
        "is_open",
        "is_speed_settled",
        "is_suspended",
        "knows_sizes",
        "model",
        "model_unit_seconds",
        "partner",
        "rate",
        "ready_seconds",
        "report_seconds",
        "span",
        "span_seconds",
        "span_start",
        "speed",
        "state",
        "stop",
        "story",
        "version",
        "was_open",
    )

    def __init__(self, worker: int) -> None:
        self.id = worker
        self.state: State = "idle"
        self.span = -1
        self.span_start = 0
        self.span_seconds = 0.0  # that it worked on this span
        self.done_to = 0
        self.stop = 0
        self.allowed_bytes: int | None = None  # that a step of its span may hold
        self.is_drained = False  # all that it has not begun was taken back, for good
        self.is_open = False  # its span grows with the source
        self.was_open = False  # when it was last asked for a tail
        self.attempts = 0  # failed attempts at this very span
        self.blaming: int | None = None  # where the last one was
        self.blames = 0  # how often others finished what had failed here
        self.is_suspended = False
        self.error: int | None = None  # of the last failed attempt
        self.partner: int | None = None  # trimming, finished: for whom; promised: by whom
        self.rate: UnitSeconds | None = None  # what a unit of this span takes it; None before its first report
        self.model: Worker | None = None  # whose tail this span was, if it is compared with that one
        self.model_unit_seconds = 0.0  # what a unit took that one
        self.is_compared = False  # whether their speeds were
        self.speed = Speed()
        self.is_speed_settled = False  # its first rate says no more about it
        self.first_rate: UnitSeconds | None = None  # in its first span, before its speed is settled
        self.first_start = 0  # where that span began
        self.ready_seconds = 0.0  # when it was last heard of, or will begin
        self.report_seconds = 0.0  # how long it worked for its last report
        self.has_given_nothing = False  # when last asked, and was not heard of since
        self.finish_seconds = math.inf  # when it will have finished, by what is known
        self.version = 0  # of its entry among the victims: older entries are outdated
        self.knows_sizes = False
        self.story: deque[str] = deque(maxlen=12)

    def silent_seconds(self, now_seconds: float) -> float:
        """How long it is silent between two reports; longer where it is now."""
        return max(self.report_seconds, now_seconds - self.ready_seconds)

    def tell_story(self) -> str:
        """What it owns, and how it came there."""
        return f"worker {self.id}, {self.state}, span {self.span} [{self.done_to}, {self.stop}): " + " | ".join(
            self.story
        )
