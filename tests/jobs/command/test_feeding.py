"""Pipes that are fed: when they are written to."""

from __future__ import annotations

import fcntl
import gzip
import os
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from aliquot.jobs.command import Command, Stream
from aliquot.jobs.command.feeding import FedPipe, next_pause_seconds
from tests.virtual_file.making import random_lines, write

HOLDS_BYTES = 256 << 10
LINES = random_lines(20_000)  # over a megabyte, which no pipe holds
LITTLE_BYTES = 16 << 10
SMALL_BYTES = 64 << 10


class Ends:
    """A pipe of its own for a test, and the descriptor that its reader has."""

    def __init__(self, directory: Path, content: bytes, *, name: str = "lines.txt", holds_bytes: int) -> None:
        source = aliquot.open(write(directory / name, content)).source
        self.fed = FedPipe("x", str(directory / "pipe"), source, holds_bytes=holds_bytes)
        self.reader = os.open(self.fed.path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, SMALL_BYTES)  # what it has at first is not everywhere the same
        assert self.fed.try_to_open()
        self.fed.add(0, 20_000)
        self.fed.write()

    def read(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            content += os.read(self.reader, count - len(content))
        return content

    def close(self) -> None:
        os.close(self.reader)
        self.fed.remove()


def unread_bytes(descriptor: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Ends]:
    """A large pipe that is full."""
    ends = Ends(tmp_path, LINES, holds_bytes=HOLDS_BYTES)
    if ends.fed.unread_bytes < HOLDS_BYTES // 2:
        ends.close()
        pytest.skip("the system gives no large pipes to this user, who has many of them")
    yield ends
    ends.close()


def test_a_program_that_reads_little_is_left_alone_for_longer_each_time(full: Ends) -> None:
    """Until it has read much in that time."""
    pauses = []
    for _ in range(4):
        full.read(LITTLE_BYTES)
        pauses.append(full.fed.pause_seconds)
        full.fed.write(pauses[-1])
    assert pauses == [pauses[0], 2 * pauses[0], 4 * pauses[0], 8 * pauses[0]]
    assert pauses[0] > 0


def test_a_program_that_has_read_much_meanwhile_is_left_alone_for_less_long(full: Ends) -> None:
    """Half of what it was."""
    full.read(LITTLE_BYTES)
    before = full.fed.pause_seconds
    full.read(full.fed.unread_bytes * 3 // 4)
    full.fed.write(before)
    full.read(LITTLE_BYTES)
    assert full.fed.pause_seconds == before / 2


def test_a_program_that_reads_faster_than_a_sleep_is_short_is_written_to_at_once(full: Ends) -> None:
    """Now and then it is tried again."""

    def pauses_of_a_fast_program(count: int) -> list[float]:
        pauses = []
        for _ in range(count):
            full.read(LITTLE_BYTES)
            pauses.append(full.fed.pause_seconds)
            full.read(full.fed.unread_bytes)
            full.fed.add(0, 20_000)
            full.fed.write(pauses[-1])
        return pauses

    pauses = pauses_of_a_fast_program(1_100)
    assert 0 < len([pause for pause in pauses if pause]) < 10
    assert pauses.index(0.0) < 5
    assert any(pauses[500:])


@pytest.mark.parametrize("part", [0.5, 1.0])
def test_a_program_that_has_read_half_of_a_pipe_is_written_to_at_once(full: Ends, part: float) -> None:
    """It may be about to wait."""
    full.read(int(full.fed.unread_bytes * part))
    assert full.fed.pause_seconds == 0.0


def test_a_pipe_that_was_not_full_is_written_to_at_once(full: Ends) -> None:
    """Whatever is in it."""
    while not full.fed.has_all:
        full.read(full.fed.unread_bytes)
        full.fed.write()
    assert full.fed.unread_bytes > 0
    assert full.fed.pause_seconds == 0.0


def test_a_small_pipe_is_written_to_at_once(tmp_path: Path) -> None:
    """It would be empty before the shortest sleep is over."""
    ends = Ends(tmp_path, LINES, holds_bytes=SMALL_BYTES)
    ends.read(ends.fed.unread_bytes // 8)
    assert ends.fed.pause_seconds == 0.0
    ends.close()


def test_what_is_decompressed_is_written_at_once(tmp_path: Path) -> None:
    """Else nothing would be decompressed while a program reads."""
    ends = Ends(tmp_path, gzip.compress(LINES), name="lines.txt.gz", holds_bytes=HOLDS_BYTES)
    assert not ends.fed.has_all
    ends.read(LITTLE_BYTES)
    assert ends.fed.pause_seconds == 0.0
    ends.close()


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lines.txt", LINES)


@pytest.mark.usefixtures("lines")
def test_a_stream_pauses_when_a_program_has_read_a_little() -> None:
    """And the program gets all of it."""
    has_paused = threading.Event()
    pauses: list[float] = []
    content: list[bytes] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        has_paused.set()

    def read_little_and_then_all(reader: int) -> None:
        while not has_paused.is_set():
            unread = unread_bytes(reader)
            if unread >= fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ) * 3 // 4:
                content.append(os.read(reader, LITTLE_BYTES))
            elif unread + sum(map(len, content)) == len(LINES):
                break  # nobody has paused
        while piece := os.read(reader, len(LINES)):
            content.append(piece)
        os.close(reader)

    os.mkfifo("end")
    # The program itself only waits: this test reads what would be for it.
    fed = Stream(Command("cat end # {x:pipe}", split={"x": "lines.txt"}), 0, "place", sleep=sleep)
    reader = os.open("place/x.txt", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    thread = threading.Thread(target=read_little_and_then_all, args=(reader,))
    thread.start()
    assert fed.feed(0, 20_000)
    Path("end").write_text("")
    fed.finish()
    thread.join()
    assert b"".join(content) == LINES
    assert pauses
    assert 0 < pauses[0] <= 5e-3


@pytest.mark.usefixtures("lines")
def test_nobody_pauses_for_a_program_that_has_closed_its_pipe() -> None:
    """It is over."""
    pauses: list[float] = []
    text = "exec 3< {x}; exec 3<&-; echo"
    fed = Stream(Command(text, split={"x": "lines.txt"}), 0, "place", sleep=pauses.append)
    fed.feed(0, 20_000)
    fed.finish()
    assert pauses == []


@given(st.lists(st.floats(0, 1), max_size=50))
def test_a_pause_is_always_short(parts: list[float]) -> None:
    """However a program reads: it may begin to read fast at any moment."""
    pause_seconds = 1e-4
    for part in parts:
        pause_seconds = next_pause_seconds(pause_seconds, part)
        assert 0.0 <= pause_seconds <= 5e-3
