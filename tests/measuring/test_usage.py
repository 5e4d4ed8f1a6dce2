from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aliquot.measuring.usage import UsageMeter, directory_bytes
from tests.measuring.children import Child

_BURNT_SECONDS = 0.1
_SIZE = 1_000_000


@pytest.fixture
def meter() -> Iterator[UsageMeter]:
    meter = UsageMeter()
    yield meter
    meter.close()


def _needs_io() -> None:
    if not os.path.exists("/proc/self/io"):
        pytest.skip("the kernel does not count what a process reads and writes")


def test_the_seconds_of_this_process_are_counted(meter: UsageMeter) -> None:
    """CPU time is that of work, finer than a tick of the clock."""
    before, burnt_from = meter.read(), time.process_time()
    while time.process_time() - burnt_from < _BURNT_SECONDS:
        pass
    assert meter.read().cpu_seconds - before.cpu_seconds == pytest.approx(_BURNT_SECONDS, rel=0.1)


def test_the_seconds_and_bytes_of_children_are_counted_once_they_are_waited_for(meter: UsageMeter) -> None:
    """What a program takes that a step starts is taken by the step."""
    _needs_io()
    source = f"""
import time
while time.process_time() < {_BURNT_SECONDS}:
    pass
with open("/dev/zero", "rb", buffering=0) as file:
    file.read({_SIZE})
say(0)
hear()
"""
    with Child(source) as child:
        child.says()
        before = meter.read()
        child.hears()
        child.wait()
        after = meter.read()
    assert after.cpu_seconds - before.cpu_seconds >= 0.95 * _BURNT_SECONDS
    assert after.read_bytes - before.read_bytes >= _SIZE


def test_bytes_that_are_read_and_written_are_counted(meter: UsageMeter, tmp_path: Path) -> None:
    """To the byte, also where they come from the cache."""
    _needs_io()
    before = meter.read()
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, bytes(_SIZE))
    wrote = meter.read()
    os.pread(descriptor, 2 * _SIZE, 0)
    os.pread(descriptor, 1000, 0)
    after = meter.read()
    os.close(descriptor)
    assert (wrote.read_bytes - before.read_bytes, wrote.written_bytes - before.written_bytes) == (0, _SIZE)
    assert (after.read_bytes - wrote.read_bytes, after.written_bytes - wrote.written_bytes) == (_SIZE + 1000, 0)


def test_a_use_is_a_tuple(meter: UsageMeter) -> None:
    """It can be taken apart and sent anywhere."""
    use = meter.read()
    seconds, read_bytes, written_bytes = use
    assert (seconds, read_bytes, written_bytes) == (use.cpu_seconds, use.read_bytes, use.written_bytes)
    assert seconds > 0


def test_where_the_kernel_does_not_count_bytes_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds are still there."""

    def refuse(*_: object) -> int:
        raise FileNotFoundError("/proc/self/io")

    monkeypatch.setattr(os, "open", refuse)
    meter = UsageMeter()
    use = meter.read()
    meter.close()
    assert use.cpu_seconds > 0
    assert (use.read_bytes, use.written_bytes) == (0, 0)


def test_a_closed_meter_holds_no_files() -> None:
    """And may be closed twice."""
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    meter = UsageMeter()
    meter.close()
    meter.close()
    assert meter.read().read_bytes == 0
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


def test_a_directory_takes_what_its_files_take(tmp_path: Path) -> None:
    """At any depth; in whole blocks of the disk."""
    (tmp_path / "a/b").mkdir(parents=True)
    files = [tmp_path / "one", tmp_path / "a/two", tmp_path / "a/b/three"]
    for file in files:
        _write(file)
    taken = sum(file.stat().st_blocks * 512 for file in files)
    assert directory_bytes(str(tmp_path)) == taken >= 3 * _SIZE


def test_holes_take_nothing_and_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    """It is the disk that counts, not how long files say they are."""
    _write(tmp_path / "file")
    alone = directory_bytes(str(tmp_path))
    with open(tmp_path / "holes", "wb") as file:
        file.truncate(100 * _SIZE)
    os.link(tmp_path / "file", tmp_path / "again")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "round").symlink_to(tmp_path)
    assert directory_bytes(str(tmp_path)) - alone < 0.02 * _SIZE


def test_what_vanishes_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers make and remove files while it is counted."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in ("a/one", "b/two", "three"):
        _write(tmp_path / name)
    one = (tmp_path / "three").stat().st_blocks * 512
    really_scan = os.scandir

    def scan_and_remove(path: str) -> object:
        if path == str(tmp_path / "a"):
            (tmp_path / "a/one").unlink()
            (tmp_path / "a").rmdir()
        entries = really_scan(path)
        if path == str(tmp_path / "b"):
            (tmp_path / "b/two").unlink(missing_ok=True)
        return entries

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert one <= directory_bytes(str(tmp_path)) <= 2 * one


def test_a_directory_that_is_not_there_takes_nothing(tmp_path: Path) -> None:
    """Nor does one with nothing in it."""
    assert directory_bytes(str(tmp_path)) == directory_bytes(str(tmp_path / "nowhere")) == 0


def _write(path: Path) -> None:
    with open(path, "wb") as file:
        file.write(bytes(_SIZE))
        file.flush()
        os.fsync(file.fileno())
