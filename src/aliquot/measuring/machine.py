"""How much memory there is for this process and those it starts: the machine's, or less where not all is theirs."""

from __future__ import annotations

import os
import resource

from aliquot.measuring.cages import V1, V2, own_groups, read_text

# An unlimited v1 group has a limit too: 2**63 less a page.
_ABSURD_BYTES = 1 << 60


def available_bytes(*, root: str = "") -> int:
    """What can be had now without anybody being swapped out or killed; never raises.

    It is the least of what the machine has, of what is left in the own control group and each above it, where cached
    pages of files that nobody used lately count as free, and of what the limits of this process leave it.

    ``root`` is where the system's files are looked for.
    """
    meminfo = _kilobytes_by_name(read_text(f"{root}/proc/meminfo"))
    machine = meminfo.get("MemAvailable")
    if machine is None and "MemFree" in meminfo:  # before Linux 3.14
        machine = meminfo["MemFree"] + meminfo.get("Buffers", 0) + meminfo.get("Cached", 0)
    if machine is None:
        machine = _sysconf_bytes("SC_AVPHYS_PAGES") or _sysconf_bytes("SC_PHYS_PAGES")
    left = [limit - used for limit, used in (*_group_limits(root), *_process_limits(root))]
    return max(0, _least(machine, left))


def total_bytes(*, root: str = "") -> int:
    """The most that can ever be had: the machine's memory, or the smallest limit on it; never raises."""
    machine = _kilobytes_by_name(read_text(f"{root}/proc/meminfo")).get("MemTotal") or _sysconf_bytes("SC_PHYS_PAGES")
    limits = [limit for limit, _ in (*_group_limits(root), *_process_limits(root))]
    return _least(machine, limits)


def _least(machine: int, limits: list[int]) -> int:
    """The least of all that is known; of the machine, 0 is said where nothing is."""
    return min([machine, *limits] if machine else limits, default=0)


def _group_limits(root: str) -> list[tuple[int, int]]:
    """Limit and use of the own control group and of each above it that has a limit."""
    found: list[tuple[int, int]] = []
    for group in own_groups(V2, root=root):
        # Above "high" nobody is killed, but all are slowed down so much that it is no memory to count on.
        limits = [_number(read_text(f"{group}/{file_name}")) for file_name in ("memory.max", "memory.high")]
        found += _limits_and_use(limits, f"{group}/memory.current", f"{group}/memory.stat", "inactive_file")
    for at, group in enumerate(own_groups(V1, root=root)):
        stat = f"{group}/memory.stat"
        limits = [_number(read_text(f"{group}/memory.limit_in_bytes"))]
        if at == 0:
            # The smallest of all above, also of those that a container does not show.
            limits.append(_numbers_by_name(read_text(stat)).get("hierarchical_memory_limit"))
        found += _limits_and_use(limits, f"{group}/memory.usage_in_bytes", stat, "total_inactive_file")
    return found


def _limits_and_use(limits: list[int | None], use: str, stat: str, cached: str) -> list[tuple[int, int]]:
    """The smallest limit, with what counts against it; nothing where there is none."""
    smallest = min((limit for limit in limits if limit is not None), default=_ABSURD_BYTES)
    if smallest >= _ABSURD_BYTES:
        return []  # the use of a group is dear to read, and not wanted
    used = _number(read_text(use)) or 0
    return [(smallest, max(0, used - _numbers_by_name(read_text(stat)).get(cached, 0)))]


def _process_limits(root: str) -> list[tuple[int, int]]:
    """Limit and use of this process's addresses and of its data, where limits are set."""
    status = _kilobytes_by_name(read_text(f"{root}/proc/self/status"))
    found: list[tuple[int, int]] = []
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        try:
            limit = resource.getrlimit(kind)[0]
        except (OSError, ValueError):
            continue
        if limit != resource.RLIM_INFINITY:
            found.append((limit, status.get(name, 0)))
    return found


def _sysconf_bytes(name: str) -> int:
    """0 where the system does not know."""
    try:
        return max(0, os.sysconf(name) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return 0


def _kilobytes_by_name(text: str) -> dict[str, int]:
    """Bytes by name, of lines such as ``MemTotal:  24682416 kB``; other lines are passed over."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if unit == "kB" and number.isdecimal():
            found[name] = int(number) * 1024
    return found


def _numbers_by_name(text: str) -> dict[str, int]:
    """Numbers by name, of lines such as ``inactive_file 4096``; other lines are passed over."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if number.isdecimal():
            found[name] = int(number)
    return found


def _number(text: str) -> int | None:
    """None for ``max``, and where there is nothing."""
    text = text.strip()
    return int(text) if text.isdecimal() else None
