"""Lines, and what is the same for every format of text: ends of lines, ends of files, odd bytes, huge units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.virtual_file.boundaries import BLOCK_BYTES

from .making import write
from .refusals import refused

EMPTY = [
    ("e.txt", {}),
    ("e.csv", {}),
    ("e.csv", {"header": False}),
    ("e.tsv", {}),
    ("e.jsonl", {}),
    ("e.fasta", {}),
    ("e.fastq", {}),
    ("e.bin", {"format": "fixed", "record_bytes": 4}),
    ("e.bin", {"format": "fixed", "dtype": "<f8"}),
    ("unknown", {}),
]


@pytest.mark.parametrize(("name", "options"), EMPTY)
def test_an_empty_file_has_no_units(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """Neither records nor bytes, and no error."""
    vf = aliquot.open(write(tmp_path / name, b""), **options)
    assert len(vf) == 0
    assert list(vf) == []
    assert list(vf.batches()) == []
    assert vf.read() == b""
    assert vf.byte_range() == (0, 0)
    assert vf.split(3, 5) == []


@pytest.mark.parametrize(("name", "options"), EMPTY)
def test_an_empty_file_is_made_into_an_empty_file(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """It is instantiated like any other."""
    vf = aliquot.open(write(tmp_path / name, b""), **options)
    vf.instantiate(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b""


def test_there_is_no_unit_in_an_empty_file(tmp_path: Path) -> None:
    """Asking for one is an IndexError, as for a list."""
    vf = aliquot.open(write(tmp_path / "e.txt", b""))
    with pytest.raises(IndexError, match="no unit 0"):
        vf[0]
    with pytest.raises(IndexError, match="no unit -1"):
        vf[-1]


@pytest.mark.parametrize(
    ("name", "whole", "units"),
    [
        ("a.txt", b"one\ntwo", 2),
        ("a.csv", b"x,y\n1,2\n3,4", 2),
        ("a.tsv", b"x\ty\n1\t2\n3\t4", 2),
        ("a.jsonl", b'{"a":1}\n[2]', 2),
        ("a.fasta", b">a\nAC\n>b\nGT", 2),
        ("a.fastq", b"@a\nAC\n+\nII\n@b\nGT\n+\nII", 2),
    ],
)
def test_the_last_newline_may_be_missing(tmp_path: Path, name: str, whole: bytes, units: int) -> None:
    """The records are those of the same file with a last newline, and the bytes are those of the file."""
    vf = aliquot.open(write(tmp_path / name, whole))
    ended = aliquot.open(write(tmp_path / f"ended_{name}", whole + b"\n"))
    assert len(vf) == len(ended) == units
    assert [str(record) for record in vf] == [str(record) for record in ended]
    assert str(vf[-1]) == str(ended[-1])
    assert vf.read() == whole


def test_only_the_last_line_may_be_empty_text(tmp_path: Path) -> None:
    """A blank line is a line, wherever it is."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"\n\na\n\n"))
    assert list(vf) == ["", "", "a", ""]
    assert [vf[unit] for unit in range(4)] == ["", "", "a", ""]


@pytest.mark.parametrize(
    ("name", "data", "records"),
    [
        ("a.txt", b"one\r\n\r\nthree\r\n", ["one", "", "three"]),
        ("a.txt", b"one\r\ntwo", ["one", "two"]),
        ("a.csv", b'x,y\r\n1,"a\r\nb"\r\n3,4\r\n', [{"x": "1", "y": "a\r\nb"}, {"x": "3", "y": "4"}]),
        ("a.jsonl", b'{"a": 1}\r\n2\r\n', [{"a": 1}, 2]),
    ],
)
def test_carriage_returns_before_newlines_are_not_part_of_records(
    tmp_path: Path, name: str, data: bytes, records: list[Any]
) -> None:
    """Files from Windows have the same records."""
    assert list(aliquot.open(write(tmp_path / name, data))) == records


def test_a_carriage_return_within_a_line_stays(tmp_path: Path) -> None:
    """Only the one before the newline belongs to the end of the line."""
    assert list(aliquot.open(write(tmp_path / "a.txt", b"a\rb\r\r\n"))) == ["a\rb\r"]


