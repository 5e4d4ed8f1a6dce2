"""Events that look like those of a detector: muon pairs of two peaks over a falling continuum, and jets beside them.

python examples/dimuon/making.py DIRECTORY 5_000_000 20    # events, files

The same events can be written as ROOT trees, as RNTuples, as Parquet with lists, and as a flat SQLite table with a row
for each muon. The same seed gives the same events in each of them.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CLUSTER_EVENTS = 100_000
MUON_MASS = 0.1056584
# In GeV: where the peak is, and its natural width.
J_PSI = (3.0969, 0.0000926)
Z = (91.1876, 2.4952)
# Which part of the events has a pair from where; the rest has none.
J_PSI_SHARE, Z_SHARE, CONTINUUM_SHARE = 0.12, 0.10, 0.43
LIGHTEST, HEAVIEST = 2 * MUON_MASS + 0.05, 300.0


def make_files(
    directory: Path | str,
    events: int,
    files: int,
    seed: int = 1,
    *,
    rntuple: bool = False,
    cluster_events: int = CLUSTER_EVENTS,
) -> list[Path]:
    """Write ROOT files, each with a tree (or an RNTuple) of the name Events; returns their paths, in order.

    Some files have many times the events of others, as with files that an experiment keeps.
    """
    paths = []
    for path, number, count in _planned(Path(directory), "root", events, files, seed):
        write_root(path, count, (seed, number), rntuple=rntuple, cluster_events=cluster_events)
        paths.append(path)
    return paths


def write_root(
    path: Path, events: int, seed: tuple[int, ...], *, rntuple: bool = False, cluster_events: int = CLUSTER_EVENTS
) -> None:
    """Write one ROOT file."""
    import uproot

    with uproot.recreate(path, compression=uproot.ZSTD(1)) as file:
        for cluster in clusters(events, seed, cluster_events):
            if rntuple:
                _extend_rntuple(file, _flat(cluster))
            else:
                _extend_tree(file, cluster)


def _extend_tree(file: Any, cluster: ak.Array) -> None:
    if "Events" not in file:
        types = {name: cluster[name].type.content for name in cluster.fields}
        file.mktree("Events", types, counter_name=lambda name: f"n{name}")
    file["Events"].extend({name: cluster[name] for name in cluster.fields})


def _extend_rntuple(file: Any, columns: dict[str, Any]) -> None:
    if "Events" in file:
        file["Events"].extend(columns)
    else:
        file.mkrntuple("Events", columns)


def make_parquet(directory: Path | str, events: int, files: int, seed: int = 1) -> list[Path]:
    """Write the same events as Parquet files, with a list of each quantity of the muons and jets of an event."""
    import pyarrow.parquet

    paths = []
    for path, number, count in _planned(Path(directory), "parquet", events, files, seed):
        writer = None
        for cluster in clusters(count, (seed, number)):
            table = ak.to_arrow_table(ak.Array(_flat(cluster)), extensionarray=False)
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()
        paths.append(path)
    return paths


def make_sqlite(path: Path | str, events: int, files: int, seed: int = 1) -> Path:
    """Write the muons of the same events as one table with a row for each muon, in the order of the events."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("pragma synchronous=off")
    database.execute(
        "create table muons (event integer, Muon_pt real, Muon_eta real, Muon_phi real, Muon_mass real,"
        " Muon_charge integer)"
    )
    before = 0
    for number, count in enumerate(file_sizes(events, files, seed)):
        for cluster in clusters(count, (seed, number)):
            muons = cluster.Muon
            # Numbers of events begin again in each file; here they go on.
            event = np.repeat(before + np.arange(len(muons)), ak.num(muons))
            before += len(muons)
            quantities = (ak.flatten(muons[name]).to_list() for name in ("pt", "eta", "phi", "mass", "charge"))
            rows = zip(event.tolist(), *quantities, strict=True)
            database.executemany("insert into muons values (?, ?, ?, ?, ?, ?)", rows)
    database.execute("create index muons_by_event on muons (event)")
    database.commit()
    database.close()
    return path


def file_sizes(events: int, files: int, seed: int = 1) -> list[int]:
    """How many events each file has: most of them about as many, a few much more or much less."""
    weights = np.random.default_rng((seed, 219)).lognormal(0, 0.7, files)
    ends = np.rint(events * np.cumsum(weights) / weights.sum()).astype(int)
    return [int(size) for size in np.diff(ends, prepend=0)]


def clusters(events: int, seed: tuple[int, ...], cluster_events: int = CLUSTER_EVENTS) -> Iterator[ak.Array]:
    """The events of a file, as many at once as are written together."""
    for start in range(0, events, cluster_events):
        yield _make_events(min(cluster_events, events - start), start, np.random.default_rng((*seed, start)))


def _planned(directory: Path, suffix: str, events: int, files: int, seed: int) -> Iterator[tuple[Path, int, int]]:
    directory.mkdir(parents=True, exist_ok=True)
    for number, count in enumerate(file_sizes(events, files, seed)):
        yield directory / f"events-{number:04}.{suffix}", number, count


