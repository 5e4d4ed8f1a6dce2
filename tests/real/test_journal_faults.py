"""A journal on disks that are full or poor, and of processes that are killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aliquot.journal import Journal, JournalError, RunDirectory
from tests.journal.test_bad_journals import record_on_and_on

MB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("ballast_bytes", [0, MB, MB + 300_000])
def test_when_there_is_space_again_all_that_was_committed_is_there(small_disk: Path, ballast_bytes: int) -> None:
    """On a disk that is really full; and then it goes on."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * ballast_bytes)
    path = str(small_disk / "journal.sqlite")
    with Journal.create(path, {"command": "c"}) as journal:
        with pytest.raises(JournalError, match=r"journal\.sqlite: cannot be written, the disk .*Make space.*again"):
            record_on_and_on(journal)
        with pytest.raises(JournalError, match="full"):
            journal.commit()
        committed = journal.done_units()
        assert committed > 0
        assert committed % 7 == 0
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
    with Journal.open(path) as again:
        pieces = again.restore().pieces
        assert [piece.start for piece in pieces] == list(range(committed))
        assert all(piece.value == b"x" * 1000 for piece in pieces)
        again.record_piece(committed, committed + 1, b"y" * MB)
        again.commit()
    with Journal.open(path, read_only=True) as reader:
        assert reader.done_units() == committed + 1


def test_a_journal_on_a_full_disk_can_be_read(small_disk: Path) -> None:
    """To see what was done; and a new one or a hold cannot be made, which is said."""
    path = str(small_disk / "journal.sqlite")
    with Journal.create(path, {}) as journal:
        journal.record_piece(0, 5, b"")
        journal.commit()
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"x" * 3 * MB)
    with Journal.open(path, read_only=True) as reader:
        assert reader.done_units() == 5
    with pytest.raises(JournalError, match=r"new\.sqlite: cannot be written, the disk .*is full, 0 B are free"):
        Journal.create(str(small_disk / "new.sqlite"), {})
    with pytest.raises(JournalError, match="is full"):
        RunDirectory(small_disk / "run").acquire()
    assert not (small_disk / "new.sqlite").exists()


def test_a_disk_that_can_only_be_read(small_disk: Path) -> None:
    """Journals on it can be looked at, also one that was not closed; to write is refused."""
    path = small_disk / "journal.sqlite"
    killed = small_disk / "killed.sqlite"
    with Journal.create(str(path), {}) as journal:
        journal.record_piece(0, 5, b"")
        journal.commit()
        shutil.copyfile(path, killed)
        shutil.copyfile(f"{path}-wal", f"{killed}-wal")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for one in (path, killed):
        with Journal.open(str(one), read_only=True) as reader:
            assert reader.done_units() == 5
        with pytest.raises(JournalError, match=r"you may not write to it .*Check that you may write to .*--run-dir"):
            Journal.open(str(one))
    with pytest.raises(JournalError, match=r"Read-only file system.*--run-dir"):
        RunDirectory(small_disk / "run").acquire()


_WRITE_ON = """
import random, sys
from aliquot.journal import Journal
path, seed, *burst = sys.argv[1:]
chance = random.Random(int(seed))
journal = Journal.open(path)
restored = journal.restore()
start = restored.pieces[-1].stop if restored.pieces else 0
fresh = [piece.start for piece in restored.pieces if not piece.is_appended]
commits = 0
while True:
    stop = start + chance.randint(1, 5)
    journal.record_piece(start, stop, f"{start}-{stop}".encode() * chance.choice([1, 20, 2000]))
    journal.record_event(start, "report", {"start": start, "stop": stop})
    fresh.append(start)
    start = stop
    if chance.random() < 0.1:
        journal.record_appended(fresh, {"units": stop})
        fresh = []
    if chance.random() < 0.05:
        journal.commit()
        print(stop, flush=True)
        commits += 1
        if burst and commits % int(burst[0]) == 0:
            sys.stdin.readline()
"""


