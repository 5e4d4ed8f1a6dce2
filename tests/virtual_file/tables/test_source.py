"""Any number of tables as one stream of units."""

from __future__ import annotations

import contextlib
import os
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aliquot
from aliquot.virtual_file import VirtualFile
from aliquot.virtual_file.tables.looking import HowRead, Known, TablePlace, look
from aliquot.virtual_file.tables.source import TablesSource

SIZES = (1000, 0, 10, 2500)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some files of rows that are numbered through, in groups of 100."""
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "rows"
    made.mkdir()
    at = 0
    for number, size in enumerate(SIZES):
        write(made / f"{number}.parquet", at, size)
        at += size
    return made


def write(path: Path, first: int, size: int, *, group_rows: int = 100, **columns: Any) -> None:
    numbers = list(range(first, first + size))
    table = pa.table({"n": pa.array(numbers, pa.int64()), "half": pa.array([n / 2 for n in numbers], pa.float64())})
    for name, values in columns.items():
        table = table.append_column(name, values)
    pq.write_table(table, path, row_group_size=group_rows)


def tables_of(view: VirtualFile) -> TablesSource:
    assert isinstance(view.source, TablesSource)
    return view.source


def total(batch: pa.Table) -> int:
    found: int = batch["n"].to_numpy().sum()
    return int(found)


EVERYTHING = sum(range(sum(SIZES)))


def test_files_are_one_stream_of_rows(folder: Path) -> None:
    """A batch may cross files, and files without rows."""
    view = aliquot.open(f"{folder}/*.parquet")
    assert len(view) == sum(SIZES)
    assert view[990:1015].batch()["n"].to_pylist() == list(range(990, 1015))
    assert view[5:5].batch().num_rows == 0
    assert [len(batch) for batch in view.batches(1500)] == [1500, 1500, 510]


def test_a_row_is_taken_by_its_number(folder: Path) -> None:
    """As a dict; of a view, too."""
    view = aliquot.open(f"{folder}/*.parquet", columns=["n"])
    assert view[1009] == {"n": 1009}
    assert [row["n"] for row in view[1005:1013]] == list(range(1005, 1013))


def test_a_function_is_given_batches_and_rows(folder: Path) -> None:
    """Batches for map_batches, dicts for map."""
    assert aliquot.map_batches(total, f"{folder}/*.parquet", progress=False) == EVERYTHING
    rows = aliquot.map(lambda row: row["n"] + row["half"], aliquot.open(f"{folder}/*.parquet"), progress=False)
    assert rows == [n * 1.5 for n in range(sum(SIZES))]


def test_what_was_found_is_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks twice, and at a changed file again."""
    assert len(aliquot.open(f"{folder}/*.parquet")) == sum(SIZES)
    looked: list[str] = []

    def noted(how: HowRead, place: TablePlace) -> Known:
        looked.append(place.path)
        return look(how, place)

    monkeypatch.setattr("aliquot.virtual_file.tables.source.look", noted)
    assert len(aliquot.open(f"{folder}/*.parquet")) == sum(SIZES)
    assert looked == []
    write(folder / "2.parquet", 0, 11)
    assert len(aliquot.open(f"{folder}/*.parquet")) == sum(SIZES) + 1
    assert looked == [str(folder / "2.parquet")]


