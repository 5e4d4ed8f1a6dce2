"""Nothing outlives a run, whatever ends it."""

from __future__ import annotations

import _socket
import functools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.workers import nursery as nursery_module
from aliquot.workers.nursery import Nursery, the_nursery
from tests.real.processes import Script, children_of, is_running, kill, wait_until, wait_until_gone
from tests.running.functions import (
    block_at,
    block_once_at,
    block_or_fail,
    fail_on_any,
    kill_at,
    kill_itself_after,
    process_of,
    scald_as_units,
    start_program,
    start_program_and_exit,
)
from tests.workers.forked import ForkedWorker

TWO = aliquot.sites.Local(cores=2)

# Two workers, each with a program of its own that would run for an hour; "ready" when all are there.
_LONG = """
import pathlib, subprocess
here = pathlib.Path(__file__).parent
def long(number):
    subprocess.Popen(["sleep", "3600"])
    (here / f"began{number}").touch()
    subprocess.run(["sleep", "3600"])
def tell():
    import threading
    while len(list(here.glob("began*"))) < 2: time.sleep(0.01)
    print("ready", flush=True)
import threading
threading.Thread(target=tell, daemon=True).start()
"""
_RUN_LONG = "aliquot.map(long, range(2), target_seconds=0, on=aliquot.sites.Local(cores=2))\n"

_WITH_TESTS = f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[2])!r})\nimport aliquot\n"


def test_no_worker_is_left_after_a_run() -> None:
    """Its processes are gone; the one that forks them waits for the next run."""
    wait_until_gone(*set(aliquot.map(process_of, range(50), target_seconds=0, on=TWO)))


def test_no_worker_is_left_after_an_error() -> None:
    """Also none that was amid a step."""
    nursery = the_nursery()
    with pytest.raises(KeyError):
        aliquot.map(fail_on_any, range(10), on=TWO)
    wait_until(lambda: children_of(nursery._process) == [], "no worker is left")


def test_no_worker_is_left_after_an_error_amid_long_steps(tmp_path: Path) -> None:
    """The others do not finish what nobody wants."""
    nursery = the_nursery()
    function = functools.partial(block_or_fail, str(tmp_path / "never"))
    with pytest.raises(aliquot.AliquotError):
        aliquot.map(function, range(6), target_seconds=0, on=aliquot.sites.Local(cores=3))
    wait_until(lambda: children_of(nursery._process) == [], "no worker is left")


def test_a_parent_that_is_killed_takes_all_with_it(tmp_path: Path) -> None:
    """Kill -9, amid steps: no worker, no nursery, and none of the programs that workers started."""
    with Script(tmp_path, _LONG + _RUN_LONG) as script:
        assert script.line() == "ready"
        wait_until(lambda: len(script.processes()) >= 8, "parent, nursery, two workers and four programs are there")
        script.process.kill()
        script.process.wait()
        script.wait_until_nothing_is_left()


def test_a_parent_that_is_killed_while_a_stream_waits_takes_all_with_it(tmp_path: Path) -> None:
    """Workers that wait for a slow consumer are ended, too."""
    source = (
        "values = aliquot.imap(str, range(10**6), target_seconds=0, on=aliquot.sites.Local(cores=2))\n"
        "print(next(values), flush=True)\n"
        "sys.stdout.close()\n"
        "while True: time.sleep(100)\n"
    )
    with Script(tmp_path, source) as script:
        assert script.line() == "0"
        script.process.kill()
        script.process.wait()
        script.wait_until_nothing_is_left()


def test_ctrl_c_raises_in_the_parent_alone(tmp_path: Path) -> None:
    """KeyboardInterrupt, one traceback that is the parent's own, and nothing left."""
    with Script(tmp_path, _LONG + _RUN_LONG) as script:
        assert script.line() == "ready"
        script.interrupt()
        code, out, err = script.finish()
        assert code == -signal.SIGINT
        assert out == ""
        assert err.count("Traceback (most recent call last)") == 1
        assert err.rstrip().endswith("KeyboardInterrupt")
        script.wait_until_nothing_is_left()