@pytest.mark.parametrize("name", ["r.fastq", "r.fasta"])
def test_sequences_may_have_carriage_returns(tmp_path: Path, name: str) -> None:
    """FASTA and FASTQ from Windows have the same names and sequences."""
    data = (
        b"@a\r\nAC\r\n+\r\nII\r\n@b\r\nGTT\r\n+\r\nIII\r\n" if name == "r.fastq" else b">a\r\nA\r\nC\r\n>b\r\nGTT\r\n"
    )
    records = list(aliquot.open(write(tmp_path / name, data)))
    assert [(record.name, record.sequence) for record in records] == [("a", "AC"), ("b", "GTT")]


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_line_may_end_at_the_edge_of_a_block(tmp_path: Path, extra: int) -> None:
    """The newline as the last byte of a block, or as the first of the next, is found."""
    long = b"x" * (BLOCK_BYTES - 1 + extra)
    vf = aliquot.open(write(tmp_path / "a.txt", long + b"\nshort\n"), encoding=None)
    assert list(vf) == [long, b"short"]
    assert vf.byte_range() == (0, len(long) + 7)


def test_a_file_may_end_exactly_with_a_block(tmp_path: Path) -> None:
    """Whole blocks of lines hold no line more."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"1234567\n" * (2 * BLOCK_BYTES // 8)))
    assert len(vf) == 2 * BLOCK_BYTES // 8
    assert vf[-1] == "1234567"


def test_a_line_may_be_larger_than_a_block(tmp_path: Path) -> None:
    """Blocks without any start are skipped over."""
    long = b"y" * (3 * BLOCK_BYTES + 17)
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\n" + long + b"\nb\n"), encoding=None)
    assert [vf[2], vf[1], vf[0]] == [b"b", long, b"a"]
    assert [part.read() for part in vf.split(3, 1)] == [b"a\n", long + b"\n", b"b\n"]


def test_a_line_may_be_larger_than_100_megabytes(tmp_path: Path) -> None:
    """Its neighbours are read without it."""
    path = tmp_path / "huge.txt"
    huge_bytes = 101_000_000
    with path.open("wb") as file:
        file.write(b"before\n")
        file.truncate(7 + huge_bytes)  # a line of NULs that takes no room on the disk
        file.seek(7 + huge_bytes)
        file.write(b"\nafter\n")
    vf = aliquot.open(path, encoding=None)
    assert len(vf) == 3
    assert (vf[0], vf[2]) == (b"before", b"after")
    assert vf[1:2].byte_range() == (7, 8 + huge_bytes)
    assert len(vf[1]) == huge_bytes


def test_nul_bytes_are_bytes_of_a_line(tmp_path: Path) -> None:
    """They neither end a line nor get lost."""
    path = write(tmp_path / "a.txt", b"a\0b\n\0\n\0\0")
    assert list(aliquot.open(path)) == ["a\0b", "\0", "\0\0"]
    assert list(aliquot.open(path, encoding=None)) == [b"a\0b", b"\0", b"\0\0"]


def test_a_binary_file_of_unknown_name_is_not_guessed_to_be_lines(tmp_path: Path) -> None:
    """NULs and a name that says nothing: the user must say it."""
    path = write(tmp_path / "mystery", b"a\0b\n")
    with refused("what format", path=path):
        aliquot.open(path)
    assert list(aliquot.open(path, format="lines")) == ["a\0b"]


@pytest.mark.parametrize(
    ("name", "data", "unit", "byte"),
    [
        ("a.txt", b"good\nalso good\nbad \xff here\ngood\n", 2, 19),
        ("a.csv", b"x,y\n1,2\n3,\xff\n5,6\n", 1, 10),
        # JSON is decoded line by line: the byte is where its line begins.
        ("a.jsonl", b'1\n2\n"\xff"\n', 2, 4),
    ],
    ids=["lines", "csv", "jsonl"],
)
def test_invalid_utf8_is_refused_where_it_is(tmp_path: Path, name: str, data: bytes, unit: int, byte: int) -> None:
    """The error names the file, the unit and the byte."""
    path = write(tmp_path / name, data)
    with refused("(?i)utf-8|not JSON", path=path, unit=unit, byte=byte):
        list(aliquot.open(path))


def test_invalid_utf8_in_a_header_is_refused_where_it_is(tmp_path: Path) -> None:
    """The byte is that of the header, not one of the first row."""
    path = write(tmp_path / "a.csv", b"x,\xff\n1,2\n")
    with refused("utf-8", path=path, byte=2):
        list(aliquot.open(path))


def test_invalid_utf8_in_one_unit_does_not_hide_the_others(tmp_path: Path) -> None:
    """Units before and behind it are read alone."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"one\n\xff\nthree\n"))
    assert (vf[0], vf[2]) == ("one", "three")
    assert vf[1:2].read() == b"\xff\n"


