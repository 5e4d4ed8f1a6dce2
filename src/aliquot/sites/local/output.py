"""What workers print reaches the user, in whole lines."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Literal, Protocol

_LONGEST_LINE_BYTES = 1 << 20

Stream = Literal["stdout", "stderr"]


class Output(Protocol):
    """Takes what workers print."""

    def write(self, stream: Stream, text: str) -> None:
        """Show some whole lines."""


class ParentOutput:
    """To the parent's own streams, as they are at the time: a notebook or a test may have replaced them."""

    def write(self, stream: Stream, text: str) -> None:
        """Write and flush."""
        target = sys.stdout if stream == "stdout" else sys.stderr
        # The user's own stream may be closed, or a pipe that nobody reads any more.
        with contextlib.suppress(ValueError, AttributeError, BrokenPipeError):
            try:
                target.write(text)
            except UnicodeEncodeError as error:
                target.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
            target.flush()


class LineReader:
    """Reads the end of a pipe that does not block, and passes whole lines on."""

    def __init__(self, descriptor: int, stream: Stream, output: Output) -> None:
        self.descriptor = descriptor
        self._stream = stream
        self._output = output
        self._kept = bytearray()
        os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Pass on what is there; False at the end."""
        while True:
            try:
                piece = os.read(self.descriptor, 65536)
            except BlockingIOError:
                return True
            if not piece:
                return False
            self._kept += piece
            end = self._kept.rfind(b"\n") + 1
            if not end and len(self._kept) > _LONGEST_LINE_BYTES:
                end = len(self._kept)  # not a line: a progress bar, or no text at all
            if end:
                self._pass_on(self._kept[:end])
                del self._kept[:end]

    def close(self) -> None:
        """Pass on a last line that has no end, and close."""
        if self._kept:
            self._pass_on(self._kept + b"\n")
        os.close(self.descriptor)

    def _pass_on(self, content: bytes | bytearray) -> None:
        self._output.write(self._stream, content.decode("utf-8", "replace"))