def _make_events(count: int, first_event: int, random: np.random.Generator) -> ak.Array:
    muons = _make_muons(count, random)
    jets = _make_jets(count, random)
    return ak.Array(
        {
            "run": np.full(count, 356_000, np.uint32),
            "luminosityBlock": (1 + (first_event + np.arange(count)) // 1_000).astype(np.uint32),
            "event": (1 + first_event + np.arange(count)).astype(np.uint64),
            "MET_pt": random.exponential(25, count).astype(np.float32),
            "MET_phi": _angles(count, random).astype(np.float32),
            "Muon": muons,
            "Jet": jets,
        }
    )


def _make_muons(count: int, random: np.random.Generator) -> ak.Array:
    """Pairs from decays in some of the events, and single muons in any: those with more momentum come first."""
    mass = _pair_masses(count, random)
    of_event = np.flatnonzero(mass)
    pairs = _decay(mass[of_event], random)
    singles = random.poisson(0.25, count)
    single = _single_muons(int(singles.sum()), random)
    event = np.concatenate([of_event, of_event, np.repeat(np.arange(count), singles)])
    pt, eta, phi = (np.concatenate(parts) for parts in zip(*pairs, single[:3], strict=True))
    charge = np.concatenate([np.ones(len(of_event)), -np.ones(len(of_event)), single[3]])
    # The detector measures a momentum to about a hundredth, and an angle to some tenths of a milliradian.
    pt *= 1 + 0.012 * random.standard_normal(len(pt))
    eta += 0.0004 * random.standard_normal(len(eta))
    phi += 0.0004 * random.standard_normal(len(phi))
    seen = (pt > 1.0) & (np.abs(eta) < 2.4)
    event, pt, eta, phi, charge = (quantity[seen] for quantity in (event, pt, eta, phi, charge))
    order = np.lexsort((-pt, event))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(event, minlength=count))])
    return _jagged(
        offsets,
        pt=pt[order].astype(np.float32),
        eta=eta[order].astype(np.float32),
        phi=_wrapped(phi[order]).astype(np.float32),
        mass=np.full(len(order), MUON_MASS, np.float32),
        charge=charge[order].astype(np.int32),
    )


def _pair_masses(count: int, random: np.random.Generator) -> Floats:
    """Of what each event decays; 0 is nothing."""
    kind = random.random(count)
    mass = np.zeros(count)
    ends = np.cumsum([J_PSI_SHARE, Z_SHARE, CONTINUUM_SHARE])
    falling = LIGHTEST * (HEAVIEST / LIGHTEST) ** (random.random(count) ** 2.2)
    for (peak, width), at in ((J_PSI, kind < ends[0]), (Z, (kind >= ends[0]) & (kind < ends[1]))):
        mass[at] = peak + 0.5 * width * random.standard_cauchy(int(at.sum()))
    at = (kind >= ends[1]) & (kind < ends[2])
    mass[at] = falling[at]
    # A Cauchy distribution has no end.
    return np.where(mass == 0, 0.0, np.clip(mass, LIGHTEST, HEAVIEST))


def _decay(mass: Floats, random: np.random.Generator) -> tuple[tuple[Floats, Floats, Floats], ...]:
    """Two muons, back to back where the parent rests, as the detector sees them where it flies."""
    count = len(mass)
    parent_pt = random.exponential(6, count) + 3
    parent_phi, rapidity = _angles(count, random), random.normal(0, 1.1, count)
    momentum = np.sqrt(mass**2 / 4 - MUON_MASS**2)
    cosine, azimuth = random.uniform(-1, 1, count), _angles(count, random)
    sine = np.sqrt(1 - cosine**2)
    along = np.stack([sine * np.cos(azimuth), sine * np.sin(azimuth), cosine]) * momentum
    transverse_mass = np.hypot(mass, parent_pt)
    parent = np.stack(
        [parent_pt * np.cos(parent_phi), parent_pt * np.sin(parent_phi), transverse_mass * np.sinh(rapidity)]
    )
    parent_energy = transverse_mass * np.cosh(rapidity)
    projected = (along * parent).sum(axis=0)
    muons = []
    for sign in (1, -1):
        boost = (sign * projected / (parent_energy + mass) + mass / 2) / mass
        x, y, z = sign * along + parent * boost
        pt = np.hypot(x, y)
        muons.append((pt, np.arcsinh(z / pt), np.arctan2(y, x)))
    return tuple(muons)


def _single_muons(count: int, random: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    charge = random.choice([-1.0, 1.0], count)
    return 1 + random.exponential(4, count), random.normal(0, 1.3, count), _angles(count, random), charge


def _make_jets(count: int, random: np.random.Generator) -> ak.Array:
    jets = random.poisson(3.5, count)
    total = int(jets.sum())
    offsets = np.concatenate([[0], np.cumsum(jets)])
    return _jagged(
        offsets,
        pt=(15 + random.exponential(25, total)).astype(np.float32),
        eta=random.normal(0, 2, total).astype(np.float32),
        phi=_angles(total, random).astype(np.float32),
        mass=random.exponential(8, total).astype(np.float32),
        btag=random.beta(0.4, 3, total).astype(np.float32),
    )


def _jagged(offsets: NDArray[np.int64], **quantities: NDArray[Any]) -> ak.Array:
    index = ak.index.Index64(offsets)
    record = ak.contents.RecordArray([ak.contents.NumpyArray(values) for values in quantities.values()], [*quantities])
    return ak.Array(ak.contents.ListOffsetArray(index, record))


def _flat(cluster: ak.Array) -> dict[str, Any]:
    """With the names that a tree gives its branches: Muon_pt and so on, and nMuon for how many there are."""
    columns: dict[str, Any] = {}
    for name in cluster.fields:
        if cluster[name].ndim == 1:
            columns[name] = cluster[name]
            continue
        columns[f"n{name}"] = ak.values_astype(ak.num(cluster[name]), np.int32)
        columns.update({f"{name}_{quantity}": cluster[name][quantity] for quantity in cluster[name].fields})
    return columns


def _angles(count: int, random: np.random.Generator) -> Floats:
    return random.uniform(-np.pi, np.pi, count)


def _wrapped(angle: Floats) -> Floats:
    return (angle + np.pi) % (2 * np.pi) - np.pi


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} DIRECTORY EVENTS FILES")
    for made in make_files(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])):
        print(made)
