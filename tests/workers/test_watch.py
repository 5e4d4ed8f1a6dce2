from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from aliquot.measuring.trees import resident_bytes
from aliquot.workers.cell import EXHAUSTED, HUNG, NONE, Cell
from aliquot.workers.watch import TIMES_UP, Watch
from tests.measuring.children import Child, has_proc, wait_until_ended
from tests.real.processes import wait_until

pytestmark = pytest.mark.skipif(not has_proc(), reason="this system shows no processes in /proc")

_MB = 1 << 20
_HOLD = "def hold(megabytes): return bytearray(b'x') * (megabytes << 20)\n"
# Two more processes that have all that the first one has, and have changed none of it.
_SHARE = "held = hold(100)\nchildren = [fork(stay), fork(stay)]\nsay(*children)\nstay()\n"


class Watched:
    """A watch with one worker, or what stands for one."""

    def __init__(self, child: Child, cell: Cell) -> None:
        self.child = child
        self.cell = cell
        self.watch = Watch()
        self.watch.add(child.pid, os.dup(cell.descriptor), None)

    def look_until_killed(self) -> None:
        """Look as often as the watch wants to, until the worker has ended."""

        def is_gone() -> bool:
            self.watch.look()
            return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

        wait_until(is_gone, "the worker is stopped")

    def look_often(self) -> None:
        """More often than it would take to be stopped."""
        for _ in range(5):
            seconds = self.watch.look()
            assert seconds is not None
            time.sleep(min(seconds, 0.02))

    def close(self) -> None:
        self.watch.close()


@pytest.fixture
def cell() -> Iterator[Cell]:
    cell = Cell.create()
    yield cell
    cell.close()


def test_a_worker_within_its_limits_is_left_alone(cell: Cell) -> None:
    """However often it is looked at."""
    with Child(_HOLD + "held = hold(50)\nsay(0)\nhear()\nsay(1)\nstay()\n") as child:
        child.says()
        cell.allow(200 * _MB)
        cell.limit_wall(3600 * 10**9)
        cell.begin_step(time.monotonic_ns())
        watched = Watched(child, cell)
        watched.look_often()
        child.hears()
        assert child.says() == [1]
        assert (cell.verdict, cell.held_bytes, cell.take_programs_peak()) == (NONE, 0, 0)
        watched.close()


def test_a_worker_that_holds_more_than_it_may_is_stopped(cell: Cell) -> None:
    """Its cell tells why, and what it held."""
    with Child(_HOLD + "say(0)\nhear()\nheld = hold(200)\nsay(1)\nstay()\n") as child:
        child.says()
        cell.allow(100 * _MB)
        watched = Watched(child, cell)
        watched.look_often()
        assert cell.verdict == NONE
        child.hears()
        child.says()
        watched.look_until_killed()
        assert child.wait() == -signal.SIGKILL
        assert cell.verdict == EXHAUSTED
        assert 200 * _MB < cell.held_bytes < 250 * _MB
        watched.close()


def test_what_programs_hold_counts_for_their_worker(cell: Cell) -> None:
    """None of the three holds too much, all together do: all of them are stopped, also one in another group."""
    source = """
def program():
    held = hold(60)
    say(os.getpid())
    stay()
def apart():
    os.setsid()
    program()
held = hold(60)
for one in (program, apart):
    fork(one)
stay()
"""
    with Child(_HOLD + source) as child:
        programs = [*child.says(), *child.says()]
        cell.note_program()
        cell.note_program()
        cell.allow(160 * _MB)
        watched = Watched(child, cell)
        watched.look_until_killed()
        for program in programs:
            wait_until_ended(program)
        assert child.wait() == -signal.SIGKILL
        assert cell.verdict == EXHAUSTED
        assert 180 * _MB < cell.held_bytes < 240 * _MB
        watched.close()


def test_programs_that_nobody_told_of_are_found(cell: Cell) -> None:
    """A library in C may start one without Python's noticing."""
    with Child(_HOLD + "fork(lambda: (hold(200), say(0), stay()))\nstay()\n") as child:
        child.says()
        cell.allow(100 * _MB)
        assert not cell.programs_started
        watched = Watched(child, cell)
        watched.look_until_killed()
        assert cell.verdict == EXHAUSTED
        watched.close()


def test_memory_that_forked_processes_share_is_counted_once(cell: Cell) -> None:
    """The sum of what each has resident is far above the allowance, what they hold together is not."""
    with Child(_HOLD + _SHARE) as child:
        children = child.says()
        cell.note_program()
        cell.allow(200 * _MB)
        assert sum(map(resident_bytes, (child.pid, *children))) > 300 * _MB
        watched = Watched(child, cell)
        watched.look_often()
        assert cell.verdict == NONE
        watched.close()


