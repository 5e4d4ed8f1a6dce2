from __future__ import annotations

import pytest

from aliquot.reporting.lanes import Bar
from aliquot.reporting.story import Event, Story, tell_story
from tests.reporting.stories import GB, an_afternoon, joined, lost, many_reports, report, sitting, span


def losses(story: Story) -> dict[str, float]:
    return {loss.purpose: round(loss.seconds, 9) for loss in story.losses}


def two_workers() -> list[Event]:
    """Worker 0 has the units 0 to 60, worker 1 those from 60 to 100 and then, taken from the other, 50 to 60."""
    return [
        sitting(0.0, 2),
        joined(0.5, 0),
        joined(0.5, 1),
        span(0.5, 0, 0, 60),
        span(0.5, 1, 60, 100),
        report(4.0, 0, 0, 20, busy_seconds=3.0, steps=4, peak_bytes=GB, allowed_bytes=2 * GB, result_bytes=7),
        report(5.0, 1, 60, 100, busy_seconds=4.0, steps=2, peak_bytes=10, allowed_bytes=2 * GB, result_bytes=5),
        (5.25, "trim", {"worker": 0, "span": 0, "stop": 50}),
        span(5.25, 1, 50, 60, is_steal=True),
        report(8.0, 1, 50, 60, busy_seconds=2.0, steps=1),
        report(9.0, 0, 20, 50, busy_seconds=3.0, steps=3, stopped_steps=1, stopped_seconds=1.0),
    ]


def test_the_numbers_of_a_run_are_exact() -> None:
    """Added up by hand."""
    totals = tell_story(two_workers(), wall_seconds=10.0).totals
    assert (totals.units, totals.repeated_units, totals.set_aside_units) == (100, 0, 0)
    assert (totals.reports, totals.tasks, totals.steps, totals.steals, totals.stopped_steps) == (4, 3, 10, 1, 1)
    assert (totals.wall_seconds, totals.cores, totals.available_seconds) == (10.0, 2, 20.0)
    assert totals.busy_seconds == pytest.approx(12.0)
    assert totals.stopped_seconds == pytest.approx(1.0)
    assert totals.efficiency == pytest.approx(0.6)
    assert totals.ideal_seconds == pytest.approx(6.0)
    assert totals.units_per_second == pytest.approx(10.0)
    assert (totals.peak_bytes, totals.result_bytes) == (GB, 12)
    assert (totals.smallest_step_units, totals.largest_step_units) == (5.0, 20.0)


def test_a_worker_that_waits_for_the_source_to_be_counted_goes_on_with_its_span() -> None:
    """It has one bar, and what it waited is told as that."""
    events = [
        sitting(0.0, 1),
        joined(0.0, 0),
        (0.0, "span", {"worker": 0, "span": 0, "start": 0, "stop": 10, "is_steal": False, "is_open": True}),
        report(1.0, 0, 0, 10, busy_seconds=1.0),
        (2.0, "extend", {"worker": 0, "span": 0, "stop": 1000, "is_open": True}),
        report(5.0, 0, 10, 1000, busy_seconds=2.5, waited_seconds=1.5),
        (5.5, "extend", {"worker": 0, "span": 0, "stop": 1000, "is_open": False}),
    ]
    story = tell_story(events, wall_seconds=6.0)
    ((bar,),) = [lane.bars for lane in story.lanes]
    assert (bar.start, bar.stop, bar.done_units) == (0, 1000, 1000)
    assert bar.end_seconds == 5.0
    assert losses(story) == {"waiting": 1.5, "finishing": 1.0}
    assert story.totals.tasks == 1


