"""The charts of a report as one picture, for a talk or a paper."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from aliquot.errors import MissingExtraError
from aliquot.quantities import format_bytes, format_seconds, number_of
from aliquot.reporting.about import About, one_line
from aliquot.reporting.axes import Axis, bytes_axis, count_axis, log_axis, time_axis
from aliquot.reporting.charts import is_allowance_near
from aliquot.reporting.losses import format_share
from aliquot.reporting.story import Story
from aliquot.reporting.thinning import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Those of Okabe and Ito, which the colour-blind can tell apart.
_BLUE, _SKY, _ORANGE, _RED, _GREEN, _PINK = "#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#009e73", "#cc79a7"
_SETUP = "#a9c6da"
_INK, _FAINT, _GRID = "#1d2329", "#5d6873", "#e3e7eb"


def draw_png(story: Story, about: About, path: str) -> None:
    """Draw the four charts into a file; the suffix says what kind (.png, .pdf, .svg)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("Drawing a report as a picture", "plots") from None
    # Not pyplot: a library leaves the windows and settings of its user alone.
    timeline_inches = min(4.5, max(1.2, 0.3 * len(story.lanes)))
    figure = Figure(figsize=(12.0, 6.6 + timeline_inches), dpi=150, layout="constrained", facecolor="white")
    grid = figure.add_gridspec(3, 2, height_ratios=(3.0, 2.0, timeline_inches))
    across = time_axis(story.totals.wall_seconds)
    _draw_steps(figure.add_subplot(grid[0, 0]), story, across)
    _draw_memory(figure.add_subplot(grid[0, 1]), story, across)
    _draw_throughput(figure.add_subplot(grid[1, :]), story, across)
    _draw_timeline(figure.add_subplot(grid[2, :]), story, across)
    # A command may hold dollars, which are no mathematics.
    figure.suptitle(_title(story, about), parse_math=False, fontsize=13, color=_INK)
    with warnings.catch_warnings():
        # A name in letters that the font has not is drawn as boxes.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        figure.savefig(path)


def _title(story: Story, about: About) -> str:
    totals = story.totals
    cores = number_of(totals.cores, "core")
    facts = f"{number_of(totals.units, 'unit')} in {format_seconds(totals.wall_seconds)} on {cores}"
    useful = f"{format_share(totals.efficiency)} in useful steps"
    name = one_line(about.command or about.name, 100)
    return f"{name}\n{facts}, {useful}" if name else f"{facts}, {useful}"


def _draw_steps(axes: Axes, story: Story, across: Axis) -> None:
    totals = story.totals
    up = None
    if story.step_units.bands:
        low = max(totals.smallest_step_units, 1e-3)
        up = log_axis(low, max(low, totals.largest_step_units), "units a step")
        axes.set_yscale("log")
    _prepare(axes, "Step size over time", story, across, up)
    _draw_curve(axes, story.step_units)


def _draw_memory(axes: Axes, story: Story, across: Axis) -> None:
    up = None
    allowed_bytes = max((value for _, value in story.allowed_bytes), default=0.0)
    shows_allowed = is_allowance_near(story)
    if story.peak_bytes.bands:
        up = bytes_axis(max(story.totals.peak_bytes, allowed_bytes if shows_allowed else 0.0) * 1.05, "")
    title = "Memory of each worker"
    if allowed_bytes and not shows_allowed:
        title += f" (allowed: {format_bytes(allowed_bytes)})"
    _prepare(axes, title, story, across, up)
    _draw_curve(axes, story.peak_bytes)
    if shows_allowed:
        seconds = [0.0, *(at for at, _ in story.allowed_bytes[1:]), across.high]
        values = [value for _, value in story.allowed_bytes]
        axes.step(seconds, [*values, values[-1]], where="post", color=_RED, linestyle="--", label="allowed")
    if up is not None and story.stopped:
        heights = [min(value or up.high, up.high) for _, value in story.stopped]
        axes.plot(
            [at for at, _ in story.stopped], heights, "x", color=_RED, markeredgewidth=2, label="stopped for memory"
        )
    _legend(axes)


