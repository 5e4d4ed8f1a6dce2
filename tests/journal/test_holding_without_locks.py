"""Who gets a run directory on a file system without locks, whatever the others do in between."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from aliquot.journal import RunDirectory, holder
from aliquot.journal.errors import JournalError, RunHeldError
from aliquot.journal.holder import Hold, Holder
from aliquot.journal.json_text import to_json


@pytest.fixture(autouse=True)
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_try_lock", lambda descriptor: None)
    monkeypatch.setattr(holder, "_TAKING_PATIENCE_SECONDS", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holder"


@pytest.fixture(scope="module")
def dead() -> bytes:
    """Of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return to_json(
        Holder(ended.pid, os.uname().nodename, holder.boot_id(), holder._pid_space(), 1, "", "")._asdict()
    ).encode()


def living(command: str, host: str | None = None) -> bytes:
    told = Holder.this_process(command)._asdict()
    return json.dumps({**told, "host": host or told["host"]}).encode()


def wanting(path: Path, content: bytes, token: int = 7) -> Path:
    made = path.with_name(f"holder.{token:016x}.wanting")
    made.write_bytes(content)
    return made


def who_has(path: Path) -> str:
    command: str = json.loads(path.read_bytes())["command"]
    return command


@pytest.mark.parametrize("left", [None, "", "dead"])
def test_what_nobody_has_is_taken(path: Path, left: str | None, dead: bytes) -> None:
    """Where there is no file, an empty one, or one of somebody who has ended; and others who wanted it have ended."""
    if left is not None:
        path.write_bytes(dead if left else b"")
    wanting(path, dead, 1)
    wanting(path, b"", 2)
    hold = Hold(str(path), "mine")
    assert who_has(path) == "mine"
    assert os.listdir(path.parent) == ["holder"]
    hold.release()
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("host", [None, "node17"])
def test_while_somebody_else_wants_it_nobody_takes_it(path: Path, dead: bytes, host: str | None) -> None:
    """However long that takes; on another machine it may have ended, and then the user is told what to remove."""
    path.write_bytes(dead)
    other = wanting(path, living("another", host))
    os.utime(other, (0, 0))
    with pytest.raises(RunHeldError) as caught:
        Hold(str(path), "mine")
    assert who_has(other) == "another"
    assert path.read_bytes() == dead
    assert sorted(os.listdir(path.parent)) == ["holder", other.name]
    if host:
        assert f"If you know that it has ended, remove {other}" in str(caught.value)


def test_a_holder_that_cannot_be_read_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may well run: a network file system has bad moments."""
    path.write_bytes(living("another"))
    read: Callable[..., Any] = open

    def refuse(name: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if name == str(path) and mode == "rb":
            raise OSError(5, "Input/output error")
        return read(name, mode, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        with pytest.raises(JournalError, match="Input/output error"):
            Hold(str(path), "mine")
    assert who_has(path) == "another"


def test_one_that_is_interrupted_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the very moment in which it has got the run: the next call of the same process gets it."""
    replace = os.replace

    def replace_and_be_interrupted(source: str, target: str) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            Hold(str(path), "mine")
    assert os.listdir(path.parent) == []
    Hold(str(path), "mine")


def test_one_process_holds_a_run_once(path: Path) -> None:
    """A second try in the same second is refused, and does not take the first one's file away."""
    hold = Hold(str(path), "mine")
    with pytest.raises(RunHeldError):
        Hold(str(path), "mine")
    assert who_has(path) == "mine"
    hold.release()
    assert os.listdir(path.parent) == []


def test_a_run_is_removed_with_what_was_left_by_one_who_wanted_it(tmp_path: Path, dead: bytes) -> None:
    """And only files that are called as those are stay outside of it."""
    run = RunDirectory(tmp_path / "run")
    run.acquire()
    wanting(Path(run.holder_path), dead)
    run.remove()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("host", [None, "node17"])
def test_who_has_locks_does_not_take_it_from_one_who_has_none(
    path: Path, dead: bytes, host: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file system may have locks on one machine and none on another."""
    poor = Hold(str(path), "poor")
    if host:
        path.write_bytes(json.dumps({**json.loads(path.read_bytes()), "host": host}).encode())
    monkeypatch.undo()
    with pytest.raises(RunHeldError, match="poor"):
        Hold(str(path), "rich")
    assert who_has(path) == "poor"
    found = holder.find_holder(str(path))
    assert found is not None
    assert found.command == "poor"
    path.write_bytes(json.dumps({**json.loads(dead), "has_lock": False}).encode())
    Hold(str(path), "rich").release()
    poor.release()


def test_a_forked_process_does_not_release_it(path: Path) -> None:
    """It is the parent's."""
    hold = Hold(str(path), "mine")
    child = os.fork()
    if not child:
        hold.release()
        os._exit(0)
    os.waitpid(child, 0)
    assert who_has(path) == "mine"


def test_a_command_need_not_be_text(path: Path) -> None:
    """Names of files are bytes."""
    Hold(str(path), "aliquot run caf\udce9")
    assert who_has(path) == "aliquot run caf\\udce9"


def test_what_was_left_before_it_was_said_is_removed_too(path: Path, dead: bytes) -> None:
    """But not what may just be written."""
    for token, content in ((1, dead), (2, b""), (3, living("another"))):
        path.with_name(f"holder.{token:016x}").write_bytes(content)
    Hold(str(path), "mine")
    assert sorted(os.listdir(path.parent)) == ["holder", f"holder.{2:016x}", f"holder.{3:016x}"]


class Turns:
    """Lets threads go on one by one, in a given order; what one does when it is no longer there is left out."""

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._changed = threading.Condition()

    def take(self, step: Callable[..., Any], *arguments: Any) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: self._order[:1] in ([], [threading.current_thread().name]), 10)
            try:
                return step(*arguments)
            finally:
                del self._order[:1]
                self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._order = [name for name in self._order if name != threading.current_thread().name]
            self._changed.notify_all()


def test_of_two_that_come_in_any_order_not_both_get_it(
    path: Path, dead: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each of the ways in which the four steps of two can follow each other, after others were killed."""
    monkeypatch.setattr(holder, "_TAKING_PATIENCE_SECONDS", -1.0)
    steps = {"rename": os.rename, "replace": os.replace}
    find_other, read = holder._find_other, holder._read
    had: list[int] = []
    for order in sorted(set(itertools.permutations(4 * ["a"] + 4 * ["b"]))):
        path.write_bytes(dead)
        wanting(path, dead)
        turns = Turns(order)
        got: list[str] = []

        def hold(turns: Turns = turns, got: list[str] = got) -> None:
            try:
                with contextlib.suppress(RunHeldError):
                    Hold(str(path), threading.current_thread().name)
                    got.append(threading.current_thread().name)
            finally:
                turns.leave()

        with monkeypatch.context() as patch:
            for name, step in steps.items():
                patch.setattr(os, name, lambda *places, step=step, turns=turns: turns.take(step, *places))
            patch.setattr(holder, "_find_other", lambda *places, turns=turns: turns.take(find_other, *places))
            patch.setattr(
                holder,
                "_read",
                lambda name, turns=turns: turns.take(read, name) if name == str(path) else read(name),
            )
            threads = [threading.Thread(target=hold, name=name) for name in ("a", "b")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        had.append(len(got))
        assert len(got) <= 1, f"both got it: {order}"
        assert path.read_bytes() == dead if not got else who_has(path) == got[0]
        for left in path.parent.iterdir():
            left.unlink()
    assert len(had) == 70
    assert 0 < sum(had) < 70
