from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("uproot")
pytest.importorskip("awkward")

import awkward
import numpy
import uproot

import aliquot
from aliquot.errors import DataError, UsageError
from aliquot.virtual_file.tables.root import branches, ntuple, plain
from aliquot.virtual_file.tables.root import table as root
from aliquot.virtual_file.tables.root.table import RootTable
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable
from tests.virtual_file.tables.making_root import overwrite, write_ntuple, write_tree

Write = Callable[..., Path]
both = pytest.mark.parametrize("write", [write_tree, write_ntuple], ids=["TTree", "RNTuple"])


made: list[RootTable] = []


def table(path: Path, inner: str = "", columns: Sequence[str] | None = None, form: str = "awkward") -> RootTable:
    made.append(RootTable(str(path), inner, columns=columns, form=form))
    return made[-1]


@pytest.fixture(autouse=True)
def _all_are_closed() -> Iterator[None]:
    yield
    while made:
        made.pop().close()


def as_uproot_has_it(path: Path) -> Any:
    with uproot.open({str(path): "Events"}) as tree:
        return tree.arrays()


def unreadable(path: Path, inner: str = "", columns: Sequence[str] | None = None) -> UnreadableTable:
    with pytest.raises(UnreadableTable) as caught:
        table(path, inner, columns).facts()
    return caught.value


def times_open(path: Path) -> int:
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.lexists(link)].count(str(path))


@pytest.fixture(autouse=True, params=["plain", "any"])
def reads_trees_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Plain trees can be read in two ways."""
    if request.param == "any":
        monkeypatch.setattr(root, "find_layout", lambda *told: None)
    return str(request.param)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the compressed blocks begin that are decompressed from now on."""
    places: list[int] = []
    read = plain.read_basket

    def noting(file: int, seek: int, *more: Any) -> plain.Basket:
        places.append(seek)
        return read(file, seek, *more)

    monkeypatch.setattr(plain, "read_basket", noting)
    decompress = uproot.compression.decompress

    @functools.wraps(decompress)
    def counting(chunk: Any, cursor: Any, *more: Any, **named: Any) -> Any:
        places.append(cursor.index)
        return decompress(chunk, cursor, *more, **named)

    monkeypatch.setattr(uproot.compression, "decompress", counting)
    return places


# What it says about itself


def test_a_tree_tells_its_entries_baskets_and_types(tmp_path: Path) -> None:
    """Nothing of this needs a basket."""
    facts = table(write_tree(tmp_path / "a.root", (100, 50, 70)), columns=["Muon_pt", "run"]).facts()
    assert facts.units == 220
    assert facts.ends == (100, 150, 220)
    assert facts.columns == {"Muon_pt": "float[]", "run": "int64_t"}


def test_an_ntuple_tells_its_entries_clusters_and_types(tmp_path: Path) -> None:
    """Lists of records have no name for their type, and are described."""
    facts = table(write_ntuple(tmp_path / "a.root", (100, 50, 70)), columns=["run", "Muon"]).facts()
    assert facts.units == 220
    assert facts.ends == (100, 150, 220)
    assert facts.columns == {"run": "std::int64_t", "Muon": "var * {pt: float32, charge: int32}"}


def test_all_columns_are_read_by_default(tmp_path: Path) -> None:
    """Counters of jagged branches are branches."""
    columns = table(write_tree(tmp_path / "a.root")).facts().columns
    assert list(columns) == ["run", "MET_pt", "Vertex", "nMuon", "Muon_pt", "Muon_charge"]
    assert sorted(table(write_ntuple(tmp_path / "b.root")).facts().columns) == ["MET_pt", "Muon", "Vertex", "run"]


