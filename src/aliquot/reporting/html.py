"""A report as one page that needs nothing else: no network, no script, no fonts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aliquot.quantities import format_bytes, format_count, format_seconds
from aliquot.reporting.about import About
from aliquot.reporting.axes import format_short
from aliquot.reporting.charts import (
    coloured,
    draw_memory,
    draw_shares,
    draw_step_units,
    draw_throughput,
    draw_timeline,
    has_room_for_bars,
    is_allowance_near,
    memory_caption,
    timeline_caption,
)
from aliquot.reporting.losses import format_share, format_steps, tell_waiting
from aliquot.reporting.story import SetAside, Setback, Story
from aliquot.reporting.style import STYLE, SYMBOLS
from aliquot.reporting.svg import Drawing, escape
from aliquot.reporting.thinning import Curve

_MOST_ROWS = 100
_MOST_ERROR_CHARACTERS = 500
_MOST_COMMAND_CHARACTERS = 4000
_MOST_FILES = 6


def html_page(story: Story, about: About) -> str:
    """The whole page."""
    title = f"{about.name}: a run of aliquot" if about.name else "A run of aliquot"
    parts = [
        _header(story, about),
        _tiles(story, about),
        _why(story, about),
        '<div class="pair">',
        _figure(draw_step_units(story), "steps", _step_caption(story), _dot_legend(story)),
        _figure(draw_memory(story), "memory", memory_caption(story), _memory_legend(story)),
        "</div>",
        _figure(draw_throughput(story), "throughput", _throughput_caption(story), ""),
        _figure(draw_timeline(story), "timeline", timeline_caption(story), _timeline_legend(story)),
        _set_aside(story),
        _setbacks(story),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>{SYMBOLS}<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n<footer>Made by aliquot from the journal of the run.</footer>\n</main></body></html>\n"
    )


def _header(story: Story, about: About) -> str:
    status = ""
    if about.status:
        # A class is a word; anything else that is told stays text.
        kind = about.status if about.status.isalpha() and about.status.isascii() else "other"
        status = f'<span class="status status-{kind}">{escape(about.status)}</span>'
    command = about.command
    if len(command) > _MOST_COMMAND_CHARACTERS:
        command = command[:_MOST_COMMAND_CHARACTERS] + "..."
    lines = [f"<header><h1>{escape(about.name or 'A run of aliquot')}{status}</h1>"]
    if command:
        lines.append(f'<pre class="command">{escape(command)}</pre>')
    facts = []
    if about.inputs:
        facts.append(f"from {_files(about.inputs)}")
    if about.outputs:
        facts.append(f"into {_files(about.outputs)}")
    started = [sitting.started for sitting in story.sittings if sitting.started]
    if started:
        facts.append(f"started {escape(started[0].replace('T', ' '))}")
    restarts = len(story.sittings) - 1
    if restarts > 0:
        facts.append(f"restarted {'once' if restarts == 1 else f'{restarts} times'}")
    if facts:
        lines.append(f'<p class="faint">{" &middot; ".join(facts)}</p>')
    return "\n".join(lines) + "</header>"


def _files(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MOST_FILES} more" if len(names) > _MOST_FILES else ""
    return ", ".join(f"<code>{escape(name)}</code>" for name in names[:_MOST_FILES]) + more


def _tiles(story: Story, about: About) -> str:
    totals = story.totals
    of_all = ""
    if about.units and about.units != totals.units:
        of_all = f"of {format_count(about.units)} ({format_share(totals.units / about.units)})"
    ideal = f"ideal on as many cores: {format_seconds(totals.ideal_seconds)}" if totals.ideal_seconds else ""
    steps = f"{format_steps(totals.smallest_step_units, totals.largest_step_units)} units each"
    tiles = [
        ("units", format_count(totals.units), of_all),
        ("time", format_seconds(totals.wall_seconds) if totals.wall_seconds else "0 s", ideal),
        ("in useful steps", format_share(totals.efficiency), f"of {_cores(totals.cores)}"),
        ("throughput", f"{format_short(totals.units_per_second)}/s", "units per second"),
        ("steps", format_count(totals.steps), steps if totals.steps else ""),
        ("spans", format_count(totals.tasks), f"{format_count(totals.steals)} taken from others"),
        ("peak memory", format_bytes(totals.peak_bytes) if totals.peak_bytes else "-", "the most of any worker"),
        ("set aside", format_count(totals.set_aside_units), _trouble(story)),
    ]
    shown = (
        f'<div class="tile"><dt>{name}</dt><dd>{value}<span class="more">{more}</span></dd></div>'
        for name, value, more in tiles
    )
    return f'<dl class="tiles">{"".join(shown)}</dl>'


def _trouble(story: Story) -> str:
    totals = story.totals
    counted = [
        f"{format_count(count)} {what}"
        for count, what in (
            (totals.failed_steps, "failed"),
            (totals.stopped_steps, "stopped for memory"),
            (totals.lost_workers, "lost workers"),
        )
        if count
    ]
    return ", ".join(counted) or "units; nothing failed"


def _why(story: Story, about: About) -> str:
    if not story.totals.reports or not story.totals.available_seconds:
        return ""
    totals = story.totals
    useful = (
        f"{format_seconds(totals.useful_seconds)} ({format_share(totals.efficiency)}) of "
        f"{format_seconds(totals.available_seconds)} of core time went into useful steps."
    )
    waiting = tell_waiting(about.busy_share, totals.useful_seconds)
    useful += f" {waiting}" if waiting else ""
    rows = [("share-0", useful), *((colour, loss.sentence) for loss, colour in coloured(story))]
    items = "".join(
        f'<li><span class="swatch {colour}"></span><span>{escape(sentence)}</span></li>' for colour, sentence in rows
    )
    return (
        f'<section class="bar"><h2>Why it was not closer to ideal</h2>{draw_shares(story).render("shares")}'
        f'<ul class="key">{items}</ul></section>'
    )


def _figure(drawing: Drawing, identifier: str, caption: str, legend: str) -> str:
    return (
        f'<figure><figcaption><h2>{escape(drawing.title)}</h2><p class="caption">{escape(caption)}</p>{legend}'
        f"</figcaption>{drawing.render(identifier)}</figure>"
    )


def _step_caption(story: Story) -> str:
    totals = story.totals
    if not totals.steps:
        return "No step was reported yet."
    sizes = format_steps(totals.smallest_step_units, totals.largest_step_units)
    return f"Units in a step, for each report: {sizes}, on a logarithmic axis."


def _throughput_caption(story: Story) -> str:
    totals = story.totals
    if not totals.units:
        return "No unit was reported yet."
    return f"Units per second of all workers together; dotted: the average, {format_short(totals.units_per_second)}."


def _dot_legend(story: Story) -> str:
    return _legend(_curve_keys(story.step_units))


def _memory_legend(story: Story) -> str:
    keys = _curve_keys(story.peak_bytes)
    if is_allowance_near(story):
        keys.append(('<path class="allowed" d="M0 7H18"/>', "allowed"))
    if story.stopped:
        keys.append((_symbol("stopped"), "stopped for memory"))
    return _legend(keys)


def _curve_keys(curve: Curve) -> list[tuple[str, str]]:
    if not curve.bands:
        return []
    if curve.is_thinned:
        return [
            ('<path class="median" d="M0 7H18"/>', "median"),
            ('<rect class="band" width="18" height="14"/>', "least to most"),
        ]
    return [('<circle class="dot" cx="9" cy="7" r="4"/>', "a report")]


def _timeline_legend(story: Story) -> str:
    kinds = {mark.kind for lane in story.lanes for mark in lane.marks}
    if not story.totals.tasks:
        return ""
    keys = [('<rect class="own" y="1" width="18" height="12"/>', "own span")]
    if story.totals.steals:
        keys.append(('<rect class="taken" y="1" width="18" height="12"/>', "taken from another"))
    if has_room_for_bars(story):
        keys.append(('<rect class="setup" y="1" width="18" height="12"/>', "until the first step"))
    for symbol, shown, what in (
        ("trim", {"trim"}, "gave a part away"),
        ("stopped", {"stopped", "exhausted"}, "stopped for memory"),
        ("failed", {"failed"}, "failed step"),
        ("lost", {"lost"}, "worker lost"),
    ):
        if kinds & shown:
            keys.append((_symbol(symbol), what))
    return _legend(keys)


def _symbol(symbol: str) -> str:
    return f'<use class="{symbol}" href="#{symbol}" x="9" y="7"/>'


def _legend(keys: Iterable[tuple[str, str]]) -> str:
    shown = [f'<span><svg aria-hidden="true">{shape}</svg>{escape(what)}</span>' for shape, what in keys]
    return f'<div class="legend">{"".join(shown)}</div>' if shown else ""


def _set_aside(story: Story) -> str:
    rows = [(_units(item), format_seconds(item.seconds), item.error) for item in story.set_aside[:_MOST_ROWS]]
    title = f"Units set aside: {format_count(story.totals.set_aside_units)}"
    return _table(title, ("units", "at", "error"), rows, len(story.set_aside))


def _setbacks(story: Story) -> str:
    rows = [
        (
            format_seconds(item.seconds),
            "-" if item.worker is None else str(item.worker),
            _units(item),
            "failed" if item.kind == "failed" else f"exhausted, {format_bytes(item.peak_bytes)}",
            item.error,
        )
        for item in story.setbacks[:_MOST_ROWS]
    ]
    columns = ("at", "worker", "units", "what", "error")
    return _table("Steps that failed or did not fit into memory", columns, rows, len(story.setbacks))


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], count: int) -> str:
    """The last column is an error, in its own letters."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[:-1])
        + f'<td class="error">{escape(_cut(row[-1]))}</td></tr>\n'
        for row in rows
    )
    more = f'<p class="faint">and {count - len(rows)} more</p>' if count > len(rows) else ""
    return (
        f'<section><h2>{escape(title)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{more}</section>"
    )


def _cut(error: str) -> str:
    """Its beginning and its end, where what went wrong usually is."""
    if len(error) <= _MOST_ERROR_CHARACTERS:
        return error
    half = _MOST_ERROR_CHARACTERS // 2
    return f"{error[:half]}\n...\n{error[-half:]}"


def _units(item: SetAside | Setback) -> str:
    if item.stop - item.start == 1:
        return format_count(item.start)
    return f"{format_count(item.start)} to {format_count(item.stop - 1)}"


def _cores(cores: int) -> str:
    return f"the time of {'one core' if cores == 1 else f'{cores} cores'}"
