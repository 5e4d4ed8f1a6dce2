import operator
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import aliquot


def largest(batch: Sequence[int]) -> int:
    return max(batch)


def shortest_text(batch: Sequence[int]) -> str:
    return min(map(str, batch), key=len)


def digits(batch: Sequence[int]) -> Counter[str]:
    return Counter("".join(map(str, batch)))


def fail_at_seven(batch: Sequence[int]) -> int:
    if 7 in batch:
        raise ValueError("seven")
    return len(batch)


def test_a_dict_of_functions_gives_a_dict_of_values_from_one_pass() -> None:
    got = aliquot.map_batches({"sum": sum, "units": list, "digits": digits}, range(500), size=20)
    assert list(got) == ["sum", "units", "digits"]
    assert got["sum"] == sum(range(500))
    assert got["units"] == list(range(500))
    assert got["digits"] == digits(range(500))


@pytest.mark.parametrize("functions", [[sum, len], (sum, len)])
def test_a_list_or_a_tuple_gives_a_list(functions: Any) -> None:
    assert aliquot.map_batches(functions, range(100), size=9, ordered=False) == [4950, 100]


def test_a_join_is_for_each_value_by_itself() -> None:
    assert aliquot.map_batches([largest, len], range(100), join=max, size=10, target_seconds=0) == [99, 1]
    got = aliquot.map_batches({"texts": shortest_text, "one": sum}, range(5), join=operator.add, target_seconds=0)
    assert got == {"texts": "01234", "one": 10}


def test_a_unit_at_which_one_function_fails_is_left_out_of_all_values() -> None:
    with pytest.warns(aliquot.UnitsSetAsideWarning, match=r"unit 7 .*ValueError: seven"):
        got = aliquot.map_batches({"count": fail_at_seven, "sum": sum}, range(20), max_failures=1)
    assert got == {"count": 19, "sum": sum(range(20)) - 7}


@pytest.mark.parametrize(
    ("functions", "told"),
    [
        ({}, "there are no functions"),
        ([], "there are no functions"),
        ({"a": 3}, "3, which is to give the result 'a', is not a function"),
        ("sum", "'sum' is not a function"),
    ],
)
def test_what_is_not_a_function_is_refused(functions: Any, told: str) -> None:
    with pytest.raises(aliquot.UsageError, match=told):
        aliquot.map_batches(functions, range(3))


def test_results_that_do_not_go_together_are_named_with_their_place() -> None:
    with pytest.raises(aliquot.UsageError, match=r'result\["kind"\]: (str and int|int and str)'):
        aliquot.map_batches({"kind": text_or_number}, range(4), target_seconds=0)


def text_or_number(batch: Sequence[int]) -> Any:
    return "even" if batch[0] % 2 == 0 else batch[0]


def test_a_recorded_run_is_that_of_these_functions_under_these_names(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    for _ in range(2):
        assert aliquot.map_batches({"a": sum, "b": len}, range(10), run_dir=run_dir) == {"a": 45, "b": 10}
    others: list[Any] = [{"a": sum, "c": len}, {"a": sum, "b": largest}]
    for other in others:
        with pytest.raises(aliquot.AliquotError, match="begun with something else"):
            aliquot.map_batches(other, range(10), run_dir=run_dir)
