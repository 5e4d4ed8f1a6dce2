"""A report, and how far a run is, as lines for a terminal."""

from __future__ import annotations

import textwrap

from aliquot.quantities import format_amount, format_bytes, format_count, format_seconds, number_of, time_left
from aliquot.reporting.about import About, one_line
from aliquot.reporting.losses import format_share, format_steps, tell_waiting
from aliquot.reporting.story import RECENT_SECONDS, SetAside, Story

MOST_LINES = 20
_WIDTH = 110
_MOST_LOSSES = 6
_MOST_FAILURES = 4
_MOST_REASON_LINES = 40


def report_lines(story: Story, about: About) -> list[str]:
    """What was done, how close to ideal it ran and why not closer, what was set aside.

    At most 20 lines, and the reasons of failures, which are told whole.
    """
    totals = story.totals
    lines = [one_line(": ".join(part for part in (about.name, about.status) if part), _WIDTH)]
    if about.command:
        lines.append(one_line(about.command, _WIDTH))
    if not totals.reports:
        waited = f" in {format_seconds(totals.wall_seconds)}" if totals.wall_seconds else ""
        lines.append(f"nothing was reported{waited}")
    else:
        lines += _what_was_done(story, about)
        lines += _why(story, about)
    lines += _memory(story)
    lines.append(_counted_trouble(story))
    return [*[line for line in lines if line][:MOST_LINES], *_reasons(story, about), *_ended_by(about)]


def status_lines(story: Story, about: About, held_by: str | None = None) -> list[str]:
    """How far a run is, how fast, how long it will take, and who holds it.

    :param held_by: who holds the run, in words, if anybody does
    """
    totals = story.totals
    lines = [one_line(": ".join(part for part in (about.name, about.status) if part), _WIDTH)]
    done_units = totals.units if about.done_units is None else about.done_units
    finished_units = done_units + totals.set_aside_units
    if about.units:
        of_all = f" of {format_count(about.units)}"
        share = f" ({format_share(min(1.0, finished_units / about.units))})"
    else:
        of_all = share = ""
    took = f" in {format_seconds(totals.wall_seconds)}" if totals.wall_seconds else ""
    aside = f" done, {format_count(totals.set_aside_units)} set aside" if totals.set_aside_units else ""
    lines.append(f"{format_count(done_units)}{of_all} units{aside}{share}{took}")
    lines.append(_speed(story, about, finished_units, is_held=held_by is not None))
    workers = (
        f"{number_of(totals.workers, 'worker')} on {number_of(totals.cores, 'core')}" if totals.cores else "not begun"
    )
    restarts = len(story.sittings) - 1
    again = f", restarted {'once' if restarts == 1 else f'{restarts} times'}" if restarts > 0 else ""
    lines.append(f"{workers if held_by is not None else 'nobody works on it'}{again}")
    lines += [_counted_trouble(story), *_first_lines_of_failures(story)]
    lines += _ended_by(about)
    if held_by is not None:
        lines.append(one_line(f"held by {held_by}", _WIDTH))
    elif about.status not in ("done", ""):
        is_command = bool(about.outputs)
        again = f"{'run it again, or aliquot resume' if is_command else 'the same call again'}, and it goes on"
        lines.append(f"once that is mended, {again}" if about.status == "failed" else again)
    return [line for line in lines if line]


def _speed(story: Story, about: About, finished_units: int, *, is_held: bool) -> str:
    totals = story.totals
    if not totals.units:
        return "nothing was reported yet"
    if not is_held or about.status == "done":
        return f"{format_rate(totals.units_per_second)} on the average"
    over = "in the last minute" if totals.wall_seconds >= RECENT_SECONDS else "so far"
    # What workers do now and have not reported yet is left out on both sides: a step may take as long as all before it.
    unreported_seconds = totals.unreported_seconds / totals.places
    recent_seconds = min(RECENT_SECONDS, totals.wall_seconds) - unreported_seconds
    recent_units = totals.recent_units_per_second * min(RECENT_SECONDS, totals.wall_seconds)
    if not recent_units or recent_seconds <= 0:  # in one long step, the average says more about what is to come
        recent_units, recent_seconds = totals.units, totals.wall_seconds - unreported_seconds
    rate = recent_units / recent_seconds if recent_seconds > 0 else totals.units_per_second
    left = ""
    if about.units and finished_units < about.units and rate > 0:
        seconds = time_left(about.units - finished_units, rate, unreported_seconds)
        left = f", about {format_seconds(seconds)} left"
    return f"{format_rate(totals.recent_units_per_second)} {over}{left}"


def format_rate(units_per_second: float) -> str:
    """0.021 -> '0.021 units/s'; 12345.6 -> '12,346 units/s'."""
    return f"{format_amount(units_per_second)} units/s"


