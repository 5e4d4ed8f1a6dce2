"""Two programs over the same seconds: by turns one of them runs, while the other one is frozen.

A shared machine may be faster by a third for some seconds, which is more than what is to be measured. Here both have
their part of every second, and what counts is for how long each was not frozen.

Their clocks go on meanwhile: what a program does by the clock, it does twice as often. Who waits without working would
seem faster than it is.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from bench.command_line import environment

_TURN_SECONDS = 0.25
_LONGEST_SECONDS = 300
_LOOK_SECONDS = 0.0005
_HIERARCHIES = ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup")
# Who is to be in a group enters it before it becomes the program.
_ENTER = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class Racer:
    """What to run, and where."""

    command: list[str]
    directory: str


def race(first: Racer, second: Racer) -> tuple[float, float]:
    """How long each took, of the time in which it was not frozen."""
    with _lane(first) as one, _lane(second) as other:
        lanes = [one, other]
        while lanes:
            for lane in lanes:
                lane.run_for(_TURN_SECONDS)
            lanes = [lane for lane in lanes if not lane.is_over]
        return one.seconds, other.seconds


def missing() -> str | None:
    """What a race needs that is not here."""
    if not hasattr(os, "pidfd_open"):
        return "pidfd_open"
    try:
        with _group("probe"):
            return None
    except OSError:
        return "control groups that can be frozen, which only root has"


class _Lane:
    """A program in a group that is frozen, but for the turns that it is given."""

    def __init__(self, racer: Racer, group: _Group, errors: IO[bytes]) -> None:
        self._group = group
        self._errors = errors
        group.freeze()
        self._process = subprocess.Popen(
            ["sh", "-c", _ENTER, group.members, *racer.command],
            cwd=racer.directory,
            env=environment(os.path.join(racer.directory, "cache")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        self._end = os.pidfd_open(self._process.pid)
        self.seconds = 0.0
        self.is_over = False

    def run_for(self, seconds: float) -> None:
        began = time.perf_counter()
        self._group.thaw()
        # Popen.wait looks every 50 ms, which is too rarely.
        self.is_over = bool(select.select([self._end], [], [], seconds)[0])
        if not self.is_over:
            self._group.freeze()
        self.seconds += time.perf_counter() - began
        if self.is_over and self._process.wait():
            self._errors.seek(0)
            told = self._errors.read()[-4000:].decode(errors="replace")
            raise RuntimeError(f"{self._process.args!r} failed:\n{told}")
        if self.seconds > _LONGEST_SECONDS:
            raise RuntimeError(f"{self._process.args!r} is not over after {_LONGEST_SECONDS} s")

    def end(self) -> None:
        """It may not have entered its group yet."""
        self._process.kill()
        self._group.kill()
        self._process.wait()
        os.close(self._end)


class _Group:
    """A control group, by either version of the kernel's interface."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.members = os.path.join(path, "cgroup.procs")
        self._is_old = os.path.exists(os.path.join(path, "freezer.state"))

    def freeze(self) -> None:
        if self._is_old:
            self._write("freezer.state", "FROZEN")
            self._wait_for("freezer.state", "FROZEN")
        else:
            self._write("cgroup.freeze", "1")
            if self.processes():
                self._wait_for("cgroup.events", "frozen 1")

    def thaw(self) -> None:
        self._write("freezer.state" if self._is_old else "cgroup.freeze", "THAWED" if self._is_old else "0")

    def kill(self) -> None:
        """All that are in it, and wait for their end."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        self.thaw()
        while (processes := self.processes()) and time.monotonic() < deadline:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)

    def processes(self) -> list[int]:
        with open(self.members) as file:
            return [int(line) for line in file]

    def _write(self, name: str, content: str) -> None:
        with open(os.path.join(self._path, name), "w") as file:
            file.write(content)

    def _wait_for(self, name: str, content: str) -> None:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < deadline:
            with open(os.path.join(self._path, name)) as file:
                if content in file.read():
                    return
            time.sleep(_LOOK_SECONDS)
        raise RuntimeError(f"{self._path}: it is not {content} after {_LONGEST_SECONDS} s")


@contextlib.contextmanager
def _lane(racer: Racer) -> Iterator[_Lane]:
    with _group(str(id(racer))) as group, tempfile.TemporaryFile() as errors:
        lane = None
        try:
            lane = _Lane(racer, group, errors)
            yield lane
        finally:
            if lane is not None:
                lane.end()
            group.kill()


@contextlib.contextmanager
def _group(name: str) -> Iterator[_Group]:
    hierarchy = next((place for place in _HIERARCHIES if os.path.exists(os.path.join(place, "cgroup.procs"))), None)
    if hierarchy is None:
        raise FileNotFoundError("there are no control groups")
    path = os.path.join(hierarchy, f"aliquot-bench-{os.getpid()}-{name}")
    os.mkdir(path)
    try:
        if not any(os.path.exists(os.path.join(path, file)) for file in ("freezer.state", "cgroup.freeze")):
            raise FileNotFoundError(f"{path} cannot be frozen")
        yield _Group(path)
    finally:
        os.rmdir(path)