def test_many_files_are_looked_at_by_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the process that asked."""
    for number in range(4, 12):
        write(folder / f"{number:02}.parquet", 0, number)
    monkeypatch.setattr("aliquot.running.looking._HERE_SECONDS", 0)
    monkeypatch.setattr("aliquot.virtual_file.tables.source.look", lambda how, place: pytest.fail("looked here"))
    assert aliquot.map_batches(len, f"{folder}/*.parquet", progress=False) == sum(SIZES) + sum(range(4, 12))


def test_a_file_that_changes_is_noticed(folder: Path) -> None:
    """When it is read."""
    view = aliquot.open(f"{folder}/*.parquet")
    assert len(view) == sum(SIZES)
    write(folder / "3.parquet", 0, 20)
    with pytest.raises(aliquot.SourceChangedError, match=r"3\.parquet: the file had \d+ bytes and now has \d+"):
        view.batch()


def test_a_file_that_is_removed_ends_the_run(folder: Path) -> None:
    """It is not that all of its rows are bad."""
    view = aliquot.open(f"{folder}/*.parquet")
    assert len(view) == sum(SIZES)
    (folder / "3.parquet").unlink()
    with pytest.raises(aliquot.SourceChangedError, match=r"3\.parquet: the file was removed"):
        aliquot.map_batches(len, view, progress=False, max_failures=1.0)


def bad_missing_column(path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)


def bad_type(path: Path) -> None:
    pq.write_table(pa.table({"n": ["a"], "half": [0.5]}), path)


def bad_truncated(path: Path) -> None:
    write(path, 0, 1000)
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (bad_missing_column, "has no column 'half', which .*0.parquet has"),
        (bad_type, "its column 'n' is of type string, and in .*0.parquet of type int64"),
        (bad_truncated, "1b.parquet: "),
    ],
)
def test_a_file_that_cannot_be_read_is_one_unit_that_fails(folder: Path, spoil: Any, words: str) -> None:
    """Named before anything is run; set aside where that is allowed, and all others are right."""
    spoil(folder / "1b.parquet")
    with pytest.raises(aliquot.DataError, match=words):
        aliquot.map_batches(total, f"{folder}/*.parquet", progress=False)
    job = aliquot.FunctionJob(total, f"{folder}/*.parquet")
    outcome = aliquot.run(job, max_failures=1, progress=False)
    assert outcome.value == EVERYTHING
    assert [(failure.start, failure.stop) for failure in outcome.failures] == [(1000, 1001)]
    assert outcome.failures[0].places[0][0] == str(folder / "1b.parquet")


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    """Each file, in a line."""
    bad_truncated(folder / "5.parquet")
    bad_missing_column(folder / "6.parquet")
    with pytest.raises(aliquot.DataError, match=r"5\.parquet") as raised:
        aliquot.map_batches(total, f"{folder}/*.parquet", progress=False)
    assert any("6.parquet: has no column" in note for note in raised.value.__notes__)


def test_how_many_files_may_be_unreadable_is_told(folder: Path) -> None:
    """Beside how many are; a part is one of the files."""
    for name in ("5.parquet", "6.parquet"):
        bad_truncated(folder / name)
    files = len(list(folder.glob("*.parquet")))
    for told, words in ((1, "max_failures is 1"), (0.01, f"max_failures is 0.01 of {files} files")):
        with pytest.raises(aliquot.DataError, match=r"5\.parquet") as raised:
            aliquot.map_batches(total, f"{folder}/*.parquet", max_failures=told, progress=False)
        assert raised.value.__notes__[-1] == f"aliquot: 2 files cannot be read, and {words}"


def test_a_single_file_that_cannot_be_read_is_refused(folder: Path) -> None:
    """Whatever may fail."""
    bad_truncated(folder / "9.parquet")
    with pytest.raises(aliquot.DataError, match=r"9\.parquet"):
        len(aliquot.open(folder / "9.parquet"))
    with pytest.raises(aliquot.DataError, match=r"9\.parquet"):
        aliquot.map_batches(total, folder / "9.parquet", max_failures=1.0, progress=False)


def test_a_damaged_group_is_set_aside_as_a_whole(folder: Path) -> None:
    """All its rows at once, without trying each of them; the rest is right."""
    path = folder / "3.parquet"
    content = bytearray(path.read_bytes())
    chunk = pq.ParquetFile(path).metadata.row_group(7).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    content[begin : begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(bytes(content))
    outcome = aliquot.run(aliquot.FunctionJob(total, f"{folder}/*.parquet"), max_failures=100, progress=False)
    bad = range(1010 + 700, 1010 + 800)
    assert sorted(unit for failure in outcome.failures for unit in range(failure.start, failure.stop)) == list(bad)
    assert outcome.value == EVERYTHING - sum(bad)
    assert len(outcome.failures) <= 8
    assert "3.parquet, rows 700 to 799" in outcome.failures[0].error
    assert outcome.failures[0].places[0][:2] == (str(path), begin)


def test_steps_end_where_groups_of_rows_do(folder: Path) -> None:
    """If that costs little."""
    source = tables_of(aliquot.open(f"{folder}/*.parquet"))
    source.advance(None)
    assert source.good_cut(0, 950) == 900
    assert source.good_cut(0, 130) == 100
    assert source.good_cut(0, 150) == 150
    assert source.good_cut(850, 1015) == 1010


def test_a_report_says_how_many_steps_end_where_groups_of_rows_do(tmp_path: Path) -> None:
    """Here the first one does, whether it has as many units as were guessed or as many as are tried first."""
    write(tmp_path / "rows.parquet", 0, 26_000, group_rows=10)
    job = aliquot.FunctionJob(total, str(tmp_path / "rows.parquet"))
    outcome = aliquot.run(job, size=955, on=aliquot.sites.Local(cores=1), progress=False)
    assert outcome.value == sum(range(26_000))
    assert outcome.report.moved_cuts >= 1
    assert "cut where a group of rows ends" in str(outcome.report)


def test_tables_are_described_and_travel(folder: Path) -> None:
    """Nobody need look again."""
    view = aliquot.open(f"{folder}/*.parquet", columns="n")[900:1100]
    again = pickle.loads(pickle.dumps(view))
    assert again == view
    assert again.batch()["n"].to_pylist() == list(range(900, 1100))
    first, second = view.split(1, 150)
    assert first.join(second) == [view]


def test_rows_have_no_bytes(folder: Path, tmp_path: Path) -> None:
    """They are refused, with what to do instead."""
    view = aliquot.open(f"{folder}/*.parquet")
    with pytest.raises(aliquot.UsageError, match=r"0\.parquet and .* more: rows .*use `aliquot map`, .*batches\(\)"):
        view.read()
    with pytest.raises(aliquot.UsageError, match=r"batches\(\)"):
        view.instantiate(tmp_path / "slice.parquet")
    assert {place.path for place in view[0:1200].byte_ranges()} == {
        str(folder / name) for name in ("0.parquet", "2.parquet", "3.parquet")
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["N"]}, "has no column 'N'"),
        ({"columns": []}, "name at least one column"),
        ({"as_": "panda"}, "panda"),
        ({"colums": ["n"]}, "no option 'colums': it has columns, as_"),
        ({"compression": "gzip"}, "leave compression out"),
    ],
)
def test_wrong_options_are_refused(folder: Path, options: Any, words: str) -> None:
    """With what there is."""
    with pytest.raises((aliquot.UsageError, aliquot.DataError), match=words):
        len(aliquot.open(f"{folder}/*.parquet", **options))


def test_wrong_files_are_refused(folder: Path) -> None:
    """A file that is not there, one of another format, columns of what has none."""
    (folder / "x.txt").write_text("a\n")
    with pytest.raises(aliquot.DataError, match="no such file"):
        aliquot.open(folder / "none.parquet")
    with pytest.raises(aliquot.UsageError, match=r"is parquet and .*x\.txt is not a table"):
        aliquot.open([folder / "0.parquet", folder / "x.txt"])
    with pytest.raises(aliquot.UsageError, match="are for tables"):
        aliquot.open(folder / "x.txt", columns=["n"])
    with pytest.raises(aliquot.DataError, match="no file matches"):
        aliquot.open(f"{folder}/*.root:Events")


def test_a_table_is_known_by_its_first_bytes(folder: Path) -> None:
    """Whatever it is called; a colon in a name is no table."""
    (folder / "0.parquet").rename(folder / "data:of.today")
    assert len(aliquot.open(folder / "data:of.today")) == 1000


def test_a_recorded_run_is_of_the_columns_that_it_began_with(folder: Path, tmp_path: Path) -> None:
    """With others it is another run."""
    told: Any = {"run_dir": tmp_path / "run", "progress": False}
    path = folder / "0.parquet"
    both = [aliquot.open(path, columns=[name], as_="numpy") for name in ("n", "half")]
    assert aliquot.map_batches(add_all, both[0], **told) == sum(range(1000))
    with pytest.raises(aliquot.AliquotError, match="the columns were n and are half"):
        aliquot.map_batches(add_all, both[1], **told)


def add_all(batch: Any) -> float:
    return float(sum(batch[name].sum() for name in batch.names))


def test_tables_that_are_cut_together_give_rows(folder: Path) -> None:
    """Not columns."""
    pairs = aliquot.together(aliquot.open(folder / "0.parquet"), aliquot.open(folder / "0.parquet", columns=["n"]))
    assert pairs[2:4].batch() == [({"n": n, "half": n / 2}, {"n": n}) for n in (2, 3)]
    assert aliquot.map_batches(len, pairs, progress=False) == 1000


def test_what_goes_wrong_ahead_is_told_by_whoever_gets_there(folder: Path) -> None:
    """Rows that can be had are given."""
    view = aliquot.open(f"{folder}/*.parquet")
    source = tables_of(view)
    assert len(view[0:900].batch()) == 900
    source._open[0].byte_ranges = lambda start, stop: 1 / 0  # type: ignore[assignment,return-value]
    source.read_ahead(900, 1000)


def test_a_file_that_is_rewritten_is_not_taken_for_damaged(folder: Path) -> None:
    """Whatever its bytes look like now."""
    view = aliquot.open(folder / "3.parquet")
    assert len(view[0:10].batch()) == 10
    with (folder / "3.parquet").open("r+b") as file:
        file.write(bytes(40_000))
    with pytest.raises(aliquot.SourceChangedError):
        view[500:600].batch()


def test_an_index_that_is_forgotten_is_made_anew(folder: Path) -> None:
    """From the files as they are now."""
    view = aliquot.open(f"{folder}/*.parquet")
    assert len(view) == sum(SIZES)
    assert view[6] == {"n": 6, "half": 3.0}
    write(folder / "0.parquet", 0, 7)
    view.source.forget_index()
    assert len(VirtualFile(view.source)) == sum(SIZES) - 993
    assert VirtualFile(view.source)[6] == {"n": 6, "half": 3.0}


def test_a_slice_is_not_refused_for_a_file_that_is_not_in_it(folder: Path) -> None:
    """What is wrong elsewhere is not its business."""
    bad_truncated(folder / "9.parquet")
    view = aliquot.open(f"{folder}/*.parquet")
    assert aliquot.map_batches(total, view[:500], progress=False) == sum(range(500))
    with pytest.raises(aliquot.DataError, match=r"9\.parquet"):
        aliquot.map_batches(total, view[500:], progress=False)


def test_names_of_files_and_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders may have dots; columns may be set apart by spaces."""
    monkeypatch.chdir(folder)
    (folder / "0.parquet").rename(folder / "plain")
    assert len(aliquot.open(f"../{folder.name}/plain:", columns="n, half")) == 1000


