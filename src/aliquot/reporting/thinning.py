"""A hundred thousand reports as something that can be drawn, and that still shows the extremes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aliquot.reporting.lanes import Bar

# Up to so many, each report is a dot; beyond, there are so many bands.
_MOST_DOTS = 1000
_BANDS = 240
_RATES = 120
_MOST_BARS = 6000


class Band(NamedTuple):
    """One value, or what became of many at about the same time."""

    seconds: float
    low: float
    middle: float
    high: float


class Curve(NamedTuple):
    """Values over time: each by itself, or where there are too many (``is_thinned``) their range and median."""

    bands: tuple[Band, ...] = ()
    is_thinned: bool = False


class Rate(NamedTuple):
    """Units per second, between two moments."""

    begin_seconds: float
    end_seconds: float
    units_per_second: float


def thin(points: Sequence[tuple[float, float]], wall_seconds: float) -> Curve:
    """(seconds, value) as dots, or as bands of equal time where there are too many."""
    if len(points) <= _MOST_DOTS:
        return Curve(tuple(Band(seconds, value, value, value) for seconds, value in points))
    bands = []
    for values, seconds in _group(points, wall_seconds, _BANDS):
        values.sort()
        bands.append(Band(seconds, values[0], values[len(values) // 2], values[-1]))
    return Curve(tuple(bands), is_thinned=True)


def highest_steps(points: Sequence[tuple[float, float]], wall_seconds: float) -> tuple[tuple[float, float], ...]:
    """(from when on, the highest value), once for each time that it changes."""
    steps: list[tuple[float, float]] = []
    for values, seconds in _group(points, wall_seconds, _BANDS):
        highest = max(values)
        if not steps or steps[-1][1] != highest:
            steps.append((seconds, highest))
    return tuple(steps)


def rates(pieces: Iterable[tuple[float, float, int]], wall_seconds: float) -> tuple[Rate, ...]:
    """(begin, end, units), each spread evenly over its time, as units per second."""
    pieces = list(pieces)
    if not pieces or wall_seconds <= 0:
        return ()
    # No finer than the reports come: between two of them nothing is known.
    count = max(1, min(_RATES, len(pieces)))
    width = wall_seconds / count
    units_of = [0.0] * count
    for begin, end, units in pieces:
        first = min(count - 1, max(0, int(begin / width)))
        last = min(count - 1, max(first, int(end / width)))
        if first == last or end <= begin:
            units_of[last] += units
            continue
        for number in range(first, last + 1):
            inside = min(end, (number + 1) * width) - max(begin, number * width)
            units_of[number] += units * max(0.0, inside) / (end - begin)
    return tuple(Rate(number * width, (number + 1) * width, units / width) for number, units in enumerate(units_of))


def units_since(pieces: Iterable[tuple[float, float, int]], since_seconds: float) -> float:
    """How many units were done after a moment, of pieces (begin, end, units)."""
    total = 0.0
    for begin, end, units in pieces:
        if begin >= since_seconds:
            total += units
        elif end > since_seconds:
            total += units * (end - since_seconds) / (end - begin)
    return total


def thin_bars(lanes: Sequence[Sequence[Bar]], wall_seconds: float) -> list[list[Bar]]:
    """Neighbours that touch, nearly, are drawn as one, and more nearly the more bars there are."""
    gap_seconds = wall_seconds / 2000
    thinned = [list(bars) for bars in lanes]
    while sum(map(len, thinned)) > _MOST_BARS and gap_seconds < wall_seconds:
        thinned = [_merge(bars, gap_seconds) for bars in lanes]
        gap_seconds *= 2
    return thinned


def _merge(bars: Sequence[Bar], gap_seconds: float) -> list[Bar]:
    merged: list[Bar] = []
    for bar in bars:
        last = merged[-1] if merged else None
        is_near = last is not None and bar.begin_seconds - last.end_seconds <= gap_seconds
        # A steal is worth seeing; it disappears only into what is too narrow to be seen at all.
        is_small = last is not None and bar.end_seconds - last.begin_seconds <= 2 * gap_seconds
        if last is None or not is_near or (bar.is_steal != last.is_steal and not is_small):
            merged.append(bar)
            continue
        merged[-1] = last._replace(
            end_seconds=max(last.end_seconds, bar.end_seconds),
            start=min(last.start, bar.start),
            stop=max(last.stop, bar.stop),
            is_steal=last.is_steal or bar.is_steal,
            done_units=last.done_units + bar.done_units,
            spans=last.spans + bar.spans,
        )
    return merged


def _group(
    points: Sequence[tuple[float, float]], wall_seconds: float, count: int
) -> Iterable[tuple[list[float], float]]:
    """The values in each of ``count`` equal times that has any, and the middle of that time."""
    width = wall_seconds / count if wall_seconds > 0 else 1.0
    groups: dict[int, list[float]] = {}
    for seconds, value in points:
        groups.setdefault(min(count - 1, max(0, int(seconds / width))), []).append(value)
    for number in sorted(groups):
        yield groups[number], (number + 0.5) * width
