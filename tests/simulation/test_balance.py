from __future__ import annotations

from aliquot.coordinator import Advise, AppendAsTheyCome, Assign, Coordinator, Ticked, Trim
from aliquot.sites.simulated import EqualCosts, Simulated, SimulatedWorker, Workload


def virtual_seconds(workload: Workload, *speeds: float) -> float:
    """How long all units take workers of these speeds."""
    site = Simulated(workload, [SimulatedWorker(speed=speed) for speed in speeds])
    coordinator = Coordinator(AppendAsTheyCome(), units=len(workload.costs), expected_workers=site.expected_workers)
    while not coordinator.is_over:
        for event in site.wait(coordinator.wake_seconds(site.now_seconds())) or [Ticked()]:
            for command in coordinator.handle(event, site.now_seconds()):
                if isinstance(command, Assign | Trim | Advise):
                    site.perform(command)
    return site.now_seconds()


def test_a_failed_unit_does_not_keep_its_worker_from_helping_others() -> None:
    """A worker at which a unit failed, and which must not have it again, still takes what a slow one has left."""
    healthy = virtual_seconds(Workload(EqualCosts(2000, 0.01)), 1.0, 0.1)
    one_bad = virtual_seconds(Workload(EqualCosts(2000, 0.01), failing=frozenset({0})), 1.0, 0.1)
    assert one_bad < 1.5 * healthy


def test_a_flaky_unit_at_the_end_waits_for_nobody_long() -> None:
    """A unit that failed once is soon tried again, though every other worker has much to do."""
    healthy = virtual_seconds(Workload(EqualCosts(2000, 0.01)), 1.0, 1.0, 1.0)
    flaky = virtual_seconds(Workload(EqualCosts(2000, 0.01), flaky=frozenset({0, 700, 1400})), 1.0, 1.0, 1.0)
    assert flaky < 1.5 * healthy
