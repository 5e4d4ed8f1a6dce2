"""Boundaries need no files: every rule is compared with a plain reading of the same bytes, cut anywhere."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.errors import Malformed, UsageError
from aliquot.virtual_file.boundaries import (
    BLOCK_BYTES,
    After,
    Boundaries,
    EqualSizes,
    EveryLines,
    LineBeginningWith,
    QuotedLines,
)


def starts_in_blocks(boundaries: Boundaries, data: bytes, block_bytes: int) -> list[int]:
    """All starts, found block by block."""
    found: list[int] = []
    state = 0
    for at in range(0, len(data), block_bytes):
        lead = min(boundaries.lookbehind_bytes, at)
        window = data[at - lead : at + block_bytes]
        starts = boundaries.find(window, lead, state)
        count, state = boundaries.scan(window, lead, state)
        assert count == len(starts)
        found += [at + int(start) for start in starts]
    return found


few_bytes = st.text(alphabet="a\n>$@", max_size=80).map(str.encode)
block_sizes = st.integers(1, 20)


@given(few_bytes, block_sizes)
def test_lines_are_found_whatever_the_blocks(data: bytes, block_bytes: int) -> None:
    """A line begins after each newline."""
    expected = [at + 1 for at, byte in enumerate(data) if byte == 10]
    assert starts_in_blocks(EveryLines(1), data, block_bytes) == expected


@given(few_bytes, block_sizes)
def test_a_mark_at_the_beginning_of_a_line_is_found_whatever_the_blocks(data: bytes, block_bytes: int) -> None:
    """Also where the newline is in one block and the mark in the next."""
    for mark in (b">", b">>", b"$$$"):
        expected = [at for at in range(1, len(data)) if data[at - 1 :].startswith(b"\n" + mark)]
        assert starts_in_blocks(LineBeginningWith(mark), data, block_bytes) == expected


@given(few_bytes, block_sizes)
def test_a_mark_at_the_end_of_a_unit_is_found_whatever_the_blocks(data: bytes, block_bytes: int) -> None:
    """Also where a mark is spread over several blocks."""
    for mark in (b"\n", b"$\n", b"$$$$\n"):
        expected = [at for at in range(len(mark), len(data) + 1) if data[:at].endswith(mark)]
        assert starts_in_blocks(After(mark), data, block_bytes) == expected


fields = st.text(alphabet='ab",\n', max_size=6)
tables = st.lists(st.lists(fields, min_size=1, max_size=3), max_size=8)


@given(tables, block_sizes)
def test_quoted_newlines_end_no_row_whatever_the_blocks(table: list[list[str]], block_bytes: int) -> None:
    """Rows begin where Python's csv module began them."""
    text = io.StringIO(newline="")
    expected = []
    for row in table:
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
        expected.append(text.tell())
    assert starts_in_blocks(QuotedLines(b'"', b","), text.getvalue().encode(), block_bytes) == expected


def test_a_quote_inside_an_unquoted_field_is_refused_at_its_byte() -> None:
    """Such a quote would swallow all rows up to the next one."""
    window = b'a,b\n5" pipe,c\n'
    with pytest.raises(Malformed) as raised:
        QuotedLines(b'"', b",").scan(window, 0, 0)
    assert raised.value.byte_within == 5


@pytest.mark.parametrize("tail", [0, 1, 1000])
@pytest.mark.parametrize("lead", [0, 1])
def test_a_run_of_blocks_is_counted_like_its_blocks(tail: int, lead: int) -> None:
    """The fast count of many blocks is the plain count of each, also where every byte is a newline."""
    random = np.random.default_rng(1)
    for data in (
        random.integers(9, 12, lead + 3 * BLOCK_BYTES + tail).astype(np.uint8),
        np.full(lead + 2 * BLOCK_BYTES + tail, 10, dtype=np.uint8),
    ):
        counts, states = EveryLines(4).scan_blocks(data.data, lead, 0)
        expected = [
            int(np.count_nonzero(data[at : at + BLOCK_BYTES] == 10)) for at in range(lead, len(data), BLOCK_BYTES)
        ]
        assert counts == expected
        assert states == bytes(len(expected))


def test_a_fault_in_a_later_block_is_counted_from_the_run() -> None:
    """The byte of a misplaced quote is that in the run of blocks, not in its block."""
    data = np.full(3 * BLOCK_BYTES, ord("x"), dtype=np.uint8)
    data[2 * BLOCK_BYTES + 7] = ord('"')
    with pytest.raises(Malformed) as raised:
        QuotedLines(b'"', b",").scan_blocks(data.data, 0, 0)
    assert raised.value.byte_within == 2 * BLOCK_BYTES + 7


def test_impossible_rules_are_refused() -> None:
    """Where they are made."""
    for make in (lambda: EveryLines(0), lambda: After(b""), lambda: LineBeginningWith(b""), lambda: EqualSizes(0)):
        with pytest.raises(UsageError):
            make()
