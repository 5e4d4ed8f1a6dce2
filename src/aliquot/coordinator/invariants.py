"""What must hold between any two events. Checked after each one in the tests and in the simulation."""

from __future__ import annotations

from aliquot.coordinator.coordinator import Coordinator
from aliquot.coordinator.worker import HOLDING, OWNING, Worker
from aliquot.slices import Slice, find_cover_fault


def check_invariants(coordinator: Coordinator, done: list[Slice]) -> None:
    """Every unit is in exactly one place, and every worker is where its state says.

    ``done`` are the slices whose results were sent up, which the coordinator itself forgets once they are joined.
    """
    workers = coordinator._workers
    owned = [
        Slice(worker.done_to, worker.stop)
        for worker in workers.values()
        if worker.state in OWNING and not _waits_for_more(worker)
    ]
    waiting = [Slice(units.start, units.stop) for units in coordinator._waiting.slices()]
    given_up = [Slice(failed.start, failed.stop) for failed in coordinator.failures]
    fault = find_cover_fault(Slice(0, coordinator.units), sorted([*owned, *waiting, *given_up, *done]))
    assert fault is None, fault
    assert coordinator.done_units == sum(map(len, done))
    assert coordinator._waiting.units == sum(map(len, waiting))
    idle = sorted(coordinator._idle)
    assert idle == sorted(number for number, worker in workers.items() if worker.state == "idle"), idle
    for number, worker in workers.items():
        assert number == worker.id
        assert worker.state != "gone", worker.tell_story()
        if worker.state == "promised":
            assert worker.partner is not None, worker.tell_story()
            victim = workers[worker.partner]
            assert victim.partner == number, victim.tell_story()
            assert victim.state in ("trimming", "finished"), victim.tell_story()
        elif worker.state not in ("trimming", "finished"):
            assert worker.partner is None, worker.tell_story()
    for number in idle:
        # Units that failed at a worker wait for another, heavy ones for memory; all else is handed out at once.
        could_have = [units for units in coordinator._waiting.slices() if coordinator._may_have(workers[number], units)]
        assert not could_have, f"worker {number} is idle while {could_have} wait"
    open_spans = [worker for worker in workers.values() if worker.is_open]
    assert len(open_spans) <= 1, "several spans grow with the source"
    for worker in open_spans:
        assert worker.state == "running", worker.tell_story()
        assert worker.stop == coordinator.units, f"{worker.tell_story()}, of {coordinator.units} units"
        assert not coordinator.is_complete, f"nothing more will come: {worker.tell_story()}"
        assert not coordinator.is_stopping, f"nothing more is counted: {worker.tell_story()}"
    joining = sorted(number for number, worker in workers.items() if worker.state == "joining")
    assert joining == sorted(coordinator._joins.by_worker), joining
    _check_budget(coordinator)


def _waits_for_more(worker: Worker) -> bool:
    """At the end of an open span; or it did, and was asked to give back what there is."""
    return worker.done_to == worker.stop and (worker.is_open or (worker.state == "trimming" and worker.was_open))


def _check_budget(coordinator: Coordinator) -> None:
    """Never more is allowed than there is, and what nobody needs is free."""
    budget = coordinator._budget
    if budget.total_bytes is None:
        return
    owners = [worker for worker in coordinator._workers.values() if worker.state in HOLDING]
    allowed = [worker.allowed_bytes for worker in owners]
    assert None not in allowed, "a worker owns a span without an allowance"
    assert budget.free_bytes == budget.total_bytes - sum(filter(None, allowed))
    assert budget.free_bytes >= 0
    idle = (worker for worker in coordinator._workers.values() if worker.state not in HOLDING)
    assert all(worker.allowed_bytes is None for worker in idle)
