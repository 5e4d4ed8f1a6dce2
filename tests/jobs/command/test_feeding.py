"""Pipes that are fed: how often they are written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aliquot
from aliquot.jobs.command.feeding import FedPipe, next_pause_seconds
from tests.virtual_file.making import random_lines, write

HOLDS_BYTES = 256 << 10
LINES = random_lines(20_000)  # over a megabyte, which no pipe holds


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[FedPipe, int]]:
    """A pipe that is full, and the descriptor that its reader has."""
    source = aliquot.open(write(tmp_path / "lines.txt", LINES)).source
    fed = FedPipe("x", str(tmp_path / "pipe"), source, holds_bytes=HOLDS_BYTES)
    reader = os.open(fed.path, os.O_RDONLY | os.O_NONBLOCK)
    assert fed.try_to_open()
    fed.add(0, 20_000)
    fed.write()
    yield fed, reader
    os.close(reader)
    fed.remove()


def read(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count:
        content += os.read(descriptor, count - len(content))
    return content


def test_a_program_that_reads_little_is_left_alone_for_longer(pipe: tuple[FedPipe, int]) -> None:
    """Else it would be written to, and be woken, for each little."""
    fed, reader = pipe
    pauses = [fed.pause_seconds]
    for _ in range(3):
        read(reader, 16 << 10)
        fed.write()
        pauses.append(fed.pause_seconds)
    assert pauses == [pauses[0], 2 * pauses[0], 4 * pauses[0], 8 * pauses[0]]


def test_a_program_that_has_read_nearly_all_is_left_alone_for_less_long(pipe: tuple[FedPipe, int]) -> None:
    """It must not find an empty pipe."""
    fed, reader = pipe
    before = fed.pause_seconds
    read(reader, HOLDS_BYTES * 3 // 4)
    fed.write()
    assert fed.pause_seconds == before / 2


def test_a_pipe_with_room_is_written_to_at_once(pipe: tuple[FedPipe, int]) -> None:
    """Only one that was full has something to read meanwhile; and nothing is lost or written twice."""
    fed, reader = pipe
    content = b""
    while not fed.has_all:
        content += read(reader, fed.unread_bytes)
        fed.write()
    assert content + read(reader, fed.unread_bytes) == LINES
    assert fed.pause_seconds == 0.0


@given(st.lists(st.floats(0, 1), max_size=50))
def test_a_pause_is_always_short(parts: list[float]) -> None:
    """However a program reads: it may begin to read fast at any moment."""
    pause_seconds = 2e-4
    for part in parts:
        pause_seconds = next_pause_seconds(pause_seconds, part)
        assert 5e-5 <= pause_seconds <= 5e-3
