"""Whatever is killed and whenever: the same call again ends with the same bytes, and nothing certain is done twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aliquot.journal import Journal
from tests.real.processes import MARK, kill, wait_until

# Each line is done by a program that takes a moment, in steps of a few lines, so that a run takes about a second.
_SCRIPT = """
import sys, aliquot
command = aliquot.Command({text!r}, split={{"n": "numbers.txt"}}, join={{"out": "out.txt"}}, unordered={unordered})
aliquot.run(command, on=aliquot.sites.Local(cores=2), progress=False, target_seconds=0.02)
"""
_COMMANDS = {
    "files": "sleep 0.01; awk '{{print 3*$1}}' {n} > {out}",
    "stream": "awk '{{print 3*$1}}' < {n}; sleep 0.05",
}
_UNITS = 3000


class Run:
    """One sitting after the other of the same run."""

    def __init__(self, directory: Path, kind: str, *, unordered: bool = False) -> None:
        self.directory = directory
        self._mark = os.urandom(8).hex()
        (directory / "numbers.txt").write_text("".join(f"{number}\n" for number in range(_UNITS)))
        (directory / "run.py").write_text(_SCRIPT.format(text=_COMMANDS[kind], unordered=unordered))

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "run.py"],
            cwd=self.directory,
            env={**os.environ, MARK: self._mark, "ALIQUOT_CACHE": str(self.directory / "cache")},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def processes(self) -> list[int]:
        """All that belong to it."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self._mark.encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def recorded(self) -> dict[int, int]:
        """The pieces that are done for certain."""
        path = self.directory / ".aliquot/out.txt/journal.sqlite"
        if not path.exists():
            return {}
        with Journal.open(str(path), read_only=True) as journal:
            return {piece.start: piece.stop for piece in journal.restore().pieces}


@pytest.mark.parametrize("kind", _COMMANDS)
@pytest.mark.parametrize("unordered", [False, True], ids=["ordered", "unordered"])
def test_kills_at_random_instants(tmp_path: Path, kind: str, unordered: bool) -> None:
    """The coordinator, a worker or program, or everything at once, again and again until a sitting gets to its end."""
    chance = random.Random(f"{kind}{unordered}")
    run = Run(tmp_path, kind, unordered=unordered)
    certain: dict[int, int] = {}
    for sitting in range(6):
        process = run.start()
        deadline = time.monotonic() + chance.uniform(0.1, 0.9)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None:
            others = [one for one in run.processes() if one != process.pid]
            victims = [[process.pid], chance.sample(others, min(1, len(others))), [process.pid, *others]][sitting % 3]
            kill(victims)
            if process.pid not in victims:
                time.sleep(0.1)
                kill([process.pid])
        process.communicate()
        wait_until(lambda: not run.processes(), "nothing is left of a sitting whose coordinator was killed")
        now = run.recorded()
        assert certain.items() <= now.items(), "what was certain is not any more"
        certain = now
        if process.returncode == 0:
            break
    else:
        process = run.start()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    lines = (tmp_path / "out.txt").read_text().split()
    expected = [str(3 * number) for number in range(_UNITS)]
    assert (sorted(lines, key=int) if unordered else lines) == expected
    assert sum(stop - start for start, stop in run.recorded().items()) == _UNITS
    assert sorted(os.listdir(tmp_path / ".aliquot/out.txt")) == ["failed", "holder", "journal.sqlite"]


def test_a_kill_while_outputs_are_moved(tmp_path: Path) -> None:
    """The output is there whole or not at all; the next sitting moves what is left to be moved."""
    script = """
import os, sys, signal, aliquot
import aliquot.outputs.partial as partial
moved = partial.place
def place(made, target, receipt, **kind):
    if sys.argv[1] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    moved(made, target, receipt, **kind)
    if sys.argv[1] == "after":
        os.kill(os.getpid(), signal.SIGKILL)
partial.place = place
command = aliquot.Command("cat {n} > {a}; cat {n} > {b}", split={"n": "n.txt"}, join={"a": "a.txt", "b": "b.txt"})
print(aliquot.run(command, progress=False).report.steps)
"""
    (tmp_path / "run.py").write_text(script)
    (tmp_path / "n.txt").write_text("".join(f"{number}\n" for number in range(1000)))
    content = (tmp_path / "n.txt").read_bytes()
    for when, is_there in (("before", False), ("after", True), ("after", True)):
        told = subprocess.run([sys.executable, "run.py", when], cwd=tmp_path, capture_output=True, check=False)
        assert told.returncode == -signal.SIGKILL, told.stderr.decode()
        assert (tmp_path / "a.txt").exists() == is_there
        if is_there:
            assert (tmp_path / "a.txt").read_bytes() == content
    told = subprocess.run([sys.executable, "run.py", "never"], cwd=tmp_path, capture_output=True, check=False)
    assert told.returncode == 0, told.stderr.decode()
    assert int(told.stdout) == 0, "what was done is done again"
    for name in ("a.txt", "b.txt"):
        assert (tmp_path / name).read_bytes() == content


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk(tmp_path: Path) -> None:
    """The run ends, says so, and goes on when there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.decode()}")
    try:
        script = """
import aliquot
command = aliquot.Command("awk '{{for (i = 0; i < 40; i++) print}}' {n} > {out}",
                          split={"n": "../numbers.txt"}, join={"out": "out.txt"})
aliquot.run(command, progress=False)
"""
        (tmp_path / "run.py").write_text(script)
        (tmp_path / "numbers.txt").write_text("".join(f"{number}\n" for number in range(20_000)))
        environment = {**os.environ, "ALIQUOT_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, str(tmp_path / "run.py")]
        told = subprocess.run(command, cwd=disk, capture_output=True, check=False, env=environment)
        assert told.returncode != 0
        assert b"room" in told.stderr or b"full" in told.stderr, told.stderr.decode()
        assert not (disk / "out.txt").exists()
        subprocess.run(["mount", "-o", "remount,size=60m", disk], check=True)
        told = subprocess.run(command, cwd=disk, capture_output=True, check=False, env=environment)
        assert told.returncode == 0, told.stderr.decode()
        expected = "".join(f"{number}\n" * 40 for number in range(20_000))
        assert (disk / "out.txt").read_text() == expected
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
