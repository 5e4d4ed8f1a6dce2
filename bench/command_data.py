"""A made-up genome of the size of a bacterium's with its index, and reads from it: made once."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.data import DIRECTORY, make_once

READ_BASES = 100

_Bytes = NDArray[np.uint8]
_GENOME_BASES = 4_600_000
_FULL_READS, _QUICK_READS = 200_000, 20_000
_MOST_ERRORS = 3
_LINE_BASES = 80
_BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
# No '@', by which GNU parallel is to know the beginning of a read, and no ':' or small letters, which makeflow_bwa's
# filter takes for messages of bwa.
_QUALITIES = np.frombuffer(b"ABCDEFGHI", dtype=np.uint8)
_INDEX_SUFFIXES = (".amb", ".ann", ".bwt", ".pac", ".sa")


@dataclass(frozen=True)
class CommandData:
    """Paths of a reference that ``bwa index`` has seen, and of ``count`` reads from it."""

    reference: str
    reads: str
    count: int

    @property
    def read_bytes(self) -> float:
        """How long a read is in the file, on the average."""
        return os.path.getsize(self.reads) / self.count

    def link_into(self, directory: str, *, only_reads: int | None = None) -> None:
        """Make it all look as if it were there: ref.fa and reads.fastq, all reads or the first of them."""
        for suffix in ("", *_INDEX_SUFFIXES):
            os.symlink(self.reference + suffix, os.path.join(directory, "ref.fa" + suffix))
        path = os.path.join(directory, "reads.fastq")
        if only_reads is None:
            os.symlink(self.reads, path)
            return
        with open(self.reads, "rb") as file, open(path, "wb") as output:
            for _ in range(4 * only_reads):
                output.write(file.readline())


def make_command_data(*, quick: bool) -> CommandData:
    """Find the data, or make what is missing of it."""
    directory = os.path.abspath(os.path.join(DIRECTORY, "commands"))
    os.makedirs(directory, exist_ok=True)
    reference = os.path.join(directory, "ref.fa")
    count = _QUICK_READS if quick else _FULL_READS
    reads = os.path.join(directory, f"reads-{count}.fastq")
    genome = _BASES[np.random.default_rng(1).integers(0, 4, _GENOME_BASES)]
    make_once(reference, lambda path: _write_reference(path, genome))
    # The last of the files that it makes.
    make_once(f"{reference}.sa", lambda path: _index(reference, path))
    make_once(reads, lambda path: _write_reads(path, genome, count))
    return CommandData(reference, reads, count)


def _write_reference(path: str, genome: _Bytes) -> None:
    lines = np.hstack((genome.reshape(-1, _LINE_BASES), _same(b"\n", _GENOME_BASES // _LINE_BASES)))
    with open(path, "wb") as file:
        file.write(b">genome\n" + lines.tobytes())


def _index(reference: str, path: str) -> None:
    program = shutil.which("bwa")
    assert program is not None, "whoever asks for the data has looked for it"
    unfinished = f"{reference}.index"
    subprocess.run([program, "index", "-p", unfinished, reference], check=True, capture_output=True)
    for suffix in _INDEX_SUFFIXES[:-1]:
        os.replace(unfinished + suffix, reference + suffix)
    os.replace(f"{unfinished}.sa", path)


def _write_reads(path: str, genome: _Bytes, count: int) -> None:
    """Half of them from the other strand, each with up to three wrong bases."""
    random = np.random.default_rng(2)
    starts = random.integers(0, _GENOME_BASES - READ_BASES, count)
    codes = np.searchsorted(_BASES, genome[starts[:, None] + np.arange(READ_BASES)]).astype(np.uint8)
    is_reverse = random.random(count) < 0.5
    codes[is_reverse] = 3 - codes[is_reverse, ::-1]
    errors = random.integers(0, _MOST_ERRORS + 1, count)
    for number in range(_MOST_ERRORS):
        rows = np.flatnonzero(errors > number)
        places = random.integers(0, READ_BASES, len(rows))
        codes[rows, places] = (codes[rows, places] + random.integers(1, 4, len(rows))) % 4
    bases = _BASES[codes]
    qualities = _QUALITIES[random.integers(0, len(_QUALITIES), bases.shape)]
    with open(path, "wb") as file:
        for number in range(count):
            file.write(b"@r%d\n%b\n+\n%b\n" % (number, bases[number].tobytes(), qualities[number].tobytes()))


def _same(text: bytes, count: int) -> _Bytes:
    return np.tile(np.frombuffer(text, dtype=np.uint8), (count, 1))
