from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from aliquot.measuring.cages import V1, V2, Cage, open_cage, own_groups
from tests.measuring.children import Child

_LIMIT_BYTES = 64_000_000
_V1_MOUNT = "35 31 0:32 {mounted} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
_V2_MOUNT = "30 23 0:27 {mounted} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"


@pytest.fixture
def cage() -> Iterator[Cage]:
    cage = open_cage(f"aliquot-test-{uuid.uuid4().hex}", _LIMIT_BYTES)
    if cage is None:
        pytest.skip("no control group for memory may be made on this machine")
    yield cage
    assert cage.remove()
    assert not Path(cage.directory).exists()


def test_whoever_goes_beyond_the_limit_is_killed(cage: Cage) -> None:
    """500 MB in a cage of 64 MB: the kernel kills the process, and says so."""
    with Child("say(0); hear(); bytearray(b'x') * 500_000_000; say(0); stay()") as child:
        child.says()
        assert cage.add(child.pid)
        child.hears()
        assert child.wait() == -signal.SIGKILL
        assert cage.kills() == 1
        peak = cage.peak_bytes()
        assert peak is None or peak == pytest.approx(_LIMIT_BYTES, rel=0.02)


def test_whoever_stays_below_the_limit_is_not(cage: Cage) -> None:
    """What was used is measured, also that of children, and also when it is given back."""
    source = """
say(0)
hear()
def hold():
    block = bytearray(b"x") * 30_000_000
    say(len(block))
    hear()
os.waitpid(fork(hold), 0)
say(0)
stay()
"""
    with Child(source) as child:
        child.says()
        assert cage.add(child.pid)
        child.hears()
        child.says()
        assert cage.used_bytes() == pytest.approx(30_000_000, rel=0.2)
        child.hears()
        child.says()
        assert cage.used_bytes() < 10_000_000
        peak = cage.peak_bytes()
        assert peak is None or peak == pytest.approx(30_000_000, rel=0.2)
        assert cage.kills() == 0


def test_a_process_can_go_into_a_cage_by_itself(cage: Cage) -> None:
    """Before it does anything that counts."""
    process = os.fork()
    if process == 0:
        os._exit(0 if cage.add(0) and _processes_in(cage) == [os.getpid()] else 1)
    assert os.waitpid(process, 0) == (process, 0)


def test_the_limit_can_be_changed_while_processes_run(cage: Cage) -> None:
    """Up and down, but not below what is held."""
    with Child("say(0); hear(); block = bytearray(b'x') * 100_000_000; say(0); stay()") as child:
        child.says()
        assert cage.add(child.pid)
        assert cage.set_limit(2 * _LIMIT_BYTES)
        child.hears()
        child.says()
        if cage.kind == V1:
            assert not cage.set_limit(_LIMIT_BYTES)
        assert cage.set_limit(int(1.8 * _LIMIT_BYTES))
        assert cage.set_limit(3 * _LIMIT_BYTES)
        assert cage.used_bytes() > 100_000_000
        assert cage.kills() == 0


def test_a_cage_with_a_process_in_it_is_not_removed(cage: Cage) -> None:
    """To end processes is the business of whoever started them."""
    with Child("say(0); stay()") as child:
        child.says()
        assert cage.add(child.pid)
        assert not cage.remove()
        assert _processes_in(cage) == [child.pid]
    assert cage.remove()
    assert cage.remove()  # it is gone already
    assert cage.used_bytes() == 0
    assert not cage.add(os.getpid())
    assert not cage.set_limit(_LIMIT_BYTES)


def test_a_process_that_is_gone_cannot_be_added(cage: Cage) -> None:
    """It may have ended just before."""
    with Child("") as child:
        child.wait()
        assert not cage.add(child.pid)


def test_a_name_that_is_taken_is_refused(cage: Cage) -> None:
    """A cage is never shared by accident, and nobody else's is removed."""
    assert open_cage(Path(cage.directory).name, _LIMIT_BYTES) is None
    assert Path(cage.directory).is_dir()


def test_a_limit_that_is_refused_leaves_nothing_behind(cage: Cage) -> None:
    """A limit below nothing is none."""
    group = Path(cage.directory).parent
    before = sorted(group.iterdir())
    assert open_cage(f"aliquot-test-{uuid.uuid4().hex}", -12345) is None
    assert sorted(group.iterdir()) == before


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a"])
def test_a_name_is_the_name_of_one_group(name: str) -> None:
    """Nothing outside the own group is ever made."""
    with pytest.raises(ValueError, match="control group"):
        open_cage(name, _LIMIT_BYTES)


