"""Locks that survive a fork.

A fork copies locks as they are and no thread but the one that forks, so that a lock that another thread held is never
released in the child. Whoever holds locks registers here and makes new ones there.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class HoldsLocks(Protocol):
    """An object whose locks must be new in a forked process."""

    def renew_locks(self) -> None:
        """Make new locks, and forget what other threads were doing."""


_registered: WeakSet[HoldsLocks] = WeakSet()
# How many forks lie between this process and the first one: who sees it change is in another process than before.
generation = 0


def renew_locks_after_fork(holder: HoldsLocks) -> None:
    """Have the locks of an object renewed in every process that is forked from this one."""
    _registered.add(holder)


def _renew_all() -> None:
    global generation  # noqa: PLW0603  # it is one number for each process
    generation += 1
    for holder in list(_registered):
        holder.renew_locks()


os.register_at_fork(after_in_child=_renew_all)

# For imports that take long and happen late, maybe in a thread, while another one forks: the child would wait for ever
# for an import that nobody goes on with. So a fork waits for it.
importing = threading.RLock()
os.register_at_fork(before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release)
