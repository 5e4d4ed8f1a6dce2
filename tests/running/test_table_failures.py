"""What is told of failures in runs over tables: which rows of which file, and how many must be allowed to fail."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import awkward
import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot

import aliquot
from aliquot.cli.wording import in_options
from aliquot.running.spoiled import why_not_enough

TWO = aliquot.sites.Local(cores=2)
BASKETS = 5
PER_BASKET = 1000
PER_FILE = BASKETS * PER_BASKET


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three trees of five baskets each; ``n`` numbers all entries through."""
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "nano"
    made.mkdir()
    for number, name in enumerate("abc"):
        with uproot.recreate(made / f"{name}.root", compression=uproot.ZLIB(1)) as file:
            tree = file.mktree("Events", {"n": numpy.dtype("i8")})
            for basket in range(BASKETS):
                first = number * PER_FILE + basket * PER_BASKET
                tree.extend({"n": numpy.arange(first, first + PER_BASKET)})
    return made


def refuse_7345(events: awkward.Array) -> int:
    if numpy.any(numpy.asarray(events.n) == 7345):
        raise ValueError("no luck")
    return len(events)


def refuse_row_7345(row: dict[str, Any]) -> int:
    if row["n"] == 7345:
        raise ValueError("no luck")
    return 1


def test_a_function_that_fails_is_told_the_file_and_the_row(folder: Path) -> None:
    """Beside the number among all units."""
    view = aliquot.open(f"{folder}/*.root:Events")
    with pytest.raises(ValueError, match="no luck") as caught:
        aliquot.map_batches(refuse_7345, view, on=TWO, progress=False)
    told = caught.value.__notes__[-1]
    assert told.startswith("aliquot: unit 7345 (")
    assert told.endswith(f") in {folder}/b.root, row 2345: ValueError: no luck")
    with pytest.raises(ValueError, match="no luck") as caught:
        aliquot.map(refuse_row_7345, aliquot.open(f"{folder}/*.root:Events", as_="records"), on=TWO, progress=False)
    told = f"aliquot: unit 7345 ({{'n': 7345}}) in {folder}/b.root, row 2345: ValueError: no luck"
    assert caught.value.__notes__[-1] == told


def test_the_row_is_that_of_the_file_in_a_part_and_in_datasets(folder: Path) -> None:
    """Whatever the unit is numbered there."""
    view = aliquot.open(f"{folder}/*.root:Events")
    job = aliquot.FunctionJob(refuse_7345, view[7000:8000])
    (failure,) = aliquot.run(job, max_failures=1, on=TWO, progress=False).failures
    assert (failure.start, failure.rows) == (345, (aliquot.RowRange(f"{folder}/b.root", 2345, 2346),))
    datasets = {"first": view[:100], "second": view[7100:8000]}
    with pytest.warns(aliquot.UnitsSetAsideWarning, match=rf"unit 345 .* in {folder}/b.root, row 2345"):
        aliquot.map_batches(refuse_7345, datasets, max_failures=1, on=TWO, progress=False)


def test_the_row_is_recorded_with_the_failure(folder: Path, tmp_path: Path) -> None:
    """The same call again has it from there."""
    view = aliquot.open(f"{folder}/*.root:Events")
    job = aliquot.FunctionJob(refuse_7345, view)
    told: Any = {"max_failures": 1, "run_dir": tmp_path / "run", "on": TWO, "progress": False}
    first, again = (aliquot.run(job, **told) for _ in range(2))
    assert again.failures[0].rows == first.failures[0].rows == (aliquot.RowRange(f"{folder}/b.root", 2345, 2346),)


