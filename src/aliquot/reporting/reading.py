"""From a run directory to what its report is made of."""

from __future__ import annotations

import datetime
from typing import Any

from aliquot.journal import Journal, RunDirectory
from aliquot.journal.runs import summarise
from aliquot.reporting.about import About
from aliquot.reporting.story import Story, tell_story


def read_run(run: RunDirectory) -> tuple[Story, About]:
    """The story of a run and what it is; also while another process works on it. Changes nothing."""
    summary = summarise(run)
    with Journal.open(run.journal_path, read_only=True) as journal:
        identity = journal.identity
        about = About(
            name=summary.name,
            command=str(identity.get("command") or journal.get("label") or ""),
            status=summary.status,
            ended_by=str(journal.get("ended by", "")),
            units=summary.units,
            done_units=summary.done_units,
            inputs=tuple(str(described["path"]) for described in identity.get("inputs") or ()),
            outputs=tuple(map(str, summary.outputs)),
        )
        events = list(journal.events())
        wall_seconds, report = journal.get("run_seconds"), journal.get("report")
    if summary.holder is not None:
        wall_seconds = _seconds_until_now(events) or wall_seconds
    story = tell_story(events, wall_seconds=wall_seconds)
    # What is reported at the end is of the last sitting alone.
    if summary.status == "done" and len(story.sittings) == 1:
        about = about._replace(busy_share=_busy_share(report or {}))
    return story, about


def _busy_share(report: dict[str, Any]) -> float | None:
    useful_seconds, cpu_seconds = report.get("useful_seconds"), report.get("cpu_seconds")
    return cpu_seconds / useful_seconds if useful_seconds and cpu_seconds is not None else None


def _seconds_until_now(events: list[tuple[float, str, dict[str, Any]]]) -> float | None:
    """How long a run goes on that is under way: what it has recorded may be of a while ago, where steps are long."""
    for seconds, kind, about in reversed(events):
        if kind == "sitting":
            began = datetime.datetime.fromisoformat(about["started"]).astimezone()
            return float(seconds + (datetime.datetime.now().astimezone() - began).total_seconds())
    return None
