from __future__ import annotations

import os

from aliquot.errors import UsageError
from aliquot.measuring.machine import available_bytes
from aliquot.quantities import as_count, format_bytes, parse_bytes
from aliquot.sites.local.output import Output
from aliquot.sites.local.workplace import LEAST_WORKER_BYTES, Workplace
from aliquot.sites.work import Work

# The rest is for the user's own process, and for everybody else.
_AVAILABLE_PART = 0.9


class Local:
    """This machine: one worker process for each core.

    ``cores`` is how many workers there are at once; by default as many as this process may use. ``memory`` is what they
    may hold together, in bytes or as '8GB': steps are kept small enough for it by what was measured, and one that holds
    more than its part is stopped. By default it is nine tenths of what the machine, or the container, has available.
    With ``step_memory`` each step may hold that much, and there are as many workers as fit; by default each core has
    one, and an equal part.
    """

    def __init__(
        self, cores: int | None = None, memory: int | str | None = None, step_memory: int | str | None = None
    ) -> None:
        self.cores = usable_cores() if cores is None else as_count(cores, "cores", "at least one core is needed")
        self.memory_bytes = None if memory is None else parse_bytes(memory)
        if self.memory_bytes is not None and self.memory_bytes < LEAST_WORKER_BYTES:
            least = format_bytes(LEAST_WORKER_BYTES)
            raise UsageError(f"Local(memory={memory!r}): a worker needs {least} for Python alone, and more for work")

        self.step_bytes = None if step_memory is None else parse_bytes(step_memory)
        if self.step_bytes is not None and self.step_bytes < LEAST_WORKER_BYTES:
            raise UsageError(f"Local(step_memory={step_memory!r}): a worker needs {format_bytes(LEAST_WORKER_BYTES)}")

    def start(self, work: Work, output: Output) -> Workplace:
        """Start the workers of one run."""
        cores, memory_bytes = self.cores, self.memory_bytes or int(available_bytes() * _AVAILABLE_PART)
        if self.step_bytes is not None:
            cores = max(1, min(cores, memory_bytes // self.step_bytes))
            memory_bytes = min(memory_bytes, cores * self.step_bytes)
        is_caged = self.memory_bytes is not None
        return Workplace(work, output, cores=cores, memory_bytes=memory_bytes, is_caged=is_caged)

    def __repr__(self) -> str:
        memory = "" if self.memory_bytes is None else f", memory={self.memory_bytes}"
        step = "" if self.step_bytes is None else f", step_memory={self.step_bytes}"
        return f"Local(cores={self.cores}{memory}{step})"


def usable_cores() -> int:
    """The cores that this process may run on, and that its control group gives it time for."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(affinity, _quota_cores() or affinity))


def _quota_cores() -> int | None:
    """How many cores' worth of time a container gives, rounded up; None where it does not say."""
    for path, read in (("/sys/fs/cgroup/cpu.max", _read_v2), ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", _read_v1)):
        try:
            return read(path)
        except (OSError, ValueError):
            continue
    return None


def _read_v2(path: str) -> int | None:
    with open(path) as file:
        quota, period = file.read().split()
    return None if quota == "max" else -(-int(quota) // int(period))


def _read_v1(path: str) -> int | None:
    with open(path) as file:
        quota = int(file.read())
    with open(path.replace("quota", "period")) as file:
        period = int(file.read())
    return None if quota <= 0 else -(-quota // period)
