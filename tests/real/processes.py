"""Scripts in processes of their own, and which processes there are."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

MARK = "ALIQUOT_TEST_MARK"
# Not what is expected: what is waited for at most before a test fails, on a machine that is busy with other things.
_DEADLINE_SECONDS = 20.0


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = _DEADLINE_SECONDS) -> None:
    """Look again and again; for what nobody tells."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} seconds still not so: {what}")
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_until_gone(*processes: int) -> None:
    """Processes end a moment after they are told to."""
    wait_until(lambda: not any(map(is_running, processes)), f"no process is left of {processes}")


def children_of(process: int) -> list[int]:
    """The processes that a process has started itself."""
    found: list[int] = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            found += map(int, (task / "children").read_text().split())
    return found


def kill(processes: list[int]) -> None:
    """Kill those that are still there: one of them may end by itself, or with another."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


class Script:
    """A program that runs in a process of its own, and by whose mark all that it starts can be found."""

    def __init__(self, directory: Path, source: str, *, prefix: str = "import aliquot, os, sys, time\n") -> None:
        self._mark = uuid.uuid4().hex
        path = directory / f"script_{self._mark}.py"
        path.write_text(prefix + source)
        self.process = subprocess.Popen(
            [sys.executable, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env={**os.environ, MARK: self._mark},
            start_new_session=True,
        )

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        kill(self.processes())
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def interrupt(self) -> None:
        """Press Ctrl-C: the terminal signals all of the foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self, timeout_seconds: float = 60) -> tuple[int, str, str]:
        """Wait for its end: exit code, what it printed, and its errors."""
        out, err = self.process.communicate(timeout=timeout_seconds)
        return self.process.returncode, out, err

    def processes(self) -> list[int]:
        """All that it has started and that run, and itself."""
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                environment = (directory / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={self._mark}".encode() in environment.split(b"\0") and is_running(int(directory.name)):
                found.append(int(directory.name))
        return found

    def wait_until_nothing_is_left(self) -> None:
        """Wait for the end of all that it started."""
        wait_until(lambda: not self.processes(), "nothing is left of what the script started")


def run_script(directory: Path, source: str, *, prefix: str = "import aliquot, os, sys, time\n") -> str:
    """What a script prints, which must end well."""
    with Script(directory, source, prefix=prefix) as script:
        code, out, err = script.finish()
        assert code == 0, err
        assert err == ""
        return out
