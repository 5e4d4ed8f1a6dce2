from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from aliquot.measuring.machine import available_bytes, total_bytes

_GB = 1 << 30
_MEMINFO = f"MemTotal:  {16 * _GB // 1024} kB\nMemFree: 1024 kB\nMemAvailable: {12 * _GB // 1024} kB\nHugePages: 0\n"
_STATUS = f"Name:\tpython\nVmSize:\t  {_GB // 1024} kB\nVmData:\t  {_GB // 2 // 1024} kB\n"
_V1_MOUNT = "35 31 0:32 {mounted} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
_V2_MOUNT = "30 23 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
_UNLIMITED_V1 = 9223372036854771712


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The limits of this process: none, whatever the tests are run under."""
    limits = dict.fromkeys((resource.RLIMIT_AS, resource.RLIMIT_DATA), resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], resource.RLIM_INFINITY))
    return limits


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine of 16 GB, 12 of them free, without control groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(_MEMINFO)
    (tmp_path / "proc/self/status").write_text(_STATUS)
    return tmp_path


def _mount(root: Path, mountinfo: str, cgroup: str) -> None:
    (root / "proc/self/mountinfo").write_text(mountinfo)
    (root / "proc/self/cgroup").write_text(cgroup)


def _v1(directory: Path, limit: int, used: int, cached: int = 0, above: int = _UNLIMITED_V1) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (directory / "memory.usage_in_bytes").write_text(f"{used}\n")
    stat = f"inactive_file 1\nhierarchical_memory_limit {min(limit, above)}\ntotal_inactive_file {cached}\n"
    (directory / "memory.stat").write_text(stat)


def _v2(directory: Path, limit: int | str, used: int, cached: int = 0, high: int | str = "max") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "memory.max").write_text(f"{limit}\n")
    (directory / "memory.high").write_text(f"{high}\n")
    (directory / "memory.current").write_text(f"{used}\n")
    (directory / "memory.stat").write_text(f"anon 7\ninactive_file {cached}\nactive_file 9\n")


def _bytes(root: Path) -> tuple[float, float]:
    """What is available and what there is at most, in GB."""
    return available_bytes(root=str(root)) / _GB, total_bytes(root=str(root)) / _GB


def test_this_machine_has_memory() -> None:
    """More than these tests, and less available than there is."""
    assert 50_000_000 < available_bytes() <= total_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_without_limits_it_is_the_machines(root: Path) -> None:
    """What the kernel thinks that can be had without swapping."""
    assert _bytes(root) == (12, 16)


def test_an_old_kernel_does_not_say_what_is_available(root: Path) -> None:
    """Then it is what is free or cached."""
    (root / "proc/meminfo").write_text("MemTotal: 4194304 kB\nMemFree: 1048576 kB\nBuffers: 0 kB\nCached: 1048576 kB\n")
    assert _bytes(root) == (2, 4)


def test_v2_the_own_group_has_a_limit(root: Path) -> None:
    """What it uses is taken off, apart from files that are cached for nobody."""
    _mount(root, _V2_MOUNT, "0::/job\n")
    _v2(root / "sys/fs/cgroup/job", 4 * _GB, 3 * _GB, cached=_GB)
    assert _bytes(root) == (2, 4)


def test_v2_any_group_above_may_have_the_smallest(root: Path) -> None:
    """The limit of a user's session holds for all its jobs together."""
    _mount(root, _V2_MOUNT, "0::/user/session/job\n")
    _v2(root / "sys/fs/cgroup/user/session/job", "max", _GB)
    _v2(root / "sys/fs/cgroup/user/session", 8 * _GB, 7 * _GB)
    _v2(root / "sys/fs/cgroup/user", 6 * _GB, 2 * _GB)
    assert _bytes(root) == (1, 6)


def test_v2_where_the_brakes_begin_is_a_limit(root: Path) -> None:
    """Beyond it nobody is killed, but nothing gets done either."""
    _mount(root, _V2_MOUNT, "0::/job\n")
    _v2(root / "sys/fs/cgroup/job", 8 * _GB, _GB, high=3 * _GB)
    assert _bytes(root) == (2, 3)


def test_v1_the_own_group_and_those_above(root: Path) -> None:
    """The number that means no limit is none."""
    _mount(root, _V1_MOUNT.format(mounted="/"), "4:memory:/batch/job\n0::/\n")
    _v1(root / "sys/fs/cgroup/memory", _UNLIMITED_V1, 15 * _GB)
    _v1(root / "sys/fs/cgroup/memory/batch", 6 * _GB, 5 * _GB, cached=_GB // 2)
    _v1(root / "sys/fs/cgroup/memory/batch/job", 5 * _GB, _GB, above=6 * _GB)
    assert _bytes(root) == (1.5, 5)


def test_v1_a_limit_above_what_a_container_shows(root: Path) -> None:
    """The kernel tells the smallest of all limits above, also of groups that are not mounted."""
    _mount(root, _V1_MOUNT.format(mounted="/batch/job"), "4:memory:/batch/job\n")
    _v1(root / "sys/fs/cgroup/memory", _UNLIMITED_V1, _GB, above=5 * _GB)
    assert _bytes(root) == (4, 5)


def test_v1_where_the_own_group_is_not_to_be_seen(root: Path) -> None:
    """What is mounted is the nearest that can be known."""
    _mount(root, _V1_MOUNT.format(mounted="/"), "4:memory:/docker/0123\n")
    _v1(root / "sys/fs/cgroup/memory", 2 * _GB, _GB)
    assert _bytes(root) == (1, 2)


def test_a_group_that_uses_more_than_its_limit_leaves_nothing(root: Path) -> None:
    """A limit may have been lowered; there is never less than no memory."""
    _mount(root, _V2_MOUNT, "0::/job\n")
    _v2(root / "sys/fs/cgroup/job", _GB, 2 * _GB)
    assert _bytes(root) == (0, 1)


def test_the_limits_of_the_process_count_too(root: Path, limits: dict[int, int]) -> None:
    """Less what it uses of each: 1 GB of addresses, half a GB of data."""
    limits[resource.RLIMIT_AS] = 5 * _GB
    assert _bytes(root) == (4, 5)
    limits[resource.RLIMIT_DATA] = 3 * _GB
    assert _bytes(root) == (2.5, 3)


def test_a_machine_that_tells_nothing_is_asked_otherwise(tmp_path: Path) -> None:
    """There are systems without /proc."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available_bytes(root=str(tmp_path)) <= pages
    assert total_bytes(root=str(tmp_path)) == pages


def test_nothing_is_ever_raised(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with nonsense, groups without files, a system that does not answer."""
    _mount(root, "nonsense\n" + _V2_MOUNT + _V1_MOUNT.format(mounted="/"), "nonsense\n\n4:memory:/a\n0::/a\n")
    _v2(root / "sys/fs/cgroup/a", "nonsense", 0)
    _v1(root / "sys/fs/cgroup/memory/a", -1, 0)
    (root / "sys/fs/cgroup/a/memory.stat").write_bytes(b"\xff\xfe\n\n1 2 3\ninactive_file\n")
    assert _bytes(root) == (12, 16)
    (root / "proc/meminfo").write_text("MemTotal: much kB\nMemAvailable:\n")

    def refuse(_: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", refuse)
    assert _bytes(root) == (0, 0)
    _v2(root / "sys/fs/cgroup/a", 2 * _GB, _GB)
    assert _bytes(root) == (1, 2)
