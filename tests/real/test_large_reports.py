"""Reports of long runs, and pictures of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aliquot.errors import MissingExtraError
from aliquot.reporting.about import About
from aliquot.reporting.html import html_page
from aliquot.reporting.png import draw_png
from aliquot.reporting.story import Event, tell_story
from tests.reporting.stories import an_afternoon, many_reports, report, sitting, span

ODD = About("größe_数据", "awk '{print $1, $2}' \N{DNA DOUBLE HELIX} {reads}\nsecond line", "done")


@pytest.mark.parametrize("workers", [2, 500])
def test_a_hundred_thousand_reports_are_a_small_page(workers: int) -> None:
    """Under a megabyte, however many spans there were."""
    story = tell_story(many_reports(100_000, workers, spans_each=100))
    assert story.totals.reports == 100_000
    assert len(html_page(story, About("out.sam")).encode()) < 1_000_000


@pytest.mark.parametrize(
    "events",
    [
        [],
        [sitting(0.0, 1), span(0.0, 0, 0, 5), report(0.0, 0, 0, 5, busy_seconds=0.0, peak_bytes=7)],
        an_afternoon(),
        many_reports(3000, 120, spans_each=2),
    ],
    ids=["nothing", "one report", "an afternoon", "many workers"],
)
def test_any_story_can_be_drawn(events: list[Event], tmp_path: Path) -> None:
    """Whatever is in the names: a dollar is no mathematics, and a letter that the font has not is no error."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "report.png"
    draw_png(tell_story(events), ODD, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And no file is made."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"aliquot\[plots\]"):
        draw_png(tell_story([]), ODD, str(tmp_path / "report.png"))
    assert not (tmp_path / "report.png").exists()