def test_rows_of_sqlite_that_are_in_its_log_are_seen(folder: Path) -> None:
    """They are committed, though the file itself has not changed."""
    path = folder / "a.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (n INTEGER)")
        database.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(10)])
        assert len(aliquot.open(path)) == 10
        database.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(5)])
        assert len(aliquot.open(path)) == 15


class Squares(aliquot.Table):
    """Numbers that nobody has written down."""

    name = "squares"
    suffixes = (".squares",)
    forms = ("records",)

    def facts(self) -> Any:
        return aliquot.Facts(int(Path(self.path).read_text()), (), {"n": "int"})

    def read(self, start: int, stop: int) -> Any:
        return [{"n": n * n} for n in range(start, stop)]


def test_a_format_of_ones_own_is_registered(tmp_path: Path) -> None:
    """A small class."""
    aliquot.register_table(Squares)
    (tmp_path / "a.squares").write_text("10")
    assert [row["n"] for row in aliquot.open(tmp_path / "a.squares")] == [n * n for n in range(10)]
    with pytest.raises(aliquot.UsageError, match="one of aliquot's own"):
        aliquot.register_table(type("Mine", (Squares,), {"name": "parquet"}))


@pytest.mark.parametrize("name", ["x.parquet", "x.root", "x.db", "x.h5"])
def test_a_pipe_is_no_table(tmp_path: Path, name: str) -> None:
    """To open it would wait for ever."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(aliquot.DataError, match="is a pipe or a device"):
        len(aliquot.open(tmp_path / name))


def test_what_rows_cannot_be_copied_to_is_refused_before_the_run(folder: Path, tmp_path: Path) -> None:
    """They have no bytes."""
    with pytest.raises(aliquot.UsageError, match=r"set_aside=.*no bytes of their own.*failures of the outcome"):
        aliquot.map_batches(total, f"{folder}/*.parquet", set_aside=tmp_path / "bad", progress=False)


@pytest.mark.parametrize("form", ["numpy", "pandas"])
def test_large_numbers_beside_missing_ones_keep_their_digits(tmp_path: Path, form: str) -> None:
    """A float would not have them all."""
    pq.write_table(pa.table({"i": [2**53 + 1, None, 5]}), tmp_path / "n.parquet")
    assert aliquot.open(tmp_path / "n.parquet", as_=form).batch()["i"][0] == 2**53 + 1


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "numpy"])
def test_a_failure_shows_its_row(folder: Path, form: str) -> None:
    """Whatever a batch is."""
    view = aliquot.open(folder / "0.parquet", as_=form)[:20]
    outcome = aliquot.run(aliquot.FunctionJob(fail_at_seven, view), max_failures=1, progress=False)
    assert [failure.shown for failure in outcome.failures] == ["{'n': 7, 'half': 3.5}"]


def fail_at_seven(batch: Any) -> int:
    if 7 in list(batch["n"].to_pylist() if hasattr(batch["n"], "to_pylist") else batch["n"]):
        raise ValueError("seven")
    return len(batch)


def test_a_table_of_a_file_that_has_none_is_refused(tmp_path: Path) -> None:
    """Whoever means a format by it would get other units."""
    (tmp_path / "a.txt").write_text("1\n2\n")
    with pytest.raises(aliquot.UsageError, match=r"a.txt is not a file of tables. .* with format='NAME'"):
        aliquot.open(tmp_path / "a.txt:lines")
