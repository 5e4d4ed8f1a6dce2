from __future__ import annotations

import os
import signal

import pytest

from aliquot.measuring.trees import Trees, proportional_bytes, resident_and_peak_bytes, resident_bytes
from tests.measuring.children import Child, has_proc, wait_until_ended

pytestmark = pytest.mark.skipif(not has_proc(), reason="this system shows no processes in /proc")

_BLOCK_BYTES = 100_000_000
# More calls than any that trust what an earlier one found.
_MANY_CALLS = 21


def test_children_and_their_children_are_found() -> None:
    """A process is below a root however many others are between."""
    source = """
def middle():
    say(os.getpid(), fork(stay))
    stay()
fork(middle)
stay()
"""
    with Child(source) as child:
        below = sorted(child.says())
        assert Trees().find([child.pid]) == {child.pid: below}


def test_a_process_without_children_has_none() -> None:
    """The root itself is not in the answer, nor is anything else of this machine."""
    with Child("say(0); stay()") as child, Child("say(0); stay()") as another:
        child.says()
        another.says()
        assert Trees().find([child.pid]) == {child.pid: []}
        assert Trees().find([]) == {}


def test_an_orphan_is_found_by_its_group() -> None:
    """When the process between has ended, the parent is another one; the group is still the root's."""
    source = """
def middle():
    say(fork(stay))
os.waitpid(fork(middle), 0)
say(0)
stay()
"""
    with Child(source) as child:
        (orphan,) = child.says()
        child.says()
        assert _parent_of(orphan) not in (child.pid, 0)
        assert Trees().find([child.pid]) == {child.pid: [orphan]}


def test_what_an_orphan_starts_is_found_in_whatever_group() -> None:
    """A process below one that is found by its group is found too."""
    source = """
def apart():
    os.setsid()
    say(os.getppid(), os.getpid())
    stay()
def orphan():
    fork(apart)
    stay()
def middle():
    fork(orphan)
os.waitpid(fork(middle), 0)
say(0)
stay()
"""
    with Child(source) as child:
        found = sorted(child.says() + child.says())
        assert Trees().find([child.pid]) == {child.pid: found[1:]}


def test_the_orphans_of_a_dead_root_are_found() -> None:
    """A worker that was killed may have left processes behind."""
    with Child("say(fork(stay)); stay()") as child:
        (orphan,) = child.says()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert Trees().find([child.pid]) == {child.pid: [orphan]}


def test_a_program_in_a_session_of_its_own_is_found_by_its_parent() -> None:
    """Whoever starts programs may well give them groups of their own."""
    source = """
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.setsid()
    os.execvp("sleep", ["sleep", "60"])  # the pipe is closed by then
os.close(write)
os.read(read, 1)
say(pid)
hear()
os.kill(pid, 9)
os.waitpid(pid, 0)
"""
    with Child(source) as child:
        (program,) = child.says()
        try:
            assert Trees().find([child.pid]) == {child.pid: [program]}
        finally:
            child.hears()
            child.wait()


def test_a_name_may_hold_anything() -> None:
    """The fields are counted from the last parenthesis."""
    source = """
def named():
    with open("/proc/self/comm", "w") as file:
        file.write("a) Z 1 (b) c")
    say(os.getpid())
    stay()
fork(named)
stay()
"""
    with Child(source) as child:
        named = child.says()
        assert Trees().find([child.pid]) == {child.pid: named}


def test_a_process_that_only_waits_to_be_reaped_is_left_out() -> None:
    """It holds nothing any more, whatever is asked about it."""
    source = """
pid = fork(lambda: None)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
say(pid)
stay()
"""
    with Child(source) as child:
        (dead,) = child.says()
        assert Trees().find([child.pid]) == {child.pid: []}
        assert resident_bytes(dead) == proportional_bytes(dead) == 0
        assert resident_and_peak_bytes(dead) == (0, 0)


def test_processes_come_and_go_between_two_looks() -> None:
    """What was found earlier about other processes does not hide new ones."""
    source = """
while True:
    hear()
    pid = fork(stay)
    say(pid)
    hear()
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    say(0)
"""
    trees = Trees()
    with Child(source) as child:
        for _ in range(3):
            assert trees.find([child.pid]) == {child.pid: []}
            child.hears()
            new = child.says()
            assert trees.find([child.pid]) == {child.pid: new}
            child.hears()
            child.says()


def test_each_root_has_its_own() -> None:
    """Many workers are looked for at once."""
    source = "say(*sorted([fork(stay), fork(stay)])); stay()"
    with Child(source) as first, Child(source) as second:
        expected = {first.pid: first.says(), second.pid: second.says()}
        assert Trees().find([first.pid, second.pid]) == expected


def test_a_process_belongs_to_the_nearest_root_only() -> None:
    """Sums over all roots count nothing twice."""
    source = """
def middle():
    say(os.getpid(), fork(stay))
    stay()
fork(middle)
stay()
"""
    with Child(source) as child:
        middle, last = child.says()
        assert Trees().find([child.pid, middle]) == {child.pid: [], middle: [last]}


