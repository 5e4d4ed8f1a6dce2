"""The nursery: a small process with one thread that has imported what a worker needs, and forks workers on request.

A worker starts in a few milliseconds this way, and is never forked from a process whose threads and locks would be
copied in whatever state they are. Where the user's process has none, the nursery may be a copy of it (copied.py).
"""

from __future__ import annotations

import _socket
import gc
import os
import select
import struct
import sys
from _pickle import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn, TypeAlias

    ThreadSetters: TypeAlias = list[Callable[[int], Any]]
else:
    import _signal as signal  # without enum, which takes milliseconds to import

_SIZE = struct.Struct("<I")
_DESCRIPTORS = struct.Struct("4i")
_EXIT = struct.Struct("<qi")

# Told instead of an exit code where the system refused to start a process.
CANNOT_FORK = 1000
# Libraries that start a thread for each core would start as many in each worker.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# So long a worker waits that was forked before anybody asked for it.
_SPARE_SECONDS = 2.0
# Requests between two looks at the workers: each may fork one, which takes some milliseconds at the most.
_MOST_ANSWERED = 8
# The descriptors that the nursery is started with.
REQUESTS, LIFELINE = 3, 4


def main() -> None:
    """Fork a worker for each request, and tell when one has ended, until the parent is gone."""
    serve(REQUESTS, LIFELINE)


def serve(requests_descriptor: int, lifeline: int, thread_setters: Callable[[], ThreadSetters] | None = None) -> None:
    """As `main`, for a process that has these descriptors, and maybe libraries that must be told about threads."""
    # What is imported stays: to look for garbage in it takes milliseconds.
    gc.disable()
    _occupy_standard_descriptors()
    requests = _socket.socket(fileno=requests_descriptor)
    request, _ = _receive(requests)
    if request is None:
        os._exit(0)
    path, preload, spares = request
    sys.path[:] = path
    # It forks, and so has one thread, whatever it imports; workers have an environment of their own.
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    # Imported once, for all workers.
    for module in ("aliquot.workers.main", "aliquot.workers.lifeline", *preload):
        try:
            __import__(module)
        except Exception:
            pass  # whoever needs it will say so
    gc.freeze()
    gc.enable()
    _Nursery(requests, lifeline, thread_setters() if thread_setters is not None else []).serve(spares)


class _Nursery:
    """Forks, watches and buries."""

    def __init__(self, requests: _socket.socket, lifeline: int, thread_setters: ThreadSetters) -> None:
        from aliquot.workers.watch import Watch

        self._requests = requests
        self._lifeline = lifeline
        self._thread_setters = thread_setters
        self._tokens: dict[int, int] = {}  # process -> what the parent calls it
        self._watch = Watch()
        self._ended: list[int] = []  # and still watched
        self._spares: list[tuple[int, _socket.socket]] = []  # workers that wait, and where each does

    def serve(self, spares: int) -> None:
        """Until nothing is asked, fork so many workers that wait for somebody to ask for them."""
        signal.signal(signal.SIGCHLD, self._tell_of_the_dead)
        poll = select.poll()
        poll.register(self._requests.fileno(), select.POLLIN)
        while True:
            self._bury()
            look_again_seconds = self._watch.look()
            has_time = len(self._spares) < spares
            if not poll.poll(0 if has_time else None if look_again_seconds is None else look_again_seconds * 1000):
                if has_time and not self._fork_spare():
                    spares = 0
                continue
            spares = 0
            # The next look may take longer than to fork a worker, and one for each is asked for at once; but nobody is
            # to go unwatched for long.
            for _ in range(_MOST_ANSWERED):
                self._answer(*_receive(self._requests))
                if not poll.poll(0):
                    break

    def _bury(self) -> None:
        while self._ended:
            self._watch.remove(self._ended.pop())

    def _answer(self, request: Any, descriptors: tuple[int, ...]) -> None:
        if request is None:
            os._exit(0)
        token, surroundings = request
        if surroundings is None:
            _kill([process for process, its_token in self._tokens.items() if its_token == token])
        else:
            self._start(token, surroundings, descriptors)

    def _start(self, token: int, surroundings: dict[str, Any], descriptors: tuple[int, ...]) -> None:
        # A worker that dies at once must be known by then.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self._bury()  # its number may be that of one that has ended
        process = self._take_spare(surroundings, descriptors) or _fork()
        if process == 0:
            self._live(lambda: _become_worker(descriptors, surroundings, self._thread_setters))
        if process is None:
            self._requests.sendall(_EXIT.pack(token, CANNOT_FORK))
        else:
            self._tokens[process] = token
            self._watch.add(process, os.dup(descriptors[1]), surroundings["scratch"])
            try:
                os.setpgid(process, process)  # here too: whoever of the two comes first
            except OSError:
                pass  # it has ended already
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for descriptor in descriptors:
            os.close(descriptor)

    def _fork_spare(self) -> bool:
        """Whether there was room for one."""
        try:
            ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        except OSError:
            return False
        process = _fork()
        if process == 0:
            ours.close()
            self._live(lambda: self._wait(theirs))
        theirs.close()
        if process is None:
            ours.close()
            return False
        self._spares.append((process, ours))
        return True

    def _wait(self, requests: _socket.socket) -> None:
        """In a spare one: become a worker, if somebody asks."""
        surroundings, descriptors = _wait_for_request(requests)
        requests.close()
        if surroundings is not None:
            _become_worker(descriptors, surroundings, self._thread_setters)

    def _take_spare(self, surroundings: dict[str, Any], descriptors: tuple[int, ...]) -> int | None:
        while self._spares:
            process, waiting = self._spares.pop()
            try:
                send(waiting, surroundings, descriptors)
            except OSError:
                continue  # somebody has killed it
            finally:
                waiting.close()
            return process
        return None

    def _live(self, work: Callable[[], None]) -> NoReturn:
        """In a process that was just forked: be nobody's but its own, work, and end."""
        status = 1
        try:
            self._requests.close()
            self._watch.close()
            for _, waiting in self._spares:
                waiting.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            from aliquot.workers.lifeline import die_with_parent

            os.setpgid(0, 0)
            die_with_parent(self._lifeline)
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                # The parent waits for the end of the output, and not for all memory to be given back.
                os.closerange(1, 3)
                # Not the way out of the interpreter: nothing of the nursery's is to be cleaned up here.
                os._exit(status)

    def _tell_of_the_dead(self, *_: object) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            self._ended.append(process)
            try:
                self._requests.sendall(_EXIT.pack(self._tokens.pop(process, -1), os.waitstatus_to_exitcode(status)))
            except OSError:
                os._exit(0)  # the parent is gone


