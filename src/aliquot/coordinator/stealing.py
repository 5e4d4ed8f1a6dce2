"""How much of a running span a worker without work should get. Pure arithmetic; the coordinator chooses the span."""

from __future__ import annotations


def share_to_take(seconds_left: float, startup_seconds: float, relative_speed: float) -> float:
    """The part of a span to move so that its owner and the worker that takes it end together.

    The owner needs ``seconds_left`` for all of it; the other first needs ``startup_seconds``, and then does the same work
    ``relative_speed`` times as fast. 0 where moving anything would end later than leaving it.

        owner   |---------- keeps ----------|~~~~ gives ~~~~|      seconds_left
        other   |- startup -|--- takes ---|                        ends when the owner does
    """
    if seconds_left <= startup_seconds:
        return 0.0
    return (seconds_left - startup_seconds) / (seconds_left * (1 + 1 / relative_speed))
