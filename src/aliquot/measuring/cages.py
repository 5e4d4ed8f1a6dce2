"""Control groups of the kernel: memory that some processes cannot go beyond together, where groups may be made."""

from __future__ import annotations

import os

V1, V2 = "cgroup v1", "cgroup v2"

# The files of each kind: limit, limit with swap, use, peak, and where the processes that were killed are counted.
_FILES = {
    V1: (
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.max_usage_in_bytes",
        "memory.oom_control",
    ),
    V2: ("memory.max", "memory.swap.max", "memory.current", "memory.peak", "memory.events"),
}
# A process that was killed leaves its group a moment later.
_REMOVE_TRIES = 50
_REMOVE_PAUSE_SECONDS = 0.002


class Cage:
    """A group of processes that together get no more memory than its limit: the kernel kills one that needs more.

    Memory that a process holds when it is added stays with the group it was in.
    """

    def __init__(self, directory: str, kind: str) -> None:
        self.directory = directory
        self.kind = kind
        self._limit, self._swap, self._used, self._peak, self._events = (
            f"{directory}/{file_name}" for file_name in _FILES[kind]
        )

    def add(self, pid: int) -> bool:
        """Put a process, and all that it starts from now on, under the limit; False where that is refused.

        With 0, it is this process, which must not have started threads. On v1 this takes less than 0.1 milliseconds,
        where adding a process by its number may take 20: the kernel waits until nobody is amid a fork.
        """
        alone = pid == 0 and self.kind == V1
        return _write(f"{self.directory}/{'tasks' if alone else 'cgroup.procs'}", pid)

    def set_limit(self, limit_bytes: int) -> bool:
        """Change the limit; False where that is refused.

        Where more is held than a lower limit allows, and cannot be given back, v1 refuses, and v2 kills.
        """
        if self.kind == V2:
            return _write(self._limit, limit_bytes)
        # The limit of memory must never be above that of memory and swap. That one is not on every machine.
        if _write(self._limit, limit_bytes):
            _write(self._swap, limit_bytes)
            return True
        return _write(self._swap, limit_bytes) and _write(self._limit, limit_bytes)

    def peak_bytes(self) -> int | None:
        """The most that was used since the cage was made, cached pages of files included; None where nobody counts."""
        return _number(self._peak)

    def used_bytes(self) -> int:
        """What is used now, cached pages of files included; 0 if the cage is gone."""
        return _number(self._used) or 0

    def kills(self) -> int:
        """How many processes the kernel has killed for going beyond the limit."""
        for line in read_text(self._events).splitlines():
            if line.startswith("oom_kill "):
                return int(line[9:])
        return 0

    def remove(self) -> bool:
        """Remove the cage; True if it is gone. It stays for as long as a process is in it; none is killed here."""
        import time  # here, since whoever only reads this module must start fast

        for _ in range(_REMOVE_TRIES):
            try:
                os.rmdir(self.directory)
            except FileNotFoundError:
                return True
            except OSError:
                time.sleep(_REMOVE_PAUSE_SECONDS)
            else:
                return True
        return False


def open_cage(name: str, limit_bytes: int, *, root: str = "") -> Cage | None:
    """Make a cage below the own control group; None where the system refuses any of it, and then nothing is left.

    Being below the own group, a cage only ever takes away: all limits that hold for this process hold in it too. No
    process is moved to make room for it. With v2 this means that there are few places where it can be had, since there
    a group with processes in it gives no memory to groups below, the root of the system apart.

    ``root`` is where the system's files are looked for.
    """
    if "/" in name or name in ("", ".", ".."):
        raise ValueError(f"not the name of a control group: {name!r}")
    for kind in (V2, V1):
        above = own_groups(kind, root=root)
        if above and _may_have_cages(above[0], kind):
            return _make(f"{above[0]}/{name}", kind, limit_bytes)
    return None


