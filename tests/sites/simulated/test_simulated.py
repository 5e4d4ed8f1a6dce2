from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.coordinator import (
    Allow,
    Assign,
    Event,
    Progressed,
    StepExhausted,
    StepFailed,
    Suspend,
    Trim,
    Trimmed,
    WorkerJoined,
    WorkerLost,
)
from aliquot.errors import SiteError
from aliquot.sites.simulated import (
    BAD_UNIT,
    FAULTY_WORKER,
    TOO_LARGE,
    EqualCosts,
    GivenBytes,
    GivenCosts,
    Simulated,
    SimulatedWorker,
    Workload,
)

# A hundred units of a second each.
HUNDRED = Workload(EqualCosts(100, 1.0))


def begin(
    workload: Workload, *workers: SimulatedWorker, first_units: int = 1, allowed_bytes: int | None = None
) -> Simulated:
    """A site whose first worker has joined and was given all units."""
    site = Simulated(workload, workers or [SimulatedWorker()])
    assert site.wait(None)[0] == WorkerJoined(0)
    site.perform(Assign(0, 0, 0, len(workload.costs), first_units=first_units, allowed_bytes=allowed_bytes))
    return site


def events_until(site: Simulated, until_seconds: float) -> list[tuple[float, Event]]:
    """All events up to a time, each with when it came."""
    events: list[tuple[float, Event]] = []
    while arrived := site.wait(until_seconds):
        events += [(site.now_seconds(), event) for event in arrived]
    return events


def done_units(events: list[tuple[float, Event]]) -> list[int]:
    return [unit for _, event in events if isinstance(event, Progressed) for unit in range(event.start, event.stop)]


def wait_for(site: Simulated, kind: type) -> Event:
    """The next event of a kind."""
    while True:
        for event in site.wait(None):
            if isinstance(event, kind):
                return event


# Work


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=200),
    st.floats(0.1, 10),
    st.floats(0, 5),
    st.integers(1, 300),
)
def test_a_span_is_worked_through_in_order_in_the_time_that_it_takes(
    seconds: list[float], speed: float, span_seconds: float, first_units: int
) -> None:
    """Every unit once and in order; the last report comes when start-up and all units are over."""
    workload = Workload(GivenCosts(seconds), span_seconds=span_seconds)
    events = events_until(begin(workload, SimulatedWorker(speed=speed), first_units=first_units), 1e9)
    assert done_units(events) == list(range(len(seconds)))
    assert events[-1][0] == pytest.approx(span_seconds + sum(seconds) / speed)


@given(st.integers(1, 500), st.floats(0.001, 1), st.floats(0.1, 4))
def test_each_step_costs_what_a_step_costs(units: int, step_seconds: float, speed: float) -> None:
    """Beside the units, which depend on the speed, each step takes the same at any speed."""
    workload = Workload(EqualCosts(units, 0.01), step_seconds=step_seconds)
    events = events_until(begin(workload, SimulatedWorker(speed=speed)), 1e9)
    steps = sum(event.steps for _, event in events if isinstance(event, Progressed))
    assert events[-1][0] == pytest.approx(steps * step_seconds + units * 0.01 / speed)


def test_a_report_tells_what_steps_took() -> None:
    """Time, memory and the time to begin, which is told once."""
    workload = Workload(EqualCosts(10, 2.0), span_seconds=5.0, step_seconds=1.0, base_bytes=100, unit_bytes=7)
    events = events_until(begin(workload), 1e9)
    first, second = (event for _, event in events[:2] if isinstance(event, Progressed))
    assert first.seconds == ((1, 3.0, 1),)
    assert first.peak_bytes == ((1, 107, 1),)
    assert first.busy_seconds == 3.0
    assert (first.setup_seconds, second.setup_seconds) == (5.0, None)


def test_units_may_cost_nothing() -> None:
    """Then everything is done when it was assigned."""
    events = events_until(begin(Workload(EqualCosts(1000, 0.0))), 1.0)
    assert done_units(events) == list(range(1000))
    assert {at for at, _ in events} == {0.0}


def test_steps_of_one_unit_where_asked() -> None:
    """With a target of no seconds every step has one unit."""
    events = events_until(begin(Workload(EqualCosts(50, 0.001), target_seconds=0.0), first_units=10), 1e9)
    assert sum(event.steps for _, event in events if isinstance(event, Progressed)) == 50


