from __future__ import annotations

import multiprocessing
import operator
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest

import aliquot


def add_up(batch: range) -> int:
    return sum(batch)


def test_a_function_of_a_module_travels_by_its_import_path() -> None:
    """No code in the description, so that it stays small and readable."""
    job = aliquot.FunctionJob(add_up, aliquot.open(range(5)))
    assert job.to_desc()["function"] == {"import": "tests.jobs.test_function:add_up"}
    assert job.to_desc()["join"] == {"import": "aliquot.jobs.merging:merge"}


@pytest.mark.parametrize("function", [lambda batch: sum(batch) + 0, partial(sum, start=0), sum, add_up])
def test_any_callable_travels(function: object) -> None:
    """Lambdas, partials and builtins are rebuilt from a description and give the same value."""
    job = aliquot.FunctionJob(function, aliquot.open(range(10)))  # type: ignore[arg-type]
    assert aliquot.Job.from_desc(job.to_desc()).execute() == 45
    assert aliquot.Job.from_desc(job.to_desc()) == job


def test_a_function_of_a_script_travels_by_value(tmp_path: Path) -> None:
    """A script is __main__ in every process, so its functions are pickled."""
    script = tmp_path / "script.py"
    script.write_text(
        "import aliquot, json\n"
        "def double(batch): return [2 * number for number in batch]\n"
        "print(json.dumps(aliquot.FunctionJob(double, aliquot.open(range(3))).to_desc()))\n"
    )
    described = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    executing = "import aliquot, json, sys; print(aliquot.Job.from_desc(json.load(sys.stdin)).execute())"
    ran = subprocess.run([sys.executable, "-c", executing], input=described, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[0, 2, 4]"


def test_a_function_that_cannot_travel_is_explained(tmp_path: Path) -> None:
    """An open file in a closure is the usual mistake, and the message says what to do."""
    with (tmp_path / "open").open("w") as file:
        job = aliquot.FunctionJob(lambda batch: file.write(str(batch)), aliquot.open(range(3)))
        with pytest.raises(aliquot.JobError, match="open files and connections inside of it"):
            job.to_desc()


def test_a_job_with_a_lambda_goes_through_a_pool_of_processes() -> None:
    """Jobs and bundles are pickled by their descriptions, which carry the function."""
    job = aliquot.FunctionJob(lambda batch: sum(batch) * 3, aliquot.open(range(100)))
    parts = aliquot.Bundle.of(job).split(3, 20)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        whole = reduce(lambda joined, part: joined.join(part)[0], pool.map(aliquot.Bundle.attempt, parts))
    assert whole.values() == [sum(range(100)) * 3]


def test_something_that_is_no_function_is_refused() -> None:
    """Said where the job is made, not where it runs."""
    with pytest.raises(aliquot.UsageError, match="is not a function"):
        aliquot.FunctionJob(3, aliquot.open(range(3)))  # type: ignore[arg-type]


def test_parts_are_joined_in_the_order_of_their_units() -> None:
    """A join that is not commutative gets the earlier value first, whoever calls it."""
    first, second = aliquot.FunctionJob(list, aliquot.open(range(4)), operator.add).split(1, 2)
    (joined,) = second.attempt().join(first.attempt())
    assert joined.result == aliquot.Done([0, 1, 2, 3])


def test_parts_of_different_functions_are_not_joined() -> None:
    """Their values are not those of one job."""
    numbers = aliquot.open(range(4))
    first, _ = aliquot.FunctionJob(sum, numbers).split(1, 2)
    _, second = aliquot.FunctionJob(max, numbers).split(1, 2)
    with pytest.raises(aliquot.UsageError, match="functions differ"):
        first.join(second)
    with pytest.raises(aliquot.UsageError, match="functions differ"):
        first.attempt().join(second.attempt())


def test_parts_of_different_joins_are_not_joined() -> None:
    """Nobody could say which of the two to use."""
    numbers = aliquot.open(range(4))
    first, _ = aliquot.FunctionJob(sum, numbers, operator.add).split(1, 2)
    _, second = aliquot.FunctionJob(sum, numbers, operator.mul).split(1, 2)
    with pytest.raises(aliquot.UsageError, match="functions differ"):
        second.join(first)


def test_parts_of_one_job_that_travelled_are_joined() -> None:
    """A function that was pickled is the same function."""
    parts = aliquot.FunctionJob(lambda batch: sum(batch) + 0, range(4)).split(1, 2)
    first, second = (aliquot.FunctionJob.from_desc(part.to_desc()) for part in parts)
    (whole,) = first.join(second)
    assert whole.execute() == 6


def test_a_job_that_is_done_is_not_split() -> None:
    """Its value belongs to all of its units."""
    with pytest.raises(aliquot.JobStateError, match="its value cannot be cut"):
        aliquot.FunctionJob(sum, range(4)).attempt().split(1, 2)


def test_a_job_that_failed_is_split_into_parts_that_are_not_run() -> None:
    """So that the bad unit is found."""
    parts = aliquot.FunctionJob(lambda batch: 1 // 0, range(4)).attempt().split(1, 2)
    assert [part.result for part in parts] == [aliquot.NOT_RUN, aliquot.NOT_RUN]


def test_a_source_may_be_given_as_it_would_be_opened(tmp_path: Path) -> None:
    """A path of either kind, a range, a list."""
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    sources: list[Any] = [path, str(path), range(2), [5, 6]]
    assert [aliquot.FunctionJob(len, source).execute() for source in sources] == [2, 2, 2, 2]


@pytest.mark.parametrize("source", [5, None, {"a": 1}, sum])
def test_a_source_that_cannot_be_opened_is_refused(source: Any) -> None:
    """Said where the job is made, with what can be opened."""
    with pytest.raises(aliquot.UsageError, match="cannot be opened"):
        aliquot.FunctionJob(len, source)


def test_a_source_that_is_missing_is_refused(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(aliquot.DataError, match=r"missing\.txt: there is no such file"):
        aliquot.FunctionJob(len, tmp_path / "missing.txt")
