"""coffea's processors, run by aliquot: the same output as from coffea's own Runner."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot
import aliquot.coffea
from aliquot.coffea.counting import count_entries
from aliquot.coffea.entries import EntriesSource
from aliquot.coffea.fileset import files_of
from aliquot.coffea.outputs import Output, join_outputs
from aliquot.coffea.processing import Process

# In CI it must be installed.
if importlib.util.find_spec("coffea") is None and os.environ.get("CI") != "true":
    pytest.skip("coffea is not installed", allow_module_level=True)

import awkward as ak
import coffea
import hist
import uproot
from coffea import processor
from coffea.nanoevents import BaseSchema

pytestmark = [
    # About the few branches of the files here, which a real NanoAOD file has.
    pytest.mark.filterwarnings("ignore:Missing cross-reference index:RuntimeWarning"),
]

ON = aliquot.sites.Local(cores=2)
# Where it makes no difference: every worker takes a while to make its first events.
ON_ONE = aliquot.sites.Local(cores=1)


class Dimuon(processor.ProcessorABC):  # type: ignore[misc]  # coffea has no types
    """What is usual: a histogram with a growing axis, counts, a list of columns, sets."""

    def process(self, events: Any) -> dict[str, Any]:
        dataset = events.metadata["dataset"]
        masses = hist.Hist.new.StrCat([], growth=True, name="dataset").Reg(40, 0, 120, name="mass").Weight()
        muons = events.Muon[events.Muon.pt > 5]
        pairs = muons[ak.num(muons) == 2]
        weights = events.genWeight if "genWeight" in events.fields else ak.ones_like(events.Pileup.nTrueInt)
        masses.fill(dataset=dataset, mass=(pairs[:, 0] + pairs[:, 1]).mass, weight=weights[ak.num(muons) == 2])
        return {
            "mass": masses,
            "cutflow": processor.defaultdict_accumulator(int, {dataset: len(events), "pairs": len(pairs)}),
            "pileup": processor.column_accumulator(ak.to_numpy(events.Pileup.nTrueInt)),
            "labels": {(dataset, str(events.metadata.get("label")), events.metadata["fileuuid"])},
        }

    def postprocess(self, output: dict[str, Any]) -> None:
        output["all"] = sum(value for name, value in output["cutflow"].items() if name != "pairs")


class WhichEntries(processor.ProcessorABC):  # type: ignore[misc]
    """Tells what it was called on, and returns something else in the end."""

    def process(self, events: Any) -> list[Any]:
        told = events.metadata
        assert len(events) == told["entrystop"] - told["entrystart"]
        assert ak.to_list(events.event) == list(range(told["entrystart"], told["entrystop"]))
        return [(told["filename"], told["treename"], told["entrystart"], told["entrystop"])]

    def postprocess(self, output: list[Any]) -> dict[str, list[tuple[int, int]]]:
        return {name: sorted((start, stop) for path, _, start, stop in output if path == name) for name, *_ in output}


class Fails(processor.ProcessorABC):  # type: ignore[misc]
    def process(self, events: Any) -> int:
        if 7 in ak.to_list(events.event):
            raise LookupError("no calibration for event 7")
        return len(events)


def write_events(path: Path, entries: int, *, seed: int = 1, tree: str = "Events", weighted: bool = True) -> str:
    """A file as NanoAOD has them, with few branches, in clusters of 100 entries."""
    chance = np.random.default_rng(seed)
    counts = chance.poisson(1.7, entries)
    names = {"pt": (20, 15), "eta": (0, 1), "phi": (0, 2), "mass": (0.1, 0), "charge": (1, 0)}
    columns = {name: chance.normal(*told, int(counts.sum())).astype(np.float32) for name, told in names.items()}
    events: dict[str, Any] = {
        "run": np.ones(entries, np.uint32),
        "luminosityBlock": np.ones(entries, np.uint32),
        "event": np.arange(entries, dtype=np.uint64),
        "Pileup_nTrueInt": chance.exponential(20, entries).astype(np.float32),
        "Muon": ak.zip({name: ak.unflatten(abs(values), counts) for name, values in columns.items()}),
    }
    if weighted:
        events["genWeight"] = chance.normal(1, 0.1, entries).astype(np.float32)
    with uproot.recreate(path) as file:
        types = {name: values.dtype if name != "Muon" else values.type.content for name, values in events.items()}
        file.mktree(tree, types, counter_name=lambda name: f"n{name}", field_name=lambda *names: "_".join(names))
        for at in range(0, entries, 100):
            file[tree].extend({name: values[at : at + 100] for name, values in events.items()})
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("nano")
    return {
        "first": write_events(directory / "first.root", 450),
        "second": write_events(directory / "second.root", 250, seed=2),
        "data": write_events(directory / "data.root", 300, seed=3, weighted=False),
        "other": write_events(directory / "other.root", 120, seed=4, tree="Other"),
        "empty": write_events(directory / "empty.root", 0),
    }


def runner(**options: Any) -> Any:
    """What coffea itself does, in this process."""
    return processor.Runner(executor=processor.IterativeExecutor(status=False, retries=0), chunksize=300, **options)


def process_and_source(instance: Any, path: str) -> tuple[Process, EntriesSource]:
    """What workers are given."""
    described = files_of({"mc": [path]}, "Events", None)
    source = EntriesSource(count_entries([(path, "Events")], {}, None))
    return Process(instance, described, None, {}, {}, measures=True), source


def with_a_rotten_basket(path: str, rotten: Path) -> str:
    """A copy of which the entries 200 to 299 of one branch cannot be read."""
    with uproot.open(path) as file:
        branch = file["Events"]["Pileup_nTrueInt"]
        at, length = branch.member("fBasketSeek")[2], branch.member("fBasketBytes")[2]
    content = bytearray(Path(path).read_bytes())
    content[at + 70 : at + length] = bytes(length - 70)
    rotten.write_bytes(content)
    return str(rotten)


def assert_same_output(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert list(found) == list(expected)
    assert sorted(found["mass"].axes[0]) == sorted(expected["mass"].axes[0])
    for dataset in expected["mass"].axes[0]:
        for of in ("values", "variances"):
            mine, theirs = (getattr(output["mass"][dataset, :], of)(flow=True) for output in (found, expected))
            assert np.allclose(mine, theirs)
    assert found["cutflow"] == expected["cutflow"]
    assert type(found["cutflow"]) is type(expected["cutflow"])
    assert np.array_equal(np.sort(found["pileup"].value), np.sort(expected["pileup"].value))
    assert found["labels"] == expected["labels"]
    assert found["all"] == expected["all"]


def test_the_output_is_that_of_runner(files: dict[str, str]) -> None:
    """Bin by bin, for datasets in every form, of different branches, with a file without entries."""
    fileset = {
        "mc": [files["first"], files["second"]],
        "data": {"files": [files["data"]], "metadata": {"label": "2018"}},
        "none": {"files": [files["empty"]], "preload": ["Pileup_nTrueInt"]},
        "preloaded": {"files": {files["second"]: "is not used"}, "preload": ["Pileup_nTrueInt", "Muon_pt", "nMuon"]},
        "other": {"files": [files["other"]], "treename": "Other"},
    }
    expected, measured = runner(savemetrics=True)(fileset, Dimuon(), treename="Events")
    found, metrics = aliquot.coffea.run(fileset, Dimuon(), "Events", savemetrics=True, size=170, on=ON, progress=False)
    assert_same_output(found, expected)
    assert found["all"] == 450 + 250 + 300 + 250 + 120
    assert metrics["entries"] == measured["entries"]
    assert sorted(metrics["columns"]) == sorted(measured["columns"])
    assert set(metrics) == set(measured)


def test_every_entry_is_processed_once(files: dict[str, str], tmp_path: Path) -> None:
    """The metadata say which ones they are; a fileset may name the tree of each file, and be a file of JSON."""
    fileset = {"mc": {"files": {files["first"]: "Events", files["other"]: "Other", files["empty"]: "Events"}}}
    (tmp_path / "fileset.json").write_text(json.dumps(fileset))
    told = aliquot.coffea.run(str(tmp_path / "fileset.json"), WhichEntries(), on=ON, size=40, progress=False)
    for name, entries in (("first", 450), ("other", 120), ("empty", 0)):
        starts, stops = zip(*told[files[name]], strict=True)
        assert (0, *stops) == (*starts, entries)


def test_a_file_that_stays_open_gives_the_same_events(files: dict[str, str]) -> None:
    """What its schema made of it the first time is used again, with other metadata."""
    process, source = process_and_source(Dimuon(), files["first"])
    outputs = [process(source.records_of(start, start + 150)).value for start in (0, 150, 300)]
    whole = process_and_source(Dimuon(), files["first"])[0](source.records_of(0, 450)).value
    pileup = np.concatenate([output["out"]["pileup"].value for output in outputs])
    assert np.array_equal(pileup, whole["out"]["pileup"].value)
    assert sum(output["out"]["cutflow"]["pairs"] for output in outputs) == whole["out"]["cutflow"]["pairs"] > 0
    assert outputs[1]["metrics"]["columns"] == whole["metrics"]["columns"]
    # The tree itself was read once.
    assert outputs[0]["metrics"]["bytesread"] > outputs[1]["metrics"]["bytesread"] > 0


def test_an_output_that_the_processor_holds_is_not_changed() -> None:
    """Only what aliquot has made itself is added to in place."""
    held = {"n": [1]}
    first = join_outputs(Output(held), Output({"n": [2]}))
    both = join_outputs(first, Output({"n": [3]}))
    assert both.value == {"n": [1, 2, 3]}
    assert both.value is first.value
    assert held == {"n": [1]}


def test_steps_end_with_clusters(files: dict[str, str]) -> None:
    """So that no basket is read twice; what is known of the files is remembered."""
    trees = [(files["first"], "Events"), (files["empty"], "Events"), (files["second"], "Events")]
    source = EntriesSource(count_entries(trees, {}, None))
    assert source.known_units == 450 + 1 + 250
    assert source.good_cut(0, 390) == 300
    assert source.good_cut(350, 390) == 390
    assert source.good_cut(100, 660) == 651
    assert aliquot.VirtualFile.from_desc(aliquot.VirtualFile(source).to_desc()).source == source
    with pytest.raises(aliquot.DataError, match="have 701 units, and unit 701 was asked for"):
        source.records_of(600, 702)
    with pytest.raises(aliquot.UsageError, match="no bytes of their own"):
        source.header(1)
    uses_no_options = {"timeout": "is not looked at, as no file is opened"}
    assert source == EntriesSource(count_entries(trees, uses_no_options, None))


def test_a_file_that_cannot_be_read_is_one_failure(files: dict[str, str], tmp_path: Path) -> None:
    """Instead of skipbadfiles: it is named, and the others are processed where one may fail."""
    torn = tmp_path / "torn.root"
    torn.write_bytes(Path(files["second"]).read_bytes()[:5000])
    fileset = {"mc": [files["first"], str(torn)]}
    with pytest.warns(aliquot.UnitsSetAsideWarning, match=r"torn\.root"):
        found = aliquot.coffea.run(fileset, Dimuon(), "Events", size=200, max_failures=1, on=ON_ONE, progress=False)
    assert_same_output(found, runner()({"mc": [files["first"]]}, Dimuon(), treename="Events"))
    for path, problem in ((torn, "is cut off"), (tmp_path / "missing.root", "no such file")):
        _, source = process_and_source(Dimuon(), str(path))
        with pytest.raises(aliquot.DataError, match=rf"{path.name}.*{problem}"):
            source.records_of(0, 1)


def test_a_basket_that_cannot_be_read_is_told(files: dict[str, str], tmp_path: Path) -> None:
    """Which branch, which entries: also where it is read before the processor is called. No other error is mistaken."""
    rotten = with_a_rotten_basket(files["first"], tmp_path / "rotten.root")
    process, source = process_and_source(Dimuon(), rotten)
    preloads = files_of({"mc": {"files": [rotten], "preload": ["event", "Pileup_nTrueInt"]}}, "Events", None)
    preloading = Process(WhichEntries(), preloads, None, {}, {}, measures=False)
    told = r"rotten\.root.* 200 to 299 of its branch 'Pileup_nTrueInt'"
    for call in (process, preloading):
        with pytest.raises(aliquot.DataError, match=told) as caught:
            call(source.records_of(150, 250))
        assert call.spoiled_units(caught.value) == (200, 300)
        call(source.records_of(150, 200))
    assert process.spoiled_units(aliquot.DataError("of another file", spoiled_units=(1, 2))) is None


def test_only_the_entries_of_a_basket_that_cannot_be_read_are_set_aside(files: dict[str, str], tmp_path: Path) -> None:
    """All others are processed, once, whatever steps they were in."""
    rotten = with_a_rotten_basket(files["first"], tmp_path / "rotten.root")
    fileset = {"mc": [files["second"], rotten]}
    with pytest.warns(aliquot.UnitsSetAsideWarning, match="branch 'Pileup_nTrueInt' cannot be read") as warned:
        found = aliquot.coffea.run(
            fileset, "Events", Dimuon(), max_failures=100, ordered=True, size=130, on=ON, progress=False
        )
    # Several ranges, where a worker had begun within the basket.
    ranges = re.findall(r"^  units? (\d+)(?: to (\d+))? in .*rotten\.root", str(warned[0].message), re.MULTILINE)
    failed = [unit for first, last in ranges for unit in range(int(first), int(last or first) + 1)]
    assert sorted(failed) == list(range(450, 550))
    with uproot.open(files["second"]) as second, uproot.open(files["first"]) as first:
        pileup = [file["Events"]["Pileup_nTrueInt"].array(library="np") for file in (second, first)]
    assert np.array_equal(found["pileup"].value, np.concatenate([pileup[0], pileup[1][:200], pileup[1][300:]]))


def test_a_file_that_has_changed_since_it_was_counted_is_told(files: dict[str, str], tmp_path: Path) -> None:
    """Whether it was rewritten with as many bytes while it was open, or has grown; counted again, it is read."""
    path = tmp_path / "changing.root"
    path.write_bytes(Path(files["second"]).read_bytes())
    process, source = process_and_source(WhichEntries(), str(path))
    process(source.records_of(0, 50))
    os.utime(path, ns=(0, 0))
    with pytest.raises(aliquot.SourceChangedError, match=r"changing\.root: the file was rewritten"):
        process(source.records_of(50, 100))
    path.write_bytes(Path(files["first"]).read_bytes())
    with pytest.raises(aliquot.SourceChangedError, match=r"changing\.root: the file had \d+ bytes and now has \d+"):
        process(source.records_of(50, 100))
    process, source = process_and_source(WhichEntries(), str(path))
    assert source.known_units == 450
    process(source.records_of(400, 450))


def test_a_file_that_changes_while_it_is_processed_is_told(files: dict[str, str], tmp_path: Path) -> None:
    """Whatever the processor makes of it."""
    path = tmp_path / "changing.root"
    for error in (None, LookupError("of what was read half")):
        path.write_bytes(Path(files["second"]).read_bytes())

        def change(events: Any, error: Exception | None = error) -> int:
            path.write_bytes(Path(files["first"]).read_bytes())
            if error is not None:
                raise error
            return len(events)

        process, source = process_and_source(change, str(path))
        with pytest.raises(aliquot.SourceChangedError, match=r"changing\.root"):
            process(source.records_of(0, 100))


def test_a_tree_far_away_is_known_by_its_entries(files: dict[str, str]) -> None:
    """Its file has no time."""
    (counted,) = count_entries([(f"file://{files['first']}", "Events")], {}, None)
    counted.check_file()
    counted.check_entries(450)
    with pytest.raises(aliquot.SourceChangedError, match=r"had 450 entries in Events .* and now has 460"):
        counted.check_entries(460)


def test_what_a_processor_raises_names_the_file(files: dict[str, str]) -> None:
    """And the entry, which is found."""
    process, source = process_and_source(Fails(), files["first"])
    with pytest.raises(LookupError, match="no calibration") as caught:
        process(source.records_of(5, 105))
    assert caught.value.__notes__ == [f"while Fails worked on the entries 5 to 104 of {files['first']}"]
    with pytest.warns(aliquot.UnitsSetAsideWarning, match=r"entry 7 of Events in .*first\.root"):
        left = aliquot.coffea.run(
            {"mc": [files["first"]]}, Fails(), "Events", max_failures=1, on=ON_ONE, progress=False
        )
    assert left == 449


def test_a_run_is_recorded(files: dict[str, str], tmp_path: Path) -> None:
    """The same call again returns the same; another processor is refused."""
    fileset = {"mc": [files["first"], files["second"]]}
    told = {"run_dir": tmp_path / "run", "size": 300, "on": ON_ONE, "progress": False}
    outputs = [aliquot.coffea.run(fileset, Dimuon(), "Events", **told) for _ in range(2)]
    assert_same_output(*outputs)
    process, _ = process_and_source(Dimuon(), files["first"])
    assert process.__code__ is Dimuon.process.__code__
    assert Dimuon.postprocess in process.__defaults__
    with pytest.raises(aliquot.UsageError, match="fresh"):
        aliquot.coffea.run(fileset, Fails(), "Events", **told)


def test_runner_takes_an_executor_of_aliquot(files: dict[str, str]) -> None:
    """Its chunks are run by aliquot's workers."""
    fileset = {"mc": [files["first"], files["second"]]}
    executor = aliquot.coffea.Executor(on=ON_ONE, status=False)
    found = processor.Runner(executor=executor, chunksize=130, metadata_cache={})(fileset, Dimuon(), treename="Events")
    assert_same_output(found, runner()(fileset, Dimuon(), treename="Events"))


