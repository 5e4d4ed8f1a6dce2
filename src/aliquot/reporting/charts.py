"""The four charts, and the bar that shows where the time went."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aliquot.quantities import format_amount, format_bytes, format_seconds, number_of
from aliquot.reporting.axes import Axis, bytes_axis, count_axis, log_axis, time_axis
from aliquot.reporting.lanes import Lane
from aliquot.reporting.losses import Loss, format_share, format_steps
from aliquot.reporting.story import Story
from aliquot.reporting.svg import Drawing, percent
from aliquot.reporting.thinning import Curve

_HEIGHT = 220.0
_THROUGHPUT_HEIGHT = 150.0
_MOST_LANES_HEIGHT = 520.0
_LANE_HEIGHT = 26.0
_LEAST_LABEL_HEIGHT = 13.0
# Beyond so many bars they are drawn as strokes, with no words for each.
_MOST_RECTS = 1500
# Where so much more is allowed than was ever held, a common axis shows nothing of what was held.
_FAR_ABOVE = 8.0


def draw_step_units(story: Story) -> Drawing:
    """Units a step over time, on a logarithmic axis."""
    totals = story.totals
    drawing = Drawing(
        "Step size over time",
        f"Units in a step: {format_steps(totals.smallest_step_units, totals.largest_step_units)}.",
        _HEIGHT,
    )
    across = time_axis(totals.wall_seconds)
    if not story.step_units.bands:
        return _nothing(drawing)
    low = max(totals.smallest_step_units, 1e-3)
    up = log_axis(low, max(low, totals.largest_step_units), "units a step")
    _frame(drawing, story, across, up)
    _curve(drawing, story.step_units, across, up, lambda value: f"{format_amount(value)} units a step")
    return drawing


def draw_memory(story: Story) -> Drawing:
    """The peak of each report, below what it was allowed."""
    totals = story.totals
    allowed_bytes = max((value for _, value in story.allowed_bytes), default=0.0)
    drawing = Drawing("Memory of each worker", memory_caption(story), _HEIGHT)
    across = time_axis(totals.wall_seconds)
    if not story.peak_bytes.bands:
        return _nothing(drawing)
    shows_allowed = is_allowance_near(story)
    up = bytes_axis(max(float(totals.peak_bytes), allowed_bytes if shows_allowed else 0.0) * 1.05, "")
    _frame(drawing, story, across, up)
    if shows_allowed:
        points: list[tuple[float, float]] = []
        for seconds, value in story.allowed_bytes:
            place = across.place(seconds) if points else 0.0
            if points:
                points.append((place, points[-1][1]))
            points.append((place, _down(drawing, up, value)))
        points.append((1.0, points[-1][1]))
        drawing.polyline(points, "allowed")
    _curve(drawing, story.peak_bytes, across, up, format_bytes)
    for seconds, value in story.stopped:
        tip = f"{format_seconds(seconds)}: stopped for memory, allowed {format_bytes(value)}"
        drawing.symbol(across.place(seconds), _down(drawing, up, value or up.high), "stopped", tip)
    return drawing


def memory_caption(story: Story) -> str:
    """The highest peak and the allowance, in words."""
    if not story.totals.peak_bytes:
        return "No peak was measured yet."
    allowed_bytes = max((value for _, value in story.allowed_bytes), default=0.0)
    peak = f"Peak of the steps in each report; the highest is {format_bytes(story.totals.peak_bytes)}."
    if not allowed_bytes:
        return peak
    place = "" if is_allowance_near(story) else ", far above this chart"
    return f"{peak} Allowed: {format_bytes(allowed_bytes)}{place}."


def is_allowance_near(story: Story) -> bool:
    """Whether what was held and what was allowed can be seen on one axis."""
    allowed_bytes = max((value for _, value in story.allowed_bytes), default=0.0)
    return 0 < allowed_bytes <= _FAR_ABOVE * story.totals.peak_bytes


def draw_throughput(story: Story) -> Drawing:
    """Units per second over time."""
    highest = max((rate.units_per_second for rate in story.throughput), default=0.0)
    drawing = Drawing(
        "Throughput",
        f"Units per second: {format_amount(story.totals.units_per_second)} on the average, "
        f"at most {format_amount(highest)}.",
        _THROUGHPUT_HEIGHT,
    )
    across = time_axis(story.totals.wall_seconds)
    if not highest:
        return _nothing(drawing)
    up = count_axis(highest, "units/s")
    _frame(drawing, story, across, up)
    top = []
    for rate in story.throughput:
        down = _down(drawing, up, rate.units_per_second)
        top += [(across.place(rate.begin_seconds), down), (across.place(rate.end_seconds), down)]
    drawing.area([(0.0, drawing.height), *top, (1.0, drawing.height)], "throughput-area")
    drawing.polyline(top, "throughput")
    average_down = _down(drawing, up, story.totals.units_per_second)
    drawing.line((0.0, 1.0), (average_down, average_down), "average", "average")
    for rate in story.throughput:
        tip = f"{format_seconds(rate.begin_seconds)}: {format_amount(rate.units_per_second)} units/s"
        place = (across.place(rate.begin_seconds), across.place(rate.end_seconds))
        drawing.rect(place, 0, drawing.height, "sense", tip)
    return drawing


def draw_timeline(story: Story) -> Drawing:
    """A line per worker: its spans, what it took from others, and what happened to it."""
    lanes = story.lanes
    lane_height = _lane_height(lanes)
    height = max(_LANE_HEIGHT, lane_height * len(lanes))
    drawing = Drawing("Timeline of the workers", timeline_caption(story), height)
    across = time_axis(story.totals.wall_seconds)
    if not lanes:
        return _nothing(drawing)
    _frame(drawing, story, across, None)
    _name_lanes(drawing, lanes, lane_height)
    if has_room_for_bars(story):
        _draw_bars(drawing, lanes, lane_height, across)
    else:
        _draw_strokes(drawing, lanes, lane_height, across)
    for number, lane in enumerate(lanes):
        middle = (number + 0.5) * lane_height
        for mark in lane.marks:
            if mark.kind == "trim" and lane_height < _LEAST_LABEL_HEIGHT:
                continue
            tip = f"{format_seconds(mark.seconds)}, worker {lane.worker}: {mark.text}"
            symbol = "stopped" if mark.kind == "exhausted" else mark.kind
            drawing.symbol(across.place(mark.seconds), middle, symbol, tip)
    return drawing


def has_room_for_bars(story: Story) -> bool:
    """Whether each span is drawn by itself, with when its first step began."""
    return _lane_height(story.lanes) >= 4 and sum(len(lane.bars) for lane in story.lanes) <= _MOST_RECTS


def timeline_caption(story: Story) -> str:
    """How many workers did how many spans, in words."""
    totals = story.totals
    taken = f", {totals.steals:,} of them taken from another worker" if totals.steals else ""
    lost = f"; {number_of(totals.lost_workers, 'worker')} lost" if totals.lost_workers else ""
    return f"{number_of(len(story.lanes), 'worker')}, {number_of(totals.tasks, 'span')}{taken}{lost}."


def draw_shares(story: Story) -> Drawing:
    """One bar: useful time and each loss, in the same colours as the list beside it."""
    parts = shares(story)
    description = ", ".join(f"{name} {format_share(share)}" for name, share, _ in parts)
    drawing = Drawing("Where the time of the cores went", description, 30.0)
    left = 0.0
    for name, share, colour in parts:
        right = min(1.0, left + share)
        if share > 0.0005:
            drawing.rect((left, right), 0, 30, colour, f"{name}: {format_share(share)}")
        left = right
    return drawing


def shares(story: Story) -> list[tuple[str, float, str]]:
    """(what, its part, its class of colour), the useful part first."""
    useful = story.totals.efficiency
    return [("in steps", useful, "share-0"), *((loss.name, loss.share, colour) for loss, colour in coloured(story))]


def coloured(story: Story) -> list[tuple[Loss, str]]:
    """Each loss with its class of colour: the largest have their own, the rest share the last."""
    return [(loss, f"share-{min(number, 7)}") for number, loss in enumerate(story.losses, start=1)]


def _frame(drawing: Drawing, story: Story, across: Axis, up: Axis | None) -> None:
    """Grid, labels and a line at each restart."""
    height = drawing.height
    for value, label in across.ticks:
        place = across.place(value)
        drawing.line((place, place), (0, height), "grid")
        drawing.text(percent(place), height + 18, label, "tick")
    drawing.text("100%", height + 36, across.title, "axis-title", "end")
    drawing.line((0, 1), (height, height), "base")
    if up is not None:
        for value, label in up.ticks:
            down = _down(drawing, up, value)
            drawing.line((0, 1), (down, down), "grid")
            drawing.text("-8", down + 4, label, "tick", "end")
        drawing.text("-50", -16, up.title, "axis-title", "start")
    last_place = -1.0
    for sitting in story.sittings[1:]:
        place = across.place(sitting.begin_seconds)
        when = sitting.started.replace("T", " ")
        drawing.line((place, place), (-6, height), "restart", f"restarted {when}".strip())
        if place - last_place > 0.15:
            anchor = "end" if place > 0.85 else "start"
            drawing.text(percent(place), -9, "restart", "restart-label", anchor)
            last_place = place


def _curve(drawing: Drawing, curve: Curve, across: Axis, up: Axis, describe: Callable[[float], str]) -> None:
    if not curve.is_thinned:
        for band in curve.bands:
            tip = f"{format_seconds(band.seconds)}: {describe(band.middle)}"
            radius = 4 if len(curve.bands) <= 150 else 2.5
            drawing.dot(across.place(band.seconds), _down(drawing, up, band.middle), radius, "dot", tip)
        return
    upper = [(across.place(band.seconds), _down(drawing, up, band.high)) for band in curve.bands]
    lower = [(across.place(band.seconds), _down(drawing, up, band.low)) for band in curve.bands]
    # A range of no height at all would be invisible.
    lower = [(place, max(down, top + 1)) for (place, down), (_, top) in zip(lower, upper, strict=True)]
    drawing.area([*upper, *reversed(lower)], "band")
    drawing.polyline([(across.place(band.seconds), _down(drawing, up, band.middle)) for band in curve.bands], "median")
    for band in curve.bands:
        extent = f"{describe(band.low)} to {describe(band.high)}, median {describe(band.middle)}"
        tip = f"{format_seconds(band.seconds)}: {extent}"
        place = across.place(band.seconds)
        half = 0.5 / len(curve.bands)
        drawing.rect((place - half, place + half), 0, drawing.height, "sense", tip)


def _lane_height(lanes: Sequence[Lane]) -> float:
    return min(_LANE_HEIGHT, _MOST_LANES_HEIGHT / max(1, len(lanes)))


def _name_lanes(drawing: Drawing, lanes: Sequence[Lane], lane_height: float) -> None:
    every = 1
    while every * lane_height < _LEAST_LABEL_HEIGHT:
        every = next(step for step in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if step > every)
    for number, lane in enumerate(lanes):
        if number % every == 0:
            drawing.text("-8", (number + 0.5) * lane_height + 4, f"{lane.worker}", "tick", "end")
    drawing.text("-50", -16, "worker", "axis-title", "start")


def _draw_bars(drawing: Drawing, lanes: Sequence[Lane], lane_height: float, across: Axis) -> None:
    thickness = max(2.0, lane_height * 0.72)
    for number, lane in enumerate(lanes):
        top = number * lane_height + (lane_height - thickness) / 2
        for bar in lane.bars:
            whose = "taken from another" if bar.is_steal else "own"
            spans = f"{bar.spans} spans, " if bar.spans > 1 else ""
            tip = (
                f"worker {lane.worker}, {format_seconds(bar.begin_seconds)} to {format_seconds(bar.end_seconds)}: "
                f"{spans}units {bar.start:,} to {bar.stop - 1:,} ({whose}), {bar.done_units:,} done"
            )
            begin, end = across.place(bar.begin_seconds), across.place(bar.end_seconds)
            steps = across.place(min(bar.steps_seconds, bar.end_seconds))
            if steps - begin > 0.002:
                setup = f"; {format_seconds(bar.steps_seconds - bar.begin_seconds)} until its first step"
                drawing.rect((begin, steps), top, thickness, "setup", tip + setup)
            if steps < end or bar.done_units:
                drawing.rect((min(steps, end), end), top, thickness, "taken" if bar.is_steal else "own", tip)
        if lane_height >= _LEAST_LABEL_HEIGHT:
            for seconds in lane.report_seconds:
                place = across.place(seconds)
                drawing.line((place, place), (top, top + thickness), "report")


def _draw_strokes(drawing: Drawing, lanes: Sequence[Lane], lane_height: float, across: Axis) -> None:
    # Gaps of less than a pixel would only be stripes.
    thickness = lane_height * 0.72 if lane_height > 4 else lane_height + 0.35
    for is_steal, name in ((False, "own-stroke"), (True, "taken-stroke")):
        drawing.strokes(
            (
                (across.place(bar.begin_seconds), across.place(bar.end_seconds), (number + 0.5) * lane_height)
                for number, lane in enumerate(lanes)
                for bar in lane.bars
                if bar.is_steal == is_steal
            ),
            thickness,
            name,
        )


def _down(drawing: Drawing, up: Axis, value: float) -> float:
    return drawing.height * (1 - up.place(value))


def _nothing(drawing: Drawing) -> Drawing:
    drawing.height = 60.0
    drawing.line((0, 1), (drawing.height, drawing.height), "base")
    drawing.text("50%", drawing.height / 2, "nothing was reported yet", "nothing")
    return drawing