# Time


def test_waiting_jumps_to_the_next_event_or_to_the_time_asked_for() -> None:
    """Nothing is waited for in real time, and time never goes back."""
    site = begin(HUNDRED)
    assert site.wait(0.5) == []
    assert site.now_seconds() == 0.5
    assert site.wait(0.25) == []
    assert site.now_seconds() == 0.5
    assert isinstance(site.wait(None)[0], Progressed)
    assert site.now_seconds() == 1.0


def test_messages_take_their_time_each_way() -> None:
    """Joining takes one latency, and the first report of a unit of a second one more each way."""
    site = Simulated(HUNDRED, [SimulatedWorker(latency_seconds=0.25)])
    assert site.wait(None) == [WorkerJoined(0)]
    assert site.now_seconds() == 0.25
    site.perform(Assign(0, 0, 0, 10))
    assert isinstance(site.wait(None)[0], Progressed)
    assert site.now_seconds() == 0.25 + 0.25 + 1.0 + 0.25


def test_workers_arrive_when_they_arrive() -> None:
    """Those that are there at the beginning are expected, the others join later."""
    workers = [SimulatedWorker(), SimulatedWorker(arrives_seconds=7.0), SimulatedWorker()]
    site = Simulated(HUNDRED, workers)
    assert site.expected_workers == 2
    joined = [(0.0, WorkerJoined(0)), (0.0, WorkerJoined(2)), (7.0, WorkerJoined(1))]
    assert events_until(site, 100.0) == joined


def test_somebody_is_always_expected() -> None:
    """Also where all workers come late."""
    assert Simulated(HUNDRED, [SimulatedWorker(arrives_seconds=7.0)]).expected_workers == 1


def test_a_site_without_workers_is_refused() -> None:
    """Nothing could ever happen there."""
    with pytest.raises(SiteError, match="at least one worker"):
        Simulated(HUNDRED, [])


def test_waiting_for_ever_is_refused_when_all_have_left() -> None:
    """There is nothing more to wait for, and the message says why."""
    site = Simulated(HUNDRED, [SimulatedWorker(leaves_seconds=1.0)])
    events_until(site, 10.0)
    with pytest.raises(SiteError, match="all workers have left"):
        site.wait(None)


# Trims


@given(st.floats(0, 99.9), st.floats(0.01, 1), st.floats(0, 3), st.integers(1, 30))
def test_a_trim_is_answered_and_kept(at_seconds: float, share: float, latency_seconds: float, first_units: int) -> None:
    """There is one answer, and all units up to its cut are done, in order, and none behind it."""
    site = begin(HUNDRED, SimulatedWorker(latency_seconds=latency_seconds), first_units=first_units)
    events = events_until(site, at_seconds)
    site.perform(Trim(0, 0, share))
    events += events_until(site, 1e9)
    [cut] = [event.stop for _, event in events if isinstance(event, Trimmed)]
    assert done_units(events) == list(range(cut))


def test_a_trim_gives_about_the_share_of_what_was_not_started() -> None:
    """Half of what is left, half-way through."""
    site = begin(HUNDRED)
    events_until(site, 50.0)
    site.perform(Trim(0, 0, 0.5))
    answer = wait_for(site, Trimmed)
    assert isinstance(answer, Trimmed)
    assert answer.stop == pytest.approx(75, abs=3)


def test_a_worker_that_has_finished_answers_all_the_same() -> None:
    """Its span ends where it ended."""
    site = begin(HUNDRED)
    events_until(site, 1000.0)
    site.perform(Trim(0, 0, 0.5))
    assert site.wait(None) == [Trimmed(0, 0, 100)]


# Failures and losses


def test_a_failing_unit_fails_its_step_every_time() -> None:
    """What was before it is done; the worker drops the rest, and fails again when it is given the step again."""
    site = begin(Workload(EqualCosts(100, 1.0), failing=frozenset({50})))
    events = events_until(site, 1e6)
    failed = events[-1][1]
    assert isinstance(failed, StepFailed)
    assert failed.error == BAD_UNIT
    assert failed.start <= 50 < failed.stop
    assert done_units(events) == list(range(failed.start))
    site.perform(Assign(0, 1, failed.start, failed.stop))
    again = wait_for(site, StepFailed)
    assert isinstance(again, StepFailed)
    assert again.start <= 50 < again.stop