def test_a_new_root_is_looked_for_among_all() -> None:
    """What is unrelated to some roots may be below another one."""
    trees = Trees()
    with Child("say(fork(stay)); stay()") as first, Child("say(fork(stay)); stay()") as second:
        expected = {first.pid: first.says(), second.pid: second.says()}
        assert trees.find([first.pid]) == {first.pid: expected[first.pid]}
        assert trees.find([first.pid, second.pid]) == expected
        assert trees.find([second.pid]) == {second.pid: expected[second.pid]}
        assert trees.find([first.pid]) == {first.pid: expected[first.pid]}


def test_an_unrelated_process_that_becomes_related_is_found_before_long() -> None:
    """Nothing is trusted for more than 20 calls."""
    trees = Trees()
    source = "say(0); os.setpgid(0, int(hear())); say(0); stay()"
    with Child("say(0); stay()") as root, Child(source) as other:
        root.says()
        other.says()
        assert trees.find([root.pid]) == {root.pid: []}
        other.hears(str(root.pid))
        other.says()
        found = [trees.find([root.pid])[root.pid] for _ in range(_MANY_CALLS)]
        assert found[-1] == [other.pid]


def test_processes_known_to_be_unrelated_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs a listing and the reading of what is new or below a root."""
    trees = Trees()
    opened: list[str] = []
    really_open = os.open

    def open_and_count(path: str, *options: int) -> int:
        opened.append(path)
        return really_open(path, *options)

    with Child("say(fork(stay)); stay()") as child:
        (below,) = child.says()
        trees.find([child.pid])
        monkeypatch.setattr(os, "open", open_and_count)
        for _ in range(5):
            opened.clear()
            trees.find([child.pid])
            assert f"/proc/{below}/stat" in opened
            assert f"/proc/{os.getpid()}/stat" not in opened
            assert f"/proc/{os.getppid()}/stat" not in opened


def test_without_a_listing_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a system without /proc there are no trees, and no error either."""

    def refuse(_: str) -> list[str]:
        raise FileNotFoundError("/proc")

    monkeypatch.setattr(os, "listdir", refuse)
    assert Trees().find([1]) == {1: []}


def test_processes_that_may_not_be_read_are_unrelated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some machines show to each user no more than the numbers of the others' processes, or not even these."""
    really_open, really_list = os.open, os.listdir
    refused: list[str] = []
    tester = os.getpid()

    def refuse(path: str, *options: int) -> int:
        if path == f"/proc/{tester}/stat":
            refused.append(path)
            raise PermissionError(path)
        return really_open(path, *options)

    with Child("say(fork(stay)); stay()") as child:
        expected = {child.pid: child.says()}
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            trees = Trees()
            assert [trees.find([child.pid]) for _ in range(5)] == [expected] * 5
            assert len(refused) == 1
        with monkeypatch.context() as patch:
            patch.setattr(os, "listdir", lambda path: [name for name in really_list(path) if name != str(tester)])
            trees = Trees()
            assert [trees.find([child.pid]) for _ in range(5)] == [expected] * 5


def test_the_sizes_of_another_process() -> None:
    """What it holds and what it held at most, in bytes, to within 2 % of what it allocated."""
    source = f"""
say(0)
hear()
block = bytearray(b"x") * {_BLOCK_BYTES}
say(0)
hear()
del block
say(0)
stay()
"""
    with Child(source) as child:
        child.says()
        before = resident_bytes(child.pid)
        child.hears()
        child.says()
        assert resident_bytes(child.pid) - before == pytest.approx(_BLOCK_BYTES, rel=0.02)
        assert proportional_bytes(child.pid) == pytest.approx(_BLOCK_BYTES, rel=0.15)
        child.hears()
        child.says()
        assert resident_bytes(child.pid) - before < 0.02 * _BLOCK_BYTES
        resident, peak = resident_and_peak_bytes(child.pid)
        assert resident - before < 0.02 * _BLOCK_BYTES
        assert peak - before == pytest.approx(_BLOCK_BYTES, rel=0.02)


def test_shared_pages_are_counted_once() -> None:
    """Three forked processes and their parent hold one block together: resident sizes say four of them."""
    source = f"""
block = bytearray(b"x") * {_BLOCK_BYTES}
say(*[fork(stay) for _ in range(3)])
stay()
"""
    with Child(source) as child:
        child.says()
        members = [child.pid, *Trees().find([child.pid])[child.pid]]
        assert len(members) == 4
        assert sum(map(resident_bytes, members)) > 4 * _BLOCK_BYTES
        assert sum(map(proportional_bytes, members)) == pytest.approx(_BLOCK_BYTES, rel=0.2)


def test_a_process_that_is_gone_holds_nothing() -> None:
    """Whoever asks need not know whether it still runs."""
    with Child("") as child:
        child.wait()
        wait_until_ended(child.pid)
        assert resident_bytes(child.pid) == proportional_bytes(child.pid) == 0
        assert resident_and_peak_bytes(child.pid) == (0, 0)
        assert Trees().find([child.pid]) == {child.pid: []}


def test_where_shares_cannot_be_had_the_resident_size_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older kernels do not divide pages, and some do not tell everybody."""
    really_open = os.open

    def refuse(path: str, *options: int) -> int:
        if path.endswith("smaps_rollup"):
            raise PermissionError(path)
        return really_open(path, *options)

    monkeypatch.setattr(os, "open", refuse)
    assert proportional_bytes(os.getpid()) == pytest.approx(resident_bytes(os.getpid()), rel=0.1)


def _parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
