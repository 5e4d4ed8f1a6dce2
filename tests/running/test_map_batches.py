from __future__ import annotations

import operator
import resource
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
from tests.running.functions import added, concatenate, double, fail_on_any, histogram, kind_of, refuse_to_join, total

TWO = aliquot.sites.Local(cores=2)


def test_values_are_added_by_default() -> None:
    """A sum over batches is the sum over all."""
    assert aliquot.map_batches(sum, range(100_001), on=TWO) == 5_000_050_000


@pytest.mark.parametrize("size", [None, 1, 3, 500, 4999, 5000, 10**9])
@pytest.mark.parametrize("source", [range(5000), list(range(5000)), tuple(range(5000))], ids=["range", "list", "tuple"])
def test_the_order_is_exact_whatever_the_division(source: Any, size: int | None) -> None:
    """Lists are put together in the order of their units: nothing is lost, doubled or moved."""
    assert aliquot.map_batches(list, source, size=size, on=TWO) == list(range(5000))


@pytest.mark.parametrize("target_seconds", [0, 0.001])
def test_short_steps_do_not_change_the_value(target_seconds: float) -> None:
    """Many small batches are joined into the same."""
    assert aliquot.map_batches(list, range(400), target_seconds=target_seconds, on=TWO) == list(range(400))


@pytest.mark.parametrize("size", [None, 1, 64])
def test_without_an_order_every_unit_counts_once(size: int | None) -> None:
    """Values are joined as they come."""
    whole = aliquot.map_batches(histogram, range(10_000), join=added, ordered=False, size=size, on=TWO)
    assert whole == dict.fromkeys(range(10), 1000)


def test_without_an_order_nothing_is_lost() -> None:
    """Lists come in any order, with each unit once."""
    values = aliquot.map_batches(list, range(3000), ordered=False, target_seconds=0.001, on=TWO)
    assert Counter(values) == Counter(range(3000))


def test_arrays_are_summed() -> None:
    """A batch of an array is an array."""
    numbers = np.arange(300_000, dtype=np.int64)
    assert aliquot.map_batches(total, numbers, on=TWO) == numbers.sum()


def test_every_batch_of_an_array_is_an_array() -> None:
    """Also one that lies across what was sent at a time."""
    assert set(aliquot.map_batches(kind_of, np.arange(200_000), on=TWO)) == {"ndarray"}


def test_a_failed_attempt_is_not_needed_for_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of an array are whole at the first attempt: nothing is tried twice behind the user's back."""
    from aliquot.coordinator import Coordinator, StepFailed

    failed: list[object] = []
    handle = Coordinator.handle

    def watch(self: Coordinator, event: Any, now_seconds: float) -> Any:
        if isinstance(event, StepFailed):
            failed.append(event)
        return handle(self, event, now_seconds)

    monkeypatch.setattr(Coordinator, "handle", watch)
    aliquot.map_batches(total, np.arange(300_000, dtype=np.int64), on=TWO)
    assert failed == []


def test_arrays_are_joined_by_a_function() -> None:
    """Any join will do, also one of large values."""
    numbers = np.arange(100_000)
    assert (aliquot.map_batches(double, numbers, join=concatenate, on=TWO) == 2 * numbers).all()


def test_a_file_is_divided(tmp_path: Path) -> None:
    """A batch of lines is a list of them."""
    path = tmp_path / "words.txt"
    path.write_text("".join(f"word {number}\n" for number in range(3000)))
    assert aliquot.map_batches(len, path, on=TWO) == 3000
    assert aliquot.map_batches(list, path, on=TWO) == [f"word {number}" for number in range(3000)]


def test_values_that_are_false_are_joined() -> None:
    """An empty list and a None are values too."""
    assert aliquot.map_batches(lambda batch: [], range(100), on=TWO) == []
    assert aliquot.map_batches(lambda batch: None, range(100), join=lambda first, second: None, on=TWO) is None


def test_a_maximum_is_a_join() -> None:
    """Functions of two values that are there already can be used."""
    assert aliquot.map_batches(max, range(1000), join=max, on=TWO) == 999
    assert aliquot.map_batches(set, range(1000), join=operator.or_, ordered=False, on=TWO) == set(range(1000))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_join_that_raises_is_reported(ordered: bool) -> None:
    """In a worker or here, its own exception arrives."""
    with pytest.raises(ArithmeticError, match="these do not go together"):
        aliquot.map_batches(list, range(1000), join=refuse_to_join, ordered=ordered, size=10, on=TWO)


