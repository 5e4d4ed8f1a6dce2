from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aliquot.measuring.peak import PeakMeter

_BLOCK_BYTES = 100_000_000


@pytest.fixture
def meter() -> PeakMeter:
    meter = PeakMeter()
    if not meter.is_exact:
        pytest.skip("the kernel gives no peak that can be reset")
    return meter


def test_an_allocation_is_seen_however_short_it_lives(meter: PeakMeter) -> None:
    """100 MB that are gone before anybody looks are in the peak, to within 2 %."""
    meter.reset()
    before_bytes = meter.resident_bytes()
    block = bytearray(b"x") * _BLOCK_BYTES
    del block
    assert meter.peak_bytes() - before_bytes == pytest.approx(_BLOCK_BYTES, rel=0.02)


def test_an_allocation_from_before_the_reset_is_not_in_the_peak(meter: PeakMeter) -> None:
    """Each step is charged for what it held itself."""
    block = bytearray(b"x") * _BLOCK_BYTES
    del block
    meter.reset()
    assert meter.peak_bytes() - meter.resident_bytes() < 0.02 * _BLOCK_BYTES


def test_memory_that_is_still_held_is_in_the_peak_of_the_next_step(meter: PeakMeter) -> None:
    """What an earlier step left behind counts for what the next one may use."""
    block = bytearray(b"x") * _BLOCK_BYTES
    meter.reset()
    assert meter.peak_bytes() > _BLOCK_BYTES
    assert len(block) == _BLOCK_BYTES


def test_the_peak_is_at_least_what_is_resident(meter: PeakMeter) -> None:
    """The two numbers are of the same kind: bytes of this process."""
    meter.reset()
    assert meter.peak_bytes() >= 0.98 * meter.resident_bytes() > 0


def test_a_closed_meter_holds_no_files(meter: PeakMeter) -> None:
    """A meter opens some of the kernel's files, and gives all of them back."""
    before = len(os.listdir("/proc/self/fd"))
    another = PeakMeter()
    assert len(os.listdir("/proc/self/fd")) > before
    another.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_files_of_a_meter_are_not_inherited(meter: PeakMeter) -> None:
    """A program that a worker starts has none of them open."""
    inherited = _files_of_a_child()
    another = PeakMeter()
    assert _files_of_a_child() == inherited
    another.close()


def _files_of_a_child() -> str:
    listing = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    command = [sys.executable, "-S", "-c", listing]
    return subprocess.run(command, capture_output=True, text=True, check=True, close_fds=False).stdout


def test_without_the_kernels_number_the_peak_is_that_since_the_process_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be reset, a meter still gives a number, and says that it is not exact."""

    def refuse(*_: object) -> int:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "open", refuse)
    meter = PeakMeter()
    meter.reset()
    assert not meter.is_exact
    assert meter.peak_bytes() > 1_000_000
    assert meter.resident_bytes() == 0
    meter.close()
