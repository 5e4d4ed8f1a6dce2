from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

ANALYSIS = """
def count(lines):
    return len(lines)

def lengths(lines):
    return {len(line) for line in lines}

def shout(line):
    return line.upper()

def fail(lines):
    if "one" in lines:
        raise ValueError("cannot be read: " + lines[0])
    return lines
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "analysis.py").write_text(ANALYSIS)
    (tmp_path / "text.txt").write_text("one\nthree\nfive\n")
    return tmp_path


def aliquot_map(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from aliquot.cli import main; main()", "map", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def test_the_value_is_printed_and_the_report_too(place: Path) -> None:
    """The value on standard output, how the run went on standard error."""
    ran = aliquot_map(place, "analysis:count", "text.txt")
    assert ran.returncode == 0
    assert ran.stdout == "3\n"
    assert "3 units in" in ran.stderr


def test_quiet_means_nothing_but_the_value(place: Path) -> None:
    """No report."""
    ran = aliquot_map(place, "analysis:count", "text.txt", "--quiet", "--cores", "1", "--size", "2")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "3\n", "")


def test_a_value_for_each_unit_in_order(place: Path) -> None:
    """A line each."""
    assert aliquot_map(place, "analysis:shout", "text.txt", "--each").stdout == "ONE\nTHREE\nFIVE\n"


def test_a_value_can_be_written_as_json_or_pickled(place: Path) -> None:
    """By the name of the file."""
    assert aliquot_map(place, "analysis:count", "text.txt", "--out", "count.json").stdout == ""
    assert json.loads((place / "count.json").read_text()) == 3
    aliquot_map(place, "analysis:lengths", "text.txt", "--join", "operator:or_", "--out", "lengths.pkl")
    assert pickle.loads((place / "lengths.pkl").read_bytes()) == {3, 4, 5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("analysis:nothing", "text.txt"), "has no 'nothing'"),
        (("nomodule:f", "text.txt"), "cannot import 'nomodule'"),
        (("analysis:count", "missing.txt"), "missing.txt"),
        (("analysis:count", "text.txt", "--out", "x.csv"), "should end in .json or .pkl"),
        (("analysis:lengths", "text.txt", "--join", "operator:or_", "--out", "x.json"), "cannot be written as JSON"),
        (("analysis:count", "text.txt", "--each", "--join", "operator:add"), "--each prints"),
    ],
)
def test_wrong_usage_is_told_in_words(place: Path, arguments: tuple[str, ...], message: str) -> None:
    """With exit code 2 and no traceback."""
    ran = aliquot_map(place, *arguments)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("arguments", [(), ("--each",)])
def test_what_the_function_raised_is_shown_with_its_unit(place: Path, arguments: tuple[str, ...]) -> None:
    """The worker's traceback, the unit, and exit code 1."""
    ran = aliquot_map(place, "analysis:fail", "text.txt", *arguments)
    assert ran.returncode == 1
    assert "in fail" in ran.stderr
    assert "unit 0 ('one')" in ran.stderr
    assert "click" not in ran.stderr