def _what_was_done(story: Story, about: About) -> list[str]:
    totals = story.totals
    of_all = f" of {format_count(about.units)}" if about.units and about.units != totals.units else ""
    took = f" in {format_seconds(totals.wall_seconds)}" if totals.wall_seconds else ""
    sizes = f" of {format_steps(totals.smallest_step_units, totals.largest_step_units)} units" if totals.steps else ""
    done = f"{format_count(totals.units)}{of_all} units" if of_all else number_of(totals.units, "unit")
    restarts = f", {number_of(len(story.sittings) - 1, 'restart')}" if len(story.sittings) > 1 else ""
    return [
        f"{done}{took} on {number_of(totals.cores, 'core')}, {format_rate(totals.units_per_second)}",
        f"{number_of(totals.tasks, 'task')}, {number_of(totals.steals, 'steal')}, {number_of(totals.steps, 'step')}"
        f"{sizes}{restarts}",
    ]


def _why(story: Story, about: About) -> list[str]:
    totals = story.totals
    if not totals.available_seconds:
        return []
    lines = [
        f"{format_share(totals.efficiency)} of {format_seconds(totals.available_seconds)} of core time was useful; "
        f"ideal would be {format_seconds(totals.ideal_seconds)}"
    ]
    waiting = tell_waiting(about.busy_share, totals.useful_seconds)
    lines += _wrapped(waiting, "  ")
    # The last line tells the rest together, so that all of it is told.
    shown = story.losses if len(story.losses) <= _MOST_LOSSES else story.losses[: _MOST_LOSSES - 1]
    lines += [f"  {loss.sentence}" for loss in shown]
    rest = story.losses[len(shown) :]
    if rest:
        seconds, share = sum(loss.seconds for loss in rest), sum(loss.share for loss in rest)
        names = ", ".join(loss.name for loss in rest)
        lines.append(one_line(f"  The rest took {format_seconds(seconds)} ({format_share(share)}): {names}.", _WIDTH))
        lines[-1] = "  " + lines[-1]
    return lines


def _memory(story: Story) -> list[str]:
    totals = story.totals
    if not totals.peak_bytes:
        return []
    allowed_bytes = max((value for _, value in story.allowed_bytes), default=0.0)
    allowed = f", allowed {format_bytes(allowed_bytes)}" if allowed_bytes else ""
    return [f"memory: at most {format_bytes(totals.peak_bytes)} a worker{allowed}"]


def _counted_trouble(story: Story) -> str:
    totals = story.totals
    counted = [
        number_of(count, noun) + after
        for count, noun, after in (
            (totals.stopped_steps, "step", " stopped for memory"),
            (totals.failed_steps, "failed step", ""),
            (totals.lost_workers, "worker", " lost"),
        )
        if count
    ]
    return ", ".join(counted)


def _first_lines_of_failures(story: Story) -> list[str]:
    """What was set aside and why, a line each."""
    lines = _set_aside_title(story)
    for item in story.set_aside[:_MOST_FAILURES]:
        lines.append("  " + one_line(f"{_units(item)}: {one_line(item.error, _WIDTH)}", _WIDTH))
    return lines + _uncounted(story)


def _reasons(story: Story, about: About) -> list[str]:
    """What was set aside and why: of the first all lines, of others, which are mostly like it, the first; none is cut.

    Where that leaves something out, it says where more of it is.
    """
    lines, is_whole = _set_aside_title(story), len(story.set_aside) <= _MOST_FAILURES
    for item in story.set_aside[:_MOST_FAILURES]:
        told = _printable_lines(item.error) or [""]
        shown = told if item is story.set_aside[0] else told[:1]
        is_whole = is_whole and shown == told
        lines += _wrapped(f"{_units(item)}: {shown[0]}", "  ")
        for line in shown[1:]:
            lines += _wrapped(line, "    ")
    lines += _uncounted(story)
    if not is_whole:
        lines.append(f"  more of it is in the page that 'aliquot report {one_line(about.name, 50)} --html' writes")
    return lines


def _set_aside_title(story: Story) -> list[str]:
    units = story.totals.set_aside_units
    return [f"{number_of(units, 'unit')} set aside:"] if units else []


def _uncounted(story: Story) -> list[str]:
    more = len(story.set_aside) - _MOST_FAILURES
    return [f"  and {format_count(more)} more"] if more > 0 else []


def _ended_by(about: About) -> list[str]:
    """The error that ended a run before its end; its first line mostly says it all."""
    told = _printable_lines(about.ended_by)
    return _wrapped(f"it ended with: {told[0]}", "") if told and about.status != "done" else []


def _units(item: SetAside) -> str:
    return f"unit {item.start}" if item.stop == item.start + 1 else f"units {item.start} to {item.stop - 1}"


def _printable_lines(text: str) -> list[str]:
    """All lines with something in them, without what would upset a terminal."""
    return [one_line(line, len(line)) for line in text.splitlines() if line.strip()]


def _wrapped(text: str, indent: str) -> list[str]:
    """Over as many lines as it takes, but for what nobody reads to its end."""
    lines = textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
    if len(lines) > _MOST_REASON_LINES:
        left = sum(map(len, lines[_MOST_REASON_LINES:]))
        lines = [*lines[:_MOST_REASON_LINES], f"{indent}  ... and {format_count(left)} more characters"]
    return lines