def test_after_ctrl_c_the_program_can_go_on(tmp_path: Path) -> None:
    """The exception can be caught; by then no worker is left, and the next run works."""
    source = _LONG + (
        f"try: {_RUN_LONG}"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
        "print(aliquot.map(str, range(3)))\n"
    )
    with Script(tmp_path, source) as script:
        assert script.line() == "ready"
        script.interrupt()
        assert script.finish() == (0, "interrupted\n['0', '1', '2']\n", "")
        script.wait_until_nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_recorded_call_that_is_interrupted_goes_on_when_it_is_made_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Its own exception says where it is recorded, and which signal it was; what is done is not done again."""
    source = (
        "def slow(n):\n"
        "    os.write(2, b'.')\n"
        "    if n == 3 and not os.path.exists('go'): print('ready', flush=True); time.sleep(60)\n"
        "    return n\n"
        "def call(): return aliquot.map(slow, range(5), target_seconds=0, run_dir='run', progress=False,\n"
        "                               on=aliquot.sites.Local(cores=1))\n"
        "try: call()\n"
        "except aliquot.RunInterruptedError as interrupted:\n"
        "    print(interrupted.signal_number, 'recorded in' in str(interrupted), flush=True)\n"
        "open('go', 'w').close()\n"
        "print(call())\n"
    )
    with Script(tmp_path, source) as script:
        assert script.line() == "ready"
        script.process.send_signal(number)
        code, out, err = script.finish()
        script.wait_until_nothing_is_left()
    assert (code, out) == (0, f"{number.value} True\n[0, 1, 2, 3, 4]\n")
    assert err.count(".") < 9


def test_ctrl_c_ends_a_loop_over_a_stream(tmp_path: Path) -> None:
    """Where the loop waits for a value that takes long."""
    source = _LONG + (
        "for value in aliquot.imap(long, range(2), target_seconds=0, on=aliquot.sites.Local(cores=2)): pass\n"
    )
    with Script(tmp_path, source) as script:
        assert script.line() == "ready"
        script.interrupt()
        code, _, err = script.finish()
        assert code == -signal.SIGINT
        assert err.count("Traceback (most recent call last)") == 1
        script.wait_until_nothing_is_left()


def test_a_nursery_that_is_killed_amid_a_run_is_survived(tmp_path: Path) -> None:
    """Its workers are replaced, as nobody watches them any more, and the run completes."""
    began, go = tmp_path / "began", tmp_path / "go"
    source = (
        f"from tests.running.functions import wait_for\n"
        f"def work(number):\n"
        f"    if number == 0:\n"
        f"        open({str(began)!r}, 'w').close()\n"
        f"        wait_for({str(go)!r})\n"
        f"    return number\n"
        f"print(aliquot.map(work, range(200), target_seconds=0, on=aliquot.sites.Local(cores=2)) == list(range(200)))\n"
        f"print(aliquot.map(str, range(3)))\n"
    )
    with Script(tmp_path, source, prefix=_WITH_TESTS) as script:
        wait_until(began.exists, "the run is under way")
        (nursery,) = children_of(script.process.pid)
        os.kill(nursery, signal.SIGKILL)
        wait_until(lambda: not is_running(nursery), "the nursery is gone")
        go.touch()
        assert script.finish() == (0, "True\n['0', '1', '2']\n", "")
        script.wait_until_nothing_is_left()


def test_workers_that_die_are_replaced_after_the_nursery_died(tmp_path: Path) -> None:
    """By those of a new one."""
    began, go = tmp_path / "began", tmp_path / "go"
    function = functools.partial(kill_itself_after, str(began), str(go), str(tmp_path))
    values = aliquot.imap(function, range(100), target_seconds=0, on=TWO)
    wait_until(began.exists, "the run is under way")
    nursery = the_nursery()._process
    os.kill(nursery, signal.SIGKILL)
    wait_until(lambda: not is_running(nursery), "the nursery is gone")
    go.touch()
    assert list(values) == list(range(100))


def test_limits_hold_after_the_nursery_died(tmp_path: Path) -> None:
    """It was the one who watched: a unit that hangs would do so for ever."""
    function = functools.partial(block_at, 50, str(tmp_path / "never"))
    values = aliquot.imap(function, range(100), target_seconds=0, wall_seconds=1, max_failures=1, on=TWO)
    got: list[Any] = [next(values)]
    kill([the_nursery()._process])
    got += values
    (failure,) = [value for value in got if isinstance(value, aliquot.Failure)]
    assert (failure.start, failure.stop, failure.kind) == (50, 51, "hung")
    assert [value for value in got if value is not failure] == [unit for unit in range(100) if unit != 50]


def test_a_nursery_that_is_killed_again_and_again_ends_the_run(tmp_path: Path) -> None:
    """Nothing would ever be done: somebody is to know."""
    values = aliquot.imap(functools.partial(block_at, 0, str(tmp_path / "never")), range(2), target_seconds=0, on=TWO)
    over = threading.Event()

    def keep_killing() -> None:
        while not over.wait(0.1):
            kill([the_nursery()._process])

    killer = threading.Thread(target=keep_killing)
    killer.start()
    try:
        with pytest.raises(aliquot.SiteError, match=r"was killed 5 times|workers cannot be started"):
            next(values)
    finally:
        over.set()
        killer.join()


def has_files(directory: Path, count: int) -> bool:
    """Whether there are so many files in it."""
    return len(list(directory.iterdir())) == count


@pytest.mark.parametrize("ordered", [True, False])
def test_a_run_goes_on_with_its_workers_killed_from_outside(tmp_path: Path, ordered: bool) -> None:
    """Both at once amid their work, again and again, each time at other units: all values arrive, each once."""
    units = 1_000
    function = functools.partial(block_once_at, str(tmp_path), frozenset({10, 20, 30, 510, 520, 530}))
    values: Any = aliquot.imap(function, range(units), ordered=ordered, target_seconds=0, on=TWO)
    with ThreadPoolExecutor(1) as consumer:  # a run whose values nobody takes waits
        got = consumer.submit(list, values)
        for blocked in (2, 4, 6):
            wait_until(functools.partial(has_files, tmp_path, blocked), "both workers wait")
            kill(children_of(the_nursery()._process))
        assert sorted(got.result()) == list(range(units))


def test_a_function_that_ends_every_worker_is_told_with_its_signal() -> None:
    """And with what is often the reason."""
    with pytest.raises(aliquot.UnitsFailedError, match=r"unit 3: .*killed by SIGKILL \(often: the machine ran out of"):
        aliquot.map(functools.partial(kill_at, 3), range(5), target_seconds=0, on=TWO)


def test_programs_that_a_worker_started_end_with_it(tmp_path: Path) -> None:
    """A worker that dies leaves none of them behind."""
    pids = tmp_path / "pids"
    with pytest.raises(aliquot.UnitsFailedError):
        aliquot.map(functools.partial(start_program_and_exit, str(pids)), range(1), on=TWO)
    wait_until_gone(*map(int, pids.read_text().split()))


def test_programs_that_a_worker_left_running_end_with_the_run(tmp_path: Path) -> None:
    """Also when all went well."""
    wait_until_gone(*aliquot.map(start_program, range(3), on=TWO))


def test_workers_that_all_end_before_they_begin_are_an_error(tmp_path: Path) -> None:
    """A function whose module crashes when it is imported ends the run, with the exit code, and not never."""
    source = "from tests.running.functions import EndsItsWorker\naliquot.map(EndsItsWorker(), range(5))\n"
    with Script(tmp_path, source, prefix=_WITH_TESTS) as script:
        code, _, err = script.finish()
        assert code == 1
        assert "exit code 3" in err


def test_a_worker_that_dies_while_it_sends_its_values_is_an_error(tmp_path: Path) -> None:
    """As when memory runs out while a large value is pickled: tried again, but not for ever."""
    source = (
        "class Deadly:\n"
        "    def __reduce__(self): os._exit(3)\n"
        "def make(number): return Deadly()\n"
        "aliquot.map(make, range(1))\n"
    )
    with Script(tmp_path, source) as script:
        code, _, err = script.finish()
        assert code == 1
        assert "unit 0" in err
        assert "exit code 3" in err


def test_a_nursery_goes_on_however_many_workers_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks how a worker ended that did its work: what the nursery tells must not block it."""

    def narrow_socketpair() -> tuple[_socket.socket, _socket.socket]:
        # It has room for a few exits, where a usual one has room for hundreds.
        ours, theirs = socketpair()
        theirs.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, 1)
        return ours, theirs

    socketpair = nursery_module._socketpair
    monkeypatch.setattr(nursery_module, "_socketpair", narrow_socketpair)
    nursery = Nursery()
    try:
        for _ in range(40):
            worker = ForkedWorker(nursery)
            wait_until(lambda: bool(worker.channel.receive_ready()), "the next worker is ready")  # noqa: B023
            worker.close()
    finally:
        os.kill(nursery._process, signal.SIGKILL)
        nursery.close()


def test_many_runs_leave_no_files_open() -> None:
    """Nor does one that fails."""
    aliquot.map(str, range(4), on=TWO)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(8):
        aliquot.map(str, range(4), on=TWO)
        with pytest.raises(aliquot.AliquotError):
            aliquot.map(scald_as_units, [13], on=TWO)
    assert len(os.listdir("/proc/self/fd")) == before


def test_large_values_do_not_use_up_the_files_that_a_process_may_have_open(tmp_path: Path) -> None:
    """Many arrays can be kept, and many may have to wait for the first one."""
    source = (
        "import resource\n"
        "import numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "def make(number): return np.full(5000, number)\n"
        "arrays = aliquot.map(make, range(200), target_seconds=0, on=aliquot.sites.Local(cores=2))\n"
        "print(len(arrays), all((array == number).all() for number, array in enumerate(arrays)))\n"
    )
    with Script(tmp_path, source) as script:
        assert script.finish() == (0, "200 True\n", "")
