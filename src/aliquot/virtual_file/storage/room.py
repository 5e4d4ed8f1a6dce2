"""Room for a library that reserves far more memory than it uses, in a process to which the kernel refuses memory.

RLIMIT_DATA counts what may be written, touched or not. rapidgzip reserves 0.8 to 1 GB before it decodes the first byte,
holds some 10 MB of that, and ends the process where it is refused any. What it really holds is resident, and so still
counts for whoever watches this process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Iterator

# By several threads at once: the first one lifts the limit, the last one sets it again.
_lock = threading.Lock()
_within = 0
_limit: tuple[int, int] | None = None  # that was lifted
_data_bytes = 0  # when it was


@contextlib.contextmanager
def without_data_limit() -> Iterator[None]:
    """Lift the limit; behind this, the process may have as much more as before."""
    global _within, _limit, _data_bytes  # noqa: PLW0603  # it belongs to the process
    with _lock:
        if not _within:
            _limit = _lift()
            _data_bytes = 0 if _limit is None else _read_data_bytes()
        _within += 1
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if not _within:
                _restore()


def _lift() -> tuple[int, int] | None:
    """The limit that there was, if any."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft in (hard, resource.RLIM_INFINITY):
        return None
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    return soft, hard


def _restore() -> None:
    """Set what was lifted, and as much more as was taken meanwhile."""
    if _limit is None:
        return
    soft, hard = _limit
    soft += max(0, _read_data_bytes() - _data_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _read_data_bytes() -> int:
    """All that may be written, as the kernel counts it for the limit."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _renew() -> None:
    """In a new process there is one thread, and it is not within."""
    global _lock, _within, _limit  # noqa: PLW0603  # it belongs to the process
    _lock = threading.Lock()
    if _within:
        _restore()
    _within, _limit = 0, None


def _hold() -> None:
    _lock.acquire()


def _let_go() -> None:
    _lock.release()


# Not while another thread lifts or sets it.
os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_renew)