def test_a_flaky_unit_fails_once_wherever_it_runs() -> None:
    """The second time it is done, at another worker too."""
    site = begin(Workload(EqualCosts(100, 1.0), flaky=frozenset({50})), SimulatedWorker(), SimulatedWorker())
    failed = events_until(site, 1e6)[-1][1]
    assert isinstance(failed, StepFailed)
    site.perform(Assign(1, 1, failed.start, 100))
    assert done_units(events_until(site, 2e6)) == list(range(failed.start, 100))


def test_a_worker_that_is_taken_away_is_told_of_last_and_once() -> None:
    """Nothing comes after its loss, and commands to it are ignored."""
    site = begin(HUNDRED, SimulatedWorker(leaves_seconds=10.5))
    events = events_until(site, 1e6)
    at_seconds, lost = events[-1]
    assert isinstance(lost, WorkerLost)
    assert (at_seconds, lost.is_suspect) == (10.5, False)
    assert sum(isinstance(event, WorkerLost) for _, event in events) == 1
    site.perform(Assign(0, 1, 0, 10))
    site.perform(Trim(0, 1, 0.5))
    assert events_until(site, 2e6) == []


def test_a_worker_that_dies_names_the_step_that_it_was_in() -> None:
    """The step is suspect, was not reported, and follows what was."""
    site = begin(HUNDRED, SimulatedWorker(dies_seconds=30.5))
    events = events_until(site, 1e6)
    lost = events[-1][1]
    assert isinstance(lost, WorkerLost)
    assert lost.is_suspect
    assert len(done_units(events)) <= lost.running_start <= 30 < lost.running_stop


def test_a_worker_that_dies_without_work_names_no_step() -> None:
    """Before its first span, while it begins one, or after the last, no step is to blame."""
    slow_begin = Workload(EqualCosts(3, 1.0), span_seconds=10.0)
    for dies_seconds in (5.0, 50.0):
        lost = wait_for(begin(slow_begin, SimulatedWorker(dies_seconds=dies_seconds)), WorkerLost)
        assert isinstance(lost, WorkerLost)
        assert lost.running_start == lost.running_stop


@given(st.floats(0, 120), st.floats(0, 20))
def test_what_was_under_way_still_arrives_before_the_loss(dies_seconds: float, latency_seconds: float) -> None:
    """Reports sent before a death come in order, and the loss comes after them."""
    events = events_until(
        begin(HUNDRED, SimulatedWorker(dies_seconds=dies_seconds, latency_seconds=latency_seconds)), 1e6
    )
    assert [type(event) for _, event in events].count(WorkerLost) == 1
    assert isinstance(events[-1][1], WorkerLost)
    done = done_units(events)
    assert done == list(range(len(done)))


def test_a_killing_unit_ends_its_worker_and_another_comes() -> None:
    """The step is suspect, and the one that follows has a new number."""
    site = begin(Workload(EqualCosts(100, 1.0), killing=frozenset({50})))
    events = events_until(site, 1e6)
    lost, joined = (event for _, event in events[-2:])
    assert isinstance(lost, WorkerLost)
    assert lost.is_suspect
    assert not lost.is_exhausted
    assert lost.running_start <= 50 < lost.running_stop
    assert joined == WorkerJoined(1)
    assert done_units(events) == list(range(lost.running_start))
    site.perform(Assign(1, 1, 51, 100))
    assert done_units(events_until(site, 2e6)) == list(range(51, 100))


def test_a_faulty_worker_fails_every_so_many_steps() -> None:
    """Whatever the units are, and however its steps lie in spans."""
    workload = Workload(EqualCosts(7, 1.0), target_seconds=0.0)
    site = begin(workload, SimulatedWorker(fails_every=3))
    events = events_until(site, 100.0)
    assert events[-1][1] == StepFailed(0, 0, 2, 3, error=FAULTY_WORKER)
    site.perform(Assign(0, 1, 2, 7))
    events += events_until(site, 200.0)
    assert events[-1][1] == StepFailed(0, 1, 4, 5, error=FAULTY_WORKER)
    assert done_units(events) == [0, 1, 2, 3]


