from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from aliquot.journal import describe_input, describe_program, differences

_2026 = 1_767_366_000


@pytest.fixture
def reads(tmp_path: Path) -> Path:
    path = tmp_path / "sample.fastq"
    path.write_bytes(b"@r1\nACGT\n+\nIIII\n" * 1000)
    os.utime(path, (_2026, _2026))
    return path


def made_of(*inputs: Path | str, **others: Any) -> dict[str, Any]:
    return {"command": "bwa mem {reads}", "inputs": [describe_input(path) for path in inputs], **others}


def test_the_same_is_the_same(reads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it was in a journal, and when the input is named otherwise."""
    before = json.loads(json.dumps(made_of(reads, pairs=(1, 2))))
    monkeypatch.chdir(reads.parent)
    assert differences(before, made_of("sample.fastq", pairs=(1, 2))) == []


def test_a_file_is_known_by_more_than_its_name(reads: Path) -> None:
    """Where it is, size, time, and a hash that takes no longer for a large file."""
    described = describe_input(reads)
    assert described["path"] == str(reads)
    assert described["kind"] == "file"
    assert described["size_bytes"] == 16_000
    assert described["mtime_ns"] == _2026 * 10**9
    with reads.open("ab") as file:
        file.truncate(1 << 40)
    assert describe_input(reads)["size_bytes"] == 1 << 40


def test_an_input_that_grew(reads: Path) -> None:
    """In units that people read; in bytes where those do not show it."""
    before = made_of(reads)
    os.truncate(reads, 12_000_000)
    assert differences(before, made_of(reads)) == ["sample.fastq has 12.0 MB now and had 16.0 kB"]
    before = made_of(reads)
    os.truncate(reads, 12_000_001)
    assert differences(before, made_of(reads)) == ["sample.fastq has 12,000,001 bytes now and had 12,000,000 bytes"]


def test_an_input_that_was_written_again(reads: Path) -> None:
    """With other content, or with what may be other content in the middle."""
    before = made_of(reads)
    os.utime(reads, (_2026 + 86400, _2026 + 86400))
    (sentence,) = differences(before, made_of(reads))
    assert sentence.startswith("sample.fastq is as large as it was, but was written since (changed 2026-01-0")
    reads.write_bytes(reads.read_bytes().replace(b"r1", b"r2"))
    os.utime(reads, (_2026, _2026))
    (sentence,) = differences(before, made_of(reads))
    assert sentence.startswith("sample.fastq is as large as it was, but its content is another (changed 2026-01-0")


def test_an_input_that_is_gone_or_something_else(reads: Path, tmp_path: Path) -> None:
    """Nothing is raised: whoever opens it will."""
    before = made_of(reads)
    reads.unlink()
    gone = made_of(reads)
    assert differences(before, gone) == ["sample.fastq is missing now and was a file"]
    reads.mkdir()
    assert differences(gone, made_of(reads)) == ["sample.fastq is a directory now and was missing"]
    reads.rmdir()
    os.mkfifo(reads)
    assert differences(before, made_of(reads)) == ["sample.fastq is a pipe or a device now and was a file"]
    assert describe_input(tmp_path / "sample.fastq" / "x")["kind"] == "unreadable"


def test_a_directory_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    """Files added, grown or written again, however deep; links to nowhere do not matter."""
    index = tmp_path / "index"
    (index / "deep").mkdir(parents=True)
    (index / "deep" / "a").write_bytes(b"12345")
    (index / "nowhere").symlink_to("nothing")
    before = made_of(index)
    assert before["inputs"][0]["files"] == 1
    assert differences(before, made_of(index)) == []
    (index / "deep" / "b").write_bytes(b"1")
    assert differences(before, made_of(index)) == ["index has 6 B now and had 5 B"]
    (index / "deep" / "b").unlink()
    os.rename(index / "deep" / "a", index / "deep" / "c")
    (sentence,) = differences(before, made_of(index))
    assert sentence.startswith("index is as large as it was, but files in it are others (changed ")


def test_other_inputs(tmp_path: Path) -> None:
    """Named by all of their path where the last part is not enough."""
    paths = [tmp_path / place / "reads.fq" for place in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    other = tmp_path / "other.fq"
    other.touch()
    assert differences(made_of(paths[0]), made_of(paths[1])) == [
        f"{paths[0]} was an input and is none now",
        f"{paths[1]} is an input and was none",
    ]
    assert differences(made_of(other), made_of(paths[0], other)) == ["reads.fq is an input and was none"]
    (sentence,) = differences(made_of(*paths), made_of(*reversed(paths)))
    assert "another order" in sentence


def test_commands_and_all_else(reads: Path) -> None:
    """Anything by which a run is known is compared, also what this aliquot does not know."""
    before = made_of(reads, rules={"sam": "sam", "log": "concat"}, aliquot="0.1", seed=None)
    now = {**made_of(reads, rules={"sam": "concat", "log": "concat"}, aliquot="0.2", seed=3), "command": "bwa mem -a"}
    assert differences(before, now) == [
        "the command was 'bwa mem {reads}' and is 'bwa mem -a'",
        "rules 'sam' was 'sam' and is 'concat'",
        "aliquot was '0.1' and is '0.2'",
        "seed is 3 and was not given",
    ]
    assert differences({"check": "x"}, {}) == ["check was 'x' and is not given now"]


CSV = {"name": "csv", "options": {"delimiter": ",", "header": True}}


def a_table(*tables: str, **how: Any) -> list[Any]:
    return [{"format": "root", "form": "awkward", "columns": None, "options": {}, **how}, list(tables)]


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ([CSV], [{"name": "lines", "options": {}}], "the format was csv and is lines"),
        ([CSV], [a_table()], "the format was csv and is root"),
        (
            [CSV],
            [{"name": "csv", "options": {"delimiter": ";", "header": True}}],
            "the option delimiter of the format csv was ',' and is ';'",
        ),
        ([CSV], [CSV, CSV], "what is divided is read from 2 sources, and was from 1"),
        ([CSV, CSV], [CSV, a_table()], "the format of source 2 was csv and is root"),
        ([CSV], [{**CSV, "class": "mine:Csv"}], "the format csv is that of mine:Csv now and was aliquot's own"),
        ([a_table()], [a_table(columns=["pt", "eta"])], "the columns were all of them and are pt, eta"),
        ([a_table(form="numpy")], [a_table()], "a batch was numpy and is awkward (as_=)"),
        ([a_table("Events", "Events")], [a_table("Runs", "Runs")], "the table was Events and is Runs"),
        ([a_table("Events")], [a_table("")], "the table was Events and is not given now"),
        ([a_table(columns=[*"abcdefghijklmn"])], [a_table(columns=[*"bcdefghijklmnop"])], "o, p added; a left out"),
        (None, [CSV], "what is divided is read from files now, and was not"),
        ([CSV], None, "what is divided is read from something else now, and was read from files"),
        ([{"what": 1}], [{"what": 2}], "units are read in another way than they were"),
    ],
)
def test_how_units_are_read_is_told_in_words(before: Any, now: Any, told: str) -> None:
    """Whatever has changed of it, nobody has to read JSON."""
    (sentence,) = differences({"reading": before}, {"reading": now})
    assert sentence.endswith(told)
    assert not set(sentence) & set('{}[]"')


def test_units_datasets_and_outputs_are_told_in_words() -> None:
    """Each that differs, by its name."""
    before = {
        "units": 5000,
        "first unit": 0,
        "end": None,
        "datasets": [["data", 10], ["mc", 20]],
        "join": [["out", "a.txt", "concat"]],
    }
    now = {
        "units": 40,
        "first unit": 5,
        "end": 45,
        "datasets": [["data", 30], ["other", 20]],
        "join": [["out", "b.csv", "csv"]],
    }
    assert differences(before, now) == [
        "there are 40 units now, and there were 5,000",
        "the first unit is 5 now and was 0",
        "the units before 45 are divided now, and all units to the end were",
        "the dataset 'mc' is not given now",
        "the dataset 'other' is given and was not",
        "the dataset 'data' has 30 units now and had 10 units",
        "the output {out} went to a.txt and goes to b.csv now",
        "the output {out} was joined by the rule concat and is joined by csv now",
    ]
    assert differences({"join": [["a", "a", "sum"]]}, {"join": [["b", "b", "sum"]]}) == [
        "{a} was an output and is none now",
        "{b} is an output and was none",
    ]
    assert differences({"unordered": False, "pairs": [1, [2, 3]]}, {"unordered": True, "pairs": [4, {"x": None}]}) == [
        "unordered was no and is yes",
        "pairs was 1, (2, 3) and is 4, (x=nothing)",
    ]


def _install(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    os.utime(path, (_2026, _2026))


def test_a_program_that_changed_is_noticed_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its content, its time, or its place."""
    one, two = tmp_path / "one" / "bwa", tmp_path / "two" / "bwa"
    _install(one, "exit 1")
    monkeypatch.setenv("PATH", str(one.parent))
    before = {"programs": [describe_program("bwa")]}
    assert before["programs"][0]["path"] == str(one)
    assert differences(before, {"programs": [describe_program("bwa")]}) == []

    os.utime(one, (_2026 + 1, _2026 + 1))
    (sentence,) = differences(before, {"programs": [describe_program("bwa")]})
    assert sentence.startswith("bwa was written since (changed 2026-01-0")
    _install(one, "exit 2")
    (sentence,) = differences(before, {"programs": [describe_program("bwa")]})
    assert sentence.startswith("bwa is another program than it was (changed 2026-01-0")
    _install(one, "exit 1")

    _install(two, "exit 1")
    monkeypatch.setenv("PATH", str(two.parent))
    assert differences(before, {"programs": [describe_program("bwa")]}) == [f"bwa is {two} now and was {one}"]
    _install(two, "exit 3")
    (sentence,) = differences(before, {"programs": [describe_program("bwa")]})
    assert sentence.endswith(f": {two}, and it was {one}")


def test_a_program_that_comes_or_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not found is no error here: it may be built into the shell."""
    python = {"programs": [describe_program(sys.executable)]}
    assert differences({"programs": []}, python) == [f"{sys.executable} is used and was not"]
    assert differences(python, {}) == [f"{sys.executable} was used and is not now"]
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = {"programs": [describe_program("bwa")]}
    _install(tmp_path / "bwa", "exit 0")
    found = {"programs": [describe_program("bwa")]}
    assert differences(missing, found) == [f"bwa was not found and is {tmp_path}/bwa now"]
    assert differences(found, missing) == [f"bwa is not found any more; it was {tmp_path}/bwa"]