def _kill(processes: list[int]) -> None:
    for process in processes:
        try:
            os.killpg(process, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended by itself


def _occupy_standard_descriptors() -> None:
    """Where the parent has closed its own, descriptors that are received must not take their numbers."""
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(free)


def _fork() -> int | None:
    """None where the system refuses."""
    try:
        return os.fork()
    except OSError:
        return None


def _become_worker(descriptors: tuple[int, ...], surroundings: dict[str, Any], thread_setters: ThreadSetters) -> None:
    from aliquot import workers
    from aliquot.workers.cell import Cell
    from aliquot.workers.channel import Channel
    from aliquot.workers.main import Worker

    channel, cell, out, err = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    # Made anew: the nursery's own were made for whatever the parent prints to.
    sys.stdout = _open_output(1)
    sys.stderr = _open_output(2)
    sys.path[:] = surroundings["path"]
    sys.argv[:] = surroundings["argv"]
    os.environ.clear()
    os.environ.update(surroundings["environment"])
    _set_threads(thread_setters)
    _seed_random_numbers()
    if surroundings["scratch"] is not None:
        os.mkdir(surroundings["scratch"], 0o700)
        os.environ["TMPDIR"] = surroundings["scratch"]
    if surroundings["cage"] is not None:
        from aliquot.measuring.cages import Cage

        Cage(*surroundings["cage"]).add(0)
    if surroundings["directory"] is not None:
        os.chdir(surroundings["directory"])
    workers.inside_worker = True
    connection = Channel(_socket.socket(fileno=channel))
    Worker(connection, Cell(cell)).work()
    connection.close()


def _set_threads(setters: ThreadSetters) -> None:
    threads = os.environ[THREAD_VARIABLES[0]]
    if threads.isdecimal() and int(threads) > 1:  # the nursery has told them 1
        for setter in setters:
            setter(int(threads))


def _seed_random_numbers() -> None:
    """Else all workers would draw the same: a fork copies what the numbers are made of. Python sees to its own."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _open_output(descriptor: int) -> Any:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _wait_for_request(requests: _socket.socket) -> tuple[Any, tuple[int, ...]]:
    """None if nobody asks for this worker before long, or the nursery is gone."""
    poll = select.poll()
    poll.register(requests.fileno(), select.POLLIN)
    if not poll.poll(_SPARE_SECONDS * 1000):
        requests.shutdown(_socket.SHUT_RD)  # from now on it cannot be asked; if it just was, that is still read
    return _receive(requests)


def send(to: _socket.socket, request: Any, descriptors: tuple[int, ...] = ()) -> None:
    """What `_receive` understands."""
    content = dumps(request, protocol=5)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _DESCRIPTORS.pack(*descriptors))] if descriptors else []
    to.sendmsg([_SIZE.pack(len(content))], ancillary)
    to.sendall(content)


def _receive(requests: _socket.socket) -> tuple[Any, tuple[int, ...]]:
    """One request and its descriptors; None when the parent is gone."""
    try:
        head, ancillary, _, _ = requests.recvmsg(
            _SIZE.size, _socket.CMSG_SPACE(_DESCRIPTORS.size), _socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None, ()
    if not head:
        return None, ()
    descriptors: tuple[int, ...] = ()
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            descriptors = _DESCRIPTORS.unpack(data)
    (size,) = _SIZE.unpack(head)
    content = bytearray()
    while len(content) < size:
        try:
            piece = requests.recv(size - len(content))
        except ConnectionResetError:
            piece = b""
        if not piece:
            return None, ()
        content += piece
    return loads(content), descriptors


if __name__ == "__main__":
    main()
