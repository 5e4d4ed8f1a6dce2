"""What workers may hold together they never exceed, and what fits is done."""

from __future__ import annotations

import functools
import gzip
import operator
import shlex
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.measuring.trees import Trees, resident_bytes
from aliquot.running.outcome import Outcome
from aliquot.workers.nursery import the_nursery
from tests.real.processes import children_of, wait_until
from tests.running.heavy_functions import (
    MB,
    OneHeavy,
    even,
    heavy_in_the_middle,
    leak,
    make_large,
    map_memory,
    run_program,
    run_programs_that_share_out,
    varied,
    weigh,
    weigh_one,
)

UNITS = 500
ALLOWED_BYTES = 300 * MB
LOOK_SECONDS = 0.002


class Sampler:
    """Looks at what all workers hold together, and what they have started, again and again, from outside."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.looks = 0
        self._nursery = the_nursery()._process
        self._trees = Trees()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            below = self._trees.find([self._nursery])[self._nursery]
            self.peak_bytes = max(self.peak_bytes, sum(map(resident_bytes, below)))
            self.looks += 1


def run_heavy(function: Any, units: int = UNITS, *, memory: int = ALLOWED_BYTES, **told: Any) -> Outcome:
    job = aliquot.FunctionJob(function, aliquot.open(range(units)), operator.add)
    return aliquot.run(job, on=aliquot.sites.Local(cores=2), memory=memory, progress=False, **told)


@pytest.mark.parametrize("size", [None, 1, UNITS])
@pytest.mark.parametrize("weight_of", [even, varied, heavy_in_the_middle])
def test_two_workers_never_hold_more_than_they_may(weight_of: Any, size: int | None) -> None:
    """20 MB and what each unit weighs, whatever the first guess is: measured from outside, and the result is right."""
    with Sampler() as sampler:
        outcome = run_heavy(functools.partial(weigh, weight_of), size=size)
    assert outcome.value == list(range(UNITS))
    assert sampler.looks > 10
    assert sampler.peak_bytes <= ALLOWED_BYTES
    # A single one may have more than its half while the other waits; the two together never.
    assert outcome.report.peak_bytes <= ALLOWED_BYTES
    assert outcome.report.allowed_bytes == ALLOWED_BYTES
    assert outcome.report.enforced_by


def test_one_by_one_workers_never_hold_more_than_they_may() -> None:
    """Also where a function is called for each unit."""
    with Sampler() as sampler:
        values = aliquot.map(
            functools.partial(weigh_one, varied), range(200), on=aliquot.sites.Local(cores=2), memory="100MB"
        )
    assert values == list(range(200))
    assert sampler.peak_bytes <= 100_000_000


def test_a_unit_that_needs_more_than_its_share_is_done_alone() -> None:
    """It fits into 300 MB, but not beside another worker that may hold half of them."""
    with Sampler() as sampler:
        outcome = run_heavy(functools.partial(weigh, OneHeavy(250, 200)))
    assert outcome.value == list(range(UNITS))
    assert outcome.report.exhausted_steps > 0
    assert outcome.report.peak_bytes > 200 * MB
    assert sampler.peak_bytes <= ALLOWED_BYTES


def test_a_unit_that_fits_nowhere_is_set_aside() -> None:
    """With what it held; all others are done."""
    with Sampler() as sampler:
        outcome = run_heavy(functools.partial(weigh, OneHeavy(250, 400)), max_failures=1)
    assert outcome.value == [unit for unit in range(UNITS) if unit != 250]
    (failure,) = outcome.failures
    assert (failure.start, failure.stop, failure.kind) == (250, 251, "exhausted")
    assert "MemoryError" in failure.error
    assert 20 * MB < failure.held_bytes <= ALLOWED_BYTES
    assert sampler.peak_bytes <= ALLOWED_BYTES


def test_a_unit_that_fits_nowhere_ends_a_run_that_allows_no_failure() -> None:
    """What it raised is raised."""
    with pytest.raises(MemoryError) as caught:
        aliquot.map(functools.partial(weigh_one, OneHeavy(50, 400)), range(100), memory=ALLOWED_BYTES)
    assert any("unit 50" in note for note in caught.value.__notes__)


def test_workers_that_leak_are_replaced() -> None:
    """They keep 900 MB of 500 units: each is done, once, by workers that begin with nothing."""
    with Sampler() as sampler:
        outcome = run_heavy(functools.partial(leak, 1.8))
    assert outcome.value == list(range(UNITS))
    assert outcome.failures == ()
    assert outcome.report.lost_workers > 0
    assert sampler.peak_bytes <= ALLOWED_BYTES


def test_what_a_program_holds_is_measured() -> None:
    """300 MB for a tenth of a second, in a process that a worker has started: within 3 %."""
    peaks = [
        run_heavy(functools.partial(run_program, megabytes), 4, memory=2000 * MB, target_seconds=0).report.peak_bytes
        for megabytes in (0, 300)
    ]
    assert peaks[1] - peaks[0] == pytest.approx(300 * MB, rel=0.03)


def test_programs_that_hold_too_much_together_are_stopped_with_their_worker() -> None:
    """None of the five would be stopped by itself."""
    function = functools.partial(run_programs_that_share_out, 90, 5, 5)
    values: list[Any] = list(
        aliquot.imap(function, range(10), on=aliquot.sites.Local(cores=2), memory=ALLOWED_BYTES, max_failures=1)
    )
    failure = values.pop(5)
    assert values == [unit for unit in range(10) if unit != 5]
    assert (failure.start, failure.kind) == (5, "exhausted")
    assert "so it was stopped" in failure.error
    assert failure.held_bytes > ALLOWED_BYTES
    wait_until(lambda: children_of(the_nursery()._process) == [], "no worker is left")


def test_a_program_that_is_refused_memory_has_not_failed_otherwise() -> None:
    """It ends with an error of its own, which is told with what it held."""
    outcome = run_heavy(functools.partial(run_program, 400), 1, max_failures=1)
    (failure,) = outcome.failures
    assert failure.start == 0
    assert "CalledProcessError" in failure.error


def test_steps_hold_no_more_than_target_bytes() -> None:
    """Far less than they may: for the sake of a cache, or of what else the machine does."""
    outcome = run_heavy(functools.partial(weigh, even), target_bytes=80 * MB)
    assert outcome.value == list(range(UNITS))
    assert outcome.report.peak_bytes <= 100 * MB


def test_with_little_memory_there_are_fewer_workers() -> None:
    """Each is a process of its own, which needs some."""
    outcome = run_heavy(list, 100, memory=40 * MB)
    assert outcome.value == list(range(100))
    assert outcome.report.cores == 1


def test_memory_that_is_refused_to_a_library_is_given_with_more_of_the_sites() -> None:
    """200 MB of 300: refused to a worker that may hold half of it, with errno ENOMEM."""
    values = aliquot.map(
        functools.partial(map_memory, 200, 5), range(10), on=aliquot.sites.Local(cores=2), memory=ALLOWED_BYTES
    )
    assert values == list(range(10))


def test_items_that_do_not_fit_into_a_share_are_sent_to_a_worker_alone() -> None:
    """Each is there twice while it is unpickled."""
    items = [b"x" * (40 * MB)] * 6
    values = aliquot.map(len, items, on=aliquot.sites.Local(cores=2), memory=140 * MB)
    assert values == [40 * MB] * 6


def test_a_joined_value_may_be_larger_than_what_a_worker_may_hold() -> None:
    """It is the user's own process that has it in the end."""
    values = aliquot.map_batches(
        functools.partial(make_large, 10),
        range(20),
        ordered=False,
        on=aliquot.sites.Local(cores=2),
        memory=120 * MB,
    )
    assert sum(map(len, values)) == 200 * MB


