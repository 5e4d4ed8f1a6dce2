from __future__ import annotations

import functools
import math
import operator
import os
import sys
import threading
from array import array
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
from tests.running.functions import (
    OldSequence,
    Pair,
    Scale,
    Unsliceable,
    adder,
    double,
    fails_within,
    large,
    length_of,
    numbers_of_threads,
    process_of,
    processes_within,
    read_stdin,
    sums_within,
    surroundings,
    total_of,
)

TWO = aliquot.sites.Local(cores=2)


@pytest.mark.parametrize(
    "items",
    [
        range(1000),
        range(1000, 0, -3),
        list(range(1000)),
        tuple(range(1000)),
        np.arange(1000),
        array("q", range(1000)),
        deque(range(1000)),
        bytes(range(200)),
        Unsliceable(),
        OldSequence(),
        {3, 1, 2},
        {3: "c", 1: "a"},
        [7],
        range(1),
    ],
    ids=lambda items: type(items).__name__,
)
def test_the_values_are_those_of_the_builtin_map(items: Any) -> None:
    """Whatever can be iterated over is divided, and comes back in order."""
    assert aliquot.map(double, items, on=TWO) == list(map(double, items))


def test_a_generator_is_divided() -> None:
    """An iterable that can be read once is read once."""
    generator = (number * number for number in range(500))
    assert aliquot.map(double, generator, on=TWO) == [2 * number * number for number in range(500)]


@pytest.mark.parametrize("items", [[], (), range(0), iter(()), np.arange(0)], ids=lambda items: type(items).__name__)
def test_nothing_becomes_nothing(items: Any) -> None:
    """No units: an empty list, and no workers."""
    assert aliquot.map(double, items, on=TWO) == []


def test_rows_of_an_array_are_units() -> None:
    """An array is divided along its first axis, as iterating over it does."""
    table = np.arange(3000).reshape(1000, 3)
    assert aliquot.map(np.sum, table, on=TWO) == list(map(np.sum, table))


def test_an_array_without_a_length_is_refused() -> None:
    """A single number is not a sequence, though it looks like an array."""
    with pytest.raises(aliquot.UsageError, match="cannot be divided"):
        aliquot.map(double, np.array(5), on=TWO)


def test_something_that_cannot_be_divided_is_refused() -> None:
    """The message says what can be."""
    with pytest.raises(aliquot.UsageError, match="5 cannot be divided: it is not a sequence"):
        aliquot.map(double, 5, on=TWO)  # type: ignore[arg-type]


def test_the_lines_of_a_file_are_units(tmp_path: Path) -> None:
    """A path is opened, and each worker reads its own lines."""
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"{number}\n" for number in range(2000)))
    assert aliquot.map(int, path, on=TWO) == list(range(2000))
    assert aliquot.map(int, str(path), on=TWO) == list(range(2000))


def test_the_reads_of_a_part_of_a_fastq_file_are_units(tmp_path: Path) -> None:
    """A view begins where it begins, not at the start of its file."""
    path = tmp_path / "reads.fastq"
    lengths = [number % 50 + 1 for number in range(900)]
    path.write_text("".join(f"@read\n{'A' * length}\n+\n{'I' * length}\n" for length in lengths))
    view = aliquot.open(path)[100:700]
    assert aliquot.map(length_of, view, on=TWO) == lengths[100:700]


def test_views_of_python_sequences_are_units() -> None:
    """What `aliquot.open` makes of a range or a list is divided like the range or the list."""
    assert aliquot.map(double, aliquot.open(range(100))[10:60], on=TWO) == [2 * number for number in range(10, 60)]
    letters = aliquot.open(["a", "b", "c"], format="items")
    assert aliquot.map(double, letters, on=TWO) == ["aa", "bb", "cc"]


@pytest.mark.parametrize(
    "function",
    [
        double,
        math.sqrt,
        str,
        operator.neg,
        functools.partial(operator.mul, 3),
        functools.partial(functools.partial(operator.add, 1)),
        lambda number: number**2,
        adder(5),
        Scale(3).of,
        Scale(3),
        (3).__add__,
        "{}".format,
        operator.itemgetter(slice(None)).__class__,
    ],
    ids=lambda function: type(function).__name__,
)
def test_any_callable_goes_to_the_workers(function: Any) -> None:
    """Functions by import, lambdas, closures, partials, builtins, bound methods, classes and objects."""
    values = aliquot.map(function, range(50), on=TWO)
    expected = list(map(function, range(50)))
    assert values == expected or list(map(repr, values)) == list(map(repr, expected))


def test_a_function_defined_within_a_function_goes_to_the_workers() -> None:
    """Also one that calls itself."""

    def factorial(number: int) -> int:
        return 1 if number < 2 else number * factorial(number - 1)

    assert aliquot.map(factorial, range(30), on=TWO) == [math.factorial(number) for number in range(30)]


def test_values_are_of_the_parents_own_classes() -> None:
    """An object that comes from a worker passes isinstance here."""
    values = aliquot.map(Pair, range(20), on=TWO)
    assert all(type(value) is Pair for value in values)
    assert [value.number for value in values] == list(range(20))


def test_falsy_values_are_values() -> None:
    """None, 0 and empty things are kept in their places."""
    values: list[Any] = [None, 0, "", [], False]
    assert aliquot.map(values.__getitem__, range(5), on=TWO) == values


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000, 10**9])
def test_any_guess_gives_the_same_values(size: int) -> None:
    """A guess is tried, and never changes what comes out."""
    assert aliquot.map(double, range(1000), size=size, on=TWO) == list(map(double, range(1000)))


