"""The command as a job: the laws, its description, and what is refused when it is made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aliquot
from aliquot.errors import AliquotError, DataError, UsageError
from aliquot.jobs.command import Command
from aliquot.outputs import Output
from aliquot.testing import check_description, check_history, check_split
from tests.virtual_file.making import numbered_lines, reads, write


@pytest.fixture(autouse=True)
def in_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run, and write, where they are made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    write(tmp_path / "lines.txt", numbered_lines(40))
    write(tmp_path / "1.fastq", reads(12, "/1"))
    write(tmp_path / "2.fastq", reads(12, "/2"))


def count() -> Command:
    return Command("wc -l < {x} > {n}", split={"x": "lines.txt"}, join={"n": "n.txt:sum"})


def pairs() -> Command:
    return Command("paste {a} {b}", split={"a": "1.fastq", "b": "2.fastq"}, join={"o": "pairs.txt"})


def upper() -> Command:
    return Command(
        "tr a-z A-Z < {x}", split={"x": aliquot.open("lines.txt")[3:]}, join=[Output("o", "o.txt", "concat")]
    )


ALL = [count, pairs, upper]


def joined(command: Command, files: dict[str, list[str]]) -> bytes:
    command.write(files)
    return Path(command.outputs[0].path).read_bytes()


@pytest.mark.parametrize("make", ALL)
@given(amount=st.integers(1, 10), size=st.integers(1, 50))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_splits_cover_exactly(make: Any, amount: int, size: int) -> None:
    """At most so many of a size, then one with what remains; also of a part."""
    check_split(make(), amount, size)
    check_split(make().split(amount, size)[-1], amount, size)


@pytest.mark.parametrize("make", ALL)
@given(seed=st.integers(0, 10**9))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
def test_any_history_gives_the_same_outputs(make: Any, seed: int) -> None:
    """Split, join, describe and execute in any order: the joined files are those of the whole."""
    command = make()
    whole = joined(command, command.execute())
    check_history(command, whole, Random(seed), equal=lambda files, expected: joined(command, files) == expected)


@pytest.mark.parametrize("make", ALL)
def test_a_described_command_is_the_same_command(make: Any) -> None:
    """Through JSON and back, also after it was executed and by whoever does not know its type."""
    command = make()
    check_description(command)
    check_description(command.attempt())
    assert aliquot.Job.from_desc(json.loads(json.dumps(command.to_desc()))) == command


def test_all_options_are_described() -> None:
    """None is forgotten on the way."""
    command = Command(
        "cat {x} > {o}",
        split={"x": "lines.txt"},
        join={"o": "o.txt"},
        unordered=True,
        check="test -s {o}",
        least_bytes_per_unit=2.5,
        sandbox=True,
        inputs=["1.fastq"],
        directory=".",
    )
    travelled = check_description(command)
    assert travelled.unordered
    assert travelled.least_bytes_per_unit == 2.5
    assert travelled.sandbox
    assert travelled.inputs == (os.path.abspath("1.fastq"),)
    assert travelled.check is not None
    assert travelled.check.text == "test -s {o}"
    assert not travelled.with_result(aliquot.NOT_RUN).to_desc().get("attributes")


def test_a_command_without_units_can_be_executed_but_not_split() -> None:
    """The command sees an empty file."""
    write(Path("empty.txt"), "")
    for text in ("wc -c {x}", "wc -c < {x}"):
        command = Command(text, split={"x": "empty.txt"})
        assert command.split(3, 3) == []
        assert Path(command.execute()["stdout"][0]).read_text().split()[0] == "0"


def test_parts_of_different_commands_are_not_joined() -> None:
    """Nobody could say what they make."""
    first, _ = Command("cat {x}", split={"x": "lines.txt"}).split(1, 20)
    _, second = Command("tac {x}", split={"x": "lines.txt"}).split(1, 20)
    with pytest.raises(UsageError, match="different commands"):
        first.join(second)


def test_a_command_that_has_run_is_not_split() -> None:
    """Its outputs belong to all of its units; one that failed is split to find the bad unit."""
    with pytest.raises(aliquot.JobStateError, match="cannot be cut"):
        count().attempt().split(1, 2)
    failed = Command("false {x}", split={"x": "lines.txt"}).attempt()
    assert isinstance(failed.result, aliquot.Failed)
    assert "exited with status 1" in failed.result.error
    assert len(failed.split(1, 2)) == 2


def test_outputs_are_written_where_they_were_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    """A path is in the command's directory; without one it is standard output."""
    os.mkdir("there")
    parts = Command(
        "cat {x} > {o}; echo done {unit_start}",
        split={"x": "lines.txt"},
        join={"o": "o.txt", "said": "-"},
        directory="there",
    ).split(2, 15)
    whole = parts[0].attempt()
    for part in parts[1:]:
        (whole,) = whole.join(part.attempt())
    assert isinstance(whole.result, aliquot.Done)
    whole.write(whole.result.value)
    assert Path("there/o.txt").read_bytes() == numbered_lines(40)
    assert capfd.readouterr().out == "done 0\ndone 15\ndone 30\n"