def test_all_time_is_told() -> None:
    """Cores x wall time is useful time and the losses, and each loss is what it says."""
    story = tell_story(two_workers(), wall_seconds=10.0)
    assert losses(story) == {
        "startup": 2.0,  # 4.0 - 3.0 of one, 5.0 - 4.0 of the other
        "finishing": 2.0,  # from 9.0 to 10.0, on two cores
        "between": 1.0,  # from 4.0 to 9.0, of which 4.0 are told
        "end": 1.0,  # worker 1, from 8.0 until worker 0 had finished
        "stopped": 1.0,
        "steals": 0.75,  # from 5.25 to 8.0, of which 2.0 are told
        "waiting": 0.25,
    }
    totals = story.totals
    assert sum(loss.seconds for loss in story.losses) + totals.useful_seconds == pytest.approx(20.0)
    parts = (totals.busy_seconds, totals.stopped_seconds, totals.wasted_seconds, totals.overhead_seconds)
    assert sum(parts) + totals.idle_seconds == pytest.approx(totals.available_seconds)


def test_the_losses_are_sentences_with_seconds_and_per_cent() -> None:
    """The largest first."""
    sentences = [loss.sentence for loss in tell_story(two_workers(), wall_seconds=10.0).losses]
    assert sentences[0] == "Start-up took 2.0 s (10.0 %), besides steps, until each worker had sent its first report."
    assert "1 steal took 750.0 ms (3.8 %) to begin with what was taken." in sentences
    assert "1 step stopped for memory had taken 1.0 s (5.0 %)." in sentences


def test_the_lanes_are_the_spans_of_each_worker() -> None:
    """With when their first step began, and what was taken from another."""
    first, second = tell_story(two_workers()).lanes
    assert first.bars == (Bar(0.5, 1.0, 9.0, 0, 60, False, 50),)
    assert second.bars == (Bar(0.5, 1.0, 5.0, 60, 100, False, 40), Bar(5.25, 6.0, 8.0, 50, 60, True, 10))
    assert [(mark.seconds, mark.kind) for mark in first.marks] == [(5.25, "trim"), (9.0, "stopped")]
    assert first.report_seconds == (4.0, 9.0)


def test_a_trim_that_gave_nothing_is_no_mark() -> None:
    """Nor is one of a span that the worker no longer has."""
    events: list[Event] = [sitting(0.0, 1), span(0.0, 0, 0, 60), report(1.0, 0, 0, 20)]
    events.append((2.0, "trim", {"worker": 0, "span": 0, "stop": 60}))
    events.append((2.0, "trim", {"worker": 0, "span": 9, "stop": 30}))
    (lane,) = tell_story([*events, report(4.0, 0, 20, 60)]).lanes
    assert lane.marks == ()
    assert [bar.done_units for bar in lane.bars] == [60]


def test_throughput_spreads_the_units_of_a_report_over_the_time_they_took() -> None:
    """So that a long step is no peak at its end."""
    events = [sitting(0.0, 1), span(0.0, 0, 0, 100), report(8.0, 0, 0, 80, busy_seconds=8.0), report(10.0, 0, 80, 100)]
    rates = tell_story(events, wall_seconds=10.0).throughput
    assert [(rate.begin_seconds, rate.end_seconds) for rate in rates] == [(0.0, 5.0), (5.0, 10.0)]
    assert [rate.units_per_second for rate in rates] == pytest.approx([10.0, 10.0])


def test_the_recent_rate_is_that_of_the_last_minute() -> None:
    """Which says more about the time left than the average."""
    events = [sitting(0.0, 1), span(0.0, 0, 0, 10**6)]
    events += [report(10.0 * n, 0, 10 * (n - 1), 10 * n, busy_seconds=10.0) for n in range(1, 11)]
    events += [report(100.0 + 10.0 * n, 0, 20 * n + 80, 20 * n + 100, busy_seconds=10.0) for n in range(1, 7)]
    assert tell_story(events).totals.recent_units_per_second == pytest.approx(2.0)


