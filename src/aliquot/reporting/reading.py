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
            busy_share=_busy_share(journal, summary.status),
        )
        events = list(journal.events())
        wall_seconds = journal.get("run_seconds")
    if summary.holder is not None:
        wall_seconds = _seconds_until_now(events) or wall_seconds
    return tell_story(events, wall_seconds=wall_seconds), about


def _busy_share(journal: Journal, status: str) -> float | None:
    """What is recorded at the end is of the last sitting alone."""
    report = journal.get("report") or {}
    useful_seconds, cpu_seconds = report.get("useful_seconds"), report.get("cpu_seconds")
    sittings = sum(kind == "sitting" for _, kind, _ in journal.events())
    if status != "done" or sittings != 1 or not useful_seconds or cpu_seconds is None:
        return None
    return float(cpu_seconds / useful_seconds)


def _seconds_until_now(events: list[tuple[float, str, dict[str, Any]]]) -> float | None:
    """How long a run goes on that is under way: what it has recorded may be of a while ago, where steps are long."""
    for seconds, kind, about in reversed(events):
        if kind == "sitting":
            began = datetime.datetime.fromisoformat(about["started"]).astimezone()
            return float(seconds + (datetime.datetime.now().astimezone() - began).total_seconds())
    return None
