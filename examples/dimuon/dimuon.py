"""Muon pairs of opposite charge in files of events: two peaks come out, the J/psi and the Z.

python examples/dimuon/dimuon.py [--events N] [--files N] [--keep DIRECTORY]

The same function fills the same histogram from ROOT files, from Parquet and from a flat SQLite table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import hist
import numpy as np
from analysis import COLUMNS, fill
from making import J_PSI, Z, make_files, make_parquet, make_sqlite
from rich.console import Console

import aliquot

PEAKS = {"J/psi": J_PSI[0], "Z": Z[0]}


def find_peak(histogram: hist.Hist[Any], near: float) -> float:
    """The middle of the bins that are higher than half of the highest, within a tenth of where it should be."""
    centers, counts = histogram.axes[0].centers, np.convolve(histogram.values(), np.ones(5), mode="same")
    around = np.abs(centers / near - 1) < 0.1
    centers, counts = centers[around], counts[around]
    counts = counts - np.median(counts)
    high = counts > counts.max() / 2
    return float(np.average(centers[high], weights=counts[high]))


def draw(histogram: hist.Hist[Any], columns: int = 72, rows: int = 12) -> str:
    """The histogram as text, with a mass at the foot of every twelfth column."""
    edges, counts = histogram.axes[0].edges, histogram.values().reshape(columns, -1).sum(axis=1)
    # From an eighth of a character to a whole one.
    eighths = np.rint(8 * rows * counts / counts.max()).astype(int)
    lines = ["".join(" ▁▂▃▄▅▆▇█"[min(8, max(0, high - 8 * row))] for high in eighths) for row in reversed(range(rows))]
    ticks = edges[: -1 : 12 * (len(edges) // columns)]
    return "\n".join([*lines, "".join(f"{tick:<12.3g}" for tick in ticks) + "GeV"])


def save_picture(histogram: hist.Hist[Any], path: Path) -> bool:
    """Save it as a picture, where matplotlib is installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(9, 5))
    axes.stairs(histogram.values(), histogram.axes[0].edges, fill=True)
    axes.set(xscale="log", yscale="log", xlabel=histogram.axes[0].label, ylabel="pairs")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True


def main() -> None:
    """Make events, fill the histogram from each format, and show it."""
    parser = argparse.ArgumentParser(description="Find the J/psi and the Z among pairs of muons.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="make the files here, and leave them")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        compare_formats(told.keep or Path(temporary), told.events, told.files)


def compare_formats(directory: Path, events: int, files: int) -> None:
    """Fill the same histogram three times."""
    console = Console(highlight=False)
    console.print(f"making {events:,} events in {files} files of ROOT, of Parquet, and as a table of SQLite")
    make_files(directory, events, files)
    make_parquet(directory, events, files)
    make_sqlite(directory / "muons.sqlite", events, files)

    sources = {
        "ROOT": aliquot.open(f"{directory}/*.root:Events", columns=COLUMNS, as_="awkward"),
        "Parquet": aliquot.open(f"{directory}/*.parquet", columns=COLUMNS, as_="awkward"),
        "SQLite": aliquot.open(f"{directory}/muons.sqlite:muons", key="event", columns=COLUMNS, as_="awkward"),
    }
    histograms = {}
    for name, source in sources.items():
        began = time.perf_counter()
        histograms[name] = aliquot.map_batches(fill, source, ordered=False)
        console.print(f"{name:8}{time.perf_counter() - began:6.2f} s  {histograms[name].sum():,.0f} pairs")

    histogram = histograms["ROOT"]
    console.print(f"\n{draw(histogram)}\n")
    for name, told in PEAKS.items():
        console.print(f"{name:6} found at {find_peak(histogram, told):7.3f} GeV, made at {told:7.3f} GeV")
    different = [name for name in histograms if not np.array_equal(histograms[name].values(), histogram.values())]
    console.print(f"different: {', '.join(different)}" if different else "all formats agree, bin by bin")
    picture = Path("demo-data/dimuon.png")
    if save_picture(histogram, picture):
        console.print(f"see {picture}")


if __name__ == "__main__":
    main()
