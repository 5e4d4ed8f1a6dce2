"""The examples that read columns: what they find is what their generators have put in."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aliquot

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def dimuon(monkeypatch: pytest.MonkeyPatch) -> Any:
    for package in ("uproot", "awkward", "hist", "pyarrow"):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(EXAMPLES / "dimuon")
    return import_module("dimuon")


@pytest.fixture
def topeft_like(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES / "topeft_like")
    return import_module("topeft_like")


@pytest.fixture
def montecarlo(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return import_module("montecarlo")


# dimuon


def test_the_peaks_are_where_they_were_made(dimuon: Any) -> None:
    """Detectors smear them, and pairs that do not belong together lie below them."""
    making = import_module("making")
    (events,) = making.clusters(60_000, (7,))
    histogram = dimuon.fill(making.ak.Array(making._flat(events)))
    assert dimuon.find_peak(histogram, 3.0) == pytest.approx(3.0969, rel=0.003)
    assert dimuon.find_peak(histogram, 90.0) == pytest.approx(91.1876, rel=0.004)
    assert "█" in dimuon.draw(histogram)


def test_the_same_seed_gives_the_same_events(dimuon: Any, tmp_path: Path) -> None:
    """And each file another part of them, of another size."""
    making = import_module("making")
    read = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        making.make_files(tmp_path / name, 500, 3, seed)
        events: Any = aliquot.open(f"{tmp_path}/{name}/*.root:Events", as_="awkward").batch()
        read.append(events.to_list())
    assert read[0] == read[1]
    assert read[0] != read[2]
    assert read[0][0].keys() >= {"run", "event", "MET_pt", "nMuon", "Muon_charge", "Jet_btag"}
    sizes = making.file_sizes(500, 3)
    assert sum(sizes) == len(read[0]) == 500
    assert len(set(sizes)) == 3


def test_all_formats_have_the_same_pairs(dimuon: Any, tmp_path: Path) -> None:
    """Bin by bin, however the events are cut."""
    making = import_module("making")
    making.make_files(tmp_path / "trees", 5_000, 3)
    making.make_files(tmp_path / "rntuples", 5_000, 3, rntuple=True)
    making.make_parquet(tmp_path, 5_000, 3)
    making.make_sqlite(tmp_path / "muons.sqlite", 5_000, 3)
    counts = []
    for what, options, cuts in (
        ("trees/*.root:Events", {}, 1),
        ("trees/*.root:Events", {}, 7),
        ("rntuples/*.root:Events", {}, 2),
        ("*.parquet", {}, 3),
        ("muons.sqlite:muons", {"key": "event"}, 4),
    ):
        source = aliquot.open(tmp_path / what, columns=dimuon.COLUMNS, as_="awkward", **options)
        parts = source.split(cuts, -(-len(source) // cuts))
        assert len(parts) == cuts
        counts.append(sum(dimuon.fill(part.batch()) for part in parts).values())
    assert counts[0].sum() > 1_000
    for other in counts[1:]:
        assert np.array_equal(other, counts[0])


def test_the_dimuon_script_runs(dimuon: Any, tmp_path: Path) -> None:
    """From the checkout, as a user runs it."""
    command = [sys.executable, f"{EXAMPLES}/dimuon/dimuon.py", "--events", "10000", "--files", "3", "--keep", "events"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "all formats agree, bin by bin" in ran.stdout
    assert "J/psi  found at   3.09" in ran.stdout or "J/psi  found at   3.10" in ran.stdout
    assert len(list((tmp_path / "events").glob("*.root"))) == 3


# topeft_like


def test_histograms_of_polynomials_fit_in_little_memory(topeft_like: Any, tmp_path: Path) -> None:
    """A guess of all events would hold more than is allowed."""
    events = 16_000
    topeft_like.make_files(tmp_path, events, 3)
    source = aliquot.open(f"{tmp_path}/*.npz", as_="numpy")
    site = aliquot.sites.Local(cores=2, memory="320MB")
    job = aliquot.FunctionJob(partial(topeft_like.process, weights=True), source)
    outcome = aliquot.run(job, on=site, size=events, progress=False)
    expected: dict[str, Any] = {}
    for part in source.split(8, 2_000):
        for name, histogram in topeft_like.process(part.batch(), weights=True).items():
            expected[name] = expected.get(name, 0) + histogram
    assert outcome.value.keys() == expected.keys()
    for name, histogram in expected.items():
        assert histogram.shape == (4 * topeft_like.BINS, 378)
        np.testing.assert_allclose(outcome.value[name], histogram, rtol=1e-9, atol=1e-9)
    assert outcome.report.peak_bytes <= 160_000_000
    assert outcome.report.steps > 2


def test_the_first_term_is_the_standard_model(topeft_like: Any, tmp_path: Path) -> None:
    """The histograms without the option are the first column of those with it."""
    (columns,) = topeft_like.make_events(2_000, (1,))
    without, with_all = topeft_like.process(columns), topeft_like.process(columns, weights=True)
    for name, histogram in without.items():
        assert histogram.shape[1] == 1
        np.testing.assert_allclose(with_all[name][:, :1], histogram)
    assert without["ht nominal"].sum() == pytest.approx(columns["weight"].sum())


def test_the_rate_is_the_square_of_an_amplitude(topeft_like: Any) -> None:
    """For any values of the coefficients, the polynomial of an event is what it was made of."""
    (columns,) = topeft_like.make_events(100, (1,))
    values = np.random.default_rng(1).normal(size=topeft_like.COEFFICIENTS)
    amplitude = 1 + columns["couplings"].astype(float) @ values
    point = np.concatenate([[1.0], values])
    terms = point[topeft_like._ROWS] * point[topeft_like._COLUMNS]
    np.testing.assert_allclose(topeft_like.event_polynomials(columns) @ terms, columns["weight"] * amplitude**2)


def test_the_polynomials_script_runs(topeft_like: Any, tmp_path: Path) -> None:
    """It tells what the first guess has cost."""
    command = [sys.executable, f"{EXAMPLES}/topeft_like/topeft_like.py", "--events", "5000", "--weights"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "of the workers' time lost" in ran.stdout
    assert "5,000 units in" in ran.stdout


# montecarlo


@pytest.mark.parametrize(("cores", "size"), [(1, 7), (2, 10_000), (2, None)])
def test_chance_does_not_depend_on_the_division(montecarlo: Any, cores: int, size: int | None) -> None:
    """Each neutron has numbers of its own."""
    count = 30_000
    site = aliquot.sites.Local(cores=cores)
    found = aliquot.map_batches(
        montecarlo.follow, range(count), ordered=False, on=site, size=size, target_seconds=0.02, progress=False
    )
    assert found == montecarlo.follow(range(count))
    assert found.total() == count


def test_the_numbers_of_a_neutron_are_its_own(montecarlo: Any) -> None:
    """Bit by bit, wherever a batch begins."""
    numbers = montecarlo.random_numbers(range(1_000))
    assert np.array_equal(numbers[123:], montecarlo.random_numbers(range(123, 1_000)))
    assert len(np.unique(numbers)) == numbers.size


def test_what_only_absorbs_lets_through_what_theory_says(montecarlo: Any) -> None:
    """Within four standard deviations."""
    count = 50_000
    through = montecarlo.follow(range(count), scattered=0.0)["through"] / count
    expected = math.exp(-montecarlo.WALL)
    assert abs(through - expected) < 4 * math.sqrt(expected / count)
