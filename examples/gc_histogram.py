"""What `make demo` runs last: a function over all reads of a FASTQ file, on all cores, with nothing to tune.

python examples/gc_histogram.py [PATH]    with a FASTQ file of your own, plain or compressed
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from divide_fastq import SAMPLE, make_sample
from rich.console import Console

import aliquot

BINS = 25


def gc_histogram(reads: list[Any]) -> list[int]:
    """How many of some reads have how much of G and C: the work that is divided."""
    counts = [0] * BINS
    for read in reads:
        bases = read.sequence
        share = (bases.count("G") + bases.count("C")) / max(1, len(bases))
        counts[min(int(share * BINS), BINS - 1)] += 1
    return counts


def add(first: list[int], second: list[int]) -> list[int]:
    """Join two histograms."""
    return [one + other for one, other in zip(first, second, strict=True)]


def main() -> None:
    """Run it, and show the histogram and how the run went."""
    console = Console()
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    if path == SAMPLE:
        make_sample(console)
    job = aliquot.FunctionJob(gc_histogram, path, join=add)
    outcome = aliquot.run(job)
    histogram = outcome.value
    console.print(f"G and C in {sum(histogram):,} reads of {path.name}")
    for number, count in enumerate(histogram):
        if count:
            bar = "#" * max(1, round(50 * count / max(histogram)))
            console.print(f"{number / BINS:5.0%}  {bar} {count:,}", highlight=False)
    console.print(f"\n{outcome.report}", highlight=False)


if __name__ == "__main__":
    main()
