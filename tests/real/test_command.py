"""Commands with the programs that they are for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from aliquot.jobs.command import Command, CommandError, Stream, run_step
from tests.jobs.command.making import cuts_of, run_as_stream, run_in_steps
from tests.virtual_file.conftest import program

__all__ = ["program"]  # a fixture

_READS = 400


@pytest.fixture
def reference(tmp_path: Path, program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small genome with its index, and reads from it: single ones and pairs."""
    program("bwa")
    monkeypatch.chdir(tmp_path)
    random = Random(1)
    genome = "".join(random.choices("ACGT", k=20_000))
    Path("ref.fa").write_text(f">chr\n{genome}\n")
    subprocess.run(["bwa", "index", "ref.fa"], check=True, capture_output=True)
    sides: dict[int, list[str]] = {1: [], 2: []}
    complement = str.maketrans("ACGT", "TGCA")
    for number in range(_READS):
        at = random.randrange(len(genome) - 400)
        sequences = {1: genome[at : at + 80], 2: genome[at + 220 : at + 300].translate(complement)[::-1]}
        for side, sequence in sequences.items():
            sides[side].append(f"@r{number}/{side}\n{sequence}\n+\n{'I' * 80}\n")
    for side, texts in sides.items():
        Path(f"{side}.fastq").write_text("".join(texts))
    return tmp_path


def records(sam: bytes) -> list[bytes]:
    return [line for line in sam.splitlines() if not line.startswith(b"@")]


def header(sam: bytes) -> list[bytes]:
    return [line for line in sam.splitlines() if line.startswith(b"@") and not line.startswith(b"@PG")]


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("bwa mem ref.fa {x} > {sam}", run_in_steps),
        ("bwa mem -t {cores} ref.fa '{x}'", run_in_steps),
        ("bwa mem ref.fa - < {x} > {sam}", run_as_stream),
        ("bwa mem ref.fa {x:pipe} > {sam}", run_as_stream),
    ],
)
def test_bwa_mem(reference: Path, text: str, run: Callable[..., dict[str, bytes]]) -> None:
    """The records are those of one run over all reads, and the header is there once."""
    whole = subprocess.run(["bwa", "mem", "ref.fa", "1.fastq"], check=True, capture_output=True).stdout
    for seed in range(3):
        command = Command(text, split={"x": "1.fastq"}, join={"sam": "out.sam"})
        place = reference / str(seed)
        place.mkdir()
        sam = run(command, cuts_of(_READS, Random(seed)), place)["sam"]
        assert records(sam) == records(whole)
        assert header(sam) == header(whole)
        assert sam.count(b"@PG") == whole.count(b"@PG") == 1


def test_bwa_mem_of_pairs_through_pipes(reference: Path) -> None:
    """One process sees all pairs, however they are fed: the same records, byte by byte."""
    whole = subprocess.run(["bwa", "mem", "ref.fa", "1.fastq", "2.fastq"], check=True, capture_output=True).stdout
    split = {"a": "1.fastq", "b": "2.fastq"}
    command = Command("bwa mem ref.fa {a:pipe} {b:pipe} > {sam}", split=split, join={"sam": "out.sam"})
    assert records(run_as_stream(command, cuts_of(_READS, Random(0)), reference)["sam"]) == records(whole)


def test_bwa_in_a_sandbox(reference: Path) -> None:
    """With links to the reference and its indexes."""
    command = Command(
        "bwa mem ref.fa {x} > {sam}", split={"x": "1.fastq"}, join={"sam": "out.sam"}, sandbox=True, inputs=["ref.fa*"]
    )
    outputs = run_step(command, 0, 50, "place")
    assert len(records(Path(outputs["sam"]).read_bytes())) == 50


def test_a_pipe_of_bwa_and_samtools(reference: Path, program: Callable[[str], str]) -> None:
    """A program that is killed before the pipe is missed by nobody, though samtools ends well."""
    program("samtools")
    text = "bwa mem ref.fa {x} | samtools view -h - > {sam}"
    command = Command(text, split={"x": "1.fastq"}, join={"sam": "out.sam"})
    assert command.template.programs() == ["bwa", "samtools"]
    assert len(records(run_in_steps(command, [0, 150, _READS], reference)["sam"])) == _READS
    killed = Command(
        "(bwa mem ref.fa {x}; kill -9 $(sh -c 'echo $PPID')) | samtools view -h - > {sam}",
        split={"x": "1.fastq"},
        join={"sam": "out.sam"},
    )
    with pytest.raises(CommandError) as failed:
        run_step(killed, 0, _READS, "place")
    assert failed.value.signal == "SIGKILL"


def test_bwa_that_fails_is_shown_with_its_words(reference: Path) -> None:
    """A reference that is not there."""
    command = Command("bwa mem missing.fa {x} > {sam}", split={"x": "1.fastq"}, join={"sam": "out.sam"})
    with pytest.raises(CommandError, match="fail to locate the index"):
        run_step(command, 0, 10, "place")


def test_bwa_that_is_killed_while_it_is_fed(reference: Path) -> None:
    """Feeding ends, and the error names the signal."""
    write_end = os.open("1.fastq", os.O_WRONLY | os.O_APPEND)
    data = Path("1.fastq").read_bytes()
    for _ in range(50):
        os.write(write_end, data)
    os.close(write_end)
    command = Command("bwa mem ref.fa - < {x} > {sam}", split={"x": "1.fastq"}, join={"sam": "out.sam"})
    stream = Stream(command, 0, "place")
    assert stream.feed(0, 100)
    os.kill(stream.process, signal.SIGKILL)
    assert not stream.feed(100, len(command.source))
    with pytest.raises(CommandError, match="killed by SIGKILL"):
        stream.finish()