@pytest.mark.parametrize("target_seconds", [0, 0.001, 3])
def test_any_length_of_a_step_gives_the_same_values(target_seconds: float) -> None:
    """Also one item at a time."""
    assert aliquot.map(double, range(300), target_seconds=target_seconds, on=TWO) == list(map(double, range(300)))


@pytest.mark.parametrize("cores", [1, 3, 16])
def test_any_number_of_cores_gives_the_same_values(cores: int) -> None:
    """Also more than there are cores, and more than there are units."""
    assert aliquot.map(double, range(10), on=aliquot.sites.Local(cores=cores)) == list(map(double, range(10)))


def test_all_cores_are_the_default() -> None:
    """Nothing need be said."""
    assert aliquot.map(double, range(100)) == list(map(double, range(100)))


def test_work_is_done_in_other_processes() -> None:
    """Two workers share the work, and neither is this process."""
    processes = set(aliquot.map(process_of, range(100), target_seconds=0, on=TWO))
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2


def test_a_map_within_a_worker_runs_there() -> None:
    """All cores are in use already: no workers of workers."""
    for process, inner in aliquot.map(processes_within, range(6), on=TWO):
        assert inner == [process] * 5


def test_all_calls_work_within_a_worker() -> None:
    """Code that uses aliquot can be called from code that does."""
    for number, (total, streamed, job_total, mapped) in enumerate(aliquot.map(sums_within, range(10), on=TWO)):
        assert total == job_total == 4 * number + 6
        assert streamed == mapped == [2 * (number + addend) for addend in range(4)]


def test_an_error_of_a_map_within_a_worker_is_the_same_error() -> None:
    """Its type is kept, and its note names the unit, as in a run of its own."""
    (shown,) = aliquot.map(fails_within, [3], on=TWO)
    assert shown.startswith("math domain error")
    assert "unit 1 (-3)" in shown


def test_a_thread_can_run() -> None:
    """Nothing needs the main thread."""
    with ThreadPoolExecutor(1) as pool:
        values = pool.submit(lambda: aliquot.map(double, range(100), on=TWO)).result()
    assert values == list(map(double, range(100)))


def test_several_runs_at_once_do_not_mix() -> None:
    """Each thread gets the values of its own run."""
    together = threading.Barrier(4)

    def run(offset: int) -> list[int]:
        together.wait()
        return aliquot.map(adder(offset), range(200), on=TWO)

    with ThreadPoolExecutor(4) as pool:
        for offset, values in enumerate(pool.map(run, range(4))):
            assert values == [number + offset for number in range(200)]


def test_workers_see_the_directory_environment_and_path_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was changed since an earlier run is as it is in the parent."""
    aliquot.map(double, range(3), on=TWO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_SETTING", "on")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["program", "--fast"])
    for found in aliquot.map(surroundings, ["SOME_SETTING"] * 3, on=TWO):
        assert found == (str(tmp_path), "on", ["program", "--fast"], sys.path)


def test_a_module_that_appeared_after_the_first_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import what the parent can import now."""
    aliquot.map(double, range(3), on=TWO)
    (tmp_path / "appeared_later.py").write_text("def triple(number):\n    return 3 * number\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import appeared_later  # type: ignore[import-not-found]

    assert aliquot.map(appeared_later.triple, range(10), on=TWO) == list(range(0, 30, 3))


def test_workers_have_no_input_of_their_own() -> None:
    """A function that reads from stdin finds its end at once, and takes nothing from the parent's."""
    assert aliquot.map(read_stdin, range(3), on=TWO) == [""] * 3


def test_libraries_are_told_not_to_use_all_cores_in_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread for each worker, unless the user has said something else."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert set(aliquot.map(numbers_of_threads, range(4), on=TWO)) == {"1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert set(aliquot.map(numbers_of_threads, range(4), on=TWO)) == {"5"}


def test_a_generator_is_only_read_once_it_is_known_that_it_will_be_used() -> None:
    """A wrong argument is told before anything is taken from the items."""
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(3):
            taken.append(number)
            yield number

    with pytest.raises(aliquot.UsageError):
        aliquot.map(double, numbers(), size=0)
    with pytest.raises(aliquot.UsageError):
        aliquot.map("no function", numbers())  # type: ignore[arg-type]
    assert taken == []


def test_large_arrays_arrive_whole_and_can_be_changed() -> None:
    """8 MB each, equal to what the worker had, and writable as if made here."""
    for number, arrived in enumerate(aliquot.map(large, range(6), on=TWO)):
        assert arrived.dtype == np.int64
        assert arrived.shape == (1_000_000,)
        assert (arrived == number).all()
        np.add(arrived, 1, out=arrived)
        assert (arrived == number + 1).all()


def test_large_items_go_to_the_workers() -> None:
    """Each item is larger than what a socket takes at once."""
    rows = [np.full(200_000, float(number)) for number in range(12)]
    assert aliquot.map(total_of, rows, on=TWO) == [200_000.0 * number for number in range(12)]


def test_mixed_kinds_of_values_arrive() -> None:
    """Arrays that are strided, read-only, empty or of objects, and arrays within other things."""
    strided = np.arange(40_000)[::2]
    frozen = np.arange(20_000)
    frozen.flags.writeable = False
    values: list[Any] = [
        strided,
        frozen,
        np.array([]),
        np.array([{"a": 1}, None], dtype=object),
        {"key": [frozen, frozen]},
    ]
    arrived = aliquot.map(values.__getitem__, range(5), on=TWO)
    assert (arrived[0] == strided).all()
    assert (arrived[1] == frozen).all()
    assert arrived[2].size == 0
    assert arrived[3][0] == {"a": 1}
    assert arrived[4]["key"][0] is arrived[4]["key"][1]
