"""Make a FASTQ file of short reads that looks like one from a sequencer: names, bases, qualities that fall off.

python examples/make_fastq.py reads.fastq 100    # 100 MB
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

READ_BASES = 100
READS_AT_ONCE = 20_000


def make_fastq(path: Path, target_bytes: int, seed: int = 1) -> None:
    """Write reads until the file has at least that many bytes; the same ones for the same seed."""
    random = np.random.default_rng(seed)
    bases = np.frombuffer(b"ACGT", dtype=np.uint8)
    falling_off = np.arange(READ_BASES) // 20
    temporary = path.with_suffix(".part")
    read = 0
    with temporary.open("wb") as file:
        while file.tell() < target_bytes:
            sequences = bases[random.integers(0, 4, (READS_AT_ONCE, READ_BASES))]
            noise = np.abs(random.normal(0, 4, (READS_AT_ONCE, READ_BASES))).astype(np.int64)
            qualities = (np.clip(40 - noise - falling_off, 2, 40) + 33).astype(np.uint8)
            reads = []
            for sequence, quality in zip(sequences, qualities, strict=True):
                name = b"@SIM:7:FLOWCELL:1:%d:%d:%d 1:N:0:ATCACG" % (1101 + read // 100_000, read * 7919 % 20_000, read)
                reads.append(b"%b\n%b\n+\n%b\n" % (name, sequence.tobytes(), quality.tobytes()))
                read += 1
            file.write(b"".join(reads))
    temporary.rename(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} PATH MEGABYTES")
    make_fastq(Path(sys.argv[1]), int(float(sys.argv[2]) * 1e6))