def test_a_restart_cuts_off_what_was_under_way() -> None:
    """Its time is lost, and the sittings tell when; time between them does not exist."""
    events = [
        sitting(0.0, 1),
        span(0.0, 0, 0, 10),
        report(2.0, 0, 0, 4, busy_seconds=2.0),
        sitting(5.0, 1, "2031-05-05T10:00:00"),
        span(5.0, 0, 4, 10),
        report(9.0, 0, 4, 10, busy_seconds=4.0),
    ]
    story = tell_story(events)
    assert [(item.begin_seconds, item.end_seconds) for item in story.sittings] == [(0.0, 5.0), (5.0, 9.0)]
    assert losses(story) == {"lost": 3.0}
    assert [bar.end_seconds for bar in story.lanes[0].bars] == [5.0, 9.0]


def test_no_time_is_told_twice_where_a_sitting_begins_before_the_last_event() -> None:
    """A killed run noted its time a moment before it recorded its last event; what follows is that much later."""
    events = [
        sitting(0.0, 1),
        span(0.0, 0, 0, 10),
        report(5.0, 0, 0, 4, busy_seconds=5.0),
        sitting(4.5, 1),
        span(4.5, 0, 4, 10),
        report(6.5, 0, 4, 10, busy_seconds=2.0),
    ]
    story = tell_story(events, wall_seconds=7.0)
    assert [(item.begin_seconds, item.end_seconds) for item in story.sittings] == [(0.0, 5.0), (5.0, 7.5)]
    assert losses(story) == {"finishing": 0.5}
    assert story.totals.efficiency == pytest.approx(7.0 / 7.5)


def test_units_that_were_done_twice_count_once() -> None:
    """The time of the second is a loss."""
    events = [
        sitting(0.0, 1),
        span(0.0, 0, 0, 20),
        report(2.0, 0, 0, 10, busy_seconds=2.0),
        sitting(2.0, 1),
        span(2.0, 0, 5, 20),
        report(5.0, 0, 5, 20, busy_seconds=3.0),
    ]
    story = tell_story(events)
    assert (story.totals.units, story.totals.repeated_units) == (20, 5)
    assert losses(story) == {"again": 1.0}
    assert story.totals.efficiency == pytest.approx(0.8)


def test_a_lost_worker_costs_what_it_was_about_and_then_its_core() -> None:
    """Until another takes its place, whose own start-up begins then."""
    events = [
        sitting(0.0, 1),
        joined(0.0, 0),
        span(0.0, 0, 0, 10),
        report(1.0, 0, 0, 5),
        lost(3.0, 0, "killed by signal 9"),
        joined(4.0, 1),
        span(4.0, 1, 5, 10),
        report(6.0, 1, 5, 10),
    ]
    story = tell_story(events)
    assert losses(story) == {"lost": 2.0, "absent": 1.0, "startup": 1.0}
    assert story.totals.lost_workers == 1
    assert story.lanes[0].marks[-1].text == "lost: killed by signal 9"


def test_failed_and_exhausted_steps_are_told_apart() -> None:
    """One is wasted time, the other time that memory cost."""
    failed = {"worker": 0, "start": 1, "stop": 2, "error": "ValueError", "peak_bytes": 5}
    events: list[Event] = [
        sitting(0.0, 1),
        span(0.0, 0, 0, 10),
        report(1.0, 0, 0, 1),
        (3.0, "failed", failed),
        span(3.0, 0, 2, 10),
        (7.0, "exhausted", failed | {"start": 2, "stop": 3, "error": "too large"}),
        (7.0, "set aside", {"start": 2, "stop": 3, "error": "too large"}),
    ]
    story = tell_story(events)
    assert losses(story) == {"failed": 2.0, "stopped": 4.0}
    assert [(item.kind, item.start, item.error) for item in story.setbacks] == [
        ("failed", 1, "ValueError"),
        ("exhausted", 2, "too large"),
    ]
    assert story.totals.set_aside_units == 1


