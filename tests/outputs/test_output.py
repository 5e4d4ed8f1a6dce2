"""What is asked for on the command line."""

from __future__ import annotations

import pickle

import pytest

import aliquot
from aliquot.outputs import Output, OutputError, find_rule, parse_output, rule_names


@pytest.mark.parametrize(
    ("text", "path", "rule"),
    [
        ("x=out.sam", "out.sam", "sam"),
        ("x=OUT.SAM", "OUT.SAM", "sam"),
        ("x=out.csv", "out.csv", "csv"),
        ("x=a/out.tsv", "a/out.tsv", "csv"),
        ("x=out.csv:concat", "out.csv", "concat"),
        ("x=out", "out", "concat"),
        ("x=out.sam.gz:concat", "out.sam.gz", "concat"),
        ("x=out.fastq.gz", "out.fastq.gz", "concat"),
        ("x=run: final", "run: final", "concat"),
        ("x=folder/", "folder/", "dir"),
        ("x=folder/:dir", "folder/", "dir"),
        ("x=folder:dir", "folder", "dir"),
        ("x=-", "-", "concat"),
        ("x=-:sam", "-", "sam"),
        ("x=/dev/stdout:sam", "-", "sam"),
        ("x=out.bin:lines-sorted", "out.bin", "lines-sorted"),
        ("x=out.root:pkg.mod:join", "out.root", "pkg.mod:join"),
        ("x=out:mod:Class.join", "out", "mod:Class.join"),
        ("x=12:30:45", "12:30:45", "concat"),
        ("x=a:b.txt", "a:b.txt", "concat"),
        ("x=a:b:concat", "a:b", "concat"),
        ("x=a=b.txt", "a=b.txt", "concat"),
        ('x= it\'s "q"\n.csv', ' it\'s "q"\n.csv', "csv"),
        ("x=caf\udce9.sam", "caf\udce9.sam", "sam"),
        ("x=out.bam:concat", "out.bam", "concat"),
    ],
)
def test_a_path_tells_its_rule_unless_it_is_named(text: str, path: str, rule: str) -> None:
    """By its ending; colons that are no rule belong to the path."""
    assert parse_output(text) == Output("x", path, rule)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("out.sam", "write NAME=PATH"),
        ("=out.sam", "write NAME=PATH"),
        ("a b=out.sam", "write NAME=PATH"),
        ("x=", "has no path"),
        ("x=:sam", "has no path"),
        ("x=out:smm", r"unknown rule 'smm'.*did you mean 's[au]m'.*add a rule: out:smm:concat"),
        ("x=-:dir", "standard output"),
        ("x=folder/:sam", "makes a file"),
        ("x=out.bam", r"\.bam are not joined.*module:function"),
        ("x=out.bam:samtools merge", r"unknown rule 'samtools merge'.*out\.bam:samtools merge:concat"),
        ("x=out.sam.gz", r"\.sam\.gz are not joined.*Let the command write \.sam, and compress"),
        ("x=OUT.VCF.bgz", r"\.vcf\.bgz are not joined.*with a header\. Name a function .*; or say NAME=PATH:concat if"),
        ("x=a\0b", "zero byte"),
    ],
)
def test_what_is_no_output_is_refused(text: str, says: str) -> None:
    """With what to write instead."""
    with pytest.raises(aliquot.UsageError, match=says):
        parse_output(text)


def test_a_table_of_what_has_no_header_row_needs_a_rule() -> None:
    """Rows that are alike would be taken for headers, and dropped."""
    with pytest.raises(aliquot.UsageError, match=r"x=out\.tsv:csv, and it is there once; if not, x=out\.tsv:concat"):
        parse_output("x=out.tsv", has_header_row=False)
    assert parse_output("x=out.tsv:concat", has_header_row=False).rule == "concat"


def test_rules_are_found_by_name() -> None:
    """All of aliquot's own, and functions."""
    assert rule_names() == ["concat", "sam", "csv", "lines-sorted", "json-merge", "sum", "dir"]
    for name in [*rule_names(), "tests.outputs.joining:concatenate"]:
        assert find_rule(name).name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("line-sorted", "did you mean 'lines-sorted'"),
        ("zzz", "there are concat, sam, csv, lines-sorted, json-merge, sum, dir, and 'module:function'"),
        ("no_such_module:join", "cannot import 'no_such_module'"),
        ("tests.outputs.joining:nothing", "has no 'nothing'"),
        ("tests.outputs.joining:NOT_A_FUNCTION", "is a int, not a function"),
    ],
)
def test_unknown_rules_are_refused(name: str, says: str) -> None:
    """With those that there are."""
    with pytest.raises(aliquot.UsageError, match=says):
        find_rule(name)


def test_errors_travel() -> None:
    """A worker's error arrives as it was."""
    error = OutputError("is full", path="a\nb", advice="Wait", is_out_of_room=True)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "'a\\nb': is full. Wait"
    assert (copy.path, copy.is_out_of_room) == ("a\nb", True)
