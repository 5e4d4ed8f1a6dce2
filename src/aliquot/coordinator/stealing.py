"""How much of a running span a worker without work should get. Pure arithmetic; the coordinator chooses the span.

Each start costs its worker a start-up, so the best that can be done is that nobody starts more than once again. That
is so if everyone aims at one and the same time, the **level**: the time at which what those who finish later have too
much is just what those who finish earlier have room for, when each of them first pays a start-up.

    slow   |-------------- keeps --------------|~~~~ surplus ~~~~|      finishes after the level
    fast   |-- own span --|- startup -|- room -|                        finishes before it
    level  ------------------------------------^

A worker without work takes as much as it has room for, and no owner is left with less than it can do until the level.
So nobody who gave comes back for more, and nobody who took has to give, as long as the estimates hold. The caller may
give a somewhat later time for the level, so that pieces that do not fit exactly leave nothing over.

What an owner would be left with after the level, if that is too little to be worth another start-up, the two share:
they end together, a little later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Load(NamedTuple):
    """When a worker will have finished what it owns, and how much it does in a second."""

    finish_seconds: float
    speed: float


class Cut(NamedTuple):
    """The part of what is left of a span to move, and for how long that keeps the worker that takes it busy."""

    share: float
    taken_seconds: float


def level_seconds(loads: Iterable[Load], startup_seconds: float) -> float:
    """The time at which all can end: the surplus of those that finish later fits into the room of the others.

    From the earliest finish onward, what is still too much falls by the speed of all that can be of help at a time:
    those that have not finished yet, and those that have, after a start-up.
    """
    changes: list[tuple[float, float]] = []
    for finish_seconds, speed in loads:
        changes.append((finish_seconds, -speed))
        changes.append((finish_seconds + startup_seconds, speed))
    changes.sort()
    level, _ = changes[0]
    helping_speed = -sum(change for _, change in changes if change < 0)
    too_much = -sum(change * (at - level) for at, change in changes if change < 0)
    for at, change in changes:
        done = helping_speed * (at - level)
        if done >= too_much:
            break
        too_much -= done
        level = at
        helping_speed += change
    # Speeds that were added and taken away again leave a rounding error where nobody helps.
    return level + too_much / helping_speed if helping_speed > 1e-9 * too_much else level


def cut(
    owner: Load, taker_speed: float, *, ready_seconds: float, now_seconds: float, startup_seconds: float, level: float
) -> Cut | None:
    """What to move from an owner, who works from ``ready_seconds`` on, to a worker that has nothing; None if nothing.

    All amounts of work are in seconds of a worker of speed 1.
    """
    finish_seconds, speed = owner
    begin_seconds = now_seconds + startup_seconds
    together_seconds = (speed * finish_seconds + taker_speed * begin_seconds) / (speed + taker_speed)
    surplus = speed * (finish_seconds - max(level, ready_seconds))
    if together_seconds >= finish_seconds or surplus <= 0:
        return None
    room = taker_speed * (level - begin_seconds)
    left_over = surplus - room
    if left_over <= 0:
        taken = surplus
    elif room > 0 and left_over > speed * startup_seconds:
        taken = room
    else:
        taken = speed * (finish_seconds - max(together_seconds, ready_seconds))
    if taken <= 0:
        return None
    return Cut(taken / (speed * (finish_seconds - ready_seconds)), taken / taker_speed)