def _draw_throughput(axes: Axes, story: Story, across: Axis) -> None:
    highest = max((rate.units_per_second for rate in story.throughput), default=0.0)
    _prepare(axes, "Throughput", story, across, count_axis(highest, "units/s") if highest else None)
    if not highest:
        return
    edges = [*(rate.begin_seconds for rate in story.throughput), story.throughput[-1].end_seconds]
    values = [rate.units_per_second for rate in story.throughput]
    axes.stairs(values, edges, fill=True, color=_GREEN, alpha=0.25)
    axes.stairs(values, edges, color=_GREEN, linewidth=1.3)
    axes.axhline(story.totals.units_per_second, color=_FAINT, linestyle=":", linewidth=1.2, label="average")
    if len(story.sittings) > 1:
        # The line is in every chart; its name needs to be in one only.
        axes.plot([], [], color=_PINK, linestyle="--", linewidth=1.3, label="restart")
    _legend(axes)


def _draw_timeline(axes: Axes, story: Story, across: Axis) -> None:
    _prepare(axes, "Timeline of the workers", story, across, None, is_empty=not story.lanes)
    thickness = 0.74 if len(story.lanes) <= 60 else 1.0
    labels = {_BLUE: "own span", _ORANGE: "taken from another", _SETUP: "until the first step"}
    for number, lane in enumerate(story.lanes):
        bars: dict[str, list[tuple[float, float]]] = {_SETUP: [], _BLUE: [], _ORANGE: []}
        for bar in lane.bars:
            bars[_SETUP].append((bar.begin_seconds, bar.steps_seconds - bar.begin_seconds))
            colour = _ORANGE if bar.is_steal else _BLUE
            bars[colour].append((bar.steps_seconds, bar.end_seconds - bar.steps_seconds))
        for colour, found in bars.items():
            if found:
                label = labels.pop(colour, "")
                axes.broken_barh(found, (number - thickness / 2, thickness), color=colour, label=label, linewidth=0)
    size = 8 if len(story.lanes) <= 60 else 4
    for kinds, marker, colour, label in (
        ({"trim"}, "3", _INK, "gave a part away"),
        ({"stopped", "exhausted"}, "x", _RED, "stopped for memory"),
        ({"failed"}, "^", _PINK, "failed step"),
        ({"lost"}, "P", _INK, "worker lost"),
    ):
        places = [
            (mark.seconds, number)
            for number, lane in enumerate(story.lanes)
            for mark in lane.marks
            if mark.kind in kinds and (mark.kind != "trim" or len(story.lanes) <= 60)
        ]
        if places:
            axes.plot(*zip(*places, strict=True), marker, color=colour, markersize=size, markeredgewidth=2, label=label)
    if story.lanes:
        every = 1 + (len(story.lanes) - 1) // 25
        ticks = range(0, len(story.lanes), every)
        axes.set_yticks(list(ticks), [str(story.lanes[number].worker) for number in ticks])
        axes.set_ylim(len(story.lanes) - 0.4, -0.6)
        axes.set_ylabel("worker", color=_FAINT)
    axes.grid(visible=False, axis="y")
    _legend(axes)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    if not curve.bands:
        return
    seconds = [band.seconds for band in curve.bands]
    middle = [band.middle for band in curve.bands]
    if not curve.is_thinned:
        size = 5.0 if len(seconds) <= 150 else 3.0
        axes.plot(seconds, middle, "o", color=_BLUE, alpha=0.62, markersize=size, markeredgewidth=0, clip_on=False)
        return
    low, high = [band.low for band in curve.bands], [band.high for band in curve.bands]
    axes.fill_between(seconds, low, high, color=_SKY, alpha=0.38, linewidth=0, label="least to most")
    axes.plot(seconds, middle, color=_BLUE, label="median")
    _legend(axes)


def _prepare(
    axes: Axes, title: str, story: Story, across: Axis, up: Axis | None, *, is_empty: bool | None = None
) -> None:
    """Title, axes, grid, and a line at each restart."""
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_INK)
    axes.set_xlim(across.low, across.high)
    axes.set_xticks([value for value, _ in across.ticks], [label for _, label in across.ticks])
    axes.set_xlabel(across.title, loc="right", color=_FAINT)
    if up is not None:
        axes.set_ylim(up.low, up.high)
        axes.set_yticks([value for value, _ in up.ticks], [label for _, label in up.ticks])
        axes.set_yticks([], minor=True)
        axes.set_ylabel(up.title, color=_FAINT)
    elif is_empty is not False:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "nothing was reported yet", ha="center", transform=axes.transAxes, color=_FAINT)
    axes.grid(color=_GRID)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_FAINT, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
    for sitting in story.sittings[1:]:
        axes.axvline(sitting.begin_seconds, color=_PINK, linestyle="--", linewidth=1.3)


def _legend(axes: Axes) -> None:
    """Above the chart, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=len(labels),
            frameon=False,
            fontsize=8.5,
        )
