"""Histograms whose bins are polynomials: memory that grows with the events, and by an option many times over.

python examples/topeft_like/topeft_like.py [--weights] [--events N] [--files N] [--memory 400MB] [--size 512_000]

The rate of an event may depend on 26 coefficients of an effective theory, and is a quadratic polynomial in them: 378
numbers for each event, and for each bin of each histogram. Without --weights, only the first of them is kept, which is
the rate of the Standard Model. Nobody says how many events fit: the first guess may be wrong by any factor.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import aliquot

Floats = NDArray[np.float64]

COEFFICIENTS = 26
# 1, each of them, and each product of two of them.
TERMS = (COEFFICIENTS + 1) * (COEFFICIENTS + 2) // 2
CHANNELS = ("2lss", "3l", "4l", "2los")
BINS = 60
# From where to where each quantity is filled.
QUANTITIES = {"ht": (0.0, 1200.0), "lj0pt": (0.0, 600.0), "ptz": (0.0, 500.0)}
VARIATIONS = {"nominal": 0.0, "up": 1.0, "down": -1.0}

_ROWS, _COLUMNS = np.triu_indices(COEFFICIENTS + 1)


def process(events: Any, *, weights: bool = False) -> dict[str, Floats]:
    """A histogram for each quantity and variation: an array of channels and bins by terms. The work that is divided."""
    polynomials = event_polynomials(events) if weights else np.asarray(events["weight"], np.float64)[:, np.newaxis]
    channel = np.asarray(events["channel"])
    histograms = {}
    for variation, sigmas in VARIATIONS.items():
        varied = polynomials * (1 + sigmas * variation_sizes(events))[:, np.newaxis]
        for quantity, (low, high) in QUANTITIES.items():
            bins = ((np.asarray(events[quantity]) - low) / (high - low) * BINS).astype(np.int64)
            # The last bin has all that is beyond it, too.
            bins = channel * BINS + np.clip(bins, 0, BINS - 1)
            histograms[f"{quantity} {variation}"] = sum_by_bin(bins, varied)
    return histograms


def event_polynomials(events: Any) -> Floats:
    """The terms of each event: products of two of its 27 amplitudes. The first is that of the Standard Model."""
    couplings = np.asarray(events["couplings"], np.float64)
    amplitudes = np.concatenate([np.ones((len(couplings), 1)), couplings], axis=1)
    products: Floats = np.take(amplitudes, _ROWS, axis=1) * np.take(amplitudes, _COLUMNS, axis=1)
    # Both orders of two different ones are one term.
    products *= np.where(_ROWS == _COLUMNS, 1, 2) * np.asarray(events["weight"], np.float64)[:, np.newaxis]
    return products


def variation_sizes(events: Any) -> Floats:
    """How much one standard deviation changes the weight of an event: the root of what several reasons add up to."""
    ht, lepton, z = (np.asarray(events[quantity], np.float64) for quantity in QUANTITIES)
    reasons = np.stack([0.02 + 0.0001 * ht, 0.01 + 0.0002 * lepton, 0.015 + 0.0001 * z, 0.05 * np.exp(-ht / 200)])
    sizes: Floats = np.sqrt((reasons**2).sum(axis=0))
    return sizes


def sum_by_bin(bins: NDArray[np.int64], terms: Floats) -> Floats:
    """The sum of the terms of all events in each bin."""
    order = np.argsort(bins, kind="stable")
    ends = np.searchsorted(bins[order], np.arange(1, len(CHANNELS) * BINS))
    return np.stack([terms[in_bin].sum(axis=0) for in_bin in np.split(order, ends)])


def make_files(directory: Path | str, events: int, files: int, seed: int = 1, *, suffix: str = "npz") -> list[Path]:
    """Write files of events, as .npz or, with uproot, as .root with a tree Events; some are many times larger."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    shares = np.random.default_rng((seed, files)).lognormal(0, 0.7, files)
    sizes = np.diff(np.rint(events * np.cumsum(shares) / shares.sum()).astype(int), prepend=0)
    paths = [directory / f"events-{number:04}.{suffix}" for number in range(files)]
    for number, (path, size) in enumerate(zip(paths, sizes.tolist(), strict=True)):
        if suffix == "npz":
            parts = list(make_events(size, (seed, number)))
            columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            np.savez(path, **columns)
        else:
            _write_tree(path, make_events(size, (seed, number)))
    return paths


