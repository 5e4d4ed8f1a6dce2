"""What is told of outputs whose parts begin with headers."""

from __future__ import annotations

import gzip
import re

import pytest

from aliquot.outputs.headers import warning_about

SAM = b"@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:chr1\tLN:100\nr1\t0\n"


@pytest.mark.parametrize(
    ("beginning", "rule", "says"),
    [
        (SAM, "concat", "several times: --join x=out:sam has it once"),
        (b"@SQ\tSN:chr1\tLN:100\n", "concat", "several times"),
        (gzip.compress(SAM, mtime=0), "concat", "most programs cannot read out"),
        (gzip.compress(b"BAM\1" + bytes(100), mtime=0), "concat", "most programs cannot read out"),
        (SAM, "sam", r"sorted \(SO:coordinate\), and each part was sorted by itself"),
        (SAM.replace(b"coordinate", b"queryname"), "sam", "SO:queryname"),
    ],
)
def test_headers_that_mislead_are_told_of(beginning: bytes, rule: str, says: str) -> None:
    """With what to do."""
    warning = warning_about(beginning, rule=rule, name="x", target="out")
    assert warning is not None
    assert re.search(says, warning)


@pytest.mark.parametrize(
    ("beginning", "rule"),
    [
        (b"", "concat"),
        (b"@read1\nACGT\n+\nIIII\n", "concat"),
        (gzip.compress(b"@read1\nACGT\n+\nIIII\n", mtime=0), "concat"),
        (b"\x1f\x8b is no gzip", "concat"),
        (b"@HD\tVN:1.6\tSO:unsorted\n@CO\tSO:coordinate\n", "sam"),
        (b"@SQ\tSN:chr1\tLN:100\n", "sam"),
    ],
)
def test_nothing_is_told_of_others(beginning: bytes, rule: str) -> None:
    """A name of a read begins with @, too."""
    assert warning_about(beginning, rule=rule, name="x", target="out") is None