def test_many_ends_are_thinned_and_the_last_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree may have a hundred thousand baskets."""
    monkeypatch.setattr(root, "_MOST_ENDS", 3)
    assert table(write_tree(tmp_path / "a.root", (10,) * 7), columns=["run"]).facts().ends == (10, 40, 70)


def test_only_places_where_all_wanted_branches_end_are_ends(tmp_path: Path) -> None:
    """Branches that were made in different trees, as friends are, do not share them: here one is made to lie."""
    reader = table(write_tree(tmp_path / "a.root", (10, 20, 30)), columns=["run", "MET_pt"])
    reader.facts()
    offsets = [0, 15, 30, 60]
    if reader._layout is not None:
        reader._layout.branches["run"] = reader._layout.branches["run"]._replace(offsets=tuple(offsets))
    else:
        entries: Any = reader._entries
        entries._leaves[0].offsets = offsets
    assert reader.facts().ends == (30, 60)


# Reading


@both
@pytest.mark.parametrize("step", [1, 7, 100, 150, 301])
def test_any_division_gives_the_same_entries(tmp_path: Path, write: Write, step: int) -> None:
    """Within baskets, across them, at their ends."""
    path = write(tmp_path / "a.root", (20, 1, 30) if step == 1 else (100, 1, 200))
    expected = as_uproot_has_it(path)
    reader = table(path)
    units = reader.facts().units
    batches = [reader.read(at, min(at + step, units)) for at in range(0, units, step)]
    assert [len(batch) for batch in batches[:-1]] == [step] * (len(batches) - 1)
    assert awkward.concatenate(batches).to_list() == expected.to_list()
    reader.close()


@both
def test_any_order_gives_the_same_entries(tmp_path: Path, write: Write) -> None:
    """What was kept of earlier reads is not mistaken for something else."""
    path = write(tmp_path / "a.root", (100, 1, 200))
    expected = as_uproot_has_it(path).to_list()
    reader = table(path)
    for start, stop in [
        (50, 150),
        (0, 30),
        (99, 101),
        (100, 101),
        (300, 301),
        (250, 260),
        (255, 301),
        (7, 7),
        (10, 20),
    ]:
        assert reader.read(start, stop).to_list() == expected[start:stop]


def test_batches_are_what_uproot_gives(tmp_path: Path) -> None:
    """The very type, not only the same values."""
    path = write_tree(tmp_path / "a.root")
    whole = table(path).read(0, 300)
    assert str(whole.type) == str(as_uproot_has_it(path).type)
    assert awkward.is_valid(whole)
    assert whole.Muon_pt[7].to_list() == [7.0, 7.125, 7.25]


@both
def test_no_entries_have_all_columns(tmp_path: Path, write: Write) -> None:
    """An empty batch can be put together with others."""
    path = write(tmp_path / "a.root")
    nothing = table(path).read(0, 0)
    assert len(nothing) == 0
    assert sorted(nothing.fields) == sorted(as_uproot_has_it(path).fields)


def test_a_tree_without_entries_is_read(tmp_path: Path) -> None:
    """Nothing was selected, say."""
    reader = table(write_tree(tmp_path / "a.root", ()))
    assert reader.facts().units == 0
    assert reader.facts().ends == ()
    assert len(reader.read(0, 0)) == 0
    assert reader.byte_ranges(0, 0) == []


def test_an_ntuple_without_entries_is_read(tmp_path: Path) -> None:
    """It has a cluster of nothing."""
    reader = table(write_ntuple(tmp_path / "a.root", (0,)))
    assert reader.facts().units == 0
    assert reader.facts().ends == ()
    assert len(reader.read(0, 0)) == 0


@both
def test_nothing_is_decoded_twice_when_read_in_order(tmp_path: Path, write: Write, decoded: list[int]) -> None:
    """However small the batches."""
    reader = table(write(tmp_path / "a.root"), columns=["run", "Vertex"])
    reader.facts()
    decoded.clear()
    for at in range(0, 300, 30):
        reader.read(at, at + 30)
    assert len(decoded) == len(set(decoded)) == 6


@both
def test_a_range_that_ends_with_a_cluster_does_not_decode_the_next(
    tmp_path: Path, write: Write, decoded: list[int]
) -> None:
    """As cuts at the ends are meant to cost nothing."""
    reader = table(write(tmp_path / "a.root"), columns=["MET_pt"])
    reader.facts()
    decoded.clear()
    reader.read(100, 200)
    assert len(decoded) == 1


@both
def test_no_more_is_kept_than_allowed(tmp_path: Path, write: Write, decoded: list[int], monkeypatch: Any) -> None:
    """Then it is decoded again, and right nevertheless."""
    for module in (branches, plain, ntuple):
        monkeypatch.setattr(module, "KEPT_BYTES", 0)
    path = write(tmp_path / "a.root")
    expected = as_uproot_has_it(path).MET_pt.to_list()
    reader = table(path, columns=["MET_pt"])
    reader.facts()
    decoded.clear()
    assert [value for at in range(0, 100, 50) for value in reader.read(at, at + 50).MET_pt.to_list()] == expected[:100]
    assert len(decoded) == 2


@pytest.mark.parametrize("kind", ["ZLIB", "LZMA", "LZ4", "ZSTD"])
def test_every_compression_is_read(tmp_path: Path, kind: str) -> None:
    """They are libraries of their own."""
    path = write_tree(tmp_path / "a.root", compression=getattr(uproot, kind)(1))
    assert table(path, columns=["run"]).read(90, 210).run.to_list() == list(range(90, 210))


@pytest.fixture
def _without_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Baskets as experiments write them to save room: only the counters say where entries begin."""
    monkeypatch.setattr(uproot.models.TBasket.Model_TBasket, "byte_offsets", property(lambda basket: None))
    read = plain.read_basket
    monkeypatch.setattr(plain, "read_basket", lambda *told: read(*told)._replace(begins=None))


