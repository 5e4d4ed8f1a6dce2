"""Commands that are fed through pipes."""

from __future__ import annotations

import gzip
import os
import select
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.errors import DataError, UsageError
from aliquot.jobs.command import Command, CommandError, Stream
from tests.jobs.command.making import open_descriptors
from tests.virtual_file.making import numbered_lines, random_lines, reads, write

LINES = random_lines(20_000)  # over a megabyte, which no pipe holds


@pytest.fixture(autouse=True)
def in_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run where they are made."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lines.txt", LINES)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(in_its_own_directory: None) -> Any:
    """No thread, no descriptor, no process."""
    threads, descriptors, children = threading.active_count(), open_descriptors(), own_children()
    yield
    assert threading.active_count() == threads
    assert open_descriptors() == descriptors
    assert own_children() == children


def own_children() -> list[int]:
    """The processes that this one has started, the dead among them; some may have been there before a test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == os.getpid():
                found.append(int(entry.name))
    return sorted(found)


def open_stream(text: str, start: int = 0, place: str = "place", **options: Any) -> Stream:
    return Stream(Command(text, **{"split": {"x": "lines.txt"}, **options}), start, place)


def fed(stream: Stream, *cuts: int) -> bytes:
    for start, stop in pairwise(cuts):
        assert stream.feed(start, stop)
    (path,) = stream.finish().values()
    return Path(path).read_bytes()


@pytest.mark.parametrize("text", ["cat < {x}", "cat {x:pipe}", "tac < {x} | tac", "cat {x:pipe} > {stdout}"])
def test_a_command_sees_all_units_in_order(text: str) -> None:
    """Fed in parts, it sees one input."""
    assert fed(open_stream(text), 0, 1, 7000, 7001, 20_000) == LINES


def test_a_stream_begins_anywhere_and_may_leave_units_out() -> None:
    """A unit that was set aside is not fed."""
    stream = open_stream("cat < {x}", 5)
    assert stream.feed(5, 7)
    assert stream.feed(9, 10)
    assert Path(stream.finish()["stdout"]).read_bytes() == b"".join(LINES.splitlines(True)[i] for i in (5, 6, 9))


def test_units_do_not_go_back() -> None:
    """They have gone through the pipe."""
    stream = open_stream("cat < {x}")
    stream.feed(0, 5)
    with pytest.raises(UsageError, match="cannot follow"):
        stream.feed(4, 6)
    stream.abort()


def test_compressed_units_and_headers_are_fed_once() -> None:
    """One header, whatever the parts."""
    rows = "a,b\n" + "".join(f"{number},x\n" for number in range(100_000))
    Path("rows.csv.gz").write_bytes(gzip.compress(rows.encode()))
    assert fed(open_stream("cat < {x}", split={"x": "rows.csv.gz"}), 0, 40_000, 100_000).decode() == rows


def test_a_command_that_is_fed_nothing_sees_the_header() -> None:
    """And the end."""
    write(Path("rows.csv"), "a,b\n1,2\n")
    assert fed(open_stream("cat < {x}", split={"x": "rows.csv"})) == b"a,b\n"
    assert fed(open_stream("wc -c < {x}", place="other")).strip() == b"0"


def test_files_that_end_without_a_newline_are_kept_apart() -> None:
    """Also where the cut is between them."""
    for number in range(3):
        write(Path(f"{number}.part"), "a\nb")
    view = aliquot.open("*.part")
    expected = b"a\nb\na\nb\na\nb"
    for cuts in [(0, 6), (0, 2, 4, 6), (0, 1, 3, 6), (0, 1, 2, 3, 4, 5, 6)]:
        place = "-".join(map(str, cuts))
        assert fed(open_stream("cat < {x}", split={"x": view}, place=place), *cuts) == expected


@pytest.mark.parametrize(
    "text",
    [
        "paste {a:pipe} {b:pipe}",  # by turns
        "cat {a:pipe} {b:pipe}",  # one after the other
        "cat {b:pipe} {a:pipe}",
        "cat {a:pipe} > {o}; cat < {b} >> {o}",
        "python3 -c 'import sys; b = open(sys.argv[2]).read(); print(b + open(sys.argv[1]).read())' {a:pipe} {b:pipe}",
    ],
)
def test_several_pipes_are_read_in_any_order(text: str) -> None:
    """A program that reads one far ahead, or to its end, does not wait for ever."""
    write(Path("1.fastq"), reads(30_000, "/1"))
    write(Path("2.fastq"), reads(30_000, "/2"))
    split = {"a": "1.fastq", "b": "2.fastq"}
    found = fed(open_stream(text, split=split, join={"o": "o"}), 0, 10_000, 10_001, 30_000)
    whole = Command(text.replace(":pipe", "").replace("<", ""), split=split, join={"o": "o"}).execute()
    assert found == Path(whole["o"][0]).read_bytes()


def test_a_command_that_has_read_enough_is_no_failure() -> None:
    """Units that it did not read count as done."""
    stream = open_stream("head -n 1 < {x}")
    assert not stream.feed(0, 20_000)
    assert not stream.feed(20_000, 20_000)
    assert Path(stream.finish()["stdout"]).read_bytes() == LINES.splitlines(True)[0]


def test_a_command_that_has_read_enough_of_one_pipe_gets_the_other() -> None:
    """To its end."""
    write(Path("other.txt"), LINES)
    split = {"a": "lines.txt", "b": "other.txt"}
    stream = open_stream("head -n 1 {a:pipe} > {o}; cat {b:pipe} > {p}", split=split, join={"o": "o", "p": "p"})
    assert stream.feed(0, 20_000)
    outputs = stream.finish()
    assert Path(outputs["p"]).read_bytes() == LINES


def test_a_command_that_never_opens_its_pipe() -> None:
    """It is done when it ends; nobody waits for it to read."""
    stream = open_stream("true || cat < {x}")
    assert not stream.feed(0, 20_000)
    assert Path(stream.finish()["stdout"]).read_bytes() == b""


def test_a_command_that_goes_on_after_it_has_closed_its_pipe() -> None:
    """Its output is complete when it ends, not before."""
    os.mkfifo("go")
    stream = open_stream("head -n 1 < {x} > /dev/null; cat go")
    assert not stream.feed(0, 20_000)
    thread = threading.Thread(target=Path("go").write_text, args=("later",))
    thread.start()
    outputs = stream.finish()
    thread.join()
    assert Path(outputs["stdout"]).read_text() == "later"


def test_a_failure_while_it_reads_is_told_at_the_end() -> None:
    """With how far it was fed."""
    stream = open_stream("head -n 1 < {x} > /dev/null; echo bad >&2; exit 7")
    assert not stream.feed(0, 20_000)
    with pytest.raises(CommandError) as failed:
        stream.finish()
    assert (failed.value.status, failed.value.stderr) == (7, "bad")
    assert "units 0 to 19999 of" in str(failed.value)


def test_a_command_that_is_killed_is_told() -> None:
    """By the name of the signal."""
    stream = open_stream("sh -c 'head -n 1; kill -TERM $$' < {x}")
    stream.feed(0, 20_000)
    with pytest.raises(CommandError, match="SIGTERM"):
        stream.finish()


def test_a_program_that_opens_its_pipe_twice_fails_at_once() -> None:
    """Instead of waiting for ever, and it is said why."""
    stream = open_stream("sh -c 'cat $0 > /dev/null && cat $0' {x:pipe}")
    stream.feed(0, 5)
    with pytest.raises(CommandError, match="is a pipe, which can be opened once"):
        stream.finish()


@pytest.mark.parametrize("text", ["sleep 0.05; cat /dev/stdin", "cat; cat /dev/stdin"])
def test_a_program_may_open_its_standard_input_anew(text: str) -> None:
    """Also when all was written, and nobody writes any more."""
    assert fed(open_stream(f"({text}) < {{x}}"), 0, 100) == b"".join(LINES.splitlines(keepends=True)[:100])


def test_checks_and_lengths_are_looked_at() -> None:
    """As after any step."""
    stream = open_stream("head -n 1 < {x}", least_bytes_per_unit=20)
    stream.feed(0, 20_000)
    with pytest.raises(CommandError, match="each of 20000 units"):
        stream.finish()
    stream = open_stream("cat < {x}", check="test $(wc -l < {stdout}) = 3", place="other")
    stream.feed(0, 3)
    assert stream.finish()


def test_an_aborted_command_is_killed_with_what_it_started() -> None:
    """Wherever it is."""
    os.mkfifo("started")
    stream = open_stream("sh -c 'sleep 60 & echo $! > started; cat' < {x} | cat")
    assert stream.feed(0, 10)
    ending = os.pidfd_open(int(Path("started").read_text()))
    stream.abort()
    assert select.select([ending], [], [], 30)[0]
    os.close(ending)
    stream.abort()


def test_a_source_that_cannot_be_read_stops_the_command() -> None:
    """The error names the file and the place; a program that saw too little is not taken for one that saw all."""
    data = gzip.compress(LINES)
    write(Path("cut.txt.gz"), data[: len(data) // 2])
    stream = open_stream("cat < {x}", split={"x": "cut.txt.gz"})
    with pytest.raises(DataError, match=r"cut\.txt\.gz.*byte"):
        stream.feed(0, 20_000)


def test_a_source_that_changes_stops_the_command() -> None:
    """What it would read is not what was to be read."""
    stream = open_stream("cat < {x}")
    assert stream.feed(0, 10)
    write(Path("lines.txt"), numbered_lines(30_000))
    with pytest.raises(DataError, match="since it was opened"):
        stream.feed(10, 20_000)


def test_only_a_command_that_reads_a_pipe_is_fed() -> None:
    """Others run once for each step."""
    with pytest.raises(UsageError, match="reads no pipe"):
        open_stream("cat {x}")


def test_pipes_are_not_lost_in_a_sandbox() -> None:
    """They are there, as files would be."""
    assert fed(open_stream("cat {x:pipe}", sandbox=True), 0, 100) == b"".join(LINES.splitlines(True)[:100])


def test_what_was_read_is_known() -> None:
    """Waits until the command has read nearly all; it goes on when there is more."""
    stream = open_stream("while read line; do echo $line; done < {x} > {y}", join={"y": "y.txt"})
    assert stream.feed(0, 2)
    assert stream.wait_until_read(0)
    assert stream.feed(2, 3)
    assert stream.wait_until_read(10**6)
    path = stream.finish()["y"]
    assert Path(path).read_bytes().splitlines() == LINES.splitlines()[:3]


def test_a_command_that_ends_is_not_waited_for() -> None:
    """Whether it has read or not."""
    stream = open_stream("exec < {x}; exit 0")
    stream.feed(0, 1)
    assert not stream.wait_until_read(-1)
    stream.finish()
