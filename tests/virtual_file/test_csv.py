"""Rows: quotes, headers, delimiters."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from random import Random

import pytest

import aliquot
from aliquot.virtual_file.boundaries import BLOCK_BYTES

from .making import write
from .refusals import refused


def test_a_file_of_only_a_header_has_no_rows(tmp_path: Path) -> None:
    """It is empty, and its slice is the header."""
    for number, data in enumerate((b"x,y\n", b"x,y", b"x,y\r\n")):
        vf = aliquot.open(write(tmp_path / f"{number}.csv", data))
        assert len(vf) == 0
        assert list(vf) == []
        assert vf.read().rstrip() == b"x,y"


def test_quoted_fields_may_hold_newlines_delimiters_and_doubled_quotes(tmp_path: Path) -> None:
    """Such rows are one unit each."""
    data = b'name,text\n"a,1","two\nlines"\nb,"say ""hi"", twice"\n"c","\n""\n"\n'
    vf = aliquot.open(write(tmp_path / "a.csv", data))
    assert list(vf) == [
        {"name": "a,1", "text": "two\nlines"},
        {"name": "b", "text": 'say "hi", twice'},
        {"name": "c", "text": '\n"\n'},
    ]
    assert vf[1:2].read() == b'name,text\nb,"say ""hi"", twice"\n'


@pytest.mark.parametrize("shift", range(4))
def test_a_quoted_field_may_span_several_blocks(tmp_path: Path, shift: int) -> None:
    """Also where a doubled quote is cut by the edge of a block."""
    field = ("x" * (shift + 1) + '\n",') * BLOCK_BYTES
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([["k", "v"], ["first", "1"], ["long", field], ["last", "2"]])
    vf = aliquot.open(write(tmp_path / "a.csv", text.getvalue()))
    assert len(vf) == 3
    assert [row["v"] for row in vf] == ["1", field, "2"]
    assert vf[2] == {"k": "last", "v": "2"}


def test_random_tables_are_read_as_by_the_csv_module(tmp_path: Path) -> None:
    """Every slice of a table full of quotes has the rows that Python's csv module finds in it."""
    random = Random(7)
    rows = [["".join(random.choices('a",\n\r\u00e9', k=random.randrange(12))) for _ in range(3)] for _ in range(4000)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    vf = aliquot.open(write(tmp_path / "a.csv", text.getvalue()), header=False)
    assert len(vf) == len(rows)
    for _ in range(30):
        start = random.randrange(len(rows))
        stop = random.randrange(start, min(start + 50, len(rows)))
        assert list(vf[start:stop]) == rows[start:stop]


def test_the_header_is_repeated_in_every_slice(tmp_path: Path) -> None:
    """Each is a table of its own, that can be opened and divided again."""
    path = write(tmp_path / "a.csv", 'x,"y\nz"\n' + "".join(f"{n},{n * n}\n" for n in range(7)))
    parts = aliquot.open(path).split(3, 2)
    found = []
    for number, part in enumerate(parts):
        part.instantiate(tmp_path / f"{number}.csv")
        assert (tmp_path / f"{number}.csv").read_bytes().startswith(b'x,"y\nz"\n')
        found += list(aliquot.open(tmp_path / f"{number}.csv"))
    assert found == [{"x": str(n), "y\nz": str(n * n)} for n in range(7)]


@pytest.mark.parametrize("rows_before", [0, 1, 3, 20_000])
def test_a_quote_in_the_middle_of_a_field_is_refused(tmp_path: Path, rows_before: int) -> None:
    """With the row and the byte of the quote."""
    before = b"x,y\n" + b"1,2345\n" * rows_before
    path = write(tmp_path / "a.csv", before + b'3,5" disk\n' + b"1,2\n" * 5)
    with refused("quote in the middle", path=path, unit=rows_before, byte=len(before) + 3):
        len(aliquot.open(path))


def test_a_quote_in_the_middle_of_a_field_means_nothing_with_quote_none(tmp_path: Path) -> None:
    """As the advice of the refusal says."""
    path = write(tmp_path / "a.csv", b'x,y\n3,5" disk\n"4,6\n')
    assert list(aliquot.open(path, quote=None)) == [{"x": "3", "y": '5" disk'}, {"x": '"4', "y": "6"}]


@pytest.mark.parametrize("header", [b'x,5" disk\n', b'x,"y\n', b'x,y"\n'], ids=["middle", "unclosed", "end"])
def test_a_misplaced_quote_in_the_header_is_refused(tmp_path: Path, header: bytes) -> None:
    """It must not swallow the rows behind it."""
    path = write(tmp_path / "a.csv", header + b"1,2\n3,4\n")
    with refused("quote", path=path):
        len(aliquot.open(path))


def test_text_behind_a_closing_quote_is_refused(tmp_path: Path) -> None:
    """With the row and the byte at which it begins."""
    path = write(tmp_path / "a.csv", b'x,y\n1,2\n"a"b,4\n5,6\n')
    with refused("not a row", path=path, unit=1, byte=8):
        list(aliquot.open(path))


@pytest.mark.parametrize("behind", [b"", b"5,6\n" * 50_000], ids=["short", "long"])
def test_an_unclosed_quote_is_refused(tmp_path: Path, behind: bytes) -> None:
    """With the row in which it was opened."""
    path = write(tmp_path / "a.csv", b'x,y\n1,2\n3,"4\n' + behind)
    with refused("never closed", path=path, unit=1, byte=8):
        len(aliquot.open(path))


@pytest.mark.parametrize(
    ("row", "says"), [(b"3,4,5\n", "3 fields"), (b"3\n", "1 field"), (b"\n", "blank")], ids=["more", "fewer", "blank"]
)
def test_a_row_with_another_number_of_fields_is_refused(tmp_path: Path, row: bytes, says: str) -> None:
    """With its unit and its byte."""
    path = write(tmp_path / "a.csv", b"x,y\n1,2\n10,20\n" + row + b"5,6\n")
    vf = aliquot.open(path)
    assert len(vf) == 4
    with refused(says, path=path, unit=2, byte=14):
        list(vf)
    with refused(says, path=path, unit=2, byte=14):
        vf[2]


def test_tab_separated_rows_are_known_by_their_name(tmp_path: Path) -> None:
    """In .tsv and .tab files, a comma is a character like any other."""
    for name in ("a.tsv", "a.tab", "A.TSV"):
        vf = aliquot.open(write(tmp_path / name, b'x\ty\n1,5\t"a\tb"\n'))
        assert list(vf) == [{"x": "1,5", "y": "a\tb"}]


def test_without_a_header_rows_are_lists(tmp_path: Path) -> None:
    """The first row is a unit, and rows may have any number of fields."""
    vf = aliquot.open(write(tmp_path / "a.csv", b"1,2\n3\n4,5,6\n"), header=False)
    assert list(vf) == [["1", "2"], ["3"], ["4", "5", "6"]]
    assert vf[1:].read() == b"3\n4,5,6\n"


def test_any_ascii_character_may_be_delimiter_or_quote(tmp_path: Path) -> None:
    """As told in the options."""
    vf = aliquot.open(write(tmp_path / "a.csv", b"x;y\n'1;\n1';2\n"), delimiter=";", quote="'")
    assert list(vf) == [{"x": "1;\n1", "y": "2"}]


@pytest.mark.parametrize(
    "options",
    [{"delimiter": ""}, {"delimiter": ",,"}, {"delimiter": "\n"}, {"quote": "\u00e9"}, {"delimiter": '"'}],
)
def test_delimiters_and_quotes_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    """Before anything is read."""
    with pytest.raises(aliquot.UsageError, match=r"delimiter|quote"):
        aliquot.open(write(tmp_path / "a.csv", b"x,y\n"), **options)


def test_carriage_returns_alone_are_not_taken_for_rows(tmp_path: Path) -> None:
    """A file of an old Macintosh is refused instead of read as one row."""
    path = write(tmp_path / "a.csv", b"x,y\n1,2\r3,4\r5,6\r\n")
    with refused("", path=path, unit=0, byte=4):
        list(aliquot.open(path))


@pytest.mark.parametrize("name", ["DATA.CSV.GZ", "Data.Csv.gz"])
def test_names_may_be_in_upper_case(tmp_path: Path, name: str) -> None:
    """Both suffixes mean what they mean in lower case."""
    vf = aliquot.open(write(tmp_path / name, gzip.compress(b"x,y\n1,2\n")))
    assert list(vf) == [{"x": "1", "y": "2"}]


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    """Also where that is quoted and holds a delimiter; slices begin as the file does."""
    for number, column in enumerate((b"x", b'"x"', b'"x,\nz"')):
        data = BYTE_ORDER_MARK + column + b",y\n1,2\n3,4\n"
        vf = aliquot.open(write(tmp_path / f"{number}.csv", data))
        name = column.decode().strip('"')
        assert list(vf) == [{name: "1", "y": "2"}, {name: "3", "y": "4"}]
        assert vf[1:].read() == BYTE_ORDER_MARK + column + b",y\n3,4\n"


@pytest.mark.parametrize("first", [b"1", b'"1"', b'"1,\n2"'])
def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path, first: bytes) -> None:
    """Where there is no header."""
    path = write(tmp_path / "a.csv", BYTE_ORDER_MARK + first + b",2\n3,4\n")
    vf = aliquot.open(path, header=False)
    assert list(vf) == [[first.decode().strip('"'), "2"], ["3", "4"]]
    vf[1:].instantiate(tmp_path / "part.csv")
    assert list(aliquot.open(tmp_path / "part.csv", header=False)) == [["3", "4"]]


def test_an_empty_table_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    """With or without a header, it has no rows."""
    path = write(tmp_path / "a.csv", BYTE_ORDER_MARK)
    for header in (True, False):
        assert list(aliquot.open(path, header=header)) == []