def make_events(events: int, seed: tuple[int, ...], at_once: int = 50_000) -> Iterator[dict[str, NDArray[Any]]]:
    """The columns of some events after the other."""
    for start in range(0, events, at_once):
        count = min(at_once, events - start)
        random = np.random.default_rng((*seed, start))
        ht = random.gamma(3, 120, count)
        # The harder an event, the more it feels what is new.
        couplings = random.normal(0, 0.1, (count, COEFFICIENTS)) * (1 + ht / 500)[:, np.newaxis]
        yield {
            "channel": random.choice(len(CHANNELS), count, p=[0.5, 0.2, 0.05, 0.25]).astype(np.int32),
            "ht": ht.astype(np.float32),
            "lj0pt": random.gamma(2, 60, count).astype(np.float32),
            "ptz": random.gamma(2, 45, count).astype(np.float32),
            "weight": random.gamma(20, 0.05, count).astype(np.float32),
            "couplings": couplings.astype(np.float32),
        }


def _write_tree(path: Path, parts: Iterator[dict[str, NDArray[Any]]]) -> None:
    import uproot

    with uproot.recreate(path, compression=uproot.LZ4(1)) as file:
        for part in parts:
            if "Events" not in file:
                file.mktree("Events", {name: (array.dtype, array.shape[1:]) for name, array in part.items()})
            file["Events"].extend(part)


def show(console: Console, outcome: aliquot.Outcome) -> None:
    """What was filled, and what the guess has cost."""
    histograms, report = outcome.value, outcome.report
    held = sum(histogram.nbytes for histogram in histograms.values())
    rates = histograms["ht nominal"][:, 0].reshape(len(CHANNELS), BINS).sum(axis=1)
    console.print(f"{len(histograms)} histograms of {held / 1e6:.1f} MB; the rate of the Standard Model, by channel:")
    for channel, rate in zip(CHANNELS, rates, strict=True):
        console.print(f"  {channel:5} {rate:14,.1f} {'#' * round(50 * rate / rates.max())}")
    lost = report.stopped_seconds / (report.cores * report.wall_seconds)
    allowed = "" if report.allowed_bytes is None else f" of {report.allowed_bytes / report.cores / 1e6:.0f} MB"
    console.print(f"\n{report}")
    console.print(f"{report.steps} steps, {report.exhausted_steps} stopped for memory")
    console.print(f"{lost:.1%} of the workers' time lost in those")
    console.print(f"at most {report.peak_bytes / 1e6:.0f} MB{allowed} held by a worker")


def main() -> None:
    """Make events, and fill the histograms in a small allowance of memory."""
    parser = argparse.ArgumentParser(description="Fill histograms of polynomials in little memory.")
    parser.add_argument("--weights", action="store_true", help=f"all {TERMS} terms, and not only the Standard Model")
    parser.add_argument("--events", type=int, default=600_000)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--memory", default="400MB", help="that all workers may hold together")
    parser.add_argument("--size", type=int, default=512_000, help="a first guess of how many events fit")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="make the files here, and leave them")
    told = parser.parse_args()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as temporary:
        directory = told.keep or Path(temporary)
        console.print(f"making {told.events:,} events in {told.files} files")
        make_files(directory, told.events, told.files)
        columns = ["channel", "weight", *QUANTITIES, *(["couplings"] if told.weights else [])]
        source = aliquot.open(f"{directory}/*.npz", columns=columns, as_="numpy")
        job = aliquot.FunctionJob(partial(process, weights=told.weights), source)
        show(console, aliquot.run(job, on=aliquot.sites.Local(cores=2), memory=told.memory, size=told.size))


if __name__ == "__main__":
    main()
