from __future__ import annotations

import os
from pathlib import Path

import pytest

import aliquot
from aliquot.quantities import parse_bytes
from aliquot.sites import Local
from aliquot.sites.local import local
from aliquot.sites.local.output import ParentOutput
from aliquot.sites.work import Work
from aliquot.workers.stepping import EachStepper, RangeItems


def test_by_default_all_cores_that_this_process_may_use_are_used() -> None:
    """Not all that the machine has."""
    assert 1 <= Local().cores <= len(os.sched_getaffinity(0))


def test_a_process_that_may_use_one_core_uses_one() -> None:
    """As told by `taskset` or a batch system."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert Local().cores == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    ("content", "cores"), [("max 100000\n", None), ("150000 100000\n", 2), ("100000 100000\n", 1), ("5000 100000\n", 1)]
)
def test_the_time_that_a_container_gives_is_counted_in_cores(tmp_path: Path, content: str, cores: int | None) -> None:
    """Rounded up, and at least one."""
    path = tmp_path / "cpu.max"
    path.write_text(content)
    assert local._read_v2(str(path)) == cores


@pytest.mark.parametrize(("quota", "cores"), [(-1, None), (250_000, 3), (1000, 1)])
def test_older_containers_say_it_in_two_files(tmp_path: Path, quota: int, cores: int | None) -> None:
    """With the same meaning."""
    (tmp_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert local._read_v1(str(tmp_path / "cpu.cfs_quota_us")) == cores


@pytest.mark.parametrize(
    ("memory", "memory_bytes"), [(None, None), (10**9, 10**9), ("8GB", 8 * 10**9), ("512MiB", 512 << 20)]
)
def test_memory_is_in_bytes_or_in_words(memory: int | str | None, memory_bytes: int | None) -> None:
    """As people write it."""
    assert Local(memory=memory).memory_bytes == memory_bytes


@pytest.mark.parametrize("cores", [0, -1])
def test_no_cores_are_too_few(cores: int) -> None:
    """Said where the site is made."""
    with pytest.raises(aliquot.UsageError, match="at least one core is needed"):
        Local(cores=cores)


@pytest.mark.parametrize("cores", ["2", 2.5])
def test_cores_that_cannot_be_counted_are_refused(cores: object) -> None:
    """Said where the site is made, in the same words."""
    with pytest.raises(aliquot.UsageError, match="cores="):
        Local(cores=cores)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [0, -5, "0GB", "-3GB", "20MB"])
def test_no_memory_is_too_little(memory: int | str) -> None:
    """Said where the site is made."""
    with pytest.raises(aliquot.UsageError, match="MB for Python alone"):
        Local(memory=memory)


def test_a_site_is_shown_as_it_is_made() -> None:
    """In messages and at the prompt."""
    assert repr(Local(cores=3)) == "Local(cores=3)"
    assert repr(Local(cores=3, memory="1GB")) == "Local(cores=3, memory=1000000000)"


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        (0, 0),
        (123, 123),
        ("123", 123),
        ("123 B", 123),
        ("8GB", 8_000_000_000),
        ("8 GB", 8_000_000_000),
        (" 8 gb ", 8_000_000_000),
        ("8G", 8_000_000_000),
        ("1.5k", 1500),
        ("1.5 kB", 1500),
        ("512MiB", 536_870_912),
        ("512 Mi", 536_870_912),
        ("1Ki", 1024),
        ("2TiB", 2 << 40),
        ("2T", 2 * 10**12),
        ("1e3MB", 10**9),
    ],
)
def test_an_amount_of_memory_is_read_as_people_write_it(written: int | str, bytes_: int) -> None:
    """Decimal and binary units, large and small letters, with and without spaces."""
    assert parse_bytes(written) == bytes_


@pytest.mark.parametrize(
    "written", ["", "GB", "8XB", "8 apples", "eight", "8GBB", "8 G i B x", "1,5GB", "nan", "inf", "1e999"]
)
def test_what_is_no_amount_of_memory_is_refused_with_an_example(written: str) -> None:
    """The message says how to write it."""
    with pytest.raises(aliquot.UsageError, match="is not an amount of memory: write bytes, or for example '8GB'"):
        parse_bytes(written)


def test_an_amount_that_was_worked_out_may_be_a_float() -> None:
    """Half of what a machine has is one."""
    written: object = 2.5e9
    assert parse_bytes(written) == 2_500_000_000  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("memory", "step_memory", "workers"), [("1GB", "400MB", 2), ("1GB", "2GB", 1), ("8GB", "1GB", 4)]
)
def test_as_many_workers_run_as_steps_of_a_given_size_fit(memory: str, step_memory: str, workers: int) -> None:
    """And each may hold that much."""
    site = Local(cores=4, memory=memory, step_memory=step_memory)
    work = Work(EachStepper(abs, RangeItems(range(100))), 100)
    workplace = site.start(work, ParentOutput())
    try:
        assert workplace.expected_workers == workers
        assert workplace.total_bytes == min(parse_bytes(memory), workers * parse_bytes(step_memory))
    finally:
        workplace.close()


def test_steps_need_some_memory() -> None:
    """Said where the site is made."""
    with pytest.raises(aliquot.UsageError, match="step_memory='1MB'"):
        Local(step_memory="1MB")
