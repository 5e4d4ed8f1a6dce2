"""From a run directory to what its report is made of."""

from __future__ import annotations

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
            units=summary.units,
            done_units=summary.done_units,
            inputs=tuple(str(described["path"]) for described in identity.get("inputs") or ()),
            outputs=tuple(map(str, summary.outputs)),
        )
        story = tell_story(journal.events(), wall_seconds=journal.get("run_seconds"))
    return story, about
