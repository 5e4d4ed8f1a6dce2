"""Workers that are forked before anybody asks for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from aliquot.workers.nursery import Nursery
from tests.real.processes import children_of, wait_until, wait_until_gone
from tests.workers.forked import ForkedWorker

CORES = min(8, len(os.sched_getaffinity(0)))


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery(is_small=False)
    yield nursery
    nursery.close()


def spares_of(nursery: Nursery) -> list[int]:
    """Those that are waiting, once all are there."""
    wait_until(lambda: len(children_of(nursery._process)) == CORES, "the spare workers are there")
    return children_of(nursery._process)


def test_a_spare_becomes_the_worker_that_is_asked_for(nursery: Nursery) -> None:
    spares = spares_of(nursery)
    worker = ForkedWorker(nursery)
    process = worker.process()
    assert process in spares
    assert os.getpgid(process) == process
    worker.close()
    assert nursery.exit_code(worker.token, wait_seconds=20) == 0


def test_more_are_forked_than_were_spared(nursery: Nursery) -> None:
    """And each is one by itself."""
    spares = spares_of(nursery)
    workers = [ForkedWorker(nursery) for _ in range(CORES + 2)]
    processes = {worker.process() for worker in workers}
    assert len(processes) == CORES + 2
    assert processes > set(spares)
    for worker in workers:
        worker.close()


def test_a_spare_that_was_killed_is_not_missed(nursery: Nursery) -> None:
    for spare in spares_of(nursery):
        os.kill(spare, signal.SIGKILL)
        wait_until_gone(spare)
    worker = ForkedWorker(nursery)
    os.kill(worker.process(), signal.SIGTERM)
    assert nursery.exit_code(worker.token, wait_seconds=20) == -signal.SIGTERM
    worker.close()


def test_spares_that_nobody_asks_for_end_by_themselves(nursery: Nursery) -> None:
    """Also while others work, and one can still be had."""
    spares = spares_of(nursery)
    worker = ForkedWorker(nursery)
    process = worker.process()
    for spare in spares:
        if spare != process:
            wait_until_gone(spare)
    later = ForkedWorker(nursery)
    assert later.process() not in spares
    for one in (worker, later):
        one.close()


@pytest.mark.parametrize("delay_seconds", [1.99, 2.0, 2.01])
def test_a_spare_that_is_about_to_end_is_had_or_not(nursery: Nursery, delay_seconds: float) -> None:
    """Never half: a worker comes in any case."""
    spares_of(nursery)
    time.sleep(delay_seconds - 0.05)
    workers = [ForkedWorker(nursery) for _ in range(CORES)]
    assert len({worker.process() for worker in workers}) == CORES
    for worker in workers:
        worker.close()


def test_spares_end_with_their_nursery(nursery: Nursery) -> None:
    """Whatever it ends of."""
    spares = spares_of(nursery)
    nursery.kill_itself()
    for spare in spares:
        wait_until_gone(spare)


def test_a_small_nursery_has_none() -> None:
    """Where memory is short."""
    nursery = Nursery()
    worker = ForkedWorker(nursery)
    process = worker.process()
    assert children_of(nursery._process) == [process]
    worker.close()
    nursery.close()


@pytest.mark.parametrize("refused", ["fork", "socketpair"])
def test_where_there_is_no_room_for_spares_it_is_not_tried_again(refused: str) -> None:
    """A machine that has no processes left has no time for that either; and the nursery goes on."""
    program = (
        "import os, sys, threading, _socket\n"
        "from aliquot.workers import nursery_main\n"
        "tries = []\n"
        "def refuse(*told):\n"
        "    tries.append(1)\n"
        "    raise BlockingIOError(11, 'no more')\n"
        "ours, theirs = _socket.socketpair()\n"
        "reading, writing = os.pipe()\n"
        "nursery = nursery_main._Nursery(theirs, reading, [])\n"
        "setattr(os if sys.argv[1] == 'fork' else _socket, sys.argv[1], refuse)\n"
        "threading.Timer(0.5, lambda: (print(len(tries), flush=True), os._exit(0))).start()\n"
        "nursery.serve(2)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, refused], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.split() == ["1"], ran.stderr


def test_spares_end_with_the_users_process() -> None:
    """Also if it is killed."""
    program = (
        "import time\n"
        "from aliquot.workers.nursery import Nursery\n"
        "nursery = Nursery(is_small=False)\n"
        "print(nursery._process, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        nursery = int(parent.stdout.readline())
        wait_until(lambda: len(children_of(nursery)) == CORES, "the spare workers are there")
        spares = children_of(nursery)
        parent.kill()
    for process in (*spares, nursery):
        wait_until_gone(process)
