"""What `make demo` runs last: align reads with a real aligner on all cores, kill the run amid its work, and go on.

python examples/align_reads.py [READS]    with another number of reads than 200,000

The aligner is bwa; where that is not installed, mappy (from PyPI) through examples/align_with_mappy.py.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from rich.console import Console

DATA = Path("demo-data")
REFERENCE_BASES = 2_000_000
READS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
READ_BASES = 100

# Part of the reads that are aligned when the run is killed.
KILL_AT = 0.35


def make_data(console: Console) -> None:
    """A random reference and reads of it, with a few errors, as a sequencer would give."""
    if (DATA / "reads.fastq").exists():
        return
    console.print(f"making a reference of {REFERENCE_BASES:,} bases and {READS:,} reads in {DATA}/ (once)")
    DATA.mkdir(exist_ok=True)
    chance = Random(1)
    reference = "".join(chance.choices("ACGT", k=REFERENCE_BASES))
    (DATA / "reference.fa").write_text(f">demo\n{reference}\n")
    complement = str.maketrans("ACGT", "TGCA")
    temporary = DATA / "reads.part"
    with temporary.open("w") as file:
        for number in range(READS):
            start = chance.randrange(REFERENCE_BASES - READ_BASES)
            bases = list(reference[start : start + READ_BASES])
            for _ in range(chance.randrange(4)):
                bases[chance.randrange(READ_BASES)] = chance.choice("ACGT")
            read = "".join(bases)
            if number % 2:
                read = read[::-1].translate(complement)
            file.write(f"@read{number}\n{read}\n+\n{'I' * READ_BASES}\n")
    temporary.rename(DATA / "reads.fastq")


def aligner(console: Console) -> str:
    """The command that aligns some reads, ready for use."""
    if shutil.which("bwa"):
        if not (DATA / "reference.fa.bwt").exists():
            subprocess.run(["bwa", "index", DATA / "reference.fa"], check=True, capture_output=True)
        return f"bwa mem {DATA}/reference.fa {{reads}} > {{sam}}"
    try:
        import mappy  # noqa: F401  # only whether it is there
    except ImportError:
        console.print("bwa is not installed (apt-get install bwa): installing mappy, which aligns as well")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "mappy"], check=True)
    script = Path(__file__).with_name("align_with_mappy.py")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {DATA}/reference.fa {{reads}} > {{sam}}"


def main() -> None:
    """Align, be killed, go on, compare."""
    console = Console(highlight=False)
    make_data(console)
    command = aligner(console)
    program = shutil.which("aliquot", path=os.path.dirname(sys.executable)) or "aliquot"
    target = DATA / "aligned.sam"
    target.unlink(missing_ok=True)
    shutil.rmtree(f".aliquot/{DATA}-{target.name}", ignore_errors=True)
    run = [program, "run", "--split", f"reads={DATA}/reads.fastq", "--join", f"sam={target}", "--", command]
    console.print(f"\n[bold]$ aliquot {shlex.join(run[1:])}[/bold]", soft_wrap=True)
    killed_at = run_until_killed(run)
    console.print(f"killed with -9 when {killed_at:.0%} was done, its workers with it: {target} is not there")
    console.print("\n[bold]the same command again[/bold]")
    subprocess.run(run, check=True)
    check(console, command, target)
    page = DATA / "report.html"
    console.print(f"\n[bold]$ aliquot report {target} --html {page}[/bold]")
    subprocess.run([program, "report", target, "--html", page], check=True)


def run_until_killed(run: list[str]) -> float:
    """Start it, and kill everything of it with -9 amid its work; which part was done for certain by then."""
    from aliquot.journal import list_runs

    process = subprocess.Popen(run, start_new_session=True)
    done = 0.0
    while process.poll() is None:
        time.sleep(0.05)
        summary = next((one for one in list_runs() if one.name.endswith("aligned.sam")), None)
        if summary is not None and summary.units:
            done = summary.done_units / summary.units
            if done >= KILL_AT:
                os.killpg(process.pid, signal.SIGKILL)
                break
    process.wait()
    return done


def check(console: Console, command: str, target: Path) -> None:
    """Compare with the program itself, over all reads at once."""
    whole = DATA / "whole.sam"
    subprocess.run(
        command.format(reads=DATA / "reads.fastq", sam=whole), shell=True, check=True, stderr=subprocess.DEVNULL
    )
    lines, expected = (
        [line for line in path.read_bytes().splitlines() if not line.startswith(b"@PG")] for path in (target, whole)
    )
    aligned = sum(not line.startswith(b"@") and not int(line.split(b"\t", 2)[1]) & 4 for line in lines)
    assert lines == expected, f"{target} is not what the program makes of all reads at once"
    console.print(f"{target}: {aligned:,} of {READS:,} reads aligned; line for line what one run over all reads gives")


if __name__ == "__main__":
    main()
