"""The laws of jobs, on every job that aliquot ships and on one that a user wrote."""

from __future__ import annotations

import math
import operator
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import aliquot
from aliquot.job.result import same_result, same_value
from aliquot.testing import check_description, check_history, check_split
from tests.job.counting import Counting

Case = tuple[aliquot.Job, object]


def count_letters(batch: Any) -> Counter[str]:
    return Counter(letter for line in batch for letter in line)


def as_list(batch: Any) -> list[Any]:
    return list(batch)


def total(batch: Any) -> int:
    return int(np.sum(batch))


def row_count(batch: Any) -> int:
    return len(batch)


def histogram(batch: Any) -> NDArray[np.int64]:
    return np.bincount(np.asarray(batch, dtype=np.int64) % 5, minlength=5)


def distinct_words(batch: Any) -> set[str]:
    return {f"word {number % 17}" for number in batch}


def tenths(batch: Any) -> float:
    return float(sum(0.1 * number for number in batch))


def _lines_job(directory: Path, units: int) -> Case:
    lines = [f"line {number} {'x' * (number % 7)}" for number in range(units)]
    path = directory / "text.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return aliquot.FunctionJob(count_letters, aliquot.open(path)), count_letters(lines)


def _csv_job(directory: Path, units: int) -> Case:
    path = directory / "rows.csv"
    path.write_text("a,b\n" + "".join(f'{number},"quoted\n{number}"\n' for number in range(units)))
    rows = [{"a": str(number), "b": f"quoted\n{number}"} for number in range(units)]
    return aliquot.FunctionJob(as_list, aliquot.open(path)), rows


def _files_job(directory: Path, units: int) -> Case:
    for number in range(3):
        path = directory / f"part{number}.txt"
        path.write_text("\n".join(str(unit) for unit in range(units) if unit % 3 == number))
    expected = [str(unit) for number in range(3) for unit in range(units) if unit % 3 == number]
    return aliquot.FunctionJob(as_list, aliquot.open(str(directory / "part*.txt"))), expected


def _array_job(directory: Path, units: int) -> Case:
    numbers = np.arange(units * 2).reshape(units, 2)
    np.save(directory / "numbers.npy", numbers)
    return aliquot.FunctionJob(total, aliquot.open(directory / "numbers.npy")), int(numbers.sum())


def _range_job(directory: Path, units: int) -> Case:
    numbers = range(5, 5 + 3 * units, 3)
    return aliquot.FunctionJob(lambda batch: sum(batch) * 2, aliquot.open(numbers)), sum(numbers) * 2


def _items_job(directory: Path, units: int) -> Case:
    items = [("item", number) for number in range(units)]
    return aliquot.FunctionJob(as_list, aliquot.open(items), join=lambda a, b: a + b), items


def _pairs_job(directory: Path, units: int) -> Case:
    for side in (1, 2):
        path = directory / f"reads_{side}.fastq"
        path.write_text("".join(f"@r{number}/{side}\nACGT\n+\nIIII\n" for number in range(units)))
    pairs = aliquot.together(directory / "reads_1.fastq", directory / "reads_2.fastq")
    return aliquot.FunctionJob(row_count, pairs), units


def _item_pairs_job(directory: Path, units: int) -> Case:
    letters = [chr(ord("a") + number % 26) for number in range(units)]
    pairs = aliquot.together(aliquot.open(letters, "items"), aliquot.open(list(range(units))))
    return aliquot.FunctionJob(as_list, pairs), list(zip(letters, range(units), strict=True))


def _arrays_job(directory: Path, units: int) -> Case:
    return aliquot.FunctionJob(histogram, aliquot.open(range(units))), histogram(range(units))


def _sets_job(directory: Path, units: int) -> Case:
    return aliquot.FunctionJob(distinct_words, range(units), operator.or_), distinct_words(range(units))


def _own_job(directory: Path, units: int) -> Case:
    return Counting(2, 2 + units), sum(range(2, 2 + units))


ALL_CASES = [
    _lines_job,
    _csv_job,
    _files_job,
    _array_job,
    _range_job,
    _items_job,
    _pairs_job,
    _item_pairs_job,
    _arrays_job,
    _sets_job,
    _own_job,
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laws")


@pytest.mark.parametrize("make_case", ALL_CASES)
@given(units=st.integers(1, 40), count=st.integers(1, 10), size=st.integers(1, 50))
def test_splits_cover_exactly(directory: Path, make_case: Any, units: int, count: int, size: int) -> None:
    """At most count jobs of the size, then one with what remains, none empty; also of a part."""
    job, _ = make_case(directory, units)
    check_split(job, count, size)
    check_split(job.split(count, size)[-1], count, size)


@pytest.mark.parametrize("make_case", ALL_CASES)
@given(seed=st.integers(0, 10**9))
def test_any_history_gives_the_same_result(directory: Path, make_case: Any, seed: int) -> None:
    """Split, join, describe and execute in any order: the value is that of the whole job."""
    random = Random(seed)
    job, value = make_case(directory, random.randint(1, 40))
    assert same_value(job.execute(), value)
    check_history(job, value, random)


@pytest.mark.parametrize("make_case", ALL_CASES)
def test_a_job_without_units_can_be_executed_but_not_split(directory: Path, make_case: Any) -> None:
    """No units: no parts, and the function is given an empty batch."""
    job, value = make_case(directory, 0)
    assert job.split(3, 3) == []
    assert same_value(job.execute(), value)


@pytest.mark.parametrize("make_case", ALL_CASES)
def test_a_described_job_is_the_same_job(directory: Path, make_case: Any) -> None:
    """Through JSON and back, also after it was executed."""
    job, value = make_case(directory, 10)
    check_description(job)
    assert same_result(check_description(job.attempt()).result, aliquot.Done(value))


@given(seed=st.integers(0, 10**9))
def test_sums_of_floating_point_numbers_are_compared_as_told(seed: int) -> None:
    """Another order of adding gives another last digit, which math.isclose forgives."""
    check_history(aliquot.FunctionJob(tenths, range(40)), tenths(range(40)), Random(seed), equal=math.isclose)


def test_a_history_that_ends_in_another_value_is_told() -> None:
    """Also where the value is an array."""
    job = aliquot.FunctionJob(histogram, range(40))
    wrong = histogram(range(40)) + 1
    with pytest.raises(AssertionError, match="after"):
        check_history(job, wrong, Random(0))
