"""Who gets a run directory on a file system without locks, whatever the others do in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aliquot.journal import holder
from aliquot.journal.errors import RunHeldError
from aliquot.journal.holder import Hold, Holder
from aliquot.journal.json_text import to_json


@pytest.fixture(autouse=True)
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_try_lock", lambda descriptor: None)
    monkeypatch.setattr(holder, "_TAKING_PATIENCE_SECONDS", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holder"


def living(command: str) -> bytes:
    return to_json(Holder.this_process(command)).encode()


def who_has(path: Path) -> str:
    command: str = json.loads(path.read_bytes())["command"]
    return command


def dead() -> bytes:
    """Of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return to_json(Holder(ended.pid, os.uname().nodename, holder.boot_id(), holder._pid_space(), 1, "", "")).encode()


@pytest.mark.parametrize("left", [None, b"", dead()])
def test_what_nobody_has_is_taken(path: Path, left: bytes | None) -> None:
    """Where there is no file, an empty one, or one of somebody who has ended."""
    if left is not None:
        path.write_bytes(left)
    hold = Hold(str(path), "mine")
    assert who_has(path) == "mine"
    assert os.listdir(path.parent) == ["holder"]
    hold.release()
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("left", [None, b"", dead()])
def test_while_somebody_takes_it_nobody_else_does(path: Path, left: bytes | None) -> None:
    """However long that takes: it may be about to put its file in place."""
    if left is not None:
        path.write_bytes(left)
    taking = path.with_name("holder.taking")
    taking.write_bytes(living("another"))
    os.utime(taking, (0, 0))
    with pytest.raises(RunHeldError):
        Hold(str(path), "mine")
    assert who_has(taking) == "another"
    assert path.read_bytes() == (left or b"")
    assert sorted(os.listdir(path.parent)) == ["holder", "holder.taking"]


@pytest.mark.parametrize("content", [b"", dead()])
def test_who_was_killed_while_taking_it_is_in_nobodys_way(path: Path, content: bytes) -> None:
    """Also before it had written who it is."""
    taking = path.with_name("holder.taking")
    taking.write_bytes(content)
    os.utime(taking, (0, 0))
    Hold(str(path), "mine")
    assert os.listdir(path.parent) == ["holder"]


def test_one_that_is_just_being_made_is_waited_for(path: Path) -> None:
    """It is empty for a moment."""
    path.with_name("holder.taking").touch()
    with pytest.raises(RunHeldError):
        Hold(str(path), "mine")
    assert path.with_name("holder.taking").exists()


def test_what_another_has_put_there_meanwhile_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look at the file and the moment in which it would be replaced."""
    path.write_bytes(dead())
    reads = holder._read

    def read_then_lose(name: str) -> object:
        found = reads(name)
        monkeypatch.setattr(holder, "_read", reads)
        path.write_bytes(living("another"))
        return found

    monkeypatch.setattr(holder, "_read", read_then_lose)
    with pytest.raises(RunHeldError, match="another"):
        Hold(str(path), "mine")
    assert who_has(path) == "another"


def test_of_two_that_put_it_there_the_later_one_has_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier one looks once more, and finds that it has not."""
    replace = os.replace

    def replace_then_lose(source: str, target: str) -> None:
        replace(source, target)
        path.write_bytes(living("another"))

    monkeypatch.setattr(os, "replace", replace_then_lose)
    with pytest.raises(RunHeldError, match="another"):
        Hold(str(path), "mine")
