"""A nursery may be a copy of the user's process, where that is plain enough to be copied.

A copy has all libraries that the user has imported, which may take half a second to import again. But it also has a
copy of every lock, and no thread that would ever release one; of every open file, with a position that all copies
share; and of whatever the user's own modules hold. So a process is copied only if it has one thread and no files of its
own, and the copy lets go of the user's modules: workers import them anew, as they do from any other nursery.
"""

from __future__ import annotations

import gc
import os
import stat
import sys
import threading

from aliquot.measuring.trees import resident_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn
else:
    import _signal as signal  # without enum, which takes milliseconds to import

# What is held here is held by each worker too: of more than this, a new process is the better beginning.
_MOST_RESIDENT_BYTES = 256 << 20
# It takes its locks before a fork and begins anew after it, as its authors provided for.
_HARMLESS_THREADS = {"jemalloc_bg_thd"}
# Python's own compiled modules may be elsewhere than the others.
_LIBRARY_FOLDERS = ("/site-packages/", "/dist-packages/", "/lib-dynload/")
_GO = b"g"
# In a thread's /proc/.../stat, the place of its flags after its name, and the one that it is about to be gone.
_FLAGS, _PF_EXITING = 6, 0x4

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

# What the copy has put something else in place of is kept alive: it is the user's, and not to be cleaned up here.
_kept: list[Any] = []
# The user's modules that were let go.
_let_go: dict[str, ModuleType] = {}


def copy_this_process(live: Callable[[], None], own_descriptors: set[int]) -> int | None:
    """Fork a process that does nothing but ``live``, in a group of its own; None where a copy could not be trusted.

    ``own_descriptors`` are those that ``live`` knows what to do with.
    """
    if not _is_plain() or not _opened_here() <= own_descriptors:
        return None
    modules = _own_modules()
    # Some that are compiled cannot be loaded twice; if kept, they would hold on to modules that were let go.
    if any((_path_of(module) or "").endswith(".so") for module in modules.values()):
        return None
    _flush_output()
    ready, go = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    has_collector = gc.isenabled()
    try:
        # Nothing of the user's may run in the copy before it has become plain: no handler of a signal, and nothing that
        # cleans up after garbage.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        gc.disable()
        process = _fork()
        if process == 0:
            _begin(live, modules, ready, go, mask)
        # Threads that libraries stop for a fork are gone now; one that still runs may have held a lock.
        if process is None or _other_threads() <= _HARMLESS_THREADS:
            if process is not None:
                os.write(go, _GO)
            return process
        _throw_away(process)
        return None
    finally:
        os.close(ready)
        os.close(go)
        if has_collector:
            gc.enable()
        # At last: a signal that has come may raise here.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def has_let_go() -> bool:
    """Whether this is a copy, or a worker of one, in which modules of the user's are to be imported anew."""
    return bool(_let_go)


def bring_modules_back() -> None:
    """Have the user's modules as the user's process had them.

    Some cannot be imported twice: they register something with a library, which still has it from the first time.
    """
    sys.modules.update(_let_go)


def thread_setters() -> list[Callable[[int], Any]]:
    """How the libraries that are loaded are told how many threads to use; they have been told 1.

    They have read their environment long ago. To tell them starts threads in some, so it is best done once for all.
    """
    if "numpy" not in sys.modules:
        return []
    import ctypes

    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if ".so" in line}
    setters = []
    for path in paths:
        for name, functions in _THREAD_FUNCTIONS.items():
            if name not in os.path.basename(path):
                continue
            try:
                library = ctypes.CDLL(path)
            except OSError:
                continue  # its file was replaced while it is in use
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
    return 0 < resident_bytes(os.getpid()) <= _MOST_RESIDENT_BYTES  # 0: there is no /proc