def test_a_suspended_worker_leaves_and_another_comes() -> None:
    """Unless the site has no other."""
    site = begin(HUNDRED)
    events_until(site, 3.5)
    site.perform(Suspend(0))
    lost, joined = (event for _, event in events_until(site, 1e6))
    assert isinstance(lost, WorkerLost)
    assert not lost.is_suspect
    assert joined == WorkerJoined(1)
    site = Simulated(HUNDRED, [SimulatedWorker()], keeps_suspended=True)
    site.wait(None)
    site.perform(Suspend(0))
    assert events_until(site, 1e6) == []


def test_one_that_follows_stays_if_the_other_was_to_go_before() -> None:
    """Else there would soon be nobody."""
    site = begin(Workload(EqualCosts(1, 1.0), killing=frozenset({0})), SimulatedWorker(dies_seconds=1.001))
    assert [type(event) for _, event in events_until(site, 1e6)] == [WorkerLost, WorkerJoined]


# Memory


@given(st.lists(st.integers(0, 100), min_size=1, max_size=100), st.integers(100, 1000), st.integers(1, 100))
def test_what_fits_one_by_one_is_done_in_steps_that_fit(held: list[int], allowed_bytes: int, first_units: int) -> None:
    """Steps that hold too much are made smaller by the worker itself, which is counted, and takes time."""
    workload = Workload(EqualCosts(len(held), 1.0), bytes_of=GivenBytes(held))
    events = events_until(begin(workload, first_units=first_units, allowed_bytes=allowed_bytes), 1e9)
    assert done_units(events) == list(range(len(held)))
    reports = [event for _, event in events if isinstance(event, Progressed)]
    assert all(peak <= allowed_bytes for report in reports for _, peak, _ in report.peak_bytes)
    stopped_seconds = sum(report.stopped_seconds for report in reports)
    assert bool(stopped_seconds) == any(report.stopped_steps for report in reports)
    assert events[-1][0] == pytest.approx(len(held) + stopped_seconds)


def test_a_unit_that_does_not_fit_ends_the_span() -> None:
    """The worker is well: it may be given the unit again, with more."""
    workload = Workload(EqualCosts(10, 1.0), bytes_of=GivenBytes([1] * 5 + [100] + [1] * 4), base_bytes=7)
    site = begin(workload, allowed_bytes=50)
    events = events_until(site, 1e6)
    assert events[-1][1] == StepExhausted(0, 0, 5, 6, TOO_LARGE, peak_bytes=55, stopped_seconds=0.5)
    assert done_units(events) == list(range(5))
    site.perform(Assign(0, 1, 5, 6, allowed_bytes=107))
    assert done_units(events_until(site, 2e6)) == [5]


def test_a_step_may_go_on_that_is_allowed_more_in_time() -> None:
    """What is allowed amid a step counts for that step."""
    site = begin(Workload(EqualCosts(1, 10.0), unit_bytes=100), allowed_bytes=50)
    events_until(site, 2.0)
    site.perform(Allow(0, 0, 200))
    [(at_seconds, event)] = events_until(site, 1e6)
    assert isinstance(event, Progressed)
    assert at_seconds == 10.0


def test_where_nobody_looks_too_much_kills() -> None:
    """Then the loss says that it was for memory, and at what."""
    workload = Workload(EqualCosts(10, 1.0), unit_bytes=100, exhaustion_kills=True)
    lost = wait_for(begin(workload, allowed_bytes=50), WorkerLost)
    assert isinstance(lost, WorkerLost)
    assert lost.is_suspect
    assert lost.is_exhausted
    assert (lost.running_start, lost.running_stop, lost.peak_bytes) == (0, 1, 55)


# Costs


@given(st.lists(st.floats(0, 100), max_size=50), st.data())
def test_given_costs_add_up(seconds: list[float], data: st.DataObject) -> None:
    """Any slice costs the sum of its units."""
    costs = GivenCosts(seconds)
    start = data.draw(st.integers(0, len(seconds)))
    stop = data.draw(st.integers(start, len(seconds)))
    assert len(costs) == len(seconds)
    assert costs.seconds(start, stop) == pytest.approx(sum(seconds[start:stop]), abs=1e-9)


def test_equal_costs_need_no_memory() -> None:
    """A million million units are as easy as one."""
    assert EqualCosts(10**12, 0.5).seconds(10, 10**12) == (10**12 - 10) * 0.5
