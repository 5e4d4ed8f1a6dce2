from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from aliquot.measuring.limit import DataLimit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits data that may be written")

# A limit holds for a whole process, so each test has one of its own. `hold` takes memory and touches it.
_PRELUDE = """
import json, mmap, os, resource, subprocess, sys
from aliquot.measuring.limit import DataLimit
from aliquot.measuring.peak import PeakMeter
MB = 1 << 20
limit, meter = DataLimit(), PeakMeter()

def hold(megabytes):
    return bytearray(b"x") * (megabytes * MB)

def is_refused(megabytes):
    try:
        hold(megabytes)
    except MemoryError:
        return True
    return False

def tell(value):
    print(json.dumps(value))
"""


def told_by(source: str) -> Any:
    """What a process of its own tells."""
    command = [sys.executable, "-c", _PRELUDE + source]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_what_fits_is_given_and_what_does_not_is_refused() -> None:
    """Of 200 MB, 100 can be had again and again, and 250 cannot; the process goes on."""
    source = "limit.set(200 * MB)\ntell([is_refused(100), is_refused(250), is_refused(100)])"
    assert told_by(source) == [False, True, False]


def test_a_process_that_takes_ever_more_stays_below_its_limit() -> None:
    """In pieces of 1 MB: a MemoryError comes before more is resident than is allowed, and most of it can be used."""
    source = """
limit.set(200 * MB)
held = []
meter.reset()
try:
    while len(held) < 1000:
        held.append(hold(1))
except MemoryError:
    held.append(None)
count, peak = len(held), meter.peak_bytes()
held.clear()
tell([count, peak / MB])
"""
    count, peak_megabytes = told_by(source)
    assert count < 1000
    assert 0.85 * 200 < peak_megabytes <= 200


def test_a_lifted_limit_refuses_nothing() -> None:
    """Everything is as before it was set."""
    source = """
before = resource.getrlimit(resource.RLIMIT_DATA)
limit.set(100 * MB)
refused = is_refused(200)
limit.lift()
tell([refused, is_refused(200), resource.getrlimit(resource.RLIMIT_DATA) == before])
"""
    assert told_by(source) == [True, False, True]


def test_a_limit_that_was_never_set_can_be_lifted() -> None:
    """Nothing happens."""
    source = """
before = resource.getrlimit(resource.RLIMIT_DATA)
limit.lift()
tell(resource.getrlimit(resource.RLIMIT_DATA) == before)
"""
    assert told_by(source) is True


def test_memory_that_was_never_touched_is_not_counted() -> None:
    """A library that has set a gigabyte of addresses apart leaves room for all that is allowed."""
    source = """
apart = mmap.mmap(-1, 1024 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
limit.set(200 * MB)
tell([is_refused(100), is_refused(250)])
"""
    assert told_by(source) == [False, True]


def test_what_is_held_already_is_counted() -> None:
    """A process that holds 150 MB of 200 has room for a little, and not for 100."""
    source = "held = hold(150)\nlimit.set(200 * MB)\ntell([is_refused(20), is_refused(100)])"
    assert told_by(source) == [False, True]


def test_a_limit_can_be_set_again_and_again() -> None:
    """Higher and lower, after each step."""
    source = """
refused = []
for megabytes in (100, 300, 100, 300):
    limit.set(megabytes * MB)
    refused.append(is_refused(200))
tell(refused)
"""
    assert told_by(source) == [True, False, True, False]


def test_a_process_that_holds_too_much_already_can_still_tell() -> None:
    """There is always room for an error message."""
    source = """
held = hold(200)
limit.set(100 * MB)
try:
    held.append(hold(50))
except MemoryError:
    words = ["so", "many", "words"] * 1000
tell([len(words), is_refused(50)])
"""
    assert told_by(source) == [3000, True]


def test_the_hard_limit_of_somebody_else_stays() -> None:
    """It can be neither exceeded nor is it an error."""
    source = """
resource.setrlimit(resource.RLIMIT_DATA, (300 * MB, 300 * MB))
limit = DataLimit()
limit.set(1000 * MB)
set_to = resource.getrlimit(resource.RLIMIT_DATA)
limit.lift()
tell([set_to, resource.getrlimit(resource.RLIMIT_DATA)])
"""
    assert told_by(source) == [[300 << 20, 300 << 20]] * 2


def test_the_limit_of_somebody_else_is_there_again_when_ours_is_lifted() -> None:
    """A lower one that a user has set with ulimit."""
    source = """
resource.setrlimit(resource.RLIMIT_DATA, (500 * MB, resource.RLIM_INFINITY))
limit = DataLimit()
limit.set(100 * MB)
limit.lift()
tell(resource.getrlimit(resource.RLIMIT_DATA)[0])
"""
    assert told_by(source) == 500 << 20


def test_programs_that_are_started_have_the_same_limit() -> None:
    """One that takes more than the whole of it is refused, too."""
    source = """
limit.set(200 * MB)
program = "held = bytearray(b'x') * (300 << 20)"
ran = subprocess.run([sys.executable, "-S", "-E", "-c", program], capture_output=True, text=True)
tell([ran.returncode, "MemoryError" in ran.stderr])
"""
    assert told_by(source) == [1, True]


def test_a_closed_limit_holds_no_files() -> None:
    """It opens one of the kernel's files, and gives it back."""
    before = len(os.listdir("/proc/self/fd"))
    limit = DataLimit()
    assert len(os.listdir("/proc/self/fd")) == before + 1
    limit.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_where_the_kernel_cannot_tell_nothing_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it an error: there is still the watcher."""

    def refuse(*_: object) -> int:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "open", refuse)
    limit = DataLimit()
    assert not limit.is_there
    limit.set(1)
    limit.lift()
    limit.close()
