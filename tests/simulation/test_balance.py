from __future__ import annotations

import math

from aliquot.coordinator import Advise, Allow, AppendAsTheyCome, Assign, Coordinator, Suspend, Ticked, Trim
from aliquot.sites.simulated import EqualCosts, GivenBytes, Simulated, SimulatedWorker, Workload


def virtual_seconds(
    workload: Workload, *speeds: float, total_bytes: int | None = None, most_failed: float = math.inf
) -> float:
    """How long all units take workers of these speeds."""
    site = Simulated(workload, [SimulatedWorker(speed=speed) for speed in speeds], total_bytes=total_bytes)
    coordinator = Coordinator(
        AppendAsTheyCome(),
        units=len(workload.costs),
        expected_workers=site.expected_workers,
        total_bytes=site.total_bytes,
        most_failed=most_failed,
    )
    while not coordinator.is_over:
        for event in site.wait(coordinator.wake_seconds(site.now_seconds())) or [Ticked()]:
            for command in coordinator.handle(event, site.now_seconds()):
                if isinstance(command, Assign | Trim | Advise | Allow | Suspend):
                    site.perform(command)
    return site.now_seconds()


def test_nothing_is_kept_back_for_the_end_that_is_not_worth_a_further_start() -> None:
    """Where each step takes long to begin, a last round would take longer than what it evens out."""
    units, unit_seconds, step_seconds = 100_000, 45e-6, 0.02
    workload = Workload(EqualCosts(units, unit_seconds), step_seconds=step_seconds)
    site = Simulated(workload, [SimulatedWorker(), SimulatedWorker()])
    coordinator = Coordinator(AppendAsTheyCome(), units=units, expected_workers=2, front_first=True)
    span_seconds = []
    while not coordinator.is_over:
        for event in site.wait(coordinator.wake_seconds(site.now_seconds())) or [Ticked()]:
            for command in coordinator.handle(event, site.now_seconds()):
                if isinstance(command, Assign):
                    span_seconds.append((command.stop - command.start) * unit_seconds)
                if isinstance(command, Assign | Trim | Advise | Allow | Suspend):
                    site.perform(command)
    assert len(span_seconds) > 4
    assert min(span_seconds) > 3 * step_seconds


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


def test_a_unit_that_always_fails_ends_a_long_run_soon() -> None:
    """Nobody waits for an hour to learn that the first unit cannot be done."""
    bad = Workload(EqualCosts(720_000, 0.01), failing=frozenset({0}))
    assert virtual_seconds(Workload(EqualCosts(720_000, 0.01)), 1.0, 1.0) >= 3600
    assert virtual_seconds(bad, 1.0, 1.0, most_failed=0) < 10


def test_bad_units_cost_little() -> None:
    """A few units that fail, or kill their worker, among many: they are isolated while the others go on."""
    healthy = virtual_seconds(Workload(EqualCosts(4000, 0.01)), *[1.0] * 4)
    for bad in (frozenset({0, 1500, 3999}), frozenset({2000})):
        assert virtual_seconds(Workload(EqualCosts(4000, 0.01), failing=bad), *[1.0] * 4) < 1.25 * healthy
        assert virtual_seconds(Workload(EqualCosts(4000, 0.01), killing=bad), *[1.0] * 4) < 1.25 * healthy


def test_a_few_heavy_units_cost_little() -> None:
    """Others wait for a unit that needs most of the memory only while it needs it."""
    held = [10**6] * 4000
    for unit in range(7, 4000, 250):
        held[unit] = 6 * 10**8
    light = virtual_seconds(Workload(EqualCosts(4000, 0.05), unit_bytes=10**6), *[1.0] * 8, total_bytes=10**9)
    workload = Workload(EqualCosts(4000, 0.05), bytes_of=GivenBytes(held))
    assert virtual_seconds(workload, *[1.0] * 8, total_bytes=10**9) < 1.15 * light


def test_a_large_base_that_every_step_holds_costs_concurrency_and_no_more() -> None:
    """A program that loads a large index: of four workers with a quarter of the memory each, none could do a unit."""
    workload = Workload(EqualCosts(4000, 0.01), step_seconds=0.05, base_bytes=600 * 10**6, unit_bytes=10**3)
    alone = virtual_seconds(workload, 1.0, total_bytes=10**9)
    assert virtual_seconds(workload, *[1.0] * 4, total_bytes=10**9) < 1.25 * alone
    smaller = Workload(EqualCosts(4000, 0.01), step_seconds=0.05, base_bytes=300 * 10**6, unit_bytes=10**3)
    assert virtual_seconds(smaller, *[1.0] * 4, total_bytes=10**9) < 1.25 * alone / 3
    fitting = Workload(EqualCosts(4000, 0.01), step_seconds=0.05, base_bytes=200 * 10**6, unit_bytes=10**3)
    assert virtual_seconds(fitting, *[1.0] * 4, total_bytes=10**9) < 1.25 * alone / 4


class HeldByStep:
    """Every step holds a large base, but for one of an empty unit alone, as of a program that ends at once."""

    def held(self, start: int, stop: int) -> int:
        return 5 * 10**6 if (start, stop) == (0, 1) else 300 * 10**6 + (stop - start) * 10**3


def test_a_light_unit_among_those_with_a_large_base_costs_little() -> None:
    """It fits into a share, and no other one does."""
    workload = Workload(EqualCosts(4000, 0.01), step_seconds=0.05, bytes_of=HeldByStep())
    like_others = Workload(EqualCosts(4000, 0.01), step_seconds=0.05, base_bytes=300 * 10**6, unit_bytes=10**3)
    seconds = virtual_seconds(like_others, *[1.0] * 4, total_bytes=10**9)
    assert virtual_seconds(workload, *[1.0] * 4, total_bytes=10**9) < 1.6 * seconds


def test_a_few_heavy_units_at_the_beginning_do_not_keep_others_idle() -> None:
    """They look as if none fitted into a share; as soon as one does, all work again."""
    held = [10**6] * 4000
    for unit in range(0, 4000, 500):
        held[unit] = 4 * 10**8
    light = virtual_seconds(Workload(EqualCosts(4000, 0.05), unit_bytes=10**6), *[1.0] * 8, total_bytes=10**9)
    workload = Workload(EqualCosts(4000, 0.05), bytes_of=GivenBytes(held))
    assert virtual_seconds(workload, *[1.0] * 8, total_bytes=10**9) < 1.25 * light