def test_a_group_of_rows_is_not_called_a_row(tmp_path: Path) -> None:
    """With a key, a unit is any number of rows."""
    for name in ("a", "b"):
        with sqlite3.connect(tmp_path / f"{name}.sqlite") as database:
            database.execute("CREATE TABLE muons (event, pt)")
            database.execute("CREATE INDEX by_event ON muons(event)")
            rows = [(f"{name}{event:03}", pt) for event in range(100) for pt in (1, 2)]
            database.executemany("INSERT INTO muons VALUES (?, ?)", rows)
        database.close()
    view = aliquot.open([tmp_path / "a.sqlite", tmp_path / "b.sqlite"], key="event")
    with pytest.raises(ZeroDivisionError) as caught:
        aliquot.map(lambda unit: 1 // (unit["event"] != "b017"), view, on=TWO, progress=False)
    assert f" in {tmp_path}/b.sqlite, group 17: ZeroDivisionError" in caught.value.__notes__[-1]


def test_what_cannot_be_read_is_told_as_rows_of_its_file(tmp_path: Path) -> None:
    """``unit`` is the first of them, within the file; that is not its number among all units."""
    for name in ("a", "b"):
        pq.write_table(pa.table({"n": list(range(1000))}), tmp_path / f"{name}.parquet", row_group_size=100)
    path = tmp_path / "b.parquet"
    chunk = pq.ParquetFile(path).metadata.row_group(7).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    with pytest.raises(aliquot.DataError, match=rf"^{path}, rows 700 to 799, byte {begin}: ") as caught:
        aliquot.open(f"{tmp_path}/*.parquet").batch()
    assert (caught.value.path, caught.value.unit, caught.value.unit_name) == (str(path), 700, "rows 700 to 799")
    assert caught.value.spoiled_units == (1700, 1800)


def damage_a_basket(path: Path, number: int = 2) -> int:
    """Its first byte."""
    with uproot.open(f"{path}:Events") as tree:
        first, size = (int(tree["n"].member(name)[number]) for name in ("fBasketSeek", "fBasketBytes"))
    content = bytearray(path.read_bytes())
    content[first + size // 2 : first + size] = b"\xa5" * (size - size // 2)
    path.write_bytes(content)
    return first


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("allowed", [0, 1, 300, 1000])
def test_a_damaged_basket_is_one_failure(folder: Path, size: int | None, allowed: int) -> None:
    """However its entries were divided, and whatever of them was still looked into."""
    byte = damage_a_basket(folder / "b.root")
    job = aliquot.FunctionJob(len, f"{folder}/*.root:Events")
    outcome = aliquot.run(job, max_failures=allowed, size=size, on=TWO, progress=False)
    assert outcome.is_complete == (allowed == 1000)
    for failure in outcome.failures:
        assert failure.spoiled == (7000, 8000)
        assert f"b.root, rows 2000 to 2999, byte {byte}: has a basket" in failure.error
        assert failure.places == ((f"{folder}/b.root", byte, failure.places[0][2]),)
        (rows,) = failure.rows
        assert (rows.start + 5000, rows.stop + 5000) == (failure.start, failure.stop)
    if outcome.is_complete:
        assert outcome.value == 3 * PER_FILE - PER_BASKET
        ((first, last),) = [(failure.start, failure.stop) for failure in outcome.failures]
        assert (first, last) == (7000, 8000)


def test_a_damaged_basket_is_one_failure_within_a_worker(folder: Path) -> None:
    """Where a run is one step after the other."""
    damage_a_basket(folder / "b.root")

    def inner(_: int) -> list[tuple[int, int]]:
        outcome = aliquot.run(aliquot.FunctionJob(len, f"{folder}/*.root:Events"), max_failures=1000)
        assert outcome.value == 3 * PER_FILE - PER_BASKET == outcome.report.units
        return [(failure.start, failure.stop) for failure in outcome.failures]

    assert aliquot.map(inner, [0], on=TWO, progress=False) == [[(7000, 8000)]]


def test_two_units_that_fail_alike_are_two_failures() -> None:
    """Only what cannot be read is told together: each of these has a traceback and a unit of its own."""
    job = aliquot.FunctionJob(lambda numbers: [1 // (number not in (5, 6)) for number in numbers], range(20))
    outcome = aliquot.run(job, max_failures=2, on=TWO, progress=False)
    assert [failure.start for failure in outcome.failures] == [5, 6]


@pytest.mark.parametrize(
    ("allowed", "told"),
    [(0, "0"), (1, "1"), (999, "999"), (0.01, "0.01 of 15,000 units"), (0.06, "0.06 of 15,000 units")],
)
def test_how_many_must_be_allowed_is_told(folder: Path, allowed: float, told: str) -> None:
    """As soon as a part of a basket has failed, it is known how many will; and so many are enough."""
    damage_a_basket(folder / "b.root")
    view = aliquot.open(f"{folder}/*.root:Events")
    with pytest.raises(aliquot.DataError, match="has a basket") as caught:
        aliquot.map_batches(len, view, max_failures=allowed, on=TWO, progress=False)
    why = f"1,000 units cannot be read so far, and max_failures is {told}; allow at least 1000, or a part such as 0.07"
    assert f"aliquot: {why}" in caught.value.__notes__
    for enough in (1000, 0.07):
        with pytest.warns(aliquot.UnitsSetAsideWarning, match="1,000 units failed"):
            assert aliquot.map_batches(len, view, max_failures=enough, on=TWO, progress=False) == 14_000


def test_how_many_are_lost_is_counted_within_a_part(folder: Path) -> None:
    """Those of the basket that nobody wants do not count."""
    damage_a_basket(folder / "b.root")
    view = aliquot.open(f"{folder}/*.root:Events")[7400:9000]
    with pytest.raises(aliquot.DataError) as caught:
        aliquot.map_batches(len, view, max_failures=1, on=TWO, progress=False)
    why = "600 units cannot be read so far, and max_failures is 1; allow at least 600"
    assert any(why in note for note in notes(caught))


def notes(caught: pytest.ExceptionInfo[BaseException]) -> list[str]:
    return caught.value.__notes__


def test_units_that_fail_one_by_one_are_no_reason_to_ask_for_more() -> None:
    """How many of the others would, nobody knows."""
    with pytest.raises(ZeroDivisionError) as caught:
        aliquot.map(lambda number: 1 // (number % 2), range(100), max_failures=3, on=TWO, progress=False)
    assert not any("allow at least" in note for note in notes(caught))


@pytest.mark.parametrize(
    ("spoiled", "max_failures", "told"),
    [
        (
            [(0, 10), (5, 20)],
            3,
            "20 units cannot be read so far, and max_failures is 3; allow at least 20, or a part such as 0.2",
        ),
        ([(0, 97)], 0.5, "97 units cannot be read so far, and max_failures is 0.5 of 100 units; allow at least 97"),
        ([(0, 10), (50, 51)], 3, "11 units cannot be read so far, and max_failures is 3; allow at least 11"),
        ([(0, 97)], 97, ""),
        ([(0, 1)], 0, ""),
    ],
)
def test_lost_units_are_counted_once(spoiled: list[tuple[int, int]], max_failures: float, told: str) -> None:
    """Baskets of different columns overlap."""
    failures = [aliquot.Failure(start, stop, "damaged", spoiled=(start, stop)) for start, stop in spoiled]
    why = why_not_enough(failures, max_failures, 100)
    assert why.startswith(told) if told else not why
    assert ("part" in why) == bool(told and (50, 51) not in spoiled)  # of the files, where one is lost
    assert str(aliquot.UnitsFailedError(tuple(failures), max_failures, 100)).endswith(why)


def test_the_command_line_tells_it_in_its_own_words() -> None:
    """Per cent, which its option takes."""
    why = why_not_enough([aliquot.Failure(0, 1000, "damaged", spoiled=(0, 1000))], 0.01, 15_000)
    told = "--max-failures is 1% of 15,000 units; allow at least 1000, or a part such as 7%"
    assert in_options(why) == f"1,000 units cannot be read so far, and {told}"
    assert in_options(f"{why}\nand more") == f"1,000 units cannot be read so far, and {told}\nand more"


@pytest.mark.parametrize(("lost", "units"), [(63, 90), (7, 10), (1000, 15_000), (999, 1000), (3, 1_000_000)])
def test_the_part_that_is_told_is_enough(lost: int, units: int) -> None:
    """As a run reckons with it, which is not as on paper."""
    why = why_not_enough([aliquot.Failure(0, lost, "damaged", spoiled=(0, lost))], 0, units)
    assert float(why.rpartition(" ")[2]) * units >= lost


@pytest.mark.parametrize("seek", [-5, 1 << 40])
def test_a_place_that_cannot_be_is_not_told(folder: Path, seek: int) -> None:
    """Where a basket is said to be is damaged: the rows are told, and the file, but no such byte."""
    path = folder / "b.root"
    with uproot.open(f"{path}:Events") as tree:
        seeks = tree["n"].member("fBasketSeek")[:BASKETS].astype(">i8").tobytes()
    wrong = seeks[:16] + seek.to_bytes(8, "big", signed=True) + seeks[24:]
    content = path.read_bytes()
    assert content.count(seeks) == 1
    path.write_bytes(content.replace(seeks, wrong))
    job = aliquot.FunctionJob(len, f"{folder}/*.root:Events")
    outcome = aliquot.run(job, max_failures=1000, on=TWO, progress=False)
    assert outcome.value == 3 * PER_FILE - PER_BASKET
    (failure,) = outcome.failures
    assert isinstance(failure.exception, aliquot.DataError)
    assert failure.exception.byte is None
    assert f"{path}, rows 2000 to 2999: has a basket of column 'n'" in failure.error
    assert failure.places == ((str(path), 0, path.stat().st_size),)
