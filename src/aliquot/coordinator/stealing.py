"""How much of a running span a worker without work should get. Pure arithmetic; the coordinator chooses the span.

Each start costs its worker a start-up, so the best that can be done is that nobody starts more than once again. That
is so if everyone aims at one and the same time, the **level**: the time at which what those who finish later have too
much is just what those who finish earlier have room for, when each of them first pays a start-up.

    slow   |-------------- keeps --------------|~~~~ surplus ~~~~|      finishes after the level
    fast   |-- own span --|- startup -|- room -|                        finishes before it
    level  ------------------------------------^

A worker without work takes as much as it has room for, and leaves the owner what it can do until the level. So nobody
who gave comes back for more, and nobody who took has to give, as long as the estimates hold. The caller may give a
somewhat later time for the level, so that pieces that do not fit exactly leave nothing over.

What does not fit is worth another start-up, or not. If it is, the taker fills its room, and leaves the rest to the
next one; or it takes the surplus, and will have time to serve another owner. If it is not, nobody will come for what
the owner is left with after the level, or have a use for the room that the taker has before it: the two share that, and
end together, whenever that is.

Together means: equally unlikely to be late. Where units differ, both may be, and the slower one by more, as a surprise
takes it longer. So each is expected to be late by as many deviations of what it will have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

# Those who end together do so with as many deviations: of a hundred workers or so, nearly all are no later than that.
_FEARED_DEVIATIONS = 3.0
# By how much each may be late follows from what it gets, and that from how late it may be: halved so often, to a
# thousandth of what is left.
_HALVINGS = 10
# Where nobody is to be feared to be late by more than this part of all that is left, what is expected will do.
_CERTAIN_PART = 0.005


class Load(NamedTuple):
    """When a worker will have finished what it owns, and how much it does in a second."""

    finish_seconds: float
    speed: float


class Spread(NamedTuple):
    """How far expectations are off: the variance of a second of work, and a relative one of the rate they rest on."""

    of_work: float = 0.0
    of_rate: float = 0.0

    def late(self, work: float) -> float:
        """By how much more than expected an amount of work is to be feared to be."""
        return _FEARED_DEVIATIONS * math.sqrt(self.of_work * work + self.of_rate * work * work)


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
    owner: Load,
    taker_speed: float,
    *,
    ready_seconds: float,
    now_seconds: float,
    startup_seconds: float,
    level: float,
    spread: Spread,
) -> Cut | None:
    """What to move from an owner, who works from ``ready_seconds`` on, to a worker that has nothing; None if nothing.

    All amounts of work are in seconds of a worker of speed 1.
    """
    finish_seconds, speed = owner
    begin_seconds = now_seconds + startup_seconds
    surplus = speed * (finish_seconds - max(level, ready_seconds))
    if begin_seconds >= finish_seconds or surplus <= 0:
        return None
    left = speed * (finish_seconds - ready_seconds)
    room = taker_speed * (level - begin_seconds)
    if room > 0 and surplus - room > speed * startup_seconds:
        taken = room
    elif room - surplus > taker_speed * startup_seconds:
        taken = surplus
    else:
        ahead_seconds = begin_seconds - ready_seconds
        taken = _together(left, speed, taker_speed, ahead_seconds, spread)
    return Cut(taken / left, taken / taker_speed) if taken > 0 else None


def _together(left: float, speed: float, taker_speed: float, ahead_seconds: float, spread: Spread) -> float:
    """What to take of an owner, who is some time ahead, so that both are equally unlikely to end late."""
    if spread.late(left) <= _CERTAIN_PART * left:
        return min(left, max(0.0, taker_speed * (left - speed * ahead_seconds) / (speed + taker_speed)))
    least, most = 0.0, left
    for _ in range(_HALVINGS):
        taken = (least + most) / 2
        owner_seconds = (left - taken + spread.late(left - taken)) / speed
        if owner_seconds > ahead_seconds + (taken + spread.late(taken)) / taker_speed:
            least = taken
        else:
            most = taken
    return (least + most) / 2


def equal_part(waiting: float, owned: Iterable[float]) -> float:
    """Up to how much each of some workers should have, so that all that waits goes to those who have less."""
    shared, sharing = waiting, 0
    for own in sorted(owned):
        if own * sharing >= shared > 0:
            break
        shared += own
        sharing += 1
    return shared / sharing