def test_the_module_imports_nothing_that_takes_time() -> None:
    """The nursery imports it, and how fast that starts is part of every run."""
    modules = "aliquot.measuring.cages, aliquot.measuring.trees, aliquot.measuring.usage"
    program = f"import sys, {modules}; print({{'enum', 'typing', 're', 'pathlib', 'subprocess'}} & set(sys.modules))"
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-S", "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": path})
    assert ran.stdout == "set()\n"


def _processes_in(cage: Cage) -> list[int]:
    return list(map(int, (Path(cage.directory) / "cgroup.procs").read_text().split()))


# Made-up systems


class Kernel:
    """Makes the files of a control group where a directory is made, as the kernel does, and removes them with it."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.missing: set[str] = set()
        self._mkdir, self._rmdir = os.mkdir, os.rmdir
        patch.setattr(os, "mkdir", self.mkdir)
        patch.setattr(os, "rmdir", self.rmdir)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._mkdir(path, mode)
        for name in {"cgroup.procs", "memory.max", "memory.swap.max", "memory.limit_in_bytes"} - self.missing:
            Path(path, name).touch()
        if "cgroup.type" not in self.missing:
            Path(path, "cgroup.type").write_text("domain\n")
        Path(path, "memory.oom_control").write_text("oom_kill_disable 1\nunder_oom 0\noom_kill 0\n")

    def rmdir(self, path: str) -> None:
        for file in Path(path).iterdir():
            file.unlink()
        self._rmdir(path)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


def _system(root: Path, mountinfo: str, cgroup: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n" + mountinfo + "\n"
    )
    (root / "proc/self/cgroup").write_text("9:name=systemd:/\n1:cpu:/elsewhere\n" + cgroup + "\n")


def _group(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True)
    for name, text in {"cgroup__procs": f"1\n{os.getpid()}\n", **files}.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


_GIVES_MEMORY = {"cgroup__controllers": "cpu memory pids\n", "cgroup__subtree_control": "memory pids\n"}


def test_v2_makes_a_cage_where_memory_is_given_to_groups_below(kernel: Kernel) -> None:
    """Limited, and with no swap to flee to."""
    _system(kernel.root, _V2_MOUNT.format(mounted="/"), "0::/a/b")
    group = _group(kernel.root / "sys/fs/cgroup/a/b", **_GIVES_MEMORY)
    cage = open_cage("cage", 5_000_000, root=str(kernel.root))
    assert cage is not None
    assert cage.kind == V2
    assert cage.directory == str(group / "cage")
    assert (group / "cage/memory.max").read_text() == "5000000"
    assert (group / "cage/memory.swap.max").read_text() == "0"
    assert cage.add(1234)
    assert (group / "cage/cgroup.procs").read_text() == "1234"
    assert cage.remove()


@pytest.mark.parametrize(
    "files",
    [
        {"cgroup__controllers": "cpu memory pids\n", "cgroup__subtree_control": "cpu\n"},
        {"cgroup__controllers": "cpu\n", "cgroup__subtree_control": "cpu\n"},
        {**_GIVES_MEMORY, "cgroup__procs": "1\n"},
        {},
    ],
    ids=["not given below", "not there", "not the own group", "nothing to be read"],
)
def test_v2_makes_none_elsewhere(kernel: Kernel, files: dict[str, str]) -> None:
    """Nobody is moved to make room for a cage, and nothing is changed."""
    _system(kernel.root, _V2_MOUNT.format(mounted="/"), "0::/")
    group = _group(kernel.root / "sys/fs/cgroup", **files)
    before = sorted(group.iterdir())
    assert open_cage("cage", 5_000_000, root=str(kernel.root)) is None
    assert sorted(group.iterdir()) == before


@pytest.mark.parametrize("missing", ["memory.max", "cgroup.procs"])
def test_v2_leaves_nothing_behind_where_a_cage_would_not_hold(kernel: Kernel, missing: str) -> None:
    """A group without a limit, or that takes no processes, is no cage."""
    _system(kernel.root, _V2_MOUNT.format(mounted="/"), "0::/")
    group = _group(kernel.root / "sys/fs/cgroup", **_GIVES_MEMORY)
    kernel.missing = {missing}
    assert open_cage("cage", 5_000_000, root=str(kernel.root)) is None
    assert not (group / "cage").exists()


def test_v2_without_swap_is_well(kernel: Kernel) -> None:
    """A kernel without swap has no limit for it."""
    _system(kernel.root, _V2_MOUNT.format(mounted="/"), "0::/")
    _group(kernel.root / "sys/fs/cgroup", **_GIVES_MEMORY)
    kernel.missing = {"memory.swap.max", "cgroup.type"}
    assert open_cage("cage", 5_000_000, root=str(kernel.root)) is not None


def test_v1_is_taken_where_v2_has_no_memory(kernel: Kernel) -> None:
    """Many systems have both, with the memory in one of them; and whoever goes beyond the limit is not to hang."""
    unified = _V2_MOUNT.format(mounted="/").replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    _system(kernel.root, f"{_V1_MOUNT.format(mounted='/')}\n{unified}", "4:memory:/a\n0::/")
    _group(kernel.root / "sys/fs/cgroup/unified", cgroup__controllers="hugetlb\n")
    group = _group(kernel.root / "sys/fs/cgroup/memory/a", memory__use_hierarchy="1\n")
    cage = open_cage("cage", 5_000_000, root=str(kernel.root))
    assert cage is not None
    assert cage.kind == V1
    assert (group / "cage/memory.limit_in_bytes").read_text() == "5000000"
    # The made-up file keeps what the 0 does not overwrite.
    assert (group / "cage/memory.oom_control").read_text().startswith("0om_kill_disable")


def test_v1_makes_none_that_the_own_limits_would_not_hold_for(kernel: Kernel) -> None:
    """Old kernels can count a group apart from the one above it."""
    _system(kernel.root, _V1_MOUNT.format(mounted="/"), "4:memory:/")
    group = _group(kernel.root / "sys/fs/cgroup/memory", memory__use_hierarchy="0\n")
    assert open_cage("cage", 5_000_000, root=str(kernel.root)) is None
    assert not (group / "cage").exists()


def test_v1_makes_none_outside_the_own_group(kernel: Kernel) -> None:
    """Where the own group cannot be seen and what is mounted is another one, a cage would be a way out of it."""
    _system(kernel.root, _V1_MOUNT.format(mounted="/"), "4:memory:/not/to/be/seen")
    group = _group(kernel.root / "sys/fs/cgroup/memory", cgroup__procs="1\n")
    assert open_cage("cage", 5_000_000, root=str(kernel.root)) is None
    assert not (group / "cage").exists()


@pytest.mark.parametrize(
    ("mounted", "path", "expected"),
    [
        ("/", "/", [""]),
        ("/", "/a/b", ["/a/b", "/a", ""]),
        ("/box", "/box/a", ["/a", ""]),
        ("/box", "/box", [""]),
        ("/box", "/boxes", [""]),
        ("/", "/not/there", [""]),
        ("/", "/../a", [""]),
    ],
)
@pytest.mark.parametrize("kind", [V1, V2])
def test_the_own_group_is_found_below_what_is_mounted(
    tmp_path: Path, kind: str, mounted: str, path: str, expected: list[str]
) -> None:
    """In a container, only a part of the hierarchy is mounted; where nothing fits, it is that part itself."""
    line, point, name = (_V1_MOUNT, "memory", "4:memory") if kind == V1 else (_V2_MOUNT, "", "0:")
    _system(tmp_path, line.format(mounted=mounted), f"{name}:{path}")
    top = tmp_path / "sys/fs/cgroup" / point
    (top / "a/b").mkdir(parents=True)
    assert own_groups(kind, root=str(tmp_path)) == [f"{top}{below}" for below in expected]
    assert own_groups(V1 if kind == V2 else V2, root=str(tmp_path)) == []


def test_a_mount_may_have_blanks_in_its_path(tmp_path: Path) -> None:
    """The kernel writes them as numbers."""
    _system(tmp_path, _V2_MOUNT.format(mounted="/").replace("/sys/fs/cgroup ", r"/my\040groups\134x "), "0::/a")
    (tmp_path / r"my groups\x" / "a").mkdir(parents=True)
    assert own_groups(V2, root=str(tmp_path)) == [str(tmp_path / r"my groups\x/a"), str(tmp_path / r"my groups\x")]


def test_a_system_without_groups_has_none(tmp_path: Path) -> None:
    """Also one without /proc."""
    assert own_groups(V1, root=str(tmp_path)) == own_groups(V2, root=str(tmp_path)) == []
    assert open_cage("cage", 5_000_000, root=str(tmp_path)) is None


def test_the_numbers_of_v2_are_read_from_its_files(tmp_path: Path) -> None:
    """The peak is not counted by every kernel."""
    _group(tmp_path / "cage", memory__current="4096\n", memory__events="low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
    cage = Cage(str(tmp_path / "cage"), V2)
    assert (cage.used_bytes(), cage.kills(), cage.peak_bytes()) == (4096, 2, None)
    (tmp_path / "cage/memory.peak").write_text("8192\n")
    assert cage.peak_bytes() == 8192
