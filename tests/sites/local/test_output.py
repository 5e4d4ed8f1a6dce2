from __future__ import annotations

import io
import os
from collections.abc import Iterator

import pytest

from aliquot.sites.local.output import LineReader, ParentOutput, Stream


class Kept:
    """Keeps what is passed on."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Stream, str]] = []

    def write(self, stream: Stream, text: str) -> None:
        self.pieces.append((stream, text))

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.pieces)


class Pipe:
    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.output = Kept()
        self.reader = LineReader(reading, "stderr", self.output)

    def write(self, content: bytes) -> None:
        assert os.write(self.writing, content) == len(content)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.writing)


def test_whole_lines_are_passed_on(pipe: Pipe) -> None:
    """In the stream that they were printed to."""
    pipe.write(b"one\ntwo\n")
    assert pipe.reader.read()
    assert pipe.output.pieces == [("stderr", "one\ntwo\n")]
    pipe.reader.close()


def test_a_line_that_is_not_whole_waits_for_its_end(pipe: Pipe) -> None:
    """So that lines of several workers are never mixed."""
    pipe.write(b"one\ntw")
    pipe.reader.read()
    assert pipe.output.text == "one\n"
    pipe.write(b"o\n")
    pipe.reader.read()
    assert pipe.output.text == "one\ntwo\n"
    pipe.reader.close()


def test_a_last_line_without_an_end_is_given_one(pipe: Pipe) -> None:
    """It is passed on when there will be no more."""
    pipe.write(b"the last")
    pipe.reader.read()
    pipe.reader.close()
    assert pipe.output.text == "the last\n"


def test_letters_of_several_bytes_are_not_cut(pipe: Pipe) -> None:
    """Wherever the pipe cuts them."""
    content = "naïve ☃ 𝄞\n".encode()
    for byte in content:
        pipe.write(bytes([byte]))
        pipe.reader.read()
    assert pipe.output.text == "naïve ☃ 𝄞\n"
    pipe.reader.close()


def test_bytes_that_are_no_text_are_shown_as_such(pipe: Pipe) -> None:
    """Not an error."""
    pipe.write(b"\xff\xfe\n")
    pipe.reader.read()
    assert pipe.output.text == "\ufffd\ufffd\n"
    pipe.reader.close()


def test_nothing_there_is_not_the_end(pipe: Pipe) -> None:
    """Reading does not wait."""
    assert pipe.reader.read()
    assert pipe.output.pieces == []
    pipe.reader.close()


def test_the_end_is_told() -> None:
    """When all who could write have closed."""
    pipe = Pipe()
    pipe.write(b"bye\n")
    os.close(pipe.writing)
    assert not pipe.reader.read()
    assert pipe.output.text == "bye\n"
    pipe.reader.close()


def test_output_goes_where_the_parent_prints_at_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook or a test may have replaced its streams."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    ParentOutput().write("stdout", "a line\n")
    assert stream.getvalue() == "a line\n"


def test_a_parent_that_cannot_print_is_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream may be closed, or not there."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stdout", closed)
    monkeypatch.setattr("sys.stderr", None)
    ParentOutput().write("stdout", "lost\n")
    ParentOutput().write("stderr", "lost\n")


def test_letters_that_the_parents_stream_does_not_have_do_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker prints in UTF-8; the parent's own encoding may be older."""
    content = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(content, encoding="ascii"))
    ParentOutput().write("stdout", "a ☃\n")
    assert content.getvalue().startswith(b"a ")