def test_a_function_and_another_schema_will_do(files: dict[str, str]) -> None:
    """As with Runner; the tree may be named before the processor, as it once was."""
    fileset = {"mc": [files["first"]]}
    told = {"schema": BaseSchema, "size": 200, "on": ON_ONE, "progress": False}
    expected = runner(schema=BaseSchema)(fileset, count_muons, treename="Events")
    assert aliquot.coffea.run(fileset, "Events", processor_instance=count_muons, **told) == expected


def count_muons(events: Any) -> int:
    return int(ak.sum(events.nMuon))


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It makes its own events, and finds the Z among them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    monkeypatch.chdir(tmp_path)
    importlib.import_module("coffea_processor").main("2000")
    said = capsys.readouterr().out
    assert "4,000 events" in said
    assert "most pairs are at 91 GeV" in said


def test_what_is_wrong_is_told_before_anything_runs(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The fileset, the processor, the metadata, and the release of coffea."""
    with pytest.raises(aliquot.UsageError, match="treename must be specified"):
        aliquot.coffea.run({"mc": [files["first"]]}, Dimuon())
    with pytest.raises(aliquot.UsageError, match="names no files"):
        aliquot.coffea.run({"mc": []}, Dimuon(), "Events")
    with pytest.raises(aliquot.UsageError, match=r"no method process\(events\)"):
        aliquot.coffea.run({"mc": [files["first"]]}, object(), "Events")
    with pytest.raises(aliquot.UsageError, match=r"give an instance: Dimuon\(\)"):
        aliquot.coffea.run({"mc": [files["first"]]}, Dimuon, "Events")
    with pytest.raises(aliquot.UsageError, match="'dataset'"):
        aliquot.coffea.run({"mc": [files["first"]]}, Dimuon(), "Events", metadata={"dataset": "mine"})
    monkeypatch.setattr(coffea, "__version__", "0.7.22")
    with pytest.raises(aliquot.UsageError, match=r"written for coffea 2026.*this is coffea 0\.7\.22"):
        aliquot.coffea.run({"mc": [files["first"]]}, Dimuon(), "Events")


def test_accumulators_of_coffea_become_what_coffea_makes_of_them() -> None:
    def partial(number: int) -> Any:
        return processor.dict_accumulator(
            {
                "cuts": processor.defaultdict_accumulator(int, {"all": 3, f"run {number}": 1}),
                "pt": processor.column_accumulator(np.array([float(number)])),
                "runs": processor.set_accumulator({number}),
            }
        )

    ours, theirs = (
        aliquot.merge(aliquot.merge(partial(1), partial(2)), partial(3)),
        processor.accumulate(map(partial, (1, 2, 3))),
    )
    assert type(ours) is type(theirs)
    assert ours["cuts"] == theirs["cuts"]
    assert ours["pt"].value.tolist() == theirs["pt"].value.tolist() == [1, 2, 3]
    assert ours["runs"] == theirs["runs"]


@pytest.mark.parametrize("second", [{"n": 1, "new": {"x": [1]}}, {"n": 2.5, "s": {4}, "sub": {"n": 1}}])
def test_plain_containers_become_what_coffea_makes_of_them(second: dict[str, Any]) -> None:
    first = {"n": 1, "s": {3}, "sub": {"n": 2, "a": np.arange(3)}}
    ours, theirs = aliquot.merge(first, second), processor.accumulate([first, second])
    assert str(ours) == str(theirs)
