"""Commands and their outputs, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

from aliquot.jobs.command import Command, Stream, run_step
from aliquot.outputs import PartialOutput, find_rule


def cuts_of(units: int, random: Random) -> list[int]:
    """Where to cut so many units: anywhere, into any number of parts."""
    inner = random.sample(range(1, units), random.randint(0, min(5, units - 1))) if units > 1 else []
    return [0, *sorted(inner), units]


def run_in_steps(command: Command, cuts: Sequence[int], directory: Path) -> dict[str, bytes]:
    """Run a command on each part, one process each, and join its outputs."""
    pieces = [run_step(command, start, stop, str(directory / f"step{start}")) for start, stop in pairwise(cuts)]
    return join(command, pieces, directory)


def run_as_stream(command: Command, cuts: Sequence[int], directory: Path) -> dict[str, bytes]:
    """Run a command once, and feed it part after part."""
    stream = Stream(command, cuts[0], str(directory / "stream"))
    for start, stop in pairwise(cuts):
        if not stream.feed(start, stop):
            break
    return join(command, [stream.finish()], directory)


def join(command: Command, pieces: Sequence[dict[str, str]], directory: Path) -> dict[str, bytes]:
    """Join the outputs of all parts by their rules."""
    joined = {}
    for output in command.outputs:
        partial = PartialOutput(find_rule(output.rule), str(directory / f"{output.name}.partial"))
        for piece in pieces:
            partial.append(piece[output.name])
        target = directory / f"{output.name}.joined"
        partial.finish(str(target))
        joined[output.name] = target.read_bytes()
    return joined


def shell(script: str, directory: Path) -> bytes:
    """What a script prints."""
    return subprocess.run(["sh", "-c", script], cwd=directory, capture_output=True, check=True).stdout


def open_descriptors() -> set[str]:
    """What this process has open, but for compressed sources: those are kept for the next who reads them."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # it was that of the listing
        if not path.endswith(".gz"):
            found.add(f"{name} {path}")
    return found
