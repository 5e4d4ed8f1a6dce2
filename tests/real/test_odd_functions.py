"""Functions and surroundings that nobody expects, each of which once went wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
from aliquot.running.results import ListSink, Results
from aliquot.workers.packing import pack
from aliquot.workers.stepping import BatchStepper, RangeItems, UnitError
from tests.real.processes import run_script
from tests.running.functions import double

TWO = aliquot.sites.Local(cores=2)


def fork_and_leave(number: int) -> int:
    """Fork a child that exits, raises or returns, as numbers go; the parent gives the value."""
    child = os.fork()
    if child == 0:
        if number % 3 == 0:
            sys.exit(0)
        if number % 3 == 1:
            raise ValueError("in the child")
        return -1
    os.waitpid(child, 0)
    return number * 10


class Obliging:
    """Has whatever attribute is asked for, as mocks and proxies do."""

    def __call__(self, number: int) -> int:
        return number + 1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Table:
    """Slices give rows, and iterating gives the names of columns."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, where: slice) -> list[tuple[int, int]]:
        return [(1, 2), (3, 4), (5, 6)][where]

    def __iter__(self) -> Any:
        return iter(["a", "b"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_may_fork() -> None:
    """The child ends, and the worker alone reports."""
    assert aliquot.map(fork_and_leave, range(9), on=TWO) == [number * 10 for number in range(9)]


def test_a_function_may_have_every_attribute() -> None:
    """It is not taken for something that wraps another, without end."""
    assert aliquot.map(Obliging(), [1, 2], on=TWO) == [2, 3]


def test_a_table_gives_its_rows_in_batches_and_what_it_iterates_one_by_one() -> None:
    """`map` does what a loop over it does."""
    assert aliquot.map(str, Table(), on=TWO) == ["a", "b"]
    assert aliquot.map_batches(list, Table(), on=TWO) == [(1, 2), (3, 4), (5, 6)]


def test_a_stream_can_be_shared_by_threads() -> None:
    """Each value goes to one of them."""
    stream = aliquot.imap(double, range(20_000), on=TWO, progress=False)
    taken: list[list[int]] = [[], []]
    threads = [threading.Thread(target=mine.extend, args=(stream,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken[0] + taken[1]) == [2 * number for number in range(20_000)]


def test_each_worker_has_its_own_arrays() -> None:
    """What one writes to an array that came with the function, no other sees."""
    packed = pack(np.zeros(1 << 18))
    first, second = packed.copy(), packed.copy()
    packed.close()
    mine, yours = first.load(), second.load()
    first.close()
    second.close()
    mine[:] = 1
    assert mine.sum() == 1 << 18
    assert yours.sum() == 0


def test_results_that_wait_hold_few_descriptors() -> None:
    """However many large ones there are; their values are whole."""
    results = Results(ListSink())
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        results.arrived(number, number, number + 1, pack([np.full(30_000, number)]))
    assert len(os.listdir("/proc/self/fd")) - before <= 64
    start, _, kept = results._kept[99]
    assert start == 99
    assert results._load(kept)[0].sum() == 99 * 30_000
    results.close()


def test_a_join_that_fails_spoils_what_was_joined_before() -> None:
    """It may have changed it in part, so all of it is done again."""

    def join(first: list[int], second: list[int]) -> list[int]:
        first += second
        raise ValueError("too late")

    stepper = BatchStepper(list, RangeItems(range(10)), join)
    assert stepper.run(0, 2) == 2
    with pytest.raises(UnitError) as caught:
        stepper.run(2, 4)
    assert caught.value.spoils_earlier_steps


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_standard_streams_may_be_closed(tmp_path: Path, closed: str) -> None:
    """As they are for daemons."""
    (tmp_path / "script.py").write_text(
        "import aliquot, pathlib\n"
        "pathlib.Path('out.txt').write_text(repr(aliquot.map(abs, range(-3, 3), progress=False)))\n"
    )
    subprocess.run(f"exec {sys.executable} script.py {closed}", shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "out.txt").read_text() == "[3, 2, 1, 0, 1, 2]"


def test_the_working_directory_may_be_gone(tmp_path: Path) -> None:
    """Workers begin wherever they are."""
    printed = run_script(
        tmp_path,
        "import os, tempfile\n"
        "gone = tempfile.mkdtemp()\n"
        "os.chdir(gone)\n"
        "os.rmdir(gone)\n"
        "print(aliquot.map(abs, [-1, 2]))\n",
    )
    assert printed == "[1, 2]\n"


def test_a_frozen_exception_is_an_error_like_any_other(tmp_path: Path) -> None:
    """One that takes no note."""
    printed = run_script(
        tmp_path,
        "import dataclasses\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Cold(Exception):\n    code: int\n"
        "class Value:\n"
        "    def __reduce__(self): raise Cold(3)\n"
        "def fail(number): return Value()\n"
        "try: aliquot.map(fail, [7])\n"
        "except Exception as error: print(repr(error), error)\n",
    )
    assert "Cold" in printed
    assert "unit 0" in printed
