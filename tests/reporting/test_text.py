from __future__ import annotations

import dataclasses

from aliquot.reporting.about import About
from aliquot.reporting.story import Event, tell_story
from aliquot.reporting.text import MOST_LINES, report_lines, status_lines
from tests.reporting.stories import GB, an_afternoon, many_reports, report, sitting, span

RUN = About("out.sam", "bwa mem ref.fa {reads} > {sam}", "running", units=1000)


def half_done() -> list[Event]:
    """A unit a second, for 200 seconds, and ten a second since."""
    slow = report(200.0, 0, 0, 200, busy_seconds=199.0, steps=50, peak_bytes=GB, allowed_bytes=2 * GB)
    events = [sitting(0.0, 1), span(1.0, 0, 0, 1000), slow]
    events += [report(201.0 + n, 0, 200 + 5 * n, 205 + 5 * n) for n in range(60)]
    return events


def test_a_report_says_what_was_done_and_why_not_faster() -> None:
    """In the words and units of a person."""
    lines = report_lines(tell_story(an_afternoon()), About("out.sam", "bwa mem", "done", units=1_000_000))
    assert lines[0] == "out.sam: done"
    assert lines[1] == "bwa mem"
    assert lines[2].startswith("999,999 of 1,000,000 units in 2 min 29 s on 2 cores, 6,")
    assert lines[3] == "6 tasks, 1 steal, 188 steps of 1 to 10,000 units, 1 restart"
    assert "of core time was useful; ideal would be 2 min 12 s" in lines[4]
    assert lines[5].startswith("  Start-up took ")
    assert "memory: at most 2.3 GB a worker, allowed 3.0 GB" in lines
    assert lines[-2] == "1 unit set aside:"
    assert lines[-1].endswith(": ValueError: quality has 149 letters, sequence has 151")


def test_a_report_is_never_longer_than_a_screen() -> None:
    """However much went wrong, and however long the names are."""
    failed = [
        (9.0 + n, "set aside", {"start": 10**7 + n, "stop": 10**7 + n + 1, "error": "x" * 999}) for n in range(99)
    ]
    lines = report_lines(tell_story([*an_afternoon(), *failed]), About("n" * 500, "c" * 5000, "failed", units=5))
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 120
    assert lines[-1] == "  and 96 more"


def test_nothing_reaches_a_terminal_that_could_upset_it() -> None:
    """Errors hold what programs print: colours, bells, lines."""
    error = "\n\n\x1b[31mred\x07\nsecond line"
    events: list[Event] = [*half_done(), (261.0, "set aside", {"start": 700, "stop": 701, "error": error})]
    lines = report_lines(tell_story(events), About("a\nb", "sort \x1b[2J"))
    assert all(line.isprintable() for line in lines)
    assert lines[-1] == "  unit 700: \N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}"


def test_before_any_report_that_is_said() -> None:
    """No rate is made up, and no time left."""
    for events in ([], [sitting(0.0, 2), span(0.5, 0, 0, 10)]):
        story = tell_story(events)
        assert any(line.startswith("nothing was reported") for line in report_lines(story, RUN))
        assert not any("left" in line for line in status_lines(story, RUN, "process 7"))


def test_status_says_how_far_and_how_long_by_the_last_minute() -> None:
    """Of 500 units, 300 were done in the last minute."""
    assert status_lines(tell_story(half_done()), RUN, "process 7 on node3 since noon") == [
        "out.sam: running",
        "500 of 1,000 units (50.0 %) in 4 min 20 s",
        "5 units/s in the last minute, about 1 min 40 s left",
        "1 worker on 1 core",
        "held by process 7 on node3 since noon",
    ]


def test_status_of_a_run_that_nobody_holds_says_how_to_go_on() -> None:
    """And makes no promise of how long it would take."""
    about = About("out.sam", status="interrupted", units=1000, done_units=490, outputs=("out.sam",))
    lines = status_lines(tell_story(half_done()), about)
    assert lines == [
        "out.sam: interrupted",
        "490 of 1,000 units (49.0 %) in 4 min 20 s",
        "1.9 units/s on the average",
        "nobody works on it",
        "run it again, or aliquot resume, and it goes on",
    ]
    of_a_function = dataclasses.replace(about, outputs=())
    assert status_lines(tell_story(half_done()), of_a_function)[-1] == "the same call again, and it goes on"


def test_status_of_a_finished_run_is_short() -> None:
    """There is nothing to go on with."""
    lines = status_lines(tell_story(many_reports(40, 2)), About("out.sam", status="done"))
    assert not any("left" in line or "held" in line for line in lines)