@pytest.mark.usefixtures("_without_offsets")
def test_counters_say_where_entries_begin(tmp_path: Path, decoded: list[int]) -> None:
    """Each of their baskets is decoded once, for all branches that they count."""
    path = write_tree(tmp_path / "a.root")
    expected = as_uproot_has_it(path)
    reader = table(path, columns=["Muon_pt", "Muon_charge"])
    reader.facts()
    decoded.clear()
    batches = awkward.concatenate([reader.read(at, at + 50) for at in range(0, 300, 50)])
    assert batches.to_list() == expected[["Muon_pt", "Muon_charge"]].to_list()
    assert len(decoded) == len(set(decoded)) == 9


@pytest.mark.usefixtures("_without_offsets")
def test_a_damaged_counter_spoils_what_it_counts(tmp_path: Path) -> None:
    """And is named as the one that is damaged."""
    path = write_tree(tmp_path / "a.root")
    place = table(path, columns=["nMuon"]).byte_ranges(100, 200)[0]
    overwrite(path, place.stop - 8)
    with pytest.raises(BadRows, match="'nMuon'") as caught:
        table(path, columns=["Muon_pt"]).read(0, 300)
    assert (caught.value.start, caught.value.stop, caught.value.byte) == (100, 200, place.start)
    assert caught.value.is_certain


# Columns and forms


def test_columns_come_in_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    """Not in that of the file."""
    assert table(write_tree(tmp_path / "a.root"), columns=["Muon_pt", "run"]).read(0, 5).fields == ["Muon_pt", "run"]


def test_a_part_of_a_field_is_read_alone(tmp_path: Path, decoded: list[int]) -> None:
    """The charges are left where they are."""
    reader = table(write_ntuple(tmp_path / "a.root"), columns=["Muon.pt"])
    reader.facts()
    decoded.clear()
    assert reader.read(3, 4).to_list() == [{"Muon": [{"pt": 3.0}, {"pt": 3.125}, {"pt": 3.25}]}]
    assert len(decoded) == 2


