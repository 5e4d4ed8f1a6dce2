"""Named pipes that programs read slices from."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

import aliquot

from .making import random_lines, reads, write
from .refusals import refused


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pipes are made, to see what is left of them."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def nothing_is_left(temporary: Path) -> bool:
    """Neither a directory nor a thread."""
    feeding = [thread for thread in threading.enumerate() if thread.name.startswith("aliquot feeds")]
    return not feeding and not os.listdir(temporary)


@pytest.mark.parametrize("lines", [0, 1, 50_000])
def test_a_program_reads_what_read_gives(tmp_path: Path, temporary: Path, lines: int) -> None:
    """More than a pipe holds, a line, and nothing at all."""
    view = aliquot.open(write(tmp_path / "a.txt", random_lines(50_010)))[5 : 5 + lines]
    with view.pipe() as path:
        found = subprocess.run(["cat", path], stdout=subprocess.PIPE, check=True).stdout
    assert found == view.read()
    assert nothing_is_left(temporary)


def test_a_piped_table_has_its_header(tmp_path: Path) -> None:
    """As in a file of its own."""
    view = aliquot.open(write(tmp_path / "a.csv", b"x,y\n1,2\n3,4\n5,6\n"))[1:2]
    with view.pipe() as path:
        assert subprocess.run(["cat", path], stdout=subprocess.PIPE, check=True).stdout == b"x,y\n3,4\n"


def test_a_range_can_be_piped(tmp_path: Path) -> None:
    """One number a line."""
    with aliquot.open(range(100_000))[10:].pipe() as path:
        counted = subprocess.run(["wc", "-l", path], stdout=subprocess.PIPE, check=True).stdout
    assert counted.split()[0] == b"99990"


def test_a_program_may_stop_reading_early(tmp_path: Path, temporary: Path) -> None:
    """As 'head -1' does."""
    data = random_lines(50_000)
    with aliquot.open(write(tmp_path / "a.txt", data)).pipe() as path:
        found = subprocess.run(["head", "-1", path], stdout=subprocess.PIPE, check=True).stdout
    assert found == data.splitlines(keepends=True)[0]
    assert nothing_is_left(temporary)


def test_a_pipe_that_nobody_opens_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    """Neither a thread that waits nor a directory, however soon it is left."""
    vf = aliquot.open(write(tmp_path / "a.txt", random_lines(10)))
    for _ in range(50):
        with vf.pipe() as path:
            assert os.path.exists(path)
        assert not os.path.exists(path)
    assert nothing_is_left(temporary)


def test_an_error_in_the_block_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    """It is raised as it is."""
    vf = aliquot.open(write(tmp_path / "a.txt", random_lines(10)))
    with pytest.raises(KeyError, match="mine"), vf.pipe():
        raise KeyError("mine")
    assert nothing_is_left(temporary)


def test_a_pipe_that_is_left_while_it_is_read_is_refused(tmp_path: Path, temporary: Path) -> None:
    """The reader sees the end too early, and the block says so; nothing is left behind."""
    vf = aliquot.open(write(tmp_path / "a.txt", random_lines(50_000)))
    readers = []

    def leave_early() -> None:
        with vf.pipe() as path:
            readers.append(os.open(path, os.O_RDONLY))
            assert os.read(readers[0], 10) == vf.read()[:10]

    with pytest.raises(aliquot.UsageError, match="wait for the program"):
        leave_early()
    while os.read(readers[0], 1 << 20):
        pass
    os.close(readers[0])
    assert nothing_is_left(temporary)


def bytes_read_so_far() -> int:
    """By this process, from anywhere."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


def test_leaving_a_pipe_that_nobody_opened_reads_nothing(tmp_path: Path, temporary: Path) -> None:
    """However large its source is."""
    path = tmp_path / "a.bin"
    path.touch()
    os.truncate(path, 200_000_000)  # NULs that take no room on the disk
    vf = aliquot.open(path, "fixed", record_bytes=1000)
    assert len(vf) == 200_000
    before = bytes_read_so_far()
    with vf.pipe():
        pass
    assert bytes_read_so_far() - before < 20_000_000
    assert nothing_is_left(temporary)