def _check_consistent(journal: Journal, told_units: int) -> int:
    """A beginning of what was written, with all that was said to be committed; how many units that is."""
    restored = journal.restore()
    at = appended = 0
    for piece in restored.pieces:
        assert piece.start == at
        if piece.value is not None:
            text = f"{piece.start}-{piece.stop}".encode()
            assert piece.value == text * (len(piece.value) // len(text))
        else:
            assert at == appended
            appended = piece.stop
        at = piece.stop
    assert (restored.state or {"units": 0})["units"] == appended
    assert at >= told_units
    assert [about["stop"] for _, _, about in journal.events()] == [piece.stop for piece in restored.pieces]
    return at


def test_a_writer_that_is_killed_at_any_instant_leaves_a_beginning(tmp_path: Path) -> None:
    """Again and again, each going on from what the one before left; all that it said was committed is there."""
    path = str(tmp_path / "journal.sqlite")
    Journal.create(path, {}).close()
    chance = random.Random(0)
    before = 0
    for seed in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITE_ON, path, str(seed)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(chance.choice([1, 2, 3, 10, 50])):
                told = int(writer.stdout.readline())
            for _ in range(chance.randrange(20_000)):  # a while that is never the same
                pass
            writer.kill()
            told = ([told, *map(int, filter(str.isdecimal, writer.stdout.read().split("\n")[:-1]))])[-1]
        if seed % 2:
            with Journal.open(path, read_only=True) as reader:
                assert _check_consistent(reader, told) >= told
        with Journal.open(path) as journal:
            now = _check_consistent(journal, told)
        assert now > before
        before = now


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is preloaded into a process to make files that cannot be locked or mapped."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("faulty locks need a C compiler and Linux")
    library = str(tmp_path_factory.mktemp("faulty") / "no_locks.so")
    source = Path(__file__).with_name("no_locks.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Faulty:
    """A process that sees a poor file system, and answers what it is asked to evaluate."""

    _SOURCE = """
import fcntl, json, mmap, os, sys
from aliquot.journal import *
for line in sys.stdin:
    try:
        try: answer = eval(line)
        except SyntaxError:
            exec(line); answer = None
    except Exception as error: answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer, default=str), flush=True)
"""

    def __init__(self, library: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self._SOURCE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": library, **variables},
        )

    def __enter__(self) -> Faulty:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, expression: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(params=["FAULTY_LOCKS", "FAULTY_MEMORY"])
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_journal_works_where_nothing_can_be_locked_or_mapped(faulty: str, tmp_path: Path, fault: str) -> None:
    """It is written, read meanwhile by others, outlives a kill, and goes on."""
    path = str(tmp_path / "journal.sqlite")
    poor = {fault: str(tmp_path)}
    with Faulty(faulty, **poor) as writer, Faulty(faulty, **poor) as reader:
        # First of all: the fault is there.
        descriptor = "os.open('{}', os.O_RDWR | os.O_CREAT)".format(tmp_path / "probe")
        if fault == "FAULTY_LOCKS":
            assert "No locks available" in writer.ask(f"fcntl.lockf({descriptor}, fcntl.LOCK_EX)")
            assert "No locks available" in writer.ask(f"fcntl.flock({descriptor}, fcntl.LOCK_EX)")
        else:
            (tmp_path / "probe").write_bytes(b"x" * 4096)
            assert "No such device" in writer.ask(f"mmap.mmap({descriptor}, 4096)")

        assert writer.ask(f"journal = Journal.create({path!r}, {{'a': 1}})") is None
        assert writer.ask("journal.way") == ("unlocked" if fault == "FAULTY_LOCKS" else "exclusive")
        for number in range(3):
            writer.ask(f"journal.record_piece({number}, {number + 1}, b'x' * 100_000)")
            writer.ask("journal.commit()")
            writer.ask(f"journal.record_piece({number} + 10, {number} + 11, b'never'); journal._connection.rollback()")
            assert reader.ask(f"Journal.open({path!r}, read_only=True).done_units()") == number + 1
        writer.ask("journal.record_piece(50, 51, b'not committed')")
        writer.process.kill()
        writer.process.wait()
        assert reader.ask(f"Journal.open({path!r}, read_only=True).done_units()") == 3
        assert reader.ask(f"journal = Journal.open({path!r})") is None
        assert reader.ask("[piece[:2] for piece in journal.restore().pieces]") == [[0, 1], [1, 2], [2, 3]]
        reader.ask("journal.record_piece(3, 4, b''); journal.commit(); journal.close()")
    # On a better file system it is a journal like any other.
    with Journal.open(path) as journal:
        assert journal.way == "exclusive"
        assert journal.done_units() == 4
        assert journal.identity == {"a": 1}


def test_a_reader_without_locks_is_not_confused_by_a_busy_writer(faulty: str, tmp_path: Path) -> None:
    """It reads copies, taken while the log is emptied into the journal again and again."""
    path = str(tmp_path / "journal.sqlite")
    Journal.create(path, {}).close()
    burst_commits = 20
    with Faulty(faulty, FAULTY_LOCKS=str(tmp_path)) as reader:
        reader.ask(f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})")
        reader.ask("from tests.real.test_journal_faults import _check_consistent")
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITE_ON, path, "5", str(burst_commits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": faulty, "FAULTY_LOCKS": str(tmp_path)},
        )
        with writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            told = last = 0
            for _ in range(15):
                writer.stdin.write("\n")
                writer.stdin.flush()
                found = reader.ask(f"_check_consistent(Journal.open({path!r}, read_only=True), {told})")
                assert isinstance(found, int), found
                assert found >= last
                last = found
                for _ in range(burst_commits):
                    told = int(writer.stdout.readline())
            writer.kill()
        assert last > 0


def test_a_run_directory_is_held_where_there_are_no_locks(faulty: str, tmp_path: Path) -> None:
    """By one at a time; one that was killed does not block, one on another machine does and is named."""
    place = str(tmp_path / ".aliquot" / "out.sam")
    holder = Path(place) / "holder"
    poor = {"FAULTY_LOCKS": str(tmp_path)}
    with Faulty(faulty, **poor) as one, Faulty(faulty, **poor) as two:
        for process in (one, two):
            process.ask(f"run = RunDirectory({place!r})")
        assert one.ask("run.acquire('aliquot run x')") is None
        told = two.ask("run.acquire()")
        assert told.startswith(f"RunHeldError: {holder}: the run is held by process {one.process.pid} on ")
        assert two.ask("run.holder().pid") == one.process.pid
        assert one.ask("run.release()") is None
        assert not holder.exists()
        assert two.ask("run.holder()") is None

        assert two.ask("run.acquire('second')") is None
        assert "second" in one.ask("run.acquire()")
        two.process.kill()
        os.waitid(os.P_PID, two.process.pid, os.WEXITED | os.WNOWAIT)
        assert one.ask("run.holder()") is None
        assert one.ask("run.acquire()") is None

        elsewhere = {**json.loads(holder.read_text()), "host": "node17"}
        one.ask("run.release()")
        holder.write_text(json.dumps(elsewhere))
        told = one.ask("run.acquire()")
        assert "on node17" in told
        assert f"If you know that it has ended, remove {holder}" in told
        assert one.ask("run.holder().host") == "node17"
        holder.unlink()
        assert one.ask("run.acquire()") is None
        one.ask("run.release()")
        assert sorted(os.listdir(place)) == ["failed", "partial", "spool"]


def test_of_many_that_want_a_run_without_locks_one_gets_it(faulty: str, tmp_path: Path) -> None:
    """After the one before was killed, all at once."""
    place = str(tmp_path / "run")
    poor = {"FAULTY_LOCKS": str(tmp_path)}
    with Faulty(faulty, **poor) as dead:
        assert dead.ask(f"run = RunDirectory({place!r}); run.acquire('dead')") is None
    many = [Faulty(faulty, **poor) for _ in range(6)]
    try:
        for process in many:
            process.ask(f"run = RunDirectory({place!r})")
        for process in many:
            assert process.process.stdin is not None
            process.process.stdin.write("run.acquire()\n")
            process.process.stdin.flush()
        answers = []
        for process in many:
            assert process.process.stdout is not None
            answers.append(json.loads(process.process.stdout.readline()))
        assert answers.count(None) == 1
        assert all("RunHeldError" in answer for answer in answers if answer is not None)
    finally:
        for process in many:
            process.__exit__()


def test_a_hundred_thousand_pieces_and_events_are_quick_and_small(tmp_path: Path) -> None:
    """Below 50 MB on the disk; recorded in about 5 microseconds each, and restored in a quarter of a second."""
    path = str(tmp_path / "journal.sqlite")
    about = {"worker": "local-3", "span": 17, "start": 123456, "stop": 123556, "steps": 3, "busy_seconds": 1.2345678}
    about |= {"peak_bytes": 123456789, "allowed_bytes": 2 * 10**9, "stopped_steps": 0, "stopped_seconds": 0.0}
    about |= {"result_bytes": 12345}
    value = b'{"sam":["spool/local-3/000000123456-000000123556/sam",1234567]}' * 2
    count, most_bytes = 100_000, 0
    with Journal.create(path, {}) as journal:
        began = time.process_time()
        for number in range(count):
            journal.record_piece(number * 100, number * 100 + 100, value)
            journal.record_event(number * 0.01, "report", about)
            if number % 5000 == 4999:
                journal.commit()
                most_bytes = max(most_bytes, sum(entry.stat().st_size for entry in tmp_path.iterdir()))
        recorded_seconds = time.process_time() - began
    assert most_bytes < 50_000_000
    began = time.process_time()
    with Journal.open(path) as again:
        assert len(again.restore().pieces) == count
        restored_seconds = time.process_time() - began
        assert sum(1 for _ in again.events()) == count
    # Of the processor, and ten times what was measured: the machine may be busy with other things.
    assert recorded_seconds / count / 2 < 100e-6
    assert restored_seconds < 5
