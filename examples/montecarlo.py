"""Neutrons that fly into a wall: how many get through? The same answer to the last digit, however the work is divided.

python examples/montecarlo.py [NEUTRONS]

Random numbers are counted here, not drawn: a Philox generator gives the numbers of any neutron at once, by its own
number. So it does not matter which worker follows it, nor together with which others.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import numpy as np
from rich.console import Console

import aliquot

SEED = 2026
# In mean free paths.
WALL = 3.0
SCATTERED = 0.8
MOST_FLIGHTS = 24
# For each flight its length, whether the neutron is absorbed at its end, and where it goes on. Philox gives four
# numbers at each count, so that a neutron must have a multiple of four.
NUMBERS = 3 * MOST_FLIGHTS


def random_numbers(neutrons: range, seed: int = SEED) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """A row for each neutron, always the same one."""
    generator = np.random.Generator(np.random.Philox(key=seed, counter=neutrons.start * NUMBERS // 4))
    return generator.random((len(neutrons), NUMBERS))


def follow(neutrons: range, *, scattered: float = SCATTERED) -> Counter[str]:
    """What becomes of some neutrons: the work that is divided."""
    numbers = random_numbers(neutrons).reshape(len(neutrons), MOST_FLIGHTS, 3)
    flying = np.arange(len(neutrons))
    depth, direction = np.zeros(len(neutrons)), np.ones(len(neutrons))
    ends: Counter[str] = Counter()
    for flight in range(MOST_FLIGHTS):
        length, absorbing, turning = numbers[flying, flight].T
        depth = depth - direction * np.log1p(-length)
        through, back = depth > WALL, depth < 0
        absorbed = ~through & ~back & (absorbing >= scattered)
        ends.update(through=int(through.sum()), back=int(back.sum()), absorbed=int(absorbed.sum()))
        inside = ~(through | back | absorbed)
        flying, depth, direction = flying[inside], depth[inside], 2 * turning[inside] - 1
    ends.update(still_inside=len(flying))
    return ends


def main() -> None:
    """Follow them several times, each time divided in another way."""
    console = Console(highlight=False)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    found = []
    for cores, size in ((1, 1_000), (2, 10), (2, None)):
        began = time.perf_counter()
        site = aliquot.sites.Local(cores=cores)
        ends = aliquot.map_batches(follow, range(count), ordered=False, on=site, size=size)
        seconds = time.perf_counter() - began
        found.append(ends)
        guess = "no guess" if size is None else f"first guess {size:,}"
        console.print(f"{cores} cores, {guess}: {seconds:.2f} s, {dict(ends)}")
    for end, neutrons in found[0].most_common():
        share = neutrons / count
        error = (share * (1 - share) / count) ** 0.5
        console.print(f"{end:13}{share:9.5f} +- {error:.5f}  {'#' * round(60 * share)}")
    same = all(ends == found[0] for ends in found)
    console.print("the same each time, to the last neutron" if same else "they differ")


if __name__ == "__main__":
    main()