def test_other_encodings_are_read_as_told(tmp_path: Path) -> None:
    """encoding='latin-1' gives text, encoding=None bytes."""
    path = write(tmp_path / "a.txt", b"caf\xe9\n\xff\n")
    assert list(aliquot.open(path, encoding="latin-1")) == ["caf\xe9", "\xff"]
    assert list(aliquot.open(path, encoding=None)) == [b"caf\xe9", b"\xff"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "no such encoding"])
def test_encodings_that_cannot_be_divided_are_refused(tmp_path: Path, encoding: str) -> None:
    """A newline must be the byte that is counted."""
    with pytest.raises(aliquot.UsageError, match=encoding):
        aliquot.open(write(tmp_path / "a.txt", b"a\n"), encoding=encoding)


def test_text_that_is_decoded_may_hold_other_line_separators(tmp_path: Path) -> None:
    """Only newlines end lines: not form feeds, not U+2028, not NEL."""
    text = "a\fb\x1cc\u2028d\x85e"
    assert list(aliquot.open(write(tmp_path / "a.txt", text + "\nnext\n"))) == [text, "next"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_utf16_text_is_refused(tmp_path: Path, name: str, encoding: str) -> None:
    """With the program that converts it."""
    path = write(tmp_path / name, "\ufeffx,y\n1,2\n".encode(encoding))
    with refused("UTF-16.*iconv", path=path, byte=0):
        len(aliquot.open(path))
    with refused("UTF-16.*iconv", path=path, byte=0):
        list(aliquot.open(path))


def test_utf16_rows_without_a_header_are_refused(tmp_path: Path) -> None:
    """As those with one."""
    path = write(tmp_path / "a.csv", "\ufeff1,2\n3,4\n".encode("utf-16-le"))
    with refused("UTF-16.*iconv", path=path, byte=0):
        len(aliquot.open(path, header=False))


def test_only_a_number_or_a_slice_selects_units(tmp_path: Path) -> None:
    """Anything else is the caller's mistake."""
    vf: Any = aliquot.open(write(tmp_path / "a.txt", b"a\nb\n"))
    for where in ("x", None, 1.0, (0, 1)):
        with pytest.raises(aliquot.UsageError, match="units are numbered"):
            vf[where]


@pytest.mark.parametrize(
    ("units", "sizes"), [(8, [1] * 8), (100, [12, 13] * 4), (5, [1] * 5), (0, []), (9, [1] * 7 + [2])]
)
def test_a_split_without_a_size_gives_nearly_equal_parts(tmp_path: Path, units: int, sizes: list[int]) -> None:
    """As many as asked for, fewer where there are fewer units; together they are the whole."""
    data = b"".join(b"%d\n" % number for number in range(units))
    parts = aliquot.open(write(tmp_path / "a.txt", data)).split(8)
    assert [len(part) for part in parts] == sizes
    assert b"".join(part.read() for part in parts) == data


def test_a_batch_is_all_units_at_once(tmp_path: Path) -> None:
    """Parsed, in one sequence."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\nb\nc\n"))
    assert vf.batch() == ["a", "b", "c"]
    assert vf[1:2].batch() == ["b"]
    assert vf[1:1].batch() == []
