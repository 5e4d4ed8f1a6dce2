from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_demo_runs_on_a_small_file(tmp_path: Path) -> None:
    """All of its rows appear, and the joined job has every read."""
    path = tmp_path / "small.fastq"
    subprocess.run([sys.executable, EXAMPLES / "make_fastq.py", path, "1"], check=True)
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "divide_fastq.py", path], capture_output=True, text=True, check=True
    )
    reads = path.read_bytes().count(b"\n+\n")
    assert f"{reads:,} reads, remembered" in ran.stdout
    assert ran.stdout.count("%") == 5


def test_the_histogram_has_every_read(tmp_path: Path) -> None:
    """On all cores, with a report at the end."""
    path = tmp_path / "small.fastq"
    subprocess.run([sys.executable, EXAMPLES / "make_fastq.py", path, "1"], check=True)
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "gc_histogram.py", path], capture_output=True, text=True, check=True
    )
    reads = path.read_bytes().count(b"\n+\n")
    assert f"G and C in {reads:,} reads" in ran.stdout
    assert f"{reads:,} units in" in ran.stdout


def test_reads_are_aligned_by_a_run_that_was_killed(tmp_path: Path) -> None:
    """The end of the demo: the same lines as from one run of the aligner, and a report."""
    ran = subprocess.run(
        [sys.executable, EXAMPLES / "align_reads.py", "30000"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = " ".join(ran.stdout.split())
    assert "killed with -9" in said
    assert "of 30,000 reads aligned; line for line what one run over all reads gives" in said
    assert "going on with the run" in " ".join(ran.stderr.split())
    assert "<svg" in (tmp_path / "demo-data/report.html").read_text()