def test_what_a_program_holds_for_a_moment_at_its_end_is_known(tmp_path: Path) -> None:
    """By then it is looked at rarely: the kernel tells what it held."""
    (tmp_path / "line").write_text("a\n")
    program = f"""
import time
while time.process_time() < 1:
    pass
bytearray(b'x') * {300 * MB}
"""
    command = aliquot.Command(
        f"{sys.executable} -Sc {shlex.quote(program)} < {{line}} > {{out}}",
        split={"line": str(tmp_path / "line")},
        join={"out": str(tmp_path / "out")},
    )
    report = aliquot.run(command, on=aliquot.sites.Local(cores=2), run_dir=str(tmp_path / "run")).report
    assert 300 * MB < report.peak_bytes < 360 * MB


def test_a_small_program_is_not_taken_for_its_worker(tmp_path: Path) -> None:
    """Linux counts for a program what the process held that has started it."""
    (tmp_path / "line").write_text("a\n")

    def peak_bytes(name: str, text: str) -> int:
        split, join = {"line": str(tmp_path / "line")}, {"out": str(tmp_path / f"{name}.txt")}
        command = aliquot.Command(text, split=split, join=join)
        return aliquot.run(command, run_dir=str(tmp_path / name)).report.peak_bytes

    small_bytes = peak_bytes("small", "cat {line} > {out}")
    program = f"import time; held = bytearray(b'x') * {100 * MB}; time.sleep(0.2)"
    large_bytes = peak_bytes("large", f"{sys.executable} -Sc {shlex.quote(program)} < {{line}} > {{out}}")
    assert 100 * MB < large_bytes - small_bytes < 120 * MB
    assert small_bytes < 60 * MB


def test_gzip_is_read_by_workers_that_may_hold_little(tmp_path: Path) -> None:
    """What decodes it reserves a gigabyte that it does not use, and ends the process where it is refused that."""
    path = tmp_path / "numbers.txt.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % number for number in range(200_000))))
    assert aliquot.map_batches(len, str(path), memory=200 * MB) == 200_000
    command = aliquot.Command("cat {n} > {out}", split={"n": str(path)}, join={"out": str(tmp_path / "out")})
    assert not aliquot.run(command, memory=200 * MB, run_dir=str(tmp_path / "run")).failures
    assert (tmp_path / "out").read_bytes() == gzip.decompress(path.read_bytes())


def test_what_a_function_holds_beside_gzip_is_still_limited(tmp_path: Path) -> None:
    """Only reading is free."""
    path = tmp_path / "numbers.txt.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % number for number in range(1000))))

    def hold_for_one(lines: list[str]) -> int:
        return len(bytearray(1 << 40)) if "700" in lines else len(lines)

    with pytest.warns(aliquot.UnitsSetAsideWarning):
        assert aliquot.map_batches(hold_for_one, str(path), memory=200 * MB, max_failures=1) == 999
