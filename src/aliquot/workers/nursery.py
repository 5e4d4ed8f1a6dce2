"""The parent's side of the nursery. Every run waits for this to be imported: only then can the nursery be started."""

from __future__ import annotations

import _socket
import atexit
import contextlib
import os
import select
import sys
import threading
import time

from aliquot import workers
from aliquot.errors import SiteError
from aliquot.measuring.trees import resident_bytes
from aliquot.workers.nursery_main import _EXIT, LIFELINE, REQUESTS, THREAD_VARIABLES, send, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
    from typing import Any
else:
    import _signal as signal  # without enum, which takes milliseconds to import


# Of what a worker may hold, the part that it may be born with: the rest is for its steps.
_MOST_BORN_PART = 0.25
# Workers that are forked before anybody asks, while the parent still plans what they will do.
_MOST_SPARES = 8
# To have these at hand or not makes little difference.
_LIGHT = {"cloudpickle", "aliquot.workers.command_stepping", "shutil"}


class Nursery:
    """The parent's side of the process that forks workers: one for each process, kept for the next run."""

    def __init__(self, preload: tuple[str, ...] = (), *, is_small: bool = True) -> None:
        self._lock = threading.Lock()
        self._next_token = 0
        self._is_broken = False
        self._wanted: set[int] = set()  # tokens that may still be asked about
        self._exit_codes: dict[int, int] = {}  # of some of those
        self._has_read = False
        self._received = bytearray()
        self.parent = os.getpid()
        self._socket, theirs = _socketpair()
        try:
            copy = None if is_small else self._copy(theirs)
            self._process = _spawn(theirs.fileno(), _reading_end_of_lifeline()) if copy is None else copy
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
        spares = 0 if is_small else min(_MOST_SPARES, len(os.sched_getaffinity(0)))
        self._send((list(sys.path), preload, spares))
        self._preloaded = frozenset(preload)
        self._copied = None if copy is None else frozenset(sys.modules)  # what it has besides
        self._born_bytes = 0 if copy is None else resident_bytes(os.getpid())  # of each worker of a copy
        self._runs = 0  # that have taken it

    def fork(
        self,
        descriptors: tuple[int, int, int, int],
        threads: int,
        *,
        scratch: str | None = None,
        cage: tuple[str, str] | None = None,
    ) -> int:
        """Have a worker forked with these descriptors (channel, cell, stdout, stderr); a token to ask for it by.

        It makes the directory ``scratch`` for its temporary files, and puts itself into the ``cage``.
        """
        environment = dict(os.environ)
        for name in THREAD_VARIABLES:
            environment.setdefault(name, str(threads))
        surroundings = {
            "path": list(sys.path),
            "argv": list(sys.argv) if hasattr(sys, "argv") else [""],
            "environment": environment,
            "directory": _working_directory(),
            "scratch": scratch,
            "cage": cage,
        }
        with self._lock:
            # Unread, they would fill the socket, and the nursery would wait for us.
            while self._read_exits(0.0) and self._has_read:
                pass
            self._next_token += 1
            self._wanted.add(self._next_token)
            self._send((self._next_token, surroundings), descriptors)
            return self._next_token

    def kill(self, token: int) -> None:
        """Kill a worker that has not told its process number yet, with all that it started."""
        with self._lock, contextlib.suppress(SiteError):
            self._send((token, None))

    def forget(self, token: int) -> None:
        """Nobody will ask how that worker ended."""
        with self._lock:
            self._wanted.discard(token)
            self._exit_codes.pop(token, None)

    def exit_code(self, token: int, wait_seconds: float) -> int | None:
        """How a worker ended (minus the signal, if one killed it); None if that does not become known in time."""
        deadline = time.monotonic() + wait_seconds
        with self._lock:
            while token not in self._exit_codes:
                left = deadline - time.monotonic()
                if left <= 0 or not self._read_exits(left):
                    return None
            self._wanted.discard(token)
            return self._exit_codes.pop(token)

    def release(self) -> None:
        """A run that has taken it is over."""
        with _nursery_lock:
            self._runs -= 1

    def suits(self, preload: tuple[str, ...] | None, *, is_small: bool) -> bool:
        """Whether it has imported what is wanted, and little else where it shall be small; None: whatever it has."""
        if preload is None:
            return True
        wanted = frozenset(preload) - _LIGHT
        if self._copied is None:
            return self._preloaded - _LIGHT == wanted
        return not is_small and wanted <= self._preloaded | self._copied

    def is_too_large(self, worker_bytes: int | None) -> bool:
        """Whether it is a copy of so much that it leaves little to workers that may each hold so many bytes."""
        return worker_bytes is not None and self._born_bytes > worker_bytes * _MOST_BORN_PART

    @property
    def is_alive(self) -> bool:
        """Whether it can fork, and is this process's own."""
        if self.parent != os.getpid() or self._is_broken:
            return False
        try:
            return os.waitpid(self._process, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def open_end(self) -> int:
        """A descriptor that can be read once it has ended, for whoever opens it to close; -1 where there is no such."""
        try:
            return os.pidfd_open(self._process)
        except (OSError, AttributeError):  # of an old kernel or Python; or it has ended, which is noticed elsewhere
            return -1

    def kill_itself(self) -> None:
        """End it at once."""
        if self.parent == os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def close(self) -> None:
        """Let it go; the workers that it forked stay."""
        if self.parent == os.getpid():
            self._socket.close()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._process, 0)

    def _copy(self, theirs: _socket.socket) -> int | None:
        """As a copy of this process, which has imported much of what is needed; None where it cannot be."""
        from aliquot.workers.copied import copy_this_process, thread_setters

        lifeline = os.dup(_reading_end_of_lifeline())  # a forked process closes the other: see below

        def live() -> None:
            self._socket.close()
            serve(theirs.detach(), lifeline, thread_setters)

        try:
            own = {lifeline, theirs.fileno(), self._socket.fileno(), *(_lifeline or ())}
            return copy_this_process(live, own)
        finally:
            os.close(lifeline)

    def _send(self, request: Any, descriptors: tuple[int, ...] = ()) -> None:
        try:
            send(self._socket, request, descriptors)
        except OSError as error:
            self._is_broken = True
            raise SiteError(
                "the process that starts workers has ended: was it killed? Run again, and a new one is started"
            ) from error
        except BaseException:
            # Interrupted amid a request, which the nursery would go on reading: another one is started.
            self._is_broken = True
            raise

    def _read_exits(self, wait_seconds: float) -> bool:
        """Read what the nursery told; False if it is gone."""
        self._has_read = False
        try:
            poll = select.poll()
            poll.register(self._socket.fileno(), select.POLLIN)
            if not poll.poll(wait_seconds * 1000):
                return True
            content = self._socket.recv(4096)
        except (OSError, ValueError):
            return False  # it was killed, or replaced by another
        self._received += content
        whole = len(self._received) // _EXIT.size * _EXIT.size
        for token, exit_code in _EXIT.iter_unpack(bytes(self._received[:whole])):
            if token in self._wanted:
                self._exit_codes[token] = exit_code
        del self._received[:whole]
        self._has_read = bool(content)
        return self._has_read