def test_the_modes() -> None:
    """As the text says how units come."""
    assert Command("cat {x}", split={"x": "lines.txt"}).mode == "file"
    assert Command("cat < {x}", split={"x": "lines.txt"}).mode == "stream"
    assert Command("x {x:source} {x:offset} {x:length}", split={"x": "lines.txt"}).mode == "range"
    assert Command("cat {x}", split={"x": "lines.txt"}).outputs == (Output("stdout", "-", "concat"),)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("cat {x}", {"split": {}}, "something to split"),
        ("cat {x}", {"split": {"x": "missing.txt"}}, "there is no such file"),
        ("cat {x}", {"split": {"x": aliquot.open([1, 2])}}, "cannot be given to a command"),
        ("cat {x}", {"join": {"o": "o.txt:conct"}}, "did you mean 'concat'"),
        ("cat {x} {o} {p}", {"join": {"o": "o", "p": "./o"}}, "two outputs go to the same place"),
        ("cat {x} {o}", {"join": {"o": "lines.txt"}}, "written over what it is made from"),
        ("cat {x}", {"join": {"d": "d/"}}, "makes no directory"),
        ("cat {x}", {"join": "o.txt"}, "what each output is called"),
        ("cat {x}", {"directory": "nowhere"}, "is not a directory"),
        ("cat {x}", {"least_bytes_per_unit": -1}, "a number of bytes"),
        ("cat {x:offset} {x:source}", {"split": {"x": "*.fastq"}}, "not one file"),
        ("cat < {x}", {"split": {"x": "a.npy"}}, "begin with how many units"),
        ("cat {x}", {"check": "cat {y}"}, "not a placeholder"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(text: str, options: dict[str, Any], words: str) -> None:
    """With what to do instead."""
    np.save("a.npy", np.arange(10))
    with pytest.raises(AliquotError) as refused:
        Command(text, **{"split": {"x": "lines.txt"}, **options})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cat {x} > o.txt", "the command writes to o.txt itself: write {o} instead"),
        ("cat {x} >o.txt", "writes to o.txt itself"),
        ("cat {x} | tee >'./o.txt'", "writes to ./o.txt itself"),
        ('(cat {x} >> "o.txt")', "writes to o.txt itself"),
        ("cat {x} > $(pwd)/y; cat {x} > {here}/o.txt", "/o.txt itself"),
        ("cp {x} o.txt", "the command names o.txt itself: write {o} instead"),
    ],
)
def test_the_path_of_an_output_is_not_written_for_its_name(text: str, words: str, tmp_path: Path) -> None:
    """Each step would write over it, and nothing would be joined."""
    with pytest.raises(UsageError) as refused:
        Command(text.replace("{here}", str(tmp_path)), split={"x": "lines.txt"}, join={"o": "o.txt"})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("cat {x} > {o}; cat o.txt", {}),
        ("cat {x} /some/o.txt", {}),
        ("cat {x} --not=o.txt go.txt o.txt.gz 'see o.txt'", {}),
        ("cat {x} < o.txt", {}),
        ("cd {scratch} && cat {x} > o.txt && cat o.txt", {}),
        ("cat {x} > o.txt; cat o.txt", {"sandbox": True}),
        ("grep sort {x}", {"join": {"o": "sort"}}),
        ("cat {x} 2>&1", {"join": {"o": "1"}}),
        ("cat {x} > /dev/stdout", {"join": {"o": "/dev/stdout"}}),
    ],
)
def test_what_only_looks_like_the_path_of_an_output_is_accepted(text: str, options: dict[str, Any]) -> None:
    """As a part of a word, as what is read, in another directory."""
    command = Command(text, **{"split": {"x": "lines.txt"}, "join": {"o": "o.txt"}, **options})
    assert command.outputs[0].name == "o"


def test_the_path_of_an_output_that_is_there_may_be_read(tmp_path: Path) -> None:
    """As an argument; what is written to it is refused all the same."""
    write(tmp_path / "seen.txt", b"before")
    Command("grep -vxFf seen.txt {x}", split={"x": "lines.txt"}, join={"seen": "seen.txt"})
    with pytest.raises(UsageError, match=r"writes to seen\.txt itself"):
        Command("cat {x} > seen.txt", split={"x": "lines.txt"}, join={"seen": "seen.txt"})


def test_the_path_of_an_output_may_be_that_of_a_declared_input(tmp_path: Path) -> None:
    """The file that is there is read, and replaced at the end."""
    path = tmp_path / "all.txt"
    write(path, b"before")
    options: dict[str, Any] = {"sandbox": True, "inputs": ["all.txt"]}
    command = Command(f"cat {path} {{x}}", split={"x": "lines.txt"}, join={"o": "all.txt"}, **options)
    assert command.inputs == (str(path),)


def test_several_files_under_one_name_are_refused() -> None:
    """Each needs its own place in the command."""
    with pytest.raises(UsageError, match="give each of them its own name"):
        Command("cat {x}", split={"x": aliquot.together("1.fastq", "2.fastq")})


def test_a_range_of_a_compressed_file_is_refused() -> None:
    """Said why, and what to use."""
    os.system("gzip lines.txt")
    with pytest.raises(UsageError, match=r"lines.txt.gz is compressed.*Use \{x\}"):
        Command("cat {x:source} {x:offset}", split={"x": "lines.txt.gz"})
    assert Command("cat {x:source} {unit_start}", split={"x": "lines.txt.gz"}).mode == "range"


def test_a_changed_source_is_refused_when_a_command_comes_back() -> None:
    """Its units are not the same."""
    desc = count().to_desc()
    write(Path("lines.txt"), "other\n")
    with pytest.raises(DataError, match="not the one that was described"):
        Command.from_desc(desc)


@pytest.mark.parametrize("split", ["lines.txt", Path("lines.txt"), ["lines.txt"], b"lines.txt", range(5)])
def test_an_input_without_a_name_is_refused(split: Any) -> None:
    """And it is said what to write."""
    with pytest.raises(UsageError, match=r"split=\{'reads': '\w+\.\w+'\}"):
        Command("cat {x} > {out}", split=split, join={"out": "out.txt"})
