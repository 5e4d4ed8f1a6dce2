from __future__ import annotations

import pytest

from aliquot.reporting.about import About
from aliquot.reporting.story import Event, tell_story
from aliquot.reporting.text import MOST_LINES, report_lines, status_lines
from tests.reporting.stories import GB, an_afternoon, joined, many_reports, report, sitting, span

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
    assert lines[-3] == "1 unit set aside:"
    assert lines[-2].endswith(": ValueError: quality has 149 letters, sequence has 151")
    assert lines[-1] == "    in read <SRR.77>"


def set_aside(unit: int, error: str) -> Event:
    return (9.0, "set aside", {"start": unit, "stop": unit + 1, "error": error})


def test_a_report_is_not_longer_than_a_screen_but_for_its_reasons() -> None:
    """However much went wrong, and however long the names are."""
    failed = [set_aside(10**7 + n, "x" * 99_999) for n in range(99)]
    about = About("n" * 500, "c" * 5000, "failed", units=5)
    lines = report_lines(tell_story([*an_afternoon(), *failed]), about)
    assert lines.index("100 units set aside:") <= MOST_LINES
    assert max(map(len, lines)) <= 120
    assert len(lines) < 200
    assert "  and 96 more" in lines
    assert lines[-1].endswith("--html' writes")
    status = status_lines(tell_story([*an_afternoon(), *failed]), about)
    assert len(status) <= MOST_LINES
    assert max(map(len, status)) <= 120


def test_a_long_reason_is_told_whole() -> None:
    """Of the first failure with all its lines, of the others their first; and nothing else is said to be left out."""
    reason = " ".join(f"word{number}" for number in range(100))
    told = report_lines(tell_story([*half_done(), set_aside(700, f"{reason}\nstderr: end")]), RUN)
    assert max(map(len, told)) <= 120
    assert reason in " ".join(line.strip() for line in told)
    assert told[-1] == "    stderr: end"
    several = [set_aside(700, "ValueError: one"), set_aside(701, f"{reason}\nstderr: end")]
    told = report_lines(tell_story([*half_done(), *several]), RUN)
    assert reason in " ".join(line.strip() for line in told)
    assert told[-1] == "  more of it is in the page that 'aliquot report out.sam --html' writes"
    assert len(status_lines(tell_story([*half_done(), *several]), RUN)) == 8


def test_what_ended_a_run_before_its_end_is_told() -> None:
    """While it has not been mended."""
    about = RUN._replace(status="failed", ended_by="the program bwa was not found\nThe command was: bwa")
    for lines in (report_lines(tell_story(half_done()), about), status_lines(tell_story(half_done()), about)):
        assert "it ended with: the program bwa was not found" in lines
    about = about._replace(status="done")
    assert not any("ended with" in line for line in report_lines(tell_story(half_done()), about))


def test_nothing_reaches_a_terminal_that_could_upset_it() -> None:
    """Errors hold what programs print: colours, bells, lines."""
    error = "\n\n\x1b[31mred\x07\nsecond line"
    events: list[Event] = [*half_done(), (261.0, "set aside", {"start": 700, "stop": 701, "error": error})]
    lines = report_lines(tell_story(events), About("a\nb", "sort \x1b[2J"))
    assert all(line.isprintable() for line in lines)
    assert lines[-2] == "  unit 700: \N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}"
    assert lines[-1] == "    second line"


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


@pytest.mark.parametrize(
    ("now_seconds", "left"), [(3.0, "17.0 s"), (10.0, "10.0 s"), (22.0, "2.0 s"), (70.0, "50.0 s")]
)
def test_the_time_left_gets_shorter_while_long_steps_run(now_seconds: float, left: str) -> None:
    """Though nothing is reported; what takes longer than expected is expected to take as much longer again."""
    events = [sitting(0.0, 2), joined(0.0, 0), joined(0.0, 1), span(0.0, 0, 0, 500), span(0.0, 1, 500, 1000)]
    events += [report(1.0, 0, 0, 25), report(1.0, 1, 500, 525)]
    lines = status_lines(tell_story(events, wall_seconds=now_seconds), RUN, "process 7")
    assert lines[2].endswith(f", about {left} left")


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
    of_a_function = about._replace(outputs=())
    assert status_lines(tell_story(half_done()), of_a_function)[-1] == "the same call again, and it goes on"
    of_a_failure = about._replace(status="failed")
    told = "once that is mended, run it again, or aliquot resume, and it goes on"
    assert status_lines(tell_story(half_done()), of_a_failure)[-1] == told


@pytest.mark.parametrize(("busy_share", "is_told"), [(0.51, True), (0.9, False), (None, False)])
def test_a_report_says_where_steps_took_little_cpu_time(busy_share: float | None, is_told: bool) -> None:
    """What went into steps is useful time, whether they computed or not."""
    lines = report_lines(tell_story(half_done()), RUN._replace(busy_share=busy_share))
    told = "Steps took 51.0 % of the CPU time of their cores: they may have waited"
    assert (told in " ".join(line.strip() for line in lines)) == is_told


def test_status_of_a_finished_run_is_short() -> None:
    """There is nothing to go on with."""
    lines = status_lines(tell_story(many_reports(40, 2)), About("out.sam", status="done"))
    assert not any("left" in line or "held" in line for line in lines)