def _opened_here() -> set[int]:
    """The descriptors that this process has opened: those it was started with are inherited by all that it starts.

    So are files that a library in C has opened, as HDF5 does: what is neither a pipe nor a terminal was opened here.
    """
    opened = set()
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            mode = os.fstat(descriptor).st_mode
            is_passed_on = os.get_inheritable(descriptor)
        except OSError:
            continue  # the one that the directory was read by
        if not is_passed_on or (descriptor > 2 and not stat.S_ISFIFO(mode) and not stat.S_ISCHR(mode)):
            opened.add(descriptor)
    return opened


def _other_threads() -> set[str]:
    """What the kernel calls the threads of this process but for this one."""
    own, names = str(threading.get_native_id()), set()
    for thread in os.listdir("/proc/self/task"):
        if thread == own:
            continue
        try:
            with open(f"/proc/self/task/{thread}/stat", "rb", buffering=0) as stat_file:
                head, _, tail = stat_file.read().rpartition(b")")
        except OSError:
            continue  # it has just ended; but it may have run when the process was copied
        # One that a library has waited for is seen until the kernel has buried it.
        if not int(tail.split()[_FLAGS]) & _PF_EXITING:
            names.add(os.fsdecode(head.partition(b"(")[2]))
    return names


def _flush_output() -> None:
    """What is not written yet would be in the copy too."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()  # type: ignore[union-attr]
        except Exception:
            pass  # closed, not there, or made by the user


def _throw_away(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    try:
        os.waitpid(process, 0)
    except ChildProcessError:
        pass  # a user who ignores the ends of children


def _fork() -> int | None:
    try:
        if sys.version_info < (3, 12):
            return os.fork()
        import warnings

        with warnings.catch_warnings():
            # Python warns of threads; a copy of a process that has some is thrown away.
            warnings.simplefilter("ignore", DeprecationWarning)
            return os.fork()
    except (OSError, RuntimeError):
        return None  # the system refuses, or Python, which is about to end


def _begin(live: Callable[[], None], modules: dict[str, ModuleType], ready: int, go: int, mask: set[Any]) -> NoReturn:
    """The life of the copy, which never returns into the user's code."""
    try:
        os.close(go)
        if os.read(ready, 1) == _GO:
            os.close(ready)
            os.setpgid(0, 0)
            _forget_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # However deep the user's call was, workers have as much room above it as they would from the ground.
            sys.setrecursionlimit(sys.getrecursionlimit() + _depth())
            _kept.extend((sys.stdin, sys.stdout, sys.stderr))
            _forget_input()
            _let_go_of(modules)
            from contextvars import Context

            Context().run(live)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            _kept.append(handler)
            signal.signal(number, signal.SIG_IGN)  # one that was for the user's group, of which this was, is dropped
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)  # as Python begins: it raises instead


def _forget_input() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    if nothing != 0:
        os.close(nothing)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # as long as the process lives


def _let_go_of(modules: dict[str, ModuleType]) -> None:
    _let_go.update(modules)
    for name in modules:
        sys.modules.pop(name, None)
    _kept.append(sys.modules.get("__main__"))
    sys.modules["__main__"] = type(sys)("__main__")


def _own_modules() -> dict[str, ModuleType]:
    """What is neither Python's nor a library's is the user's own, and so is what it holds by now."""
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in ("aliquot", "__main__") and not is_from_library(module)
    }


def is_from_library(module: ModuleType) -> bool:
    """Whether a module is Python's, or an installed one."""
    path = _path_of(module)
    if path is None:
        return True  # it is part of Python, or was made by a library
    python = os.path.dirname(os.__file__) + "/"
    return path.startswith(python) or any(part in path for part in _LIBRARY_FOLDERS)


def _path_of(module: ModuleType) -> str | None:
    """Where it is, as far as it tells: anything may be among the modules."""
    try:
        # Without its own __getattr__, which may import what was put off, or raise.
        attributes = object.__getattribute__(module, "__dict__")
        path = attributes.get("__file__") or next(iter(attributes.get("__path__", ())), None)
    except Exception:
        return None
    return path if isinstance(path, str) else None
