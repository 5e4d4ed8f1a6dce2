from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aliquot.journal import Journal, JournalError, RunDirectory, RunHeldError
from aliquot.journal.holder import Hold, Holder, find_holder

_HOLD = """
import sys
from aliquot.journal import RunDirectory
with RunDirectory(sys.argv[1]).hold("aliquot run x"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / ".aliquot" / "out.sam")


class Other:
    """Another process that holds a run directory until it is told to stop."""

    def __init__(self, run: RunDirectory) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLD, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Other:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        self.process.communicate(timeout=20)


def test_holding_makes_the_directories(run: RunDirectory) -> None:
    """And a .gitignore in the directory of all runs, which is left as it is once it is there."""
    with run.hold("aliquot run"):
        assert run.is_held_here
        assert os.listdir(run.spool) == os.listdir(run.partial) == os.listdir(run.failed) == []
        assert sorted(os.listdir(run.path)) == ["failed", "holder", "partial", "spool"]
    assert not run.is_held_here
    ignore = Path(run.path).parent / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("mine\n")
    with run.hold("aliquot run"):
        assert ignore.read_text() == "mine\n"


def test_no_gitignore_elsewhere(tmp_path: Path) -> None:
    """A run directory that the user named may be among the user's files."""
    with RunDirectory(tmp_path / "here" / "run").hold("aliquot run"):
        assert os.listdir(tmp_path / "here") == ["run"]


def test_the_holder_says_who_it_is(run: RunDirectory) -> None:
    """As JSON, for people and programs; nobody once it is released."""
    with run.hold("aliquot run --split ..."):
        told = json.loads(Path(run.holder_path).read_text())
        assert told["pid"] == os.getpid()
        assert told["command"] == "aliquot run --split ..."
        holder = run.holder()
        assert holder is not None
        assert holder.pid == os.getpid()
        assert holder.host == os.uname().nodename
    assert run.holder() is None


def test_another_process_is_told_who_holds_it(run: RunDirectory) -> None:
    """By number, machine and time, and what to do; once that one ends it can be had."""
    with Other(run) as other:
        with pytest.raises(RunHeldError) as caught:
            run.acquire()
        message = str(caught.value)
        assert f"held by process {other.process.pid} on {os.uname().nodename} since 20" in message
        assert "aliquot run x" in message
        assert f"kill {other.process.pid}" in message
        assert "--run-dir" in message
        holder = run.holder()
        assert holder is not None
        assert holder.pid == other.process.pid
        other.end()
        assert run.holder() is None
        with run.hold():
            pass


def test_a_process_that_was_killed_holds_nothing(run: RunDirectory) -> None:
    """Also before it was waited for."""
    with Other(run) as other:
        other.process.kill()
        os.waitid(os.P_PID, other.process.pid, os.WEXITED | os.WNOWAIT)
        assert run.holder() is None
        with run.hold():
            pass


def test_a_forked_process_does_not_hold_on_when_its_parent_is_killed(run: RunDirectory) -> None:
    """Locks are shared with forked processes, which may live longer."""
    source = """
import os, sys
from aliquot.journal import RunDirectory
run = RunDirectory(sys.argv[1])
run.acquire("aliquot run x")
if os.fork():
    print("held", flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", source, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    with run.hold():
        pass
    process.stdin.close()  # now the child ends, and with it its end of the pipe
    assert process.stdout.read() == ""
    process.stdout.close()


def test_two_in_one_process_exclude_each_other(run: RunDirectory) -> None:
    """As two threads might."""
    with run.hold("first"):
        run.acquire()  # has it already
        with pytest.raises(RunHeldError, match=f"process {os.getpid()} .*first"):
            RunDirectory(run.path).acquire()
    with RunDirectory(run.path).hold("second"):
        pass


def test_a_holder_file_with_nonsense_holds_nothing(run: RunDirectory) -> None:
    """The lock is what counts."""
    os.makedirs(run.path)
    for content in (b"", b"nonsense", b'{"pid": 1}', b"\xff\xfe"):
        Path(run.holder_path).write_bytes(content)
        assert run.holder() is None
        with run.hold():
            pass


def _left_by(run: RunDirectory, **changes: Any) -> Holder:
    """Write a holder file as one would that was killed, or runs elsewhere."""
    os.makedirs(run.path, exist_ok=True)
    own = Hold(run.holder_path, "aliquot run y")
    told = {**json.loads(Path(run.holder_path).read_text()), **changes}
    own.release()
    Path(run.holder_path).write_text(json.dumps(told))
    return Holder(**told)


def test_a_process_is_known_by_when_it_began_not_only_by_its_number(run: RunDirectory) -> None:
    """Numbers are given anew, at once after a boot."""
    assert _left_by(run).is_running() is True
    assert _left_by(run, process_began_ticks=1).is_running() is False
    assert _left_by(run, boot="another").is_running() is False
    assert _left_by(run, pid=1 << 30).is_running() is False
    assert _left_by(run, pid_space="another").is_running() is None
    assert _left_by(run, host="another").is_running() is None


def test_one_killed_on_another_machine_holds_nothing(run: RunDirectory) -> None:
    """Its lock is gone, wherever it was."""
    _left_by(run, host="another")
    assert run.holder() is None
    with run.hold():
        pass


def test_one_that_runs_on_another_machine_holds_it(run: RunDirectory) -> None:
    """As its lock says; caused by a lock of this process under another's name."""
    os.makedirs(run.path)
    hold = Hold(run.holder_path, "aliquot run z")
    told = {**json.loads(Path(run.holder_path).read_text()), "host": "node17"}
    Path(run.holder_path).write_text(json.dumps(told))
    holder = find_holder(run.holder_path)
    assert holder is not None
    assert holder.host == "node17"
    with pytest.raises(RunHeldError, match=r"on node17 .* cannot be known on .*remove .*holder"):
        run.acquire()
    hold.release()


def test_starting_over_leaves_nothing_of_the_earlier_run(run: RunDirectory) -> None:
    """The journal, its log, and all files; the hold stays."""
    with run.hold():
        Journal.create(run.journal_path, {}).close()
        Path(f"{run.journal_path}-wal").touch()
        Path(run.spool, "piece").touch()
        Path(run.failed, "deep").mkdir()
        run.clear()
        assert sorted(os.listdir(run.path)) == ["failed", "holder", "partial", "spool"]
        assert os.listdir(run.spool) == os.listdir(run.failed) == []
        with pytest.raises(RunHeldError):
            RunDirectory(run.path).acquire()


def test_only_the_one_who_holds_it_may_clear_or_remove_it(run: RunDirectory) -> None:
    """Whoever calls without is wrong."""
    for act in (run.clear, run.remove):
        with pytest.raises(JournalError, match="is not held"):
            act()


def test_one_who_waits_for_a_directory_that_is_removed_gets_a_new_one(run: RunDirectory) -> None:
    """A lock on a file that is gone would keep nobody out."""
    run.acquire()
    Journal.create(run.journal_path, {}).close()
    run.remove()
    assert not os.path.exists(run.path)
    assert not run.is_held_here
    with run.hold():
        assert sorted(os.listdir(run.path)) == ["failed", "holder", "partial", "spool"]


def test_where_a_file_is_in_the_way(tmp_path: Path) -> None:
    """The error names it."""
    (tmp_path / "run").touch()
    with pytest.raises(JournalError, match=r"run: cannot be made or written"):
        RunDirectory(tmp_path / "run").acquire()