def test_a_missing_column_is_named_with_one_that_is_there(tmp_path: Path) -> None:
    """In trees and ntuples."""
    fault = unreadable(write_tree(tmp_path / "a.root"), columns=["run", "Muon_pd"])
    assert fault.problem == "has no column 'Muon_pd'"
    assert fault.advice == "Did you mean Muon_pt?"
    assert "'MET'" in unreadable(write_ntuple(tmp_path / "b.root"), columns=["MET"]).problem


@both
def test_numpy_has_an_array_for_each_column(tmp_path: Path, write: Write) -> None:
    """Of several values for an entry, it has several axes."""
    batch = table(write(tmp_path / "a.root"), columns=["run", "Vertex"], form="numpy").read(95, 105)
    assert len(batch) == 10
    assert batch["run"].dtype == numpy.dtype("i8")
    assert batch["run"].tolist() == list(range(95, 105))
    assert batch["Vertex"].shape == (10, 3)
    assert batch["Vertex"][1].tolist() == [96, -96, 192]


@both
def test_pandas_has_a_column_for_each_value(tmp_path: Path, write: Write) -> None:
    """As uproot names them."""
    pytest.importorskip("pandas")
    frame = table(write(tmp_path / "a.root"), columns=["run", "Vertex"], form="pandas").read(95, 105)
    assert list(frame.columns) == ["run", "Vertex[0]", "Vertex[1]", "Vertex[2]"]
    assert frame["run"].tolist() == list(range(95, 105))
    assert frame["Vertex[1]"].tolist() == [-float(number) for number in range(95, 105)]


@both
def test_records_are_dictionaries(tmp_path: Path, write: Write) -> None:
    """With lists for what is jagged."""
    path = write(tmp_path / "a.root")
    records = table(path, form="records").read(99, 103)
    assert records == as_uproot_has_it(path)[99:103].to_list()
    assert isinstance(records[0]["run"], int)
    assert table(path, form="records").read(5, 5) == []


@pytest.mark.parametrize("form", ["numpy", "pandas"])
@both
def test_jagged_columns_are_refused_by_flat_forms(tmp_path: Path, write: Write, form: str) -> None:
    """And the form that has them is named."""
    with pytest.raises(UsageError, match=r"column 'Muon.*' .*as_='awkward'"):
        table(write(tmp_path / "a.root"), form=form).facts()


def test_text_is_read(tmp_path: Path) -> None:
    """As strings, in all forms."""
    with uproot.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("Names", {"name": awkward.Array(["ann", "", "björn"])})
    assert table(tmp_path / "a.root").read(1, 3).name.to_list() == ["", "björn"]
    assert table(tmp_path / "a.root", form="numpy").read(0, 3)["name"].tolist() == ["ann", "", "björn"]


# Which tree


def test_a_tree_is_found_by_its_name_also_in_a_directory(tmp_path: Path) -> None:
    """With slashes."""
    with uproot.recreate(tmp_path / "a.root") as file:
        for name, count in [("Events", 3), ("sub/Runs", 5)]:
            file.mktree(name, {"x": "f8"}).extend({"x": numpy.zeros(count)})
    assert table(tmp_path / "a.root", "Events").facts().units == 3
    assert table(tmp_path / "a.root", "sub/Runs").facts().units == 5
    fault = unreadable(tmp_path / "a.root")
    assert fault.problem == "has several trees: Events, sub/Runs"
    assert f"{tmp_path / 'a.root'}:Events" in str(fault.advice)


def test_what_is_not_a_tree_is_not_taken_for_one(tmp_path: Path) -> None:
    """Nor is the only tree missed for what is beside it."""
    with uproot.recreate(tmp_path / "a.root") as file:
        file["histogram"] = numpy.histogram([1, 2, 3])
        file.mktree("Events", {"x": "f8"}).extend({"x": numpy.zeros(4)})
    assert table(tmp_path / "a.root").facts().units == 4
    fault = unreadable(tmp_path / "a.root", "histogram")
    assert fault.problem == "has 'histogram', but that is a TH1D and not a tree"
    assert fault.advice == "It has Events"


