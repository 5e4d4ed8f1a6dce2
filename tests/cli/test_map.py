from __future__ import annotations

import functools
import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import aliquot
from tests.conftest import Ran

ANALYSIS = """
def count(lines):
    return len(lines)

def lengths(lines):
    return {len(line) for line in lines}

def kinds(lines):
    return {complex(len(line)) for line in lines}

def shout(line):
    return line.upper()

def fail(lines):
    if "one" in lines:
        raise ValueError("cannot be read: " + lines[0])
    return lines

def measure(line):
    if line.startswith("bad"):
        raise ValueError("cannot be measured")
    return len(line)

def measure_all(lines):
    return sum(map(measure, lines))

def wait_to_go(lines):
    import os, time
    print("ready", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.01)
    return len(lines)

def hang_at_bad(lines):
    while any(line.startswith("bad") for line in lines):
        pass
    return len(lines)

def fill_memory_at_bad(lines):
    held = []
    while any(line.startswith("bad") for line in lines):
        held.append(b"x" * (8 << 20))
    return len(lines)
"""

# Two of two hundred are bad.
LINES = [f"bad{number}" if number in (50, 150) else "good" for number in range(200)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "analysis.py").write_text(ANALYSIS)
    (tmp_path / "text.txt").write_text("one\nthree\nfive\n")
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path


