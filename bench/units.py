"""What one unit does; in a module of its own, as the workers of every library must be able to import it."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Item = TypeVar("Item")

BATCH_OVERHEAD_SECONDS = 2e-3
ARRAY_BYTES = 64_000_000
# Where the tickets for cores are: see `take_ticket`.
TICKETS_VARIABLE = "BENCH_TICKETS"


def burn(cpu_seconds: float) -> float:
    """Be busy, and give the CPU seconds that it really took: the last look at the clock may come late."""
    now = time.thread_time
    began = now()
    while (burned := now() - began) < cpu_seconds:
        pass
    return burned


def burn_batch(batch: Iterable[float]) -> float:
    """Be busy for a whole batch, as a program is that must load something before it begins."""
    return burn(BATCH_OVERHEAD_SECONDS + sum(batch))


def square(number: int) -> int:
    return number * number


def same(item: Item) -> Item:
    """Nothing but the way there and back."""
    return item


def make_array(number: int) -> NDArray[np.float64]:
    """Numbers that are really there: memory that was never written to would not have to be copied."""
    import numpy as np

    return np.full(ARRAY_BYTES // 8, number, dtype=np.float64)


def burn_on_own_core(cpu_seconds: float) -> float:
    """Be busy on the core that this process has a ticket for."""
    take_ticket()
    return burn(cpu_seconds)


@functools.cache
def take_ticket() -> None:
    """Bind this process to the next free core, once.

    A ticket is a file named `<order>-<core>`. Of all processes that try to remove it, one succeeds.
    """
    directory = os.environ[TICKETS_VARIABLE]
    for ticket in sorted(os.listdir(directory)):
        try:
            os.unlink(os.path.join(directory, ticket))
        except FileNotFoundError:
            continue
        os.sched_setaffinity(0, {int(ticket.partition("-")[2])})
        return
    raise RuntimeError(f"process {os.getpid()} is one too many: each core had its worker before it came")
