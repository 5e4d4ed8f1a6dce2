from __future__ import annotations

from pathlib import Path

import pytest

from aliquot.journal import Journal, RunDirectory
from aliquot.reporting.reading import read_run
from aliquot.reporting.story import tell_story
from tests.reporting.stories import an_afternoon, sitting


def test_a_story_comes_out_of_a_journal_as_it_went_in(tmp_path: Path) -> None:
    """With what the run is: also while it is held and goes on."""
    run = RunDirectory(tmp_path / "out.sam")
    identity = {"command": "bwa mem {reads}", "inputs": [{"path": "/data/größe.fastq", "kind": "missing"}]}
    with run.hold("aliquot run"), Journal.create(run.journal_path, identity) as journal:
        for seconds, kind, about in an_afternoon():
            journal.record_event(seconds, kind, dict(about))
        journal.record_piece(0, 10, b"")
        journal.set("status", "running")
        journal.set("units", 1_000_000)
        journal.set("outputs", ["out.sam"])
        journal.commit()
        story, about_run = read_run(run)
    assert story == tell_story(an_afternoon())
    assert (about_run.name, about_run.command, about_run.status) == ("out.sam", "bwa mem {reads}", "running")
    assert (about_run.units, about_run.done_units) == (1_000_000, 10)
    assert (about_run.inputs, about_run.outputs) == (("/data/größe.fastq",), ("out.sam",))


def test_a_run_takes_as_long_as_its_journal_says(tmp_path: Path) -> None:
    """Finishing the outputs is no event."""
    run = RunDirectory(tmp_path / "out.sam")
    with run.hold("aliquot run"), Journal.create(run.journal_path, {}) as journal:
        journal.set("run_seconds", 12.5)
        journal.commit()
    story, about = read_run(run)
    assert story.totals.wall_seconds == 12.5
    assert about.status == "interrupted"


@pytest.mark.parametrize(
    ("status", "sittings", "report", "share"),
    [
        ("done", 1, {"useful_seconds": 20.0, "cpu_seconds": 19.0}, 0.95),
        ("done", 2, {"useful_seconds": 20.0, "cpu_seconds": 19.0}, None),
        ("failed", 1, {"useful_seconds": 20.0, "cpu_seconds": 19.0}, None),
        ("done", 1, {"useful_seconds": 20.0}, None),
        ("done", 1, {"useful_seconds": 0.0, "cpu_seconds": 0.0}, None),
        ("done", 1, None, None),
    ],
)
def test_cpu_time_is_told_of_a_run_of_one_sitting(
    tmp_path: Path, status: str, sittings: int, report: dict[str, float] | None, share: float | None
) -> None:
    """What is recorded at the end is of the last sitting alone, and of all cores of its steps."""
    run = RunDirectory(tmp_path / "out.sam")
    with run.hold("aliquot run"), Journal.create(run.journal_path, {}) as journal:
        for number in range(sittings):
            seconds, kind, about = sitting(number, 2)
            journal.record_event(seconds, kind, dict(about))
        journal.set("status", status)
        if report is not None:
            journal.set("report", report)
        journal.commit()
    assert read_run(run)[1].busy_share == share
