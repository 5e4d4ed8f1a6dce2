from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import aliquot
from aliquot.workers.nursery import Nursery, take_nursery, the_nursery
from tests.real.processes import children_of, is_running, wait_until, wait_until_gone
from tests.workers.forked import ForkedWorker


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def nursery_process(nursery: Nursery) -> int:
    return nursery._process


def test_a_worker_is_a_child_of_the_nursery(nursery: Nursery) -> None:
    """It has nothing of the user's process, whose threads and locks would be copied in whatever state they are."""
    worker = ForkedWorker(nursery)
    process = worker.process()
    assert process in children_of(nursery_process(nursery))
    assert os.getpgid(process) == process
    worker.close()


def test_a_worker_ends_when_its_channel_closes(nursery: Nursery) -> None:
    """With exit code 0, as one that has done its work."""
    worker = ForkedWorker(nursery)
    process = worker.process()
    worker.close()
    assert nursery.exit_code(worker.token, wait_seconds=20) == 0
    wait_until_gone(process)


def test_how_a_worker_was_killed_is_known(nursery: Nursery) -> None:
    """By the number of the signal."""
    worker = ForkedWorker(nursery)
    os.kill(worker.process(), signal.SIGKILL)
    assert nursery.exit_code(worker.token, wait_seconds=20) == -signal.SIGKILL
    worker.close()


def test_all_that_are_asked_for_at_once_come(nursery: Nursery) -> None:
    """Also if there are more of them than are forked between two looks at those that are there."""
    os.kill(nursery_process(nursery), signal.SIGSTOP)
    workers = [ForkedWorker(nursery) for _ in range(20)]
    os.kill(nursery_process(nursery), signal.SIGCONT)
    assert len({worker.process() for worker in workers}) == 20
    for worker in workers:
        worker.close()


def test_workers_that_end_in_any_order_are_told_apart(nursery: Nursery) -> None:
    """Each by its token."""
    workers = [ForkedWorker(nursery) for _ in range(4)]
    for worker, number in zip(workers, (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGABRT), strict=True):
        os.kill(worker.process(), number)
    codes = [nursery.exit_code(worker.token, wait_seconds=20) for worker in reversed(workers)]
    assert codes == [-signal.SIGABRT, -signal.SIGUSR1, -signal.SIGKILL, -signal.SIGTERM]
    for worker in workers:
        worker.close()


def test_the_end_of_a_worker_that_runs_is_not_known(nursery: Nursery) -> None:
    """Asking does not wait longer than told."""
    worker = ForkedWorker(nursery)
    worker.process()
    assert nursery.exit_code(worker.token, wait_seconds=0) is None
    worker.close()


def test_a_nursery_that_is_closed_leaves_its_workers_at_work() -> None:
    """They belong to runs that may go on; the lifeline takes them when this process ends."""
    nursery = Nursery()
    worker = ForkedWorker(nursery)
    process, its_own = worker.process(), nursery_process(nursery)
    nursery.close()
    wait_until_gone(its_own)
    assert is_running(process)
    worker.close()
    wait_until_gone(process)


def test_a_nursery_that_was_killed_is_replaced() -> None:
    """By a new one, when a worker is next wanted."""
    first = the_nursery()
    os.kill(nursery_process(first), signal.SIGKILL)
    wait_until(lambda: not first.is_alive, "the nursery is gone")
    second = the_nursery()
    assert second is not first
    assert second.is_alive
    assert the_nursery() is second


def test_without_its_nursery_nobody_knows_how_a_worker_ended() -> None:
    """That is an answer, also where the nursery died with requests that it had not read."""
    nursery = Nursery()
    first = ForkedWorker(nursery)
    first.process()
    os.kill(nursery_process(nursery), signal.SIGSTOP)
    second = ForkedWorker(nursery)
    os.kill(nursery_process(nursery), signal.SIGKILL)
    wait_until(lambda: not is_running(nursery_process(nursery)), "the nursery is gone")
    try:
        assert nursery.exit_code(second.token, wait_seconds=1) is None
    finally:
        nursery.close()
        first.close()
        second.close()


def test_asking_a_dead_nursery_for_a_worker_is_explained() -> None:
    """The message says what to do."""
    nursery = Nursery()
    os.kill(nursery_process(nursery), signal.SIGKILL)
    wait_until(lambda: not is_running(nursery_process(nursery)), "the nursery is gone")
    with pytest.raises(aliquot.SiteError, match="the process that starts workers has ended"):
        ForkedWorker(nursery)
    nursery.close()


def test_a_python_that_cannot_be_found_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, with the reason; or where an embedded Python does not know its program."""
    monkeypatch.setattr("sys.executable", "/no/such/python")
    with pytest.raises(aliquot.SiteError, match="workers cannot be started: /no/such/python: No such file"):
        Nursery()
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(aliquot.SiteError, match=r"sys\.executable is empty"):
        Nursery()


def test_a_nursery_that_could_not_be_started_leaves_no_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that tries again and again does not run out of them."""
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("sys.executable", "/no/such/python")
    for _ in range(3):
        with pytest.raises(aliquot.SiteError):
            Nursery()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_nursery_is_replaced_by_one_that_has_imported_what_is_wanted() -> None:
    """But not while a run has it."""
    first = take_nursery()
    try:
        assert the_nursery(("json",)) is first
    finally:
        first.release()
    second = the_nursery(("json",))
    assert second is not first
    assert the_nursery(("json", "cloudpickle")) is second
    assert the_nursery(()) is not second