_nursery: Nursery | None = None
# Whether this process is about to end, and needs none any more.
is_leaving = False
_nursery_lock = threading.Lock()
# Both ends of a pipe on which nothing is written: see lifeline.py. One for each process, as long as it lives.
_lifeline: tuple[int, int] | None = None


def _reading_end_of_lifeline() -> int:
    global _lifeline  # noqa: PLW0603  # one for each process
    if _lifeline is None:
        _lifeline = os.pipe()
    return _lifeline[0]


def start_nursery(function: Any, libraries: tuple[str, ...] = (), *, is_small: bool = False) -> None:
    """Start it before it is needed, with what the workers will need to unpickle a function and to read its units."""
    if not workers.inside_worker:
        preload = libraries if _is_importable(function) else ("cloudpickle", *libraries)
        the_nursery(preload, is_small=is_small)


def has_copy() -> bool:
    """Whether there is a nursery already, and it is a copy of this process: with all that was imported here."""
    return _nursery is not None and _nursery._copied is not None and _nursery.is_alive


def take_nursery(worker_bytes: int | None = None) -> Nursery:
    """The nursery of this process, for a run, which will release it, and in which a worker may hold so many bytes."""
    with _nursery_lock:
        nursery = _the_nursery(None, is_small=True)
        if nursery.is_too_large(worker_bytes):
            nursery = _the_nursery(tuple(nursery._preloaded), is_small=True)
        nursery._runs += 1
        return nursery