def test_what_was_set_aside_and_done_later_is_not_missing() -> None:
    """A later sitting may have tried again; one that was set aside twice is still one."""
    aside = [(1.0 + n, "set aside", {"start": n, "stop": n + 1, "error": "bad"}) for n in (3, 7, 7)]
    events: list[Event] = [sitting(0.0, 1), *aside, span(9.0, 0, 0, 5), report(10.0, 0, 0, 5)]
    story = tell_story(events)
    assert [(item.start, item.stop) for item in story.set_aside] == [(7, 8)]
    assert story.totals.set_aside_units == 1


def test_what_is_under_way_is_open_while_a_run_goes_on() -> None:
    """It is neither lost nor waiting."""
    story = tell_story([sitting(0.0, 2), joined(0.0, 0), span(0.0, 0, 0, 9)], wall_seconds=4.0)
    assert losses(story) == {"open": 4.0, "absent": 4.0}
    assert story.totals.workers == 1
    assert story.lanes[0].bars == (Bar(0.0, 4.0, 4.0, 0, 9, False, 0),)


def test_before_any_event_there_is_a_story_of_nothing() -> None:
    """A journal is there before its first event."""
    story = tell_story([])
    assert story.totals.units == story.totals.cores == 0
    assert story.totals.efficiency == story.totals.units_per_second == 0.0
    assert not story.lanes
    assert not story.losses
    assert not story.throughput


def test_a_run_of_no_time_at_all_is_told() -> None:
    """All events at one moment, as in a simulation or on a coarse clock."""
    story = tell_story([sitting(0.0, 1), span(0.0, 0, 0, 5), report(0.0, 0, 0, 5, busy_seconds=0.0)])
    assert story.totals.units == 5
    assert story.totals.units_per_second == 0.0


def test_many_reports_are_thinned_and_keep_their_extremes() -> None:
    """What is drawn does not grow with the run."""
    events = many_reports(6000, 4, spans_each=50)
    values = [about["peak_bytes"] for _, kind, about in events if kind == "report"]
    story = tell_story(events)
    curve = story.peak_bytes
    assert curve.is_thinned
    assert len(curve.bands) <= 240
    assert min(band.low for band in curve.bands) == min(values)
    assert max(band.high for band in curve.bands) == max(values)
    assert all(band.low <= band.middle <= band.high for band in curve.bands)
    done_units = sum(rate.units_per_second * (rate.end_seconds - rate.begin_seconds) for rate in story.throughput)
    assert done_units == pytest.approx(story.totals.units)


def test_many_spans_are_drawn_as_fewer_that_hold_all_of_them() -> None:
    """None is forgotten."""
    story = tell_story(many_reports(12_000, 4, spans_each=3000))
    assert story.totals.tasks == 12_000
    bars = [bar for lane in story.lanes for bar in lane.bars]
    assert len(bars) <= 6000
    assert sum(bar.spans for bar in bars) == 12_000
    assert sum(bar.done_units for bar in bars) == story.totals.units


def test_an_afternoon_has_everything_in_it() -> None:
    """The made-up run that the other tests show: all its time is accounted for."""
    story = tell_story(an_afternoon())
    totals = story.totals
    assert (totals.units, totals.set_aside_units) == (999_999, 1)
    assert (totals.steals, totals.stopped_steps, totals.failed_steps, len(story.sittings)) == (1, 1, 1, 2)
    told_seconds = sum(loss.seconds for loss in story.losses) + totals.useful_seconds
    assert told_seconds == pytest.approx(totals.available_seconds)


def test_what_passes_before_a_run_is_recorded_belongs_to_it() -> None:
    """Core time is that of all cores from the very beginning."""
    events = [sitting(0.5, 2), joined(0.5, 0), span(0.5, 0, 0, 100), report(2.0, 0, 0, 100, busy_seconds=1.0)]
    totals = tell_story(events, wall_seconds=2.0).totals
    assert totals.available_seconds == 2 * 2.0
    assert totals.efficiency == 0.25
