"""Processes to be measured, which end with the test that started them, however that ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

# What a child's source may use. `stay` ends when the test closes its end of the pipe: no process outlives a test.
_PRELUDE = """
import os, sys

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def hear():
    text = b""
    while not text.endswith(b"\\n"):
        piece = os.read(0, 1)
        if not piece:
            os._exit(0)
        text += piece
    return text.decode().strip()

def stay():
    while os.read(3, 1):
        pass
    os._exit(0)

def fork(then):
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return pid
"""


class Child:
    """A Python program in a process that leads a group of its own, as a worker does."""

    def __init__(self, source: str, *arguments: object) -> None:
        # The lifeline is descriptor 3 in the child, and whatever it starts inherits it.
        lifeline, self._lifeline = os.pipe()
        move = f"import os; os.dup2({lifeline}, 3, inheritable=True)\n" if lifeline != 3 else ""
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", move + _PRELUDE + source, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[lifeline],
            process_group=0,
        )
        os.close(lifeline)
        self.pid = self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lifeline)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.communicate()

    def hears(self, line: str = "") -> None:
        """Tell it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def says(self) -> list[int]:
        """The numbers on the next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the child has ended without a word"
        return list(map(int, line.split()))

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        return self._process.wait(timeout=20)


def wait_until_ended(pid: int) -> None:
    """Wait for a process that need not be a child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 20)[0], f"process {pid} does not end"
    finally:
        os.close(descriptor)


def has_proc() -> bool:
    """Whether this system shows its processes as files."""
    return Path("/proc/self/stat").exists()