def test_a_source_that_shrinks_while_it_is_piped_raises_at_the_end(tmp_path: Path, temporary: Path) -> None:
    """A program that saw too little is not taken for one that saw all."""
    data = random_lines(80_000)
    path = write(tmp_path / "a.txt", data)
    vf = aliquot.open(path)
    assert len(vf) == 80_000

    def read_and_shrink() -> None:
        with vf.pipe() as pipe, open(pipe, "rb") as reader:
            found = reader.read(1000)
            os.truncate(path, 100)
            found += reader.read()
            assert len(found) < len(data)

    with refused("since it was opened", path=path, kind=aliquot.SourceChangedError):
        read_and_shrink()
    assert nothing_is_left(temporary)


def test_a_source_that_is_gone_when_it_is_piped_raises_at_the_end(tmp_path: Path, temporary: Path) -> None:
    """The program sees an empty file, and the block raises."""
    path = write(tmp_path / "a.txt", random_lines(100))
    vf = aliquot.open(path)
    assert len(vf) == 100
    path.unlink()

    def read() -> None:
        with vf.pipe() as pipe:
            assert subprocess.run(["cat", pipe], stdout=subprocess.PIPE, check=True).stdout == b""

    with refused("cannot be opened any more", path=path):
        read()
    assert nothing_is_left(temporary)


def test_pairs_are_read_from_two_pipes_at_once(tmp_path: Path, temporary: Path) -> None:
    """A program that takes turns between them gets both."""
    paths = write(tmp_path / "r1.fq", reads(9000)), write(tmp_path / "r2.fq", reads(9000, "/2"))
    view = aliquot.together(*paths, same_names=False)[1000:8000]
    with view.pipes() as pipes:
        found = subprocess.run(["paste", "-d", "\n", *pipes], stdout=subprocess.PIPE, check=True).stdout
    lines = found.splitlines(keepends=True)
    first, second = view.members
    assert b"".join(lines[0::2]) == first.read()
    assert b"".join(lines[1::2]) == second.read()
    assert nothing_is_left(temporary)


def test_pipes_may_be_read_one_after_the_other(tmp_path: Path, temporary: Path) -> None:
    """In the other order too, and one of them not at all."""
    paths = write(tmp_path / "r1.fq", reads(9000)), write(tmp_path / "r2.fq", reads(9000))
    vf = aliquot.together(*paths)
    with vf.pipes() as pipes:
        for path in reversed(pipes):
            assert subprocess.run(["cat", path], stdout=subprocess.PIPE, check=True).stdout == reads(9000)
    with vf.pipes() as pipes:
        assert subprocess.run(["cat", pipes[1]], stdout=subprocess.PIPE, check=True).stdout == reads(9000)
    assert nothing_is_left(temporary)


@pytest.mark.parametrize("unit", [0, 9])
def test_reads_that_are_not_mates_are_not_piped(tmp_path: Path, temporary: Path, unit: int) -> None:
    """The first and the last of a slice are looked at before any program is fed."""
    other = reads(10).replace(b"@read%d\n" % unit, b"@other\n")
    vf = aliquot.together(write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", other))
    with refused("not mates", unit=unit), vf.pipes():
        pytest.fail("the block is not entered")
    assert nothing_is_left(temporary)


def test_an_error_in_the_block_is_told_that_the_pipe_was_not_fed(tmp_path: Path, temporary: Path) -> None:
    """It is raised as it is, with a note of what may have caused it."""
    path = write(tmp_path / "a.txt", random_lines(100))
    vf = aliquot.open(path)
    assert len(vf) == 100
    path.unlink()

    def read() -> None:
        with vf.pipe() as pipe:
            subprocess.run(["cat", pipe], stdout=subprocess.PIPE, check=True)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        read()
    (note,) = caught.value.__notes__
    assert "could not be fed" in note
    assert "cannot be opened any more" in note
    assert nothing_is_left(temporary)


def test_an_error_in_the_block_has_no_note_where_all_was_fed(tmp_path: Path) -> None:
    """Nothing is blamed that is not to blame."""
    vf = aliquot.open(write(tmp_path / "a.txt", random_lines(100)))

    def read() -> None:
        with vf.pipe() as pipe:
            subprocess.run(["cat", pipe], stdout=subprocess.PIPE, check=True)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        read()
    assert not hasattr(caught.value, "__notes__")