def test_a_missing_tree_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    """Or with none."""
    fault = unreadable(write_tree(tmp_path / "a.root"), "Runs")
    assert (fault.problem, fault.advice) == ("has no tree 'Runs'", "It has Events")
    with uproot.recreate(tmp_path / "b.root") as file:
        file["histogram"] = numpy.histogram([1, 2, 3])
    assert unreadable(tmp_path / "b.root").problem == "has no tree"


def test_a_colon_in_the_path_is_part_of_it(tmp_path: Path) -> None:
    """What follows is no tree: that has been split off before."""
    assert table(write_tree(tmp_path / "a:b.root")).facts().units == 300


# What cannot be read


def test_a_damaged_basket_spoils_its_entries_and_no_others(tmp_path: Path) -> None:
    """It is named by its column and its byte."""
    path = write_tree(tmp_path / "a.root")
    expected = as_uproot_has_it(path)
    where = table(path, columns=["Muon_pt"]).byte_ranges(100, 200)
    assert len(where) == 1
    overwrite(path, (where[0].start + where[0].stop) // 2)
    reader = table(path)
    with pytest.raises(BadRows) as caught:
        reader.read(0, 300)
    assert (caught.value.start, caught.value.stop, caught.value.byte) == (100, 200, where[0].start)
    assert "'Muon_pt'" in caught.value.problem
    assert caught.value.advice
    with pytest.raises(BadRows) as caught:
        reader.read(150, 160)
    assert (caught.value.start, caught.value.stop) == (100, 200)
    assert reader.read(0, 100).to_list() == expected[:100].to_list()
    assert reader.read(200, 300).to_list() == expected[200:].to_list()
    assert table(path, columns=["run"]).read(0, 300).run.to_list() == list(range(300))


def test_a_damaged_cluster_spoils_its_entries_and_no_others(tmp_path: Path) -> None:
    """Although its neighbours are decoded together with it where they can be."""
    path = write_ntuple(tmp_path / "a.root")
    expected = as_uproot_has_it(path)
    where = table(path, columns=["MET_pt"]).byte_ranges(100, 200)
    assert len(where) == 1
    overwrite(path, (where[0].start + where[0].stop) // 2)
    reader = table(path)
    with pytest.raises(BadRows) as caught:
        reader.read(50, 300)
    assert (caught.value.start, caught.value.stop, caught.value.byte) == (100, 200, where[0].start)
    assert "'MET_pt'" in caught.value.problem
    assert reader.read(0, 100).to_list() == expected[:100].to_list()
    assert reader.read(200, 300).to_list() == expected[200:].to_list()
    assert table(path, columns=["run"]).read(0, 300).run.to_list() == list(range(300))


def test_baskets_that_only_cannot_be_joined_are_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them can be decoded: fewer entries may do."""
    monkeypatch.setattr(root, "find_layout", lambda *told: None)
    reader = table(write_tree(tmp_path / "a.root"), columns=["run"])
    assert len(reader.read(0, 300)) == 300
    plain = uproot.AsDtype.final_array

    def final_array(self: Any, baskets: Any, start: int, stop: int, *more: Any) -> Any:
        if stop - start > 100:
            raise ValueError("too many")
        return plain(self, baskets, start, stop, *more)

    monkeypatch.setattr(uproot.AsDtype, "final_array", final_array)
    with pytest.raises(BadRows, match="too many") as caught:
        reader.read(0, 300)
    assert not caught.value.is_certain
    assert len(reader.read(0, 100)) == 100


def test_clusters_that_only_cannot_be_joined_are_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them can be decoded: fewer entries may do."""
    reader = table(write_ntuple(tmp_path / "a.root"), columns=["run"])
    plain = ntuple.NtupleEntries._assembled

    def assembled(self: Any, clusters: range) -> Any:
        if len(clusters) > 1:
            raise ValueError("too many")
        return plain(self, clusters)

    monkeypatch.setattr(ntuple.NtupleEntries, "_assembled", assembled)
    with pytest.raises(BadRows, match="too many") as caught:
        reader.read(0, 300)
    assert not caught.value.is_certain
    assert len(reader.read(100, 200)) == 100


@pytest.fixture
def overlapping(tmp_path: Path) -> Path:
    """Three files of 300 entries. In the second, entry 150 of the muons' charges begins where the basket begins."""
    for name in "abc":
        write_tree(tmp_path / f"{name}.root", compression=uproot.ZLIB(0))
    path = tmp_path / "b.root"
    place = table(path, columns=["Muon_charge"]).byte_ranges(100, 200)[0]
    with path.open("r+b") as file:
        file.seek(place.stop - 4 * 101)  # of its hundred entries, and one more
        first = file.read(4)
        file.seek(place.stop - 4 * 51)
        file.write(first)
    return path


@pytest.mark.parametrize("step", [1, 7, 130, 250, 900])
def test_entries_that_overlap_spoil_their_basket_however_it_is_divided(
    overlapping: Path, step: int, request: pytest.FixtureRequest
) -> None:
    """The file, the rows and the byte are told, also where many files are checked at once."""
    source: Any = aliquot.open(f"{overlapping.parent}/*.root:Events", columns=["Muon_pt", "Muon_charge"]).source
    request.addfinalizer(source.close)
    byte = table(overlapping, columns=["Muon_charge"]).byte_ranges(100, 200)[0].start
    for start in range(0, 900, step):
        stop = min(start + step, 900)
        if stop <= 400 or start >= 500:
            expected = [[event % 300 + muon / 8 for muon in range(event % 300 % 4)] for event in range(start, stop)]
            batch = source.records_of(start, stop)
            assert batch.Muon_pt.to_list() == expected
            continue
        with pytest.raises(DataError, match="the entries overlap") as caught:
            source.records_of(start, stop)
        assert caught.value.path == str(overlapping)
        assert caught.value.spoiled_units == (400, 500)
        assert caught.value.byte == byte


def test_the_first_of_several_damaged_baskets_is_told(tmp_path: Path) -> None:
    """Whichever column it is in."""
    path = write_tree(tmp_path / "a.root")
    for column, start in [("run", 200), ("MET_pt", 0)]:
        place = table(path, columns=[column]).byte_ranges(start, start + 100)[0]
        overwrite(path, (place.start + place.stop) // 2)
    with pytest.raises(BadRows, match="'MET_pt'") as caught:
        table(path, columns=["run", "MET_pt"]).read(10, 300)
    assert (caught.value.start, caught.value.stop) == (0, 100)


def test_the_header_of_a_basket_may_be_damaged(tmp_path: Path) -> None:
    """Then its size is nonsense."""
    path = write_tree(tmp_path / "a.root")
    place = table(path, columns=["run"]).byte_ranges(0, 100)[0]
    overwrite(path, place.start, 20)
    with pytest.raises(BadRows) as caught:
        table(path, columns=["run"]).read(0, 300)
    assert (caught.value.start, caught.value.stop, caught.value.byte) == (0, 100, place.start)


@both
def test_a_file_that_is_cut_off_says_how_much_is_there(tmp_path: Path, write: Write) -> None:
    """Wherever it is cut."""
    path = write(tmp_path / "a.root")
    size_bytes = path.stat().st_size
    for left_bytes in (size_bytes - 1, size_bytes // 2, 300, 10):
        os.truncate(path, left_bytes)
        fault = unreadable(path)
        assert fault.problem.startswith(f"is cut off: {left_bytes:,} of its ")
        assert fault.byte == left_bytes
        assert fault.advice


def test_what_is_no_root_file_is_said(tmp_path: Path) -> None:
    """Not by whatever uproot stumbles over."""
    (tmp_path / "text.root").write_text("this is not what it seems\n" * 100)
    assert unreadable(tmp_path / "text.root").problem == "is not a ROOT file: it begins with b'this'"
    (tmp_path / "empty.root").touch()
    assert unreadable(tmp_path / "empty.root").problem == "is empty"
    (tmp_path / "directory.root").mkdir()
    assert unreadable(tmp_path / "directory.root").problem == "cannot be opened: Is a directory"
    assert unreadable(tmp_path / "missing.root").problem == "cannot be opened: No such file or directory"


@both
def test_damage_anywhere_is_a_verdict_and_not_a_crash(tmp_path: Path, write: Write) -> None:
    """In the directory, the metadata, the baskets: at forty places."""
    path = write(tmp_path / "a.root", (20, 20))
    whole = path.read_bytes()
    random = Random(1)
    verdicts: set[tuple[type[Exception], bool]] = set()
    for _ in range(40):
        damaged = bytearray(whole)
        at = random.randrange(100, len(whole) - 16)
        damaged[at : at + 16] = random.randbytes(16)
        path.write_bytes(damaged)
        reader = table(path)
        try:
            assert reader.facts().units >= 0
            reader.read(10, 40)
        except (BadRows, UnreadableTable) as verdict:
            verdicts.add((type(verdict), bool(verdict.problem)))
        finally:
            reader.close()
    assert verdicts == {(BadRows, True), (UnreadableTable, True)}


# Where it is


def test_byte_ranges_are_the_baskets_of_the_wanted_columns(tmp_path: Path) -> None:
    """Those that touch are one."""
    path = write_tree(tmp_path / "a.root")
    with uproot.open({str(path): "Events"}) as tree:
        seeks, sizes = (tree["run"].member(name)[:3].tolist() for name in ("fBasketSeek", "fBasketBytes"))
    baskets = [(seek, seek + size) for seek, size in zip(seeks, sizes, strict=True)]
    found = table(path, columns=["run"]).byte_ranges(50, 150)
    assert [(piece.start, piece.stop) for piece in found] == baskets[:2]
    assert {piece.path for piece in found} == {str(path)}
    everything = table(path).byte_ranges(0, 300)
    assert len(everything) < 3 * 6
    assert all(any(piece.start <= start and stop <= piece.stop for piece in everything) for start, stop in baskets)


def test_pages_outside_the_byte_ranges_are_not_needed(tmp_path: Path) -> None:
    """All others can be damaged."""
    path = write_ntuple(tmp_path / "a.root")
    wanted = table(path, columns=["run"]).byte_ranges(0, 300)
    for piece in table(path).byte_ranges(0, 300):
        for start in range(piece.start, piece.stop):
            if not any(other.start <= start < other.stop for other in wanted):
                overwrite(path, start, 1)
    assert table(path, columns=["run"]).read(0, 300).run.to_list() == list(range(300))
    with pytest.raises(BadRows):
        table(path).read(0, 300)


# Letting go


@both
def test_closing_leaves_nothing_open_and_reading_opens_again(tmp_path: Path, write: Write) -> None:
    """Without threads, which a worker would pay for."""
    path = write(tmp_path / "a.root")
    threads = threading.active_count()
    reader = table(path, columns=["run"])
    reader.read(0, 50)
    assert times_open(path) == 1
    assert threading.active_count() == threads
    batch = reader.read(50, 150)
    reader.close()
    assert times_open(path) == 0
    assert batch.run.to_list() == list(range(50, 150))
    assert reader.read(150, 160).run.to_list() == list(range(150, 160))
    reader.close()
    reader.close()
    assert times_open(path) == 0


def test_a_file_that_cannot_be_read_is_not_left_open(tmp_path: Path) -> None:
    """Many may be tried."""
    path = write_tree(tmp_path / "a.root")
    unreadable(path, "Runs")
    assert times_open(path) == 0


def test_a_root_file_is_recognised_by_its_first_bytes(tmp_path: Path) -> None:
    """Whatever it is called."""
    assert RootTable.looks_like(write_tree(tmp_path / "a.dat").read_bytes()[:64])
    assert not RootTable.looks_like(b"PAR1" + bytes(60))