def aliquot_map(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from aliquot.cli import main; main()", "map", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


@pytest.fixture
def map_here(place: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable[..., Ran]) -> Callable[..., Ran]:
    """The same in this process, with the same workers."""
    monkeypatch.chdir(place)
    return functools.partial(in_process, "map")


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
    aliquot_map(place, "analysis:lengths", "text.txt", "--join", "operator:or_", "--out", "lengths.json")
    assert json.loads((place / "lengths.json").read_text()) == [3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("analysis:nothing", "text.txt"), "has no 'nothing'"),
        (("nomodule:f", "text.txt"), "cannot import 'nomodule'"),
        (("analysis:cuont", "text.txt"), "'analysis' has no 'cuont': did you mean count?"),
        (("analysis.py:count", "text.txt"), "leave out .py, as in analysis:count"),
        (("analysis.py", "text.txt"), "leave out .py, as in analysis:FUNCTION"),
        (("./sub/analysis.py:count", "text.txt"), "leave out .py, as in sub.analysis:count"),
        (("/some/analysis.py:count", "text.txt"), "as in analysis:count, with /some on PYTHONPATH"),
        (("count", "text.txt"), "'count' is not MODULE:FUNCTION: write both"),
        (("builtins:str.uper", "text.txt"), "'builtins' has no 'str.uper': did you mean str.upper?"),
        (("analysis:count", "text.txt", "--join", "max"), "a builtin is written builtins:max"),
        (("analysis:count", "missing.txt"), "missing.txt"),
        (("analysis:count", "text.txt", "--out", "x.csv"), "should end in .json or .pkl"),
        (("analysis:kinds", "text.txt", "--join", "operator:or_", "--out", "x.json"), "it is in x.json.pkl"),
        (("analysis:count", "text.txt", "--each", "--join", "operator:add"), "--each prints"),
    ],
)
def test_wrong_usage_is_told_in_words(map_here: Callable[..., Ran], arguments: tuple[str, ...], message: str) -> None:
    """With exit code 2 and no traceback."""
    ran = map_here(*arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("arguments", [(), ("--each",)])
def test_what_the_function_raised_is_shown_with_its_unit(place: Path, arguments: tuple[str, ...]) -> None:
    """The worker's traceback, the unit, and exit code 1."""
    ran = aliquot_map(place, "analysis:fail", "text.txt", *arguments)
    assert ran.returncode == 1
    assert "in fail" in ran.stderr
    assert "unit 0 ('one')" in ran.stderr
    assert "click" not in ran.stderr


@pytest.mark.parametrize(
    "allowed", [("--max-failures", "2"), ("--max-failures", "1%"), ("--max-failures", "1.5%"), ("--keep-going",)]
)
def test_units_may_fail_up_to_a_number_or_a_part(map_here: Callable[..., Ran], allowed: tuple[str, ...]) -> None:
    """The value of all others is printed, the failures are named, and the exit code tells that there were some."""
    ran = map_here("analysis:measure_all", "lines.txt", *allowed)
    assert ran.code == 1
    assert ran.out == f"{4 * 198}\n"
    assert "2 units failed and were set aside" in ran.err
    assert "unit 50 ('bad50')" in ran.err
    assert "unit 150 ('bad150')" in ran.err
    assert "lines.txt, bytes " in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("allowed", ["0", "1", "0.5%"])
def test_more_failures_end_the_run(map_here: Callable[..., Ran], allowed: str) -> None:
    """There is no value."""
    ran = map_here("analysis:measure_all", "lines.txt", "--max-failures", allowed)
    assert ran.code == 1
    assert ran.out == ""
    assert "cannot be measured" in ran.err


def test_each_line_but_those_of_bad_units_is_printed(place: Path) -> None:
    """In order, also without a report."""
    ran = aliquot_map(place, "analysis:measure", "lines.txt", "--each", "--keep-going", "--quiet")
    assert ran.returncode == 1
    assert ran.stdout == "4\n" * 198
    assert "unit 50 ('bad50')" in ran.stderr


@pytest.mark.parametrize("arguments", [(), ("--each",)])
def test_bad_units_are_written_to_a_file(place: Path, map_here: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    """As they are in the source; the message says where."""
    function = "analysis:measure" if arguments else "analysis:measure_all"
    ran = map_here(function, "lines.txt", *arguments, "--keep-going", "--set-aside", "bad.txt")
    assert ran.code == 1
    assert (place / "bad.txt").read_text() == "bad50\nbad150\n"
    assert "the input is in bad.txt" in ran.err


def test_a_value_is_written_without_bad_units(place: Path, map_here: Callable[..., Ran]) -> None:
    """The exit code still says that some are missing."""
    ran = map_here("analysis:measure_all", "lines.txt", "--keep-going", "--out", "value.json")
    assert ran.code == 1
    assert json.loads((place / "value.json").read_text()) == 4 * 198


def test_a_run_without_failures_writes_no_such_file(place: Path, map_here: Callable[..., Ran]) -> None:
    """And ends with 0."""
    ran = map_here("analysis:count", "lines.txt", "--max-failures", "1%", "--set-aside", "bad.txt")
    assert (ran.code, ran.out) == (0, "200\n")
    assert not (place / "bad.txt").exists()


def test_a_unit_that_takes_all_memory_is_set_aside(place: Path) -> None:
    """At what the workers were allowed."""
    told = ("--memory", "200MB", "--max-failures", "2", "--cores", "2")
    ran = aliquot_map(place, "analysis:fill_memory_at_bad", "lines.txt", *told)
    assert (ran.returncode, ran.stdout) == (1, "198\n")
    assert "MemoryError" in ran.stderr
    assert "steps stopped for memory" in ran.stderr


def test_a_unit_that_hangs_is_set_aside(place: Path) -> None:
    """After what --wall allows."""
    (place / "few.txt").write_text("good\nbad\ngood\n")
    ran = aliquot_map(place, "analysis:hang_at_bad", "few.txt", "--wall", "0.2", "--keep-going", "--cores", "2")
    assert (ran.returncode, ran.stdout) == (1, "2\n")
    assert "unit 1" in ran.stderr
    assert "longer than --wall" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-failures", "some"), "--max-failures some: a number of units, or a part such as 1%"),
        (("--max-failures", "x%"), "--max-failures x%"),
        (("--max-failures", "-1"), "--max-failures -1: a number of units"),
        (("--max-failures", "200%"), "--max-failures 200%: a number of units, or a part"),
        (("--max-failures", "2", "--keep-going"), "say one of them"),
        (("--memory", "much"), "'much' is not an amount of memory"),
        (("--memory", "0"), "--memory 0: a worker needs"),
        (("--wall", "0"), "--wall 0.0: after how long"),
        (("--target-seconds", "-1"), "--target-seconds -1.0: how long"),
        (("--wall", "soon"), "'soon' is not a valid float"),
        (("--set-aside", "lines.txt"), "is the source itself"),
        (("--set-aside", "missing/bad.txt"), "--set-aside missing/bad.txt: there is no folder"),
        (("--format", "linse"), "unknown format 'linse': did you mean lines?"),
    ],
)
@pytest.mark.parametrize("each", [(), ("--each",)])
def test_wrong_limits_are_told_in_words(
    map_here: Callable[..., Ran], arguments: tuple[str, ...], message: str, each: tuple[str, ...]
) -> None:
    """With exit code 2, before anything runs."""
    ran = map_here("analysis:measure", "lines.txt", *each, *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_a_recorded_run_is_not_done_again(place: Path, map_here: Callable[..., Ran]) -> None:
    """The same command gives the same value; another function there is told in words, and may begin anew."""
    recorded = ("text.txt", "--run-dir", "run", "--quiet")
    assert map_here("analysis:count", *recorded).out == "3\n"
    assert (place / "run" / "journal.sqlite").exists()
    ran = map_here("analysis:count", "text.txt", "--run-dir", "run")
    assert (ran.code, ran.out) == (0, "3\n")
    assert "is done already (3 units): its results are joined again" in ran.err
    refused = map_here("analysis:lengths", *recorded)
    assert (refused.code, refused.out) == (2, "")
    assert "has changed" in refused.err
    assert "--fresh" in refused.err
    assert map_here("analysis:lengths", *recorded, "--fresh").out == "{3, 4, 5}\n"


@pytest.mark.parametrize("bad_unit", [0, 500, 999])
@pytest.mark.parametrize(
    "written",
    [
        ("x.jsonl", '{"a": 1}\n', "{a: 1}\n"),
        ("x.csv", "1,2\n", "1\n"),
        ("x.fastq", "@r\nAC\n+\nII\n", "@r\nAC\n+\nI\n"),
    ],
)
def test_one_bad_record_stops_nothing_wherever_it_is(
    place: Path, map_here: Callable[..., Ran], written: tuple[str, str, str], bad_unit: int
) -> None:
    """Also the first and the last, which are looked at before anything is begun."""
    name, good, bad = written
    records = [bad if unit == bad_unit else good for unit in range(1000)]
    (place / name).write_text("".join((["a,b\n"] if name == "x.csv" else []) + records))
    before = map_here("analysis:count", name, "--quiet")
    ran = map_here("analysis:count", name, "--keep-going")
    assert (ran.code, ran.out) == (1, "999\n")
    assert f"unit {bad_unit} in" in ran.err
    assert ran.err.count(name) == 1  # it is told where, once
    for refused in (before, map_here("analysis:count", name, "--quiet")):  # what was allowed once is not for ever
        is_found_first = bad_unit != 500 and name != "x.csv"  # before anything is run
        assert (refused.code, refused.out) == (2 if is_found_first else 1, "")
        assert f"unit {bad_unit}, byte" in refused.err
        assert "--keep-going would set units aside" in refused.err
        assert "Traceback" not in refused.err


@pytest.mark.parametrize("end", ["@r", "@r\nAC\n", "@r\nAC\n+\n"])
def test_a_record_that_is_cut_off_stops_nothing(place: Path, map_here: Callable[..., Ran], end: str) -> None:
    """As of a download that was broken off. Who has not asked for it is told before anything is run."""
    (place / "x.fastq").write_text("@r\nAC\n+\nII\n" * 1000 + end)
    for _ in range(2):
        refused = map_here("analysis:count", "x.fastq", "--quiet")
        assert (refused.code, refused.out) == (2, "")
        assert "unit 1000, byte 11000: ends in the middle of a unit" in refused.err
        assert "--keep-going would set units aside" in refused.err
        ran = map_here("analysis:count", "x.fastq", "--keep-going")
        assert (ran.code, ran.out) == (1, "1000\n")
        assert "unit 1000 in" in ran.err


@pytest.mark.parametrize("at", [3, 5503, 10992])
def test_a_line_that_is_missing_is_no_cut_off_record(place: Path, map_here: Callable[..., Ran], at: int) -> None:
    """All records behind it would begin at the wrong line."""
    reads = "@r\nAC\n+\nII\n" * 1000
    (place / "x.fastq").write_text(reads[:at] + reads[at + 3 :])
    ran = map_here("analysis:count", "x.fastq", "--keep-going")
    assert (ran.code, ran.out) == (2, "")


def test_one_who_expects_no_bad_record_may_change_his_mind(tmp_path: Path) -> None:
    """As in a notebook, with the same view."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n' * 9 + "{a: 1}\n")
    records = aliquot.open(path)
    for _ in range(2):
        with pytest.raises(aliquot.DataError, match="unit 9, byte") as refused:
            aliquot.map_batches(len, records)
        assert "max_failures=1.0 (all, and not 1) would set units aside" in refused.value.__notes__[-1]
        with pytest.warns(aliquot.UnitsSetAsideWarning):
            assert aliquot.map_batches(len, records, max_failures=1) == 9
        records = aliquot.open(path)


def test_records_that_do_not_begin_where_they_should_are_no_bad_records(
    place: Path, map_here: Callable[..., Ran]
) -> None:
    """A line is missing, and one too many elsewhere: all between them would be given wrongly."""
    reads = [f"@r{number}\nAC\n+\nII\n" for number in range(10)]
    (place / "x.fastq").write_text("AC\n+\nII\n" + "".join(reads) + "@r\n")
    ran = map_here("analysis:count", "x.fastq", "--keep-going")
    assert (ran.code, ran.out) == (2, "")


def test_what_cannot_be_divided_at_lines_has_no_bad_lines(place: Path, map_here: Callable[..., Ran]) -> None:
    """In UTF-16, a newline is two bytes."""
    (place / "x.txt").write_text("a\nb\nc\n", encoding="utf-16")
    ran = map_here("analysis:count", "x.txt", "--keep-going")
    assert (ran.code, ran.out) == (2, "")
    assert "is UTF-16 text" in ran.err


def test_what_was_done_before_a_failure_is_kept(place: Path, map_here: Callable[..., Ran]) -> None:
    """Once the file may be read with its bad units, only those are run again."""
    recorded = ("analysis:measure_all", "lines.txt", "--run-dir", "run")
    assert map_here(*recorded).code == 1
    ran = map_here(*recorded, "--max-failures", "2")
    assert (ran.code, ran.out) == (1, f"{4 * 198}\n")
    assert "going on with the run in" in ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_recorded_run_that_is_interrupted_says_how_to_go_on(place: Path, number: signal.Signals) -> None:
    """With the exit code of the signal; the same command then goes on."""
    arguments = ("analysis:wait_to_go", "text.txt", "--run-dir", "run")
    command = [sys.executable, "-m", "aliquot", "map", *arguments]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in told
    assert f"what is done is recorded in {place / 'run'}. The same call goes on with it" in told
    (place / "go").touch()
    assert aliquot_map(place, *arguments).stdout.endswith("3\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("analysis:shout", "--each", "--run-dir", "run"), "leave --run-dir out"),
        (("analysis:count", "--fresh"), "say where, with --run-dir"),
        (("analysis:count", "--run-dir", "run", "--fresh", "--resume-anyway"), "--fresh and --resume-anyway cannot"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    map_here: Callable[..., Ran], arguments: tuple[str, ...], message: str
) -> None:
    """Before anything is run."""
    ran = map_here(*arguments, "text.txt")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
