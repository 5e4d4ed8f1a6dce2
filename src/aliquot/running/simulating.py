from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from aliquot.coordinator import Advise, AppendAsTheyCome, Assign, Command, Coordinator, Event, Joining, Ticked, Trim
from aliquot.sites.simulated import Simulated, SimulatedWorker, Workload


class Simulation(Struct, frozen=True):
    """How a simulated run went.

    ``ideal_seconds`` is what it would take if work could be divided for nothing: all work over all speeds, after one
    start-up. It knows nothing of workers that come late or leave.
    """

    makespan_seconds: float
    ideal_seconds: float
    units: int
    failed_units: int
    tasks: int
    steps: int
    steals: int

    @property
    def over_ideal(self) -> float:
        """How many times as long as ideal."""
        return self.makespan_seconds / self.ideal_seconds


def simulate(
    workload: Workload,
    workers: Sequence[SimulatedWorker],
    *,
    joining: Joining | None = None,
    size: int = 1,
    front_first: bool = False,
    after_event: Callable[[Coordinator, Event, list[Command]], None] | None = None,
) -> Simulation:
    """Run a workload on workers in virtual time, with the coordinator and the sizing of a real run.

    ``after_event(coordinator, event, commands)`` is called after each event, for those who want to look closer.
    """
    site = Simulated(workload, workers)
    coordinator = Coordinator(
        joining or AppendAsTheyCome(),
        units=len(workload.costs),
        expected_workers=site.expected_workers,
        first_units=size,
        front_first=front_first,
    )
    while not coordinator.is_over:
        for event in site.wait(coordinator.wake_seconds(site.now_seconds())) or [Ticked()]:
            commands = coordinator.handle(event, site.now_seconds())
            for command in commands:
                if isinstance(command, Assign | Trim | Advise):
                    site.perform(command)
            if after_event is not None:
                after_event(coordinator, event, commands)
    total_seconds = workload.costs.seconds(0, len(workload.costs))
    return Simulation(
        makespan_seconds=site.now_seconds(),
        ideal_seconds=total_seconds / sum(worker.speed for worker in workers) + workload.span_seconds,
        units=coordinator.done_units,
        failed_units=coordinator.failed_units,
        tasks=coordinator.spans,
        steps=coordinator.steps,
        steals=coordinator.steals,
    )
