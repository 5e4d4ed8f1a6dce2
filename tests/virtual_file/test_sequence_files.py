"""FASTA and FASTQ, well and badly formed."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import aliquot
from aliquot.virtual_file.boundaries import BLOCK_BYTES

from .making import reads, write
from .refusals import refused


def test_quality_lines_may_begin_like_other_lines(tmp_path: Path) -> None:
    """'@', '+' and '>' are qualities too: only counting lines tells."""
    qualities = ["@II", "+II", ">II", "@+@", "+@+"] * 4000
    text = "".join(f"@r{number}\nACG\n+\n{quality}\n" for number, quality in enumerate(qualities))
    vf = aliquot.open(write(tmp_path / "a.fastq", text))
    assert len(vf) == len(qualities)
    assert [(record.name, record.qualities) for record in vf[9000:9100]] == [
        (f"r{number}", qualities[number]) for number in range(9000, 9100)
    ]


def test_a_read_may_be_larger_than_a_block(tmp_path: Path) -> None:
    """Long reads span blocks."""
    long = b"ACGT" * BLOCK_BYTES
    vf = aliquot.open(write(tmp_path / "a.fq", b"@a\n" + long + b"\n+\n" + b"I" * len(long) + b"\n" + reads(3)))
    assert [record.name for record in vf] == ["a", "read0", "read1", "read2"]
    assert vf[0].sequence.encode() == long


def test_fastq_of_several_lines_is_refused(tmp_path: Path) -> None:
    """At its first read, with the program that unwraps it."""
    path = write(tmp_path / "a.fastq", b"@m\nACGT\nACGT\n+\nIIII\nIIII\n" * 2)
    with refused("seqtk", path=path, unit=0, byte=0):
        len(aliquot.open(path))


def test_fastq_of_several_lines_behind_reads_of_four_is_refused(tmp_path: Path) -> None:
    """Also where the number of lines happens to be a multiple of four."""
    before = reads(3000)
    path = write(tmp_path / "a.fastq", before + b"@m\nACGT\nACGT\n+\nIIII\nIIII\n" * 2 + reads(10))
    vf = aliquot.open(path)
    assert len(vf) == 3013
    with refused("seqtk", path=path, unit=3000, byte=len(before)):
        list(vf)


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_last_read_without_all_its_lines_is_refused(tmp_path: Path, lines: int) -> None:
    """With its number and where it begins."""
    whole = reads(5)
    part = b"".join(b"@last\nACGT\n+\nIIII\n".splitlines(keepends=True)[:lines])
    path = write(tmp_path / "a.fastq", whole + part)
    with refused(f"{lines} of 4 lines", path=path, unit=5, byte=len(whole)):
        len(aliquot.open(path))


def test_a_refused_end_is_refused_again(tmp_path: Path) -> None:
    """Asking twice does not make a torn file whole."""
    path = write(tmp_path / "a.fastq", reads(5) + b"@last\n")
    vf = aliquot.open(path)
    for _ in range(2):
        with refused("1 of 4 lines", path=path, unit=5):
            len(vf)


def test_a_last_read_with_too_few_qualities_is_refused(tmp_path: Path) -> None:
    """A file cut in its last line is noticed when it is counted."""
    whole = reads(5)
    path = write(tmp_path / "a.fastq", whole + b"@last\nACGT\n+\nII")
    with refused("4 bases and 2 qualities", path=path, unit=5, byte=len(whole)):
        len(aliquot.open(path))


@pytest.mark.parametrize(
    "bad",
    [b"@bad\nACGT\n+\nII\n", b"bad\nACGT\n+\nIIII\n", b"@bad\nACGT\n-\nIIII\n", b"@bad\nACGT\n+other\nIIII\n"],
    ids=["qualities", "no @", "no +", "other name"],
)
def test_a_bad_read_in_the_middle_is_refused(tmp_path: Path, bad: bytes) -> None:
    """With its number and where it begins; those around it can be read."""
    before = reads(2000)
    path = write(tmp_path / "a.fastq", before + bad + reads(2000))
    vf = aliquot.open(path)
    assert len(vf) == 4001
    with refused("", path=path, unit=2000, byte=len(before)):
        list(vf)
    with refused("", path=path, unit=2000, byte=len(before)):
        vf[2000]
    assert vf[2001].name == "read0"


def test_blank_lines_at_the_end_of_fastq_are_refused_clearly(tmp_path: Path) -> None:
    """The message says that it may be blank lines."""
    path = write(tmp_path / "a.fastq", reads(2) + b"\n")
    with refused("blank lines", path=path, unit=2):
        len(aliquot.open(path))


@pytest.mark.parametrize(("name", "begin"), [("a.fastq", b"@a\nACG\n+\nIII\n"), ("a.fasta", b">a\nACG\n")])
def test_bytes_that_are_not_ascii_are_refused_where_they_are(tmp_path: Path, name: str, begin: bytes) -> None:
    """With the unit and the byte."""
    bad = begin.replace(b"C", b"\xe9")
    path = write(tmp_path / name, begin * 3 + bad + begin)
    with refused("ASCII", path=path, unit=3, byte=3 * len(begin) + begin.index(b"C")):
        list(aliquot.open(path))


def test_a_fasta_sequence_may_have_any_number_of_lines(tmp_path: Path) -> None:
    """Wrapped, empty and long ones, each one unit."""
    path = write(tmp_path / "a.fa", b">one x\nAC\nGT\n\nA\n>two\n>three\n" + b"ACGTACGT\n" * 20_000 + b">four\nA\n")
    vf = aliquot.open(path)
    assert [(record.name, len(record.sequence)) for record in vf] == [
        ("one x", 5),
        ("two", 0),
        ("three", 160_000),
        ("four", 1),
    ]
    assert vf[3:].read() == b">four\nA\n"


def test_a_mark_inside_a_fasta_title_begins_no_sequence(tmp_path: Path) -> None:
    """Only '>' at the beginning of a line does."""
    vf = aliquot.open(write(tmp_path / "a.fa", b">a >b > c\nAC\n>>d\nGT\n"))
    assert [(record.name, record.sequence) for record in vf] == [("a >b > c", "AC"), (">d", "GT")]


@pytest.mark.parametrize("garbage", [b"ACGT\n", b"\n", b"; comment\n", b" >a\n"])
def test_garbage_before_the_first_fasta_sequence_is_refused(tmp_path: Path, garbage: bytes) -> None:
    """It belongs to no sequence."""
    path = write(tmp_path / "a.fa", garbage + b">a\nAC\n")
    with refused("must begin with '>'", path=path, unit=0, byte=0):
        len(aliquot.open(path))


def test_a_file_without_a_known_name_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    """FASTA and FASTQ tell what they are."""
    assert [record.name for record in aliquot.open(write(tmp_path / "reads", reads(2)))] == ["read0", "read1"]
    assert [record.name for record in aliquot.open(write(tmp_path / "genome", b">a\nAC\n"))] == ["a"]


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzf"])
def test_batches_hold_the_reads_that_are_parsed_alone(tmp_path: Path, kind: str, program: Callable[[str], str]) -> None:
    """Of any size, from any read on, however it is compressed."""
    data = reads(60)
    match kind:
        case "plain":
            path = write(tmp_path / "a.fastq", data)
        case "gzip":
            path = write(tmp_path / "a.fastq.gz", gzip.compress(data))
        case _:
            blocked = subprocess.run([program("bgzip"), "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
            path = write(tmp_path / "a.fastq.gz", blocked)
    vf = aliquot.open(path)
    alone = [vf[unit] for unit in range(60)]
    for size in (*range(1, 62), None):
        for start, stop in ((0, 60), (7, 53), (59, 60)):
            batches = list(vf[start:stop].batches(size))
            assert [record for batch in batches for record in batch] == alone[start:stop]
            assert size is None or all(len(batch) == size for batch in batches[:-1])


@pytest.mark.parametrize("size", [None, 1, 7, 100, 10_000])
def test_a_bad_read_in_the_middle_of_batches_is_named(tmp_path: Path, size: int | None) -> None:
    """With its number and where it begins, after the batches before it."""
    before = reads(3000)
    path = write(tmp_path / "a.fastq", before + b"@bad\nACGT\n+\nII\n" + reads(3000))
    given = 0
    batches = aliquot.open(path).batches(size)
    with refused("", path=path, unit=3000, byte=len(before)):
        for batch in batches:
            given += len(batch)
    if size is not None:
        assert given == 3000 // size * size
