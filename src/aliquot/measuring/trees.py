"""Which processes a worker has started, and what they hold: by /proc alone, as far as it is there."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# How many calls may trust what earlier ones found about the processes that are none of ours.
_CALLS_UNTIL_CHECKED = 20


class Trees:
    """The processes below some roots, looked for again and again.

    Most processes of a machine have nothing to do with the roots, and never will. Those seen to be unrelated are not
    read again, so that a look costs little more than a listing of /proc. A number that is gone from the listing is
    forgotten; that a number was given anew between two looks is seen at the latest by the 20th call, which reads
    everything, as does every call with a root that the last one did not have.
    """

    def __init__(self) -> None:
        self._roots: frozenset[int] = frozenset()
        self._unrelated: set[str] = set()  # names in /proc, also those that are no processes
        self._missing: set[int] = set()  # parents that the last call did not find
        self._calls_left = 0

    def find(self, roots: Collection[int]) -> dict[int, list[int]]:
        """For each root, the living processes below it, without itself; those that only wait to be reaped are left out.

        A process is below the nearest root that it descends from; also below the root whose process group it is in,
        or one of its ancestors: this is how orphans are found. A root is never below another one. What has left both
        its parents and its group is not found.
        """
        now = frozenset(roots)
        self._calls_left -= 1
        if self._calls_left < 0 or not now <= self._roots:
            self._unrelated.clear()
            self._calls_left = _CALLS_UNTIL_CHECKED - 1
        self._roots = now
        found: dict[int, list[int]] = {root: [] for root in now}
        try:
            names = os.listdir("/proc")
        except OSError:
            return found  # no /proc: nothing can be known
        unrelated = self._unrelated
        to_be_read = [name for name in names if name not in unrelated]
        if len(names) - len(to_be_read) < len(unrelated):
            unrelated.intersection_update(names)  # some are gone

        parents: dict[int, int] = {}
        groups: dict[int, int] = {}
        living: list[int] = []
        for name in to_be_read:
            if not name.isdecimal():
                unrelated.add(name)
                continue
            pid = int(name)
            if pid in now:
                continue
            try:
                stat = _read(f"/proc/{name}/stat", 512)
            except PermissionError:
                unrelated.add(name)  # somebody else's, on a machine that shows nobody's but one's own
                continue
            except OSError:
                continue  # it has ended
            # A name in parentheses may hold anything, also parentheses; what follows it does not.
            state, parent, group = stat[stat.rfind(b")") + 1 :].split(None, 3)[:3]
            parents[pid] = int(parent)
            groups[pid] = int(group)
            if state not in b"ZX":
                living.append(pid)

        owners = self._owners(parents, groups)
        for pid in living:
            if owners[pid]:
                found[owners[pid]].append(pid)
        for members in found.values():
            members.sort()
        return found

    def _owners(self, parents: dict[int, int], groups: dict[int, int]) -> dict[int, int]:
        """The root of each process, 0 if there is none."""
        roots, unrelated = self._roots, self._unrelated
        owners: dict[int, int] = {}
        missing: set[int] = set()
        for process in parents:
            path: list[int] = []
            at, owner, is_certain = process, 0, True
            while not owner:
                if at not in parents:
                    # The one above has ended or was too young to be listed: to be read again, but only once, since
                    # there are machines that never show it.
                    is_certain = at == 0 or str(at) in unrelated or at in self._missing
                    if not is_certain or at in self._missing:
                        missing.add(at)
                    break
                if at in owners:
                    owner = owners[at]
                    is_certain = bool(owner) or str(at) in unrelated
                    break
                owners[at] = 0  # also ends a circle, which numbers given anew meanwhile might make
                path.append(at)
                if parents[at] in roots:
                    owner = parents[at]
                elif groups[at] in roots:
                    owner = groups[at]
                else:
                    at = parents[at]
            for pid in path:
                owners[pid] = owner
            if not owner and is_certain:
                unrelated.update(map(str, path))
        self._missing = missing
        return owners


def resident_bytes(pid: int) -> int:
    """What a process has resident now, with what it shares; 0 if it is gone."""
    try:
        return int(_read(f"/proc/{pid}/statm", 128).split(None, 2)[1]) * _PAGE_BYTES
    except OSError:
        return 0


def resident_and_peak_bytes(pid: int) -> tuple[int, int]:
    """What a process has resident now, and the most that it had since it began; 0 and 0 if it is gone."""
    content = _content(f"/proc/{pid}/status")
    return _kilobytes(content, b"\nVmRSS:"), _kilobytes(content, b"\nVmHWM:")


def proportional_bytes(pid: int) -> int:
    """What a process has resident, each page divided by the number of processes that share it; 0 if it is gone.

    Forked processes share pages: the sum of their resident sizes may be far above what they hold together, the sum of
    these is not. The kernel walks through all pages for it, so that it takes longer the more there is. Where it cannot
    be had, it is the resident size.
    """
    return _kilobytes(_content(f"/proc/{pid}/smaps_rollup"), b"\nPss:") or resident_bytes(pid)


def _content(path: str) -> bytes:
    try:
        return _read(path, 4096)
    except OSError:
        return b""


def _kilobytes(content: bytes, field: bytes) -> int:
    at = content.find(field)
    if at < 0:
        return 0  # it has ended and is yet to be reaped, or the kernel does not say
    return int(content[at + len(field) : content.index(b"kB", at)]) * 1024


def _read(path: str, at_most: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, at_most)
    finally:
        os.close(descriptor)
