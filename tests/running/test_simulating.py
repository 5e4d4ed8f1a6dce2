from __future__ import annotations

import pytest

import aliquot
from aliquot.coordinator import AppendInOrder, Coordinator, Event
from aliquot.running.tally import Tally
from aliquot.sites.simulated import EqualCosts, GivenCosts, SimulatedWorker, Workload
from tests.running.functions import double


def test_equal_workers_end_together() -> None:
    """A million equal units on 64 workers take as long as ideal, without a steal."""
    simulation = aliquot.simulate(Workload(EqualCosts(1_000_000, 0.001), span_seconds=0.5), [SimulatedWorker()] * 64)
    assert simulation.units == 1_000_000
    assert simulation.over_ideal == pytest.approx(1.0, abs=0.01)
    assert simulation.tasks == 64
    assert simulation.steals == 0


def test_programs_are_started_rarely() -> None:
    """Programs that take 14 ms to start, nine seconds of work: what starts cost is a few per cent, nothing is lost."""
    workload = Workload(EqualCosts(200_000, 45e-6), step_seconds=0.014, target_seconds=4.0, overhead_share=0.0025)
    simulation = aliquot.simulate(workload, [SimulatedWorker()] * 2, front_first=True)
    assert simulation.units == 200_000
    assert simulation.steps <= 18
    assert simulation.over_ideal < 1.03


def test_each_event_can_be_looked_at() -> None:
    """The coordinator is shown after every event."""
    seen: list[Event] = []

    def look(coordinator: Coordinator, event: Event, commands: object) -> None:
        seen.append(event)

    aliquot.simulate(
        Workload(EqualCosts(100, 0.01)), [SimulatedWorker()] * 2, joining=AppendInOrder(1000), after_event=look
    )
    assert len(seen) > 3


def test_the_costs_of_a_real_run_can_be_simulated() -> None:
    """They are those of all units, and add up to the useful time of the run."""
    outcome = aliquot.run(
        aliquot.FunctionJob(lambda batch: [double(number) for number in batch], range(1000)), progress=False
    )
    costs = GivenCosts.recorded(outcome.report.costs)
    assert len(costs) == 1000
    assert costs.seconds(0, 1000) == pytest.approx(outcome.report.useful_seconds)
    assert aliquot.simulate(Workload(costs), [SimulatedWorker()] * 4).units == 1000


def test_costs_with_a_gap_are_refused() -> None:
    """With the unit that they do not tell about."""
    with pytest.raises(aliquot.UsageError, match="what unit 5 took"):
        GivenCosts.recorded([(0, 5, 1.0), (6, 7, 1.0)])


def test_a_long_run_records_few_pieces() -> None:
    """Neighbours become one, and their seconds add up."""
    tally = Tally()
    for number in range(20_000):
        tally._record((number, number + 1, 0.5))
    assert len(tally.pieces) <= 4096
    assert GivenCosts.recorded(tally.pieces).seconds(0, 20_000) == pytest.approx(10_000.0)
