"""What `make demo` runs first: make a FASTQ file, index it, divide it, read from the middle of it.

python examples/divide_fastq.py [PATH]    with a FASTQ file of your own, plain or compressed
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from make_fastq import make_fastq
from rich.console import Console
from rich.table import Table

import aliquot
from aliquot.quantities import format_bytes, format_count, format_seconds

SAMPLE = Path(__file__).parent.parent / "demo-data" / "sample.fastq"
SAMPLE_BYTES = 100_000_000
Value = TypeVar("Value")


def count_bases(reads: list[Any]) -> Counter[str]:
    """Count the bases of some reads: the work that is divided at the end."""
    counts: Counter[str] = Counter()
    for read in reads:
        for base in "ACGTN":
            counts[base] += read.sequence.count(base)
    return counts


def timed(action: Callable[[], Value]) -> tuple[Value, float]:
    """Do something and say how many seconds it took."""
    began = time.perf_counter()
    value = action()
    return value, time.perf_counter() - began


def make_sample(console: Console) -> None:
    """Make the sample data, unless it is there."""
    if not SAMPLE.exists():
        SAMPLE.parent.mkdir(exist_ok=True)
        console.print(f"making {format_bytes(SAMPLE_BYTES)} of reads, once: demo-data/{SAMPLE.name}")
        make_fastq(SAMPLE, SAMPLE_BYTES)


def main() -> None:
    """Show each operation and what it costs."""
    console = Console()
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    if path == SAMPLE:
        make_sample(console)

    steps = Table(title=f"{path.name}, {format_bytes(path.stat().st_size)}", title_justify="left")
    for heading in ("operation", "took", "what it gave"):
        steps.add_column(heading, justify="right" if heading == "took" else "left")

    def row(operation: str, seconds: float, gave: str) -> None:
        steps.add_row(operation, format_seconds(seconds), gave)

    aliquot.open(range(1)).read()  # load the library, which is not what is measured
    reads, seconds = timed(lambda: aliquot.open(path))
    row("open", seconds, "only the first bytes are read")
    reads.source.forget_index()
    reads = aliquot.open(path)
    first, seconds = timed(lambda: reads[0])
    row("first read, before any index", seconds, first.name.split()[0])
    units, seconds = timed(lambda: len(reads))
    row("count and index all reads", seconds, f"{format_count(units)} reads")
    again, seconds = timed(lambda: len(aliquot.open(path)))
    row("open and count again", seconds, f"{format_count(again)} reads, remembered")
    parts, seconds = timed(lambda: reads.split(units, 1))
    row("split into single reads", seconds, f"{format_count(len(parts))} parts, no file touched")
    middle = reads[units // 2 : units // 2 + 1000]
    names, seconds = timed(lambda: [read.name for read in middle.records()])
    row("1,000 reads from the middle", seconds, f"{names[0].split()[0]} ...")
    (begin, end), seconds = timed(middle.byte_range)
    row("where they are", seconds, f"bytes {format_count(begin)} to {format_count(end)}")
    with tempfile.TemporaryDirectory() as directory:
        half = reads[: units // 2]
        target = Path(directory) / "half.fastq"
        _, seconds = timed(lambda: half.instantiate(target))
        row("half of it as a file", seconds, format_bytes(target.stat().st_size))
    console.print(steps)

    job = aliquot.Bundle.of(aliquot.FunctionJob(count_bases, reads))
    division = Table(title="the same job, divided, executed from the last part to the first", title_justify="left")
    for heading in ("units", "reads", "took", "G and C"):
        division.add_column(heading, justify="right", min_width=12)
    executed = []
    for part in reversed(job.split(3, max(1, units // 4))):
        done, seconds = timed(part.attempt)
        executed.append(done)
        division.add_row(str(part.parts[0].where), format_count(part.size), format_seconds(seconds), gc_share(done))
    whole = reduce(lambda joined, part: joined.join(part)[0], executed)
    division.add_section()
    division.add_row("joined", format_count(whole.size), "", gc_share(whole))
    console.print(division)


def gc_share(done: aliquot.Bundle) -> str:
    """Say how many of the bases are G or C."""
    (counts,) = done.values()
    return f"{(counts['G'] + counts['C']) / counts.total():.2%}"


if __name__ == "__main__":
    main()