def test_the_most_that_programs_held_is_noted(cell: Cell) -> None:
    """Also what one has let go of since: the kernel still tells."""
    source = "fork(lambda: (hold(100), say(0), stay()))\nstay()\n"
    with Child(_HOLD + source) as child:
        child.says()
        cell.note_program()
        cell.allow(1000 * _MB)
        watched = Watched(child, cell)
        watched.look_often()
        assert 100 * _MB < cell.take_programs_peak() < 125 * _MB
        assert cell.take_programs_peak() == 0
        watched.close()


@pytest.mark.parametrize(("does_weigh", "seconds"), [(False, 0.05), (True, 0.25)])
def test_a_program_that_goes_on_is_looked_at_now_and_then(cell: Cell, does_weigh: bool, seconds: float) -> None:
    """More rarely where its worker is told by the kernel what it held; and it is stopped all the same."""
    source = "fork(lambda: (say(0), hear(), hold(200), stay()))\nstay()\n"
    with Child(_HOLD + source) as child:
        child.says()
        cell.note_program()
        cell.weigh_programs(does_weigh)
        cell.allow(10_000 * _MB)
        watched = Watched(child, cell)
        wait_until(lambda: watched.watch.look() == seconds, "it is an old program")
        assert watched.watch.look() == seconds
        cell.allow(150 * _MB)
        child.hears()
        watched.look_until_killed()
        assert cell.verdict == EXHAUSTED
        watched.close()


def test_a_step_that_takes_too_long_is_first_asked_to_give_up(cell: Cell) -> None:
    """A worker that reacts goes on, and is not asked again for the next step."""
    source = f"""
import signal
signal.signal({int(TIMES_UP)}, lambda *_: say(7))
say(0)
stay()
"""
    with Child(source) as child:
        child.says()
        cell.limit_wall(1)
        cell.begin_step(time.monotonic_ns())
        watched = Watched(child, cell)
        watched.watch.look()
        assert child.says() == [7]
        cell.end_step()
        watched.watch.look()
        cell.begin_step(time.monotonic_ns() + 3600 * 10**9)
        watched.look_often()
        assert cell.verdict == NONE
        watched.close()


@pytest.mark.parametrize(
    "deaf",
    [
        f"signal.signal({int(TIMES_UP)}, lambda *_: None)",
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(TIMES_UP)}])",
    ],
    ids=["ignored", "blocked"],
)
def test_a_worker_that_does_not_give_up_is_killed(cell: Cell, deaf: str) -> None:
    """As one that hangs in C, where no Python function is ever called."""
    source = f"import signal\n{deaf}\nsay(0)\nwhile True: pass\n"
    with Child(source) as child:
        child.says()
        cell.limit_wall(1)
        cell.begin_step(time.monotonic_ns())
        watched = Watched(child, cell)
        watched.look_until_killed()
        assert child.wait() == -signal.SIGKILL
        assert cell.verdict == HUNG
        watched.close()


def test_a_worker_between_two_steps_has_all_the_time(cell: Cell) -> None:
    """Only steps are limited."""
    with Child("say(0)\nstay()\n") as child:
        child.says()
        cell.limit_wall(1)
        watched = Watched(child, cell)
        watched.look_often()
        assert cell.verdict == NONE
        watched.close()


def test_what_is_not_limited_is_not_looked_at_often(cell: Cell) -> None:
    """And without workers, never."""
    with Child("say(0)\nstay()\n") as child:
        child.says()
        watched = Watched(child, cell)
        assert watched.watch.look() == 0.1
        watched.watch.remove(child.pid)
        assert watched.watch.look() is None


def test_the_nearer_a_worker_is_to_its_limit_the_sooner_is_the_next_look(cell: Cell) -> None:
    """So that what grows fast is stopped in time, and what is small costs nothing."""
    with Child(_HOLD + "held = hold(100)\nsay(0)\nstay()\n") as child:
        child.says()
        watched = Watched(child, cell)
        cell.allow(10_000 * _MB)
        far = watched.watch.look()
        cell.allow(resident_bytes(child.pid) + _MB)
        near = watched.watch.look()
        assert far is not None
        assert near is not None
        assert near < far
        watched.close()


def test_a_worker_that_has_ended_is_no_error(cell: Cell) -> None:
    """The nursery is told a moment later."""
    with Child("say(0)\n") as child:
        child.says()
        assert child.wait() == 0
        cell.allow(_MB)
        cell.limit_wall(1)
        cell.begin_step(time.monotonic_ns())
        watched = Watched(child, cell)
        watched.look_often()
        assert cell.verdict in (NONE, HUNG)
        watched.close()


def test_a_closed_watch_holds_no_files(cell: Cell) -> None:
    """Workers that are forked later must not have those of others."""
    with Child("say(0)\nstay()\n") as child:
        child.says()
        before = len(os.listdir("/proc/self/fd"))
        watched = Watched(child, cell)
        watched.watch.look()
        watched.close()
        assert len(os.listdir("/proc/self/fd")) == before
