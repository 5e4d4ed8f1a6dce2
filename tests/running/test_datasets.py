import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.virtual_file import VirtualFile
from aliquot.virtual_file.datasets import Datasets


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[str]]:
    """Numbers, a line each: two files of one dataset, and one of another."""
    for name, numbers in (("a1", range(40)), ("a2", range(40, 70)), ("b", range(1000, 1011))):
        (tmp_path / f"{name}.txt").write_text("".join(f"{number}\n" for number in numbers))
    return {"a": [str(tmp_path / "a1.txt"), str(tmp_path / "a2.txt")], "b": [str(tmp_path / "b.txt")]}


def add_up(lines: Sequence[str]) -> int:
    return sum(map(int, lines))


def one_kind(lines: Sequence[str]) -> set[bool]:
    (kind,) = {len(line) == 4 for line in lines}  # would fail for lines of both
    return {kind}


def refuse_1003(lines: Sequence[str]) -> int:
    if "1003" in lines:
        raise ValueError("not this one")
    return len(lines)


def refuse_thousands(lines: Sequence[str]) -> int:
    if any(len(line) == 4 for line in lines):
        raise ValueError("too large")
    return len(lines)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_dict_of_datasets_gives_a_value_for_each(files: dict[str, list[str]], ordered: bool) -> None:
    got = aliquot.map_batches(add_up, files, size=7, ordered=ordered)
    assert list(got.items()) == [("a", sum(range(70))), ("b", sum(range(1000, 1011)))]


def test_a_step_that_crosses_datasets_calls_the_function_once_for_each(files: dict[str, list[str]]) -> None:
    assert aliquot.map_batches(one_kind, files, size=81) == {"a": {False}, "b": {True}}


def test_anything_that_can_be_opened_is_a_dataset(tmp_path: Path, files: dict[str, list[str]]) -> None:
    import numpy  # here: workers import this module

    numpy.save(tmp_path / "n.npy", numpy.arange(12))
    datasets = {
        "glob": str(tmp_path / "a*.txt"),
        "view": aliquot.open(files["a"])[10:20],
        "range": range(5),
        "array": str(tmp_path / "n.npy"),
        "items": [1.5, 2.5],
    }
    assert aliquot.map_batches(len, datasets) == {"glob": 70, "view": 10, "range": 5, "array": 12, "items": 2}
    assert aliquot.map_batches(add_up, {"view": datasets["view"]}) == {"view": sum(range(10, 20))}


def test_several_functions_over_several_datasets(files: dict[str, list[str]]) -> None:
    got = aliquot.map_batches({"sum": add_up, "count": len}, files, size=9)
    assert got == {"a": {"sum": sum(range(70)), "count": 70}, "b": {"sum": sum(range(1000, 1011)), "count": 11}}
    assert aliquot.map_batches([add_up, len], files, join=max, size=81)["b"][1] <= 11


def test_a_failure_tells_its_file_and_the_others_go_on(files: dict[str, list[str]], tmp_path: Path) -> None:
    with pytest.warns(aliquot.UnitsSetAsideWarning, match=r"unit 73.*b\.txt") as warned:
        got = aliquot.map_batches(refuse_1003, files, max_failures=1, set_aside=tmp_path / "bad.txt")
    assert got == {"a": 70, "b": 10}
    assert "1003" in str(warned[0].message)
    assert (tmp_path / "bad.txt").read_text() == "1003\n"


def test_a_dataset_that_failed_as_a_whole_is_left_out(files: dict[str, list[str]]) -> None:
    with pytest.warns(aliquot.UnitsSetAsideWarning, match="11 units failed"):
        assert aliquot.map_batches(refuse_thousands, files, max_failures=11) == {"a": 70}


def test_what_is_not_a_dataset_is_refused_by_its_name(tmp_path: Path, files: dict[str, list[str]]) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(aliquot.UsageError, match=r"the dataset 'none' has no units.*leave it out"):
        aliquot.map_batches(len, {**files, "none": str(tmp_path / "empty.txt")})
    with pytest.raises(aliquot.UsageError, match="there are no datasets"):
        aliquot.map_batches(len, {})
    with pytest.raises(aliquot.UsageError, match="cannot be opened") as raised:
        aliquot.map_batches(len, {"odd": 3})
    assert "aliquot: this is about the dataset 'odd'" in raised.value.__notes__
    with pytest.raises(aliquot.UsageError, match="is not the name of a dataset"):
        aliquot.map_batches(len, {(1, 2): range(3)})


def test_a_recorded_run_knows_its_datasets(tmp_path: Path, files: dict[str, list[str]]) -> None:
    run_dir = tmp_path / "run"
    for _ in range(2):
        assert aliquot.map_batches(len, files, run_dir=run_dir) == {"a": 70, "b": 11}
    first, second = files["a"]
    with pytest.raises(aliquot.AliquotError, match="begun with something else"):
        aliquot.map_batches(len, {"a": [first], "b": [second, *files["b"]]}, run_dir=run_dir)


# The source itself


def test_views_of_datasets_are_divided_and_travel(files: dict[str, list[str]]) -> None:
    view = VirtualFile(Datasets({name: aliquot.open(paths)[3:] for name, paths in files.items()}))
    assert len(view) == 67 + 8
    assert [view[0], view[66], view[67], view[-1]] == ["3", "69", "1003", "1010"]
    same = pickle.loads(pickle.dumps(view[60:70]))
    assert isinstance(same, VirtualFile)
    parts: Any = same.batch()
    assert [(name, list(batch)) for name, batch in parts.parts] == [
        ("a", ["63", "64", "65", "66", "67", "68", "69"]),
        ("b", ["1003", "1004", "1005"]),
    ]
    assert list(same) == [line for _, batch in parts.parts for line in batch]
    assert same.read() == b"".join(f"{line}\n".encode() for line in same)
    assert [place.path for place in same.byte_ranges()] == [files["a"][1], files["b"][0]]
    assert Datasets.from_desc(view.source.to_desc(0, None)) == view.source


def test_units_of_files_that_begin_differently_are_not_written_to_one_file(tmp_path: Path) -> None:
    for name, column in (("a", "x"), ("b", "y")):
        (tmp_path / f"{name}.csv").write_text(f"{column}\n1\n2\n")
    datasets = {name: str(tmp_path / f"{name}.csv") for name in "ab"}
    with pytest.raises(aliquot.UsageError, match="datasets 'a' and 'b' begin differently"):
        aliquot.map_batches(len, datasets, set_aside=tmp_path / "bad.csv", max_failures=1)
    assert aliquot.map_batches(len, datasets) == {"a": 2, "b": 2}
