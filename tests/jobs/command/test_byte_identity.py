"""However a source is cut, the joined outputs are what the program makes of the whole."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.jobs.command import Command
from tests.jobs.command.making import cuts_of, run_as_stream, run_in_steps, shell

PROGRAMS = [
    "cat {x}",
    "grep -a -v 1 {x} || true",
    "tr a-z A-Z {x}",
    "awk '{{print NF, $1, length($0)}}' {x}",
    "sed -e 's/a/b/' {x} | tr b c",
]
# Lines of any bytes but those that are taken for UTF-16, with the last one ended or not.
NOT_IN_LINES = bytes.maketrans(b"\n\0\xfe\xff", b"....")
LINES = st.lists(st.binary(max_size=12).map(lambda line: line.translate(NOT_IN_LINES)), max_size=30)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("way", ["file", "stream", "several files"])
@given(lines=LINES, is_ended=st.booleans(), seed=st.integers(0, 10**6))
@settings(max_examples=6)
def test_lines(program: str, way: str, lines: list[bytes], is_ended: bool, seed: int) -> None:
    """Programs that work line by line, given files or fed, over one file or several."""
    random = Random(seed)
    redirected = program.replace("{x}", "< {x}") if way == "stream" or program.startswith("tr") else program
    with TemporaryDirectory() as name:
        directory = Path(name)
        data = b"\n".join(lines) + (b"\n" if is_ended and lines else b"")
        (directory / "whole").write_bytes(data)
        middle = data.find(b"\n", len(data) // 2)
        # An empty line without its newline would be none.
        if way == "several files" and 0 < middle < len(data) - 1 and data[middle - 1] != ord("\n"):
            (directory / "1.part").write_bytes(data[:middle])
            (directory / "2.part").write_bytes(data[middle + 1 :])
            view = aliquot.open(str(directory / "*.part"), "lines", compression="none")
        else:
            view = aliquot.open(directory / "whole", "lines", compression="none")
        command = Command(redirected, split={"x": view}, join={"o": "o"}, directory=directory)
        whole = shell(command.template.render({"x": "whole", "x:pipe": "whole"}), directory)
        run = run_as_stream if way == "stream" else run_in_steps
        assert run(command, cuts_of(len(view), random), directory)["o"] == whole


@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=30), seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_rows_of_csv(rows: list[int], seed: int) -> None:
    """Every slice has the header, and the joined output has it once."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        whole = "a,b\n" + "".join(f'{number},"x\n{row}"\n' for number, row in enumerate(rows))
        (directory / "rows.csv").write_text(whole)
        command = Command("cat {x} > {o}", split={"x": directory / "rows.csv"}, join={"o": "o.csv"})
        assert run_in_steps(command, cuts_of(len(rows), Random(seed)), directory)["o"].decode() == whole


@given(units=st.integers(1, 200), seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_compressed_in_and_out(units: int, seed: int) -> None:
    """Parts that a program has compressed are one compressed file together."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        data = b"".join(b"line %d\n" % number for number in range(units))
        (directory / "lines.txt.gz").write_bytes(gzip.compress(data))
        command = Command("gzip -c {x}", split={"x": directory / "lines.txt.gz"}, join={"o": "o.txt.gz"})
        found = run_in_steps(command, cuts_of(units, Random(seed)), directory)["o"]
        assert gzip.decompress(found) == data


@given(units=st.integers(1, 50), seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_pairs(units: int, seed: int) -> None:
    """Two files that are cut at the same units, given or fed."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        for side in "12":
            reads = "".join(
                f"@r{number}/{side}\n{'ACGT' * (number % 5 + 1)}\n+\n{'IIII' * (number % 5 + 1)}\n"
                for number in range(units)
            )
            (directory / f"{side}.fastq").write_text(reads)
        whole = shell("paste 1.fastq 2.fastq", directory)
        split = {"a": directory / "1.fastq", "b": directory / "2.fastq"}
        cuts = cuts_of(units, Random(seed))
        assert run_in_steps(Command("paste {a} {b}", split=split), cuts, directory)["stdout"] == whole
        assert run_as_stream(Command("paste {a:pipe} {b:pipe}", split=split), cuts, directory)["stdout"] == whole


@given(units=st.integers(1, 100), seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_sums(units: int, seed: int) -> None:
    """A number for each part, and their sum."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "lines.txt").write_text("x y\n" * units)
        command = Command("wc -w < {x}", split={"x": directory / "lines.txt"}, join={"n": "n:sum"})
        assert run_in_steps(command, cuts_of(units, Random(seed)), directory)["n"].split() == [str(2 * units).encode()]
