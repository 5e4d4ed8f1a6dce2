"""What is done with events: the masses of pairs of muons. Workers import this, and nothing else of the example."""

from __future__ import annotations

from typing import Any

import awkward as ak
import hist
import numpy as np
from numpy.typing import NDArray

# Of the columns of a file, only these are read.
COLUMNS = ["Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge"]


def fill(events: ak.Array) -> hist.Hist[Any]:
    """The masses of all pairs of muons of opposite charge in some events: the work that is divided."""
    muons = ak.zip({column.removeprefix("Muon_"): events[column] for column in COLUMNS})
    first, second = ak.unzip(ak.flatten(ak.combinations(muons[ak.num(muons) >= 2], 2)))
    opposite = first.charge != second.charge
    x, y, z, energy = four_momentum(first[opposite]) + four_momentum(second[opposite])
    masses = np.sqrt(np.maximum(energy**2 - x**2 - y**2 - z**2, 0))
    return hist.new.Log(3600, 0.2, 250, name="mass", label="mass of the pair, GeV").Int64().fill(masses)


def four_momentum(muons: ak.Array) -> NDArray[np.float64]:
    """X, y, z and the energy, with all digits: then it does not matter in which precision a format keeps numbers."""
    pt, eta, phi, mass = (ak.to_numpy(muons[name]).astype(np.float64) for name in ("pt", "eta", "phi", "mass"))
    x, y, z = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    return np.stack([x, y, z, np.sqrt(x**2 + y**2 + z**2 + mass**2)])
