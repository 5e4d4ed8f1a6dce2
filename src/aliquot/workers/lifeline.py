"""Nothing outlives the parent: the kernel itself kills a worker, and all that it started, when the parent is gone.

The parent holds the only writing end of a pipe on which nothing is ever written. When the parent ends, whatever it ends
of, the pipe closes; the kernel was told to send SIGKILL to the worker's process group then. No code of the worker needs
to run for that, so it works while a C function runs for an hour.
"""

from __future__ import annotations

import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # as in nursery_main.py

# Linux's number for "the signal to send instead of SIGIO"; Python does not name it.
_F_SETSIG = 10


def die_with_parent(lifeline: int) -> None:
    """Have this process group killed when the other end of the pipe closes."""
    # The owner of a signal belongs to the open file, which all workers share: this worker needs its own.
    own = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(own, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(own, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    # Had the parent gone before, no signal would come.
    try:
        if not os.read(own, 1):
            os.killpg(0, signal.SIGKILL)
    except BlockingIOError:
        pass
