"""A nursery may be a copy of the user's process, where that is plain enough to be copied.

A copy has all libraries that the user has imported, which may take half a second to import again. But it also has a
copy of every lock, and no thread that would ever release one; of every open file, with a position that all copies
share; and of whatever the user's own modules hold. So a process is copied only if it has one thread and no files of its
own, and the copy lets go of the user's modules: workers import them anew, as they do from any other nursery.
"""

from __future__ import annotations

import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn
else:
    import _signal as signal  # without enum, which takes milliseconds to import

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# What is held here is held by each worker too: of more than this, a new process is the better beginning.
_MOST_RESIDENT_BYTES = 384 << 20
# It takes its locks before a fork and begins anew after it, as its authors provided for.
_HARMLESS_THREADS = {"jemalloc_bg_thd"}
_GO = b"g"

# By what a library's file is called, the functions that say how many threads it may use.
_THREAD_FUNCTIONS = {
    "openblas": (
        "scipy_openblas_set_num_threads64_",
        "scipy_openblas_set_num_threads",
        "openblas_set_num_threads64_",
        "openblas_set_num_threads",
    ),
    "libgomp": ("omp_set_num_threads",),
    "libomp": ("omp_set_num_threads",),
    "libiomp": ("omp_set_num_threads",),
    "libmkl_rt": ("MKL_Set_Num_Threads",),
    "libblis": ("bli_thread_set_num_threads",),
}

# Modules that were let go are kept alive: what they hold is not to be cleaned up in a copy.
_let_go: list[ModuleType] = []


def copy_this_process(live: Callable[[], None], own_descriptors: set[int]) -> int | None:
    """Fork a process that does nothing but ``live``, in a group of its own; None where a copy could not be trusted.

    ``own_descriptors`` are those that ``live`` knows what to do with.
    """
    if not _is_plain() or not _opened_here() <= own_descriptors:
        return None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()  # else the copy would have that text too
        except (AttributeError, OSError, ValueError):
            pass  # closed, or not there
    ready, go = os.pipe()
    # Nothing of the user's may run in the copy before it has become plain: no handler of a signal either.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = _fork()
        if process == 0:
            _begin(live, ready, go, mask)
        # Threads that libraries stop for a fork are gone now; one that still runs may have held a lock.
        if process is None or _other_threads() <= _HARMLESS_THREADS:
            if process is not None:
                os.write(go, _GO)
            return process
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(ready)
        os.close(go)


def thread_setters() -> list[Callable[[int], Any]]:
    """How the libraries that are loaded are told how many threads to use; they have been told 1.

    They have read their environment long ago. To tell them starts threads in some, so it is best done once for all.
    """
    if "numpy" not in sys.modules:
        return []
    import ctypes

    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if ".so" in line}
    setters = []
    for path in paths:
        for name, functions in _THREAD_FUNCTIONS.items():
            if name not in os.path.basename(path):
                continue
            library = ctypes.CDLL(path)
            setters += [getattr(library, function) for function in functions if hasattr(library, function)]
    for setter in setters:
        setter(1)
    return setters


def _is_plain() -> bool:
    """Whether nothing is under way here that a copy would find half done."""
    if sys.platform != "linux" or not hasattr(os, "__file__") or threading.active_count() > 1:
        return False
    # Amid the handling of an exception, whatever is raised in a worker would seem to come from that.
    if sys.exc_info()[0] is not None or sys.gettrace() is not None or sys.getprofile() is not None:
        return False
    try:
        with open("/proc/self/statm", "rb", buffering=0) as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES <= _MOST_RESIDENT_BYTES
    except OSError:
        return False


def _opened_here() -> set[int]:
    """The descriptors that this process has opened: those it was started with are inherited by all that it starts."""
    opened = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.get_inheritable(int(name)):
                opened.add(int(name))
        except OSError:
            pass  # the one that the directory was read by
    return opened


def _other_threads() -> set[str]:
    """What the kernel calls the threads of this process but for this one."""
    own, names = str(threading.get_native_id()), set()
    for thread in os.listdir("/proc/self/task"):
        if thread != own:
            try:
                with open(f"/proc/self/task/{thread}/comm") as comm:
                    names.add(comm.read().strip())
            except OSError:
                pass  # it has just ended; but it may have run when the process was copied
    return names


def _fork() -> int | None:
    try:
        if sys.version_info < (3, 12):
            return os.fork()
        import warnings

        with warnings.catch_warnings():
            # Python warns of threads; a copy of a process that has some is thrown away.
            warnings.simplefilter("ignore", DeprecationWarning)
            return os.fork()
    except OSError:
        return None


def _begin(live: Callable[[], None], ready: int, go: int, mask: set[Any]) -> NoReturn:
    """The life of the copy, which never returns into the user's code."""
    try:
        os.close(go)
        if os.read(ready, 1) == _GO:
            os.close(ready)
            os.setpgid(0, 0)
            _forget_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _forget_input()
            _let_go_of_modules()
            from contextvars import Context

            Context().run(live)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    if callable(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _forget_input() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    if nothing != 0:
        os.close(nothing)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # as long as the process lives


def _let_go_of_modules() -> None:
    """What is neither Python's nor a library's is the user's own, and so is what it holds by now."""
    python = os.path.dirname(os.__file__) + "/"
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "aliquot" and not _is_from_library(module, python):
            _let_go.append(sys.modules.pop(name))
    sys.modules["__main__"] = type(sys)("__main__")


def _is_from_library(module: ModuleType, python: str) -> bool:
    if getattr(module, "__name__", "") in ("__main__", "__mp_main__"):
        return False
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if not isinstance(path, str):
        return True  # it is part of Python, or was made by a library
    is_compiled = path.endswith(".so")  # some cannot be loaded twice; and few hold anything of the user's
    return is_compiled or path.startswith(python) or "/site-packages/" in path or "/dist-packages/" in path