def test_a_function_that_raises_names_the_units() -> None:
    """A batch has a first and a last unit."""
    with pytest.raises(KeyError) as caught:
        aliquot.map_batches(fail_on_any, range(1000), size=10, on=TWO)
    assert "aliquot: unit" in caught.value.__notes__[-1]


def test_no_units_have_no_value() -> None:
    """There is nothing to join, and the message says so."""
    with pytest.raises(aliquot.UsageError, match="there are no units"):
        aliquot.map_batches(sum, [])


_REUSED: Any = {"n": 0, "counts": np.zeros(3)}


def fill_again(batch: range) -> Any:
    _REUSED["n"] = len(batch)
    _REUSED["counts"][:] = len(batch)
    return _REUSED


@pytest.mark.parametrize("ordered", [True, False])
def test_a_function_may_fill_the_same_object_again(ordered: bool) -> None:
    """What it returned before was taken as it was."""
    found = aliquot.map_batches(fill_again, range(1000), size=7, ordered=ordered, progress=False)
    assert found["n"] == 1000
    assert found["counts"].tolist() == [1000] * 3


def doubled(batch: Any) -> Any:
    return batch * 2


def told_about(function: Any, units: int, capsys: pytest.CaptureFixture[str], **told: Any) -> str:
    """What is said in warnings, of this process and of workers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aliquot.map_batches(function, np.arange(units), on=TWO, progress=False, **told)
    return "\n".join([capsys.readouterr().err, *(str(warning.message) for warning in caught)])


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("units", [2, 4, 16])
def test_an_element_wise_function_is_noticed(units: int, ordered: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Its arrays are added, of which it can hardly be meant."""
    told = told_about(doubled, units, capsys, ordered=ordered, target_seconds=0)
    assert "a value for each unit" in told


def test_so_is_one_of_several_functions(capsys: pytest.CaptureFixture[str]) -> None:
    """By its name."""
    told = told_about({"sum": np.sum, "twice": doubled}, 4, capsys, target_seconds=0)
    assert 'result["twice"]: the function seems to return an array with a value for each unit' in told


def test_a_histogram_is_not_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """Though some steps have as many units as it has bins."""
    assert told_about(lambda batch: np.ones(4) * len(batch), 1000, capsys) == ""


def test_an_element_wise_function_needs_a_join_of_its_own() -> None:
    """Then its arrays are put one after the other, or added."""
    joined = aliquot.map_batches(doubled, np.arange(5), join=lambda a, b: np.concatenate([a, b]), progress=False)
    assert joined.tolist() == [0, 2, 4, 6, 8]
    assert aliquot.map_batches(doubled, np.arange(4), join=operator.add, size=1, target_seconds=0).tolist() == [12]


def faults_of_arrays_like_earlier_ones(batch: Any) -> list[int]:
    """Pages that the kernel has to make for some arrays, after as many were let go."""
    _ = [np.ones(1 << 17) for _ in range(30)]
    del _
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    _ = [np.ones(1 << 17) for _ in range(30)]
    return [resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before]


def test_where_arrays_come_and_go_their_pages_stay() -> None:
    """From the first batch on: 30 MB are 7680 pages, which the kernel would have to make and clear again."""
    [faults] = aliquot.map_batches(faults_of_arrays_like_earlier_ones, range(1), on=TWO)
    assert faults < 2000


def test_a_list_of_paths_is_told_from_what_is_in_the_files(tmp_path: Path) -> None:
    """Elsewhere such a list means the files: here, whoever means them is told."""
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path in paths:
        path.write_text("1\n2\n3\n")
    with pytest.warns(UserWarning, match=r"given the paths.*aliquot\.open") as caught:
        assert aliquot.map_batches(len, [str(path) for path in paths]) == 2
    assert caught[0].filename == __file__
    assert aliquot.map_batches(len, aliquot.open(paths)) == 6
    assert aliquot.map_batches(len, iter(paths)) == 2