def the_nursery(preload: tuple[str, ...] | None = None, *, is_small: bool = True) -> Nursery:
    """The nursery of this process, started if there is none, or none that has imported just this and can be replaced.

    What a nursery has imported, all its workers hold: a run that does not need it would have less memory for its steps.
    Where memory is plenty, it need not be small: it may be a copy of this process.
    """
    with _nursery_lock:
        return _the_nursery(preload, is_small=is_small)


def _the_nursery(preload: tuple[str, ...] | None, *, is_small: bool) -> Nursery:
    global _nursery  # noqa: PLW0603  # one for each process
    if _nursery is None:
        atexit.register(_close_nursery)
    elif _nursery.is_alive:
        if _nursery.suits(preload, is_small=is_small) or _nursery._runs:
            return _nursery
        _nursery.kill_itself()  # it may still be importing
        _nursery.close()
    else:
        _nursery.close()
    _nursery = Nursery(preload or (), is_small=is_small)
    return _nursery


def _is_importable(function: Any) -> bool:
    """Whether a worker can import it: a plain function at the top of a module that is not the user's script."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    return isinstance(module, str) and module not in ("__main__", "__mp_main__") and "<" not in name


def _close_nursery() -> None:
    global is_leaving  # noqa: PLW0603  # once for each process
    is_leaving = True
    if _nursery is not None:
        # It may still be importing, and nobody waits for its workers any more.
        _nursery.kill_itself()
        with contextlib.suppress(KeyboardInterrupt):  # it ends anyway, and so do we
            _nursery.close()


def _renew_after_fork() -> None:
    global _nursery, _nursery_lock, _lifeline  # noqa: PLW0603
    _nursery_lock = threading.Lock()
    if _nursery is not None:
        _nursery._socket.close()
        _nursery = None
    if _lifeline is not None:
        # It is the parent's: held open here, it would keep the parent's workers alive.
        for end in _lifeline:
            os.close(end)
        _lifeline = None


os.register_at_fork(after_in_child=_renew_after_fork)


def _spawn(requests: int, lifeline: int) -> int:
    if not sys.executable:
        raise SiteError("workers cannot be started: Python does not know its own program (sys.executable is empty)")
    home = os.path.abspath(__file__)
    for _ in __name__.split("."):
        home = os.path.dirname(home)
    code = f"import sys; sys.path.append({home!r}); from aliquot.workers.nursery_main import main; main()"
    with _above(LIFELINE, requests, lifeline) as (high_requests, high_lifeline):
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, high_requests, REQUESTS),
            (os.POSIX_SPAWN_DUP2, high_lifeline, LIFELINE),
        ]
        arguments = [sys.executable, *_interpreter_flags(), "-c", code]
        try:
            # A group of its own: Ctrl-C in a terminal is for the parent alone.
            return os.posix_spawn(sys.executable, arguments, os.environ, file_actions=actions, setpgroup=0)
        except OSError as error:
            raise SiteError(f"workers cannot be started: {sys.executable}: {error.strerror}") from error


@contextlib.contextmanager
def _above(limit: int, *descriptors: int) -> Iterator[list[int]]:
    """Copies of descriptors that are above a number, so that none is overwritten while they are put in place."""
    import fcntl

    copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, limit + 1) for descriptor in descriptors]
    try:
        yield copies
    finally:
        for copy in copies:
            os.close(copy)


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None  # it was deleted


def _interpreter_flags() -> list[str]:
    """What the parent was started with, as far as it changes how code runs."""
    # Not from the working directory: a pickle.py there is not Python's.
    flags = ["-P", *(f"-W{option}" for option in sys.warnoptions)]
    if sys.flags.isolated:
        flags.append("-I")
    if sys.flags.ignore_environment:
        flags.append("-E")
    if sys.flags.no_user_site:
        flags.append("-s")
    if sys.flags.optimize:
        flags.append("-" + "O" * sys.flags.optimize)
    if sys.flags.dont_write_bytecode:
        flags.append("-B")
    if sys.flags.utf8_mode:
        flags.append("-Xutf8")
    return flags


def _socketpair() -> tuple[_socket.socket, _socket.socket]:
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
