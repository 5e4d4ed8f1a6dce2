from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from aliquot.reporting.about import About
from aliquot.reporting.html import html_page
from aliquot.reporting.story import Event, tell_story
from tests.reporting.stories import GB, an_afternoon, joined, lost, many_reports, report, sitting, span

EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=y>"
_VOID = {"meta", "br", "img", "link"}


class Page(HTMLParser):
    """Refuses a page that is not well nested, and takes note of what is in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


def show(events: list[Event], about: About | None = None) -> Page:
    return Page(html_page(tell_story(events), about or About("out.sam", "bwa mem", "done")))


SMALL: dict[str, list[Event]] = {
    "nothing yet": [],
    "a start": [sitting(0.0, 2), joined(0.5, 0)],
    "a span": [sitting(0.0, 2), joined(0.5, 0), span(0.5, 0, 0, 10)],
    "one report": [sitting(0.0, 1), span(0.0, 0, 0, 5), report(1.0, 0, 0, 5, peak_bytes=GB, allowed_bytes=99 * GB)],
    "no time": [sitting(0.0, 1), span(0.0, 0, 0, 5), report(0.0, 0, 0, 5, busy_seconds=0.0)],
    "no steps": [sitting(0.0, 1), span(0.0, 0, 0, 5), report(2.0, 0, 0, 5, steps=0)],
    "no units": [sitting(0.0, 1), span(0.0, 0, 5, 5), report(2.0, 0, 5, 5)],
    "a stop with no allowance": [sitting(0.0, 1), report(2.0, 0, 0, 5, peak_bytes=7, stopped_steps=2)],
    "a lost worker": [sitting(0.0, 1), joined(0.1, 0), lost(0.4, 0)],
    "an afternoon": an_afternoon(),
    "days": [(5000 * seconds, kind, about) for seconds, kind, about in an_afternoon()],
    "500 workers": many_reports(2000, 500, spans_each=2),
    "many reports": many_reports(4000, 3),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_story_is_a_well_formed_page(name: str) -> None:
    """With its charts, and no number that is none."""
    page = show(SMALL[name])
    assert page.tags.count("figure") == 4
    assert not any("nan" in str(value) or "inf%" in str(value) for _, _, value in page.attributes)


@pytest.mark.parametrize("name", SMALL)
def test_a_page_needs_nothing_else(name: str) -> None:
    """No script, and no reference but to its own symbols."""
    text = html_page(tell_story(SMALL[name]), About("out.sam", "bwa mem", "done"))
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    references = [value for _, name, value in page.attributes if name in ("href", "src", "xlink:href", "action")]
    assert all(value is not None and value.startswith("#") for value in references)
    assert "http" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_what_users_wrote_is_shown_and_never_run() -> None:
    """Commands, names, errors and dates come from anywhere."""
    events: list[Event] = [
        (0.0, "sitting", {"cores": 1, "allowed_bytes": 0, "started": EVIL, "pid": 1}),
        joined(0.0, 0),
        span(0.0, 0, 0, 10),
        report(1.0, 0, 0, 3),
        (2.0, "failed", {"worker": 0, "start": 3, "stop": 4, "error": EVIL, "peak_bytes": 0}),
        (2.0, "set aside", {"start": 3, "stop": 4, "error": EVIL}),
        lost(3.0, 0, EVIL),
        (3.0, "sitting", {"cores": 1, "allowed_bytes": 0, "started": EVIL, "pid": 1}),
    ]
    page = show(events, About(EVIL, EVIL, EVIL, inputs=(EVIL,), outputs=(EVIL,)))
    assert not {"script", "img"} & set(page.tags)
    assert not any(name.startswith("on") for _, name, _ in page.attributes)
    assert page.text.count(EVIL) >= 7
    classes = [value for _, name, value in page.attributes if name == "class" and value]
    assert all(re.fullmatch(r"[a-z0-9 -]+", value) for value in classes)


def test_letters_of_any_kind_can_be_written() -> None:
    """Also a file name that is no text, and control characters."""
    name = "größe_数据_\N{DNA DOUBLE HELIX}_\udcff_\x00\x1b.csv"
    text = html_page(tell_story(an_afternoon()), About(name, name, "done"))
    text.encode("utf-8")
    assert "größe_数据_\N{DNA DOUBLE HELIX}_?_\N{REPLACEMENT CHARACTER}" in Page(text).text
    assert "\x00" not in text
    assert "\x1b" not in text


def test_charts_are_told_to_those_who_do_not_see_them() -> None:
    """Each has a title and a description, by which it is labelled."""
    page = show(an_afternoon())
    identifiers = {value for _, name, value in page.attributes if name == "id"}
    labelled = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert len(labelled) == 5
    assert all(set((value or "").split()) <= identifiers for value in labelled)
    assert ("html", "lang", "en") in page.attributes


def test_the_page_says_why_it_was_not_closer_to_ideal() -> None:
    """In the same sentences as on the terminal."""
    story = tell_story(an_afternoon())
    page = show(an_afternoon())
    assert all(loss.sentence in page.text for loss in story.losses)


def test_restarts_steals_and_stops_are_in_the_charts() -> None:
    """What is unusual has to be seen."""
    page = show(an_afternoon())
    classes = [value for _, name, value in page.attributes if name == "class"]
    assert classes.count("restart") == 4  # one restart, in each chart
    assert "taken" in classes
    symbols = [value for tag, name, value in page.attributes if tag == "use" and name == "href"]
    assert {"#stopped", "#trim", "#failed"} <= set(symbols)


def test_an_allowance_that_is_far_away_does_not_flatten_the_chart() -> None:
    """It is told in words."""
    events = [sitting(0.0, 1), span(0.0, 0, 0, 9), report(1.0, 0, 0, 9, peak_bytes=10**7, allowed_bytes=64 * GB)]
    page = show(events)
    assert "Allowed: 64.0 GB, far above this chart." in page.text
    assert "10 MB" in page.text
    assert not any(value == "allowed" for _, name, value in page.attributes if name == "class")


def test_however_much_fails_a_page_stays_small() -> None:
    """The first failures are shown, and all are counted."""
    failed: list[Event] = []
    for unit in range(2000):
        about = {"start": unit, "stop": unit + 1, "error": "<" * 5000}
        failed.append((unit / 10, "failed", {**about, "worker": 0, "peak_bytes": 1}))
        failed.append((unit / 10, "set aside", about))
    text = html_page(tell_story([sitting(0.0, 1), *failed]), About("out.sam"))
    assert len(text.encode()) < 1_000_000
    assert "Units set aside: 2,000" in Page(text).text
