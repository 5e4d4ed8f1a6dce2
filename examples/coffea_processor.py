"""Run a coffea processor without a chunk size: the mass of pairs of muons, in two datasets.

python examples/coffea_processor.py [EVENTS]
"""

from __future__ import annotations

import os
import sys
from typing import Any

import awkward as ak
import hist
import numpy as np
import uproot
from coffea import processor

import aliquot.coffea


class PairsOfMuons(processor.ProcessorABC):  # type: ignore[misc]  # coffea has no types
    """As it would be written for coffea's own Runner: it knows nothing of aliquot."""

    def process(self, events: Any) -> dict[str, Any]:
        """Fill a histogram of the mass of two muons of opposite charge."""
        dataset = events.metadata["dataset"]
        masses = hist.Hist.new.StrCat([], growth=True, name="dataset").Reg(100, 40.5, 140.5, name="mass").Double()
        pairs = events.Muon[ak.num(events.Muon) == 2]
        pairs = pairs[ak.sum(pairs.charge, axis=1) == 0]
        masses.fill(dataset=dataset, mass=(pairs[:, 0] + pairs[:, 1]).mass)
        return {"mass": masses, "events": {dataset: len(events)}}

    def postprocess(self, output: dict[str, Any]) -> None:
        """Add what can only be told in the end."""
        output["all events"] = sum(output["events"].values())


def write_events(path: str, events: int, seed: int) -> None:
    """A file as NanoAOD has them, with two muons in every event, of a Z that decays at rest."""
    chance = np.random.default_rng(seed)
    half_mass = chance.normal(91, 3, events) / 2
    eta, phi = chance.normal(0, 0.8, events), chance.uniform(-np.pi, 0, events)
    muons = {
        "pt": np.stack([half_mass / np.cosh(eta)] * 2, axis=1),
        "eta": np.stack([eta, -eta], axis=1),
        "phi": np.stack([phi, phi + np.pi], axis=1),
        "mass": np.full((events, 2), 0.105),
        "charge": np.stack([np.ones(events), -np.ones(events)], axis=1),
    }
    columns = {
        "run": np.ones(events, np.uint32),
        "luminosityBlock": np.ones(events, np.uint32),
        "event": np.arange(events, dtype=np.uint64),
        "Muon": ak.zip({name: ak.from_regular(ak.Array(values)) for name, values in muons.items()}),
    }
    with uproot.recreate(path) as file:
        file.mktree("Events", {name: ak.type(values).content for name, values in columns.items()}).extend(columns)


def main(events: str = "200000") -> None:
    """Make two files, and run the processor over both."""
    os.makedirs("demo-data", exist_ok=True)
    fileset = {}
    for seed, dataset in enumerate(("2017", "2018")):
        path = f"demo-data/muons_{dataset}.root"
        write_events(path, int(events), seed)
        fileset[dataset] = [path]
    output = aliquot.coffea.run(fileset, "Events", PairsOfMuons())
    counts = output["mass"][sum, :].values()
    print(f"{output['all events']:,} events, {int(counts.sum()):,} pairs; most pairs are at {41 + counts.argmax()} GeV")


if __name__ == "__main__":
    main(*sys.argv[1:])