def _may_have_cages(group: str, kind: str) -> bool:
    if kind == V1:
        # Without a hierarchy, which old kernels allow, the limits of the own group would not hold below it.
        gives_memory = (read_text(f"{group}/memory.use_hierarchy") or "1").strip() == "1"
    else:
        gives_memory = all(
            "memory" in read_text(f"{group}/{file_name}").split()
            for file_name in ("cgroup.controllers", "cgroup.subtree_control")
        ) and os.access(f"{group}/cgroup.procs", os.W_OK)  # v2 asks for this to let a process go down from here
    # Where the own group is not to be seen from here, a cage might set a process free instead.
    return gives_memory and str(os.getpid()) in read_text(f"{group}/cgroup.procs").split()


def _make(directory: str, kind: str, limit_bytes: int) -> Cage | None:
    try:
        os.mkdir(directory)
    except OSError:
        return None  # also where it is there already: it is somebody else's
    cage = Cage(directory, kind)
    is_made = cage.set_limit(limit_bytes) and os.access(f"{directory}/cgroup.procs", os.W_OK)
    if kind == V1:
        # A group may have inherited that who goes beyond the limit waits instead of being killed.
        waits = "oom_kill_disable 1" in read_text(f"{directory}/memory.oom_control")
        is_made = is_made and (not waits or _write(f"{directory}/memory.oom_control", 0))
    else:
        swap = f"{directory}/memory.swap.max"
        # "domain invalid" and "threaded" groups take no processes.
        is_made = is_made and (read_text(f"{directory}/cgroup.type") or "domain").strip() == "domain"
        is_made = is_made and (not os.path.exists(swap) or _write(swap, 0))
    if is_made:
        return cage
    cage.remove()
    return None


def own_groups(kind: str, *, root: str = "") -> list[str]:
    """The directories of this process's own memory group and of all above it that can be seen, the own one first.

    In a container, the own group may have another path than the kernel says; then it is taken to be what is mounted.
    """
    mount = _mount(read_text(f"{root}/proc/self/mountinfo"), kind)
    path = _own_path(read_text(f"{root}/proc/self/cgroup"), kind)
    if mount is None or path is None:
        return []
    mounted, point = mount
    point = root + point
    if mounted != "/" and (path + "/").startswith(mounted + "/"):
        path = path[len(mounted) :]
    path = path.rstrip("/")
    if ".." in path.split("/") or not os.path.isdir(point + path):
        path = ""
    groups = [point + path]
    while path:
        path = path.rpartition("/")[0]
        groups.append(point + path)
    return groups


def _mount(mountinfo: str, kind: str) -> tuple[str, str] | None:
    """What part of the hierarchy is mounted, and where."""
    for line in mountinfo.splitlines():
        place, _, system = line.partition(" - ")
        fields = place.split(" ")
        system_type, options = system.partition(" ")[0], system.rpartition(" ")[2].split(",")
        is_it = system_type == "cgroup2" if kind == V2 else system_type == "cgroup" and "memory" in options
        if is_it and len(fields) > 4:
            return _unescaped(fields[3]), _unescaped(fields[4])
    return None


def _own_path(cgroup: str, kind: str) -> str | None:
    """The path of the own group within its hierarchy, of lines such as ``4:memory:/a/b`` and ``0::/a/b``."""
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0" and not controllers) if kind == V2 else "memory" in controllers.split(","):
            return path
    return None


def _unescaped(path: str) -> str:
    """Blanks are written as ``\\040``, and so on."""
    first, *others = path.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in others)


def read_text(path: str) -> str:
    """The content of one of the system's files; nothing if it is not there, or not to be read."""
    content = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while piece := os.read(descriptor, 65536):
                content += piece
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    return content.decode("utf-8", "surrogateescape")


def _number(path: str) -> int | None:
    text = read_text(path).strip()
    return int(text) if text.isdecimal() else None


def _write(path: str, number: int) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d" % number)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return True
