"""Who holds a run directory, so that no two processes work in it.

The file ``holder`` is locked for as long as it is held; the system unlocks it when the process ends, however it does.
Where a file system has no locks, the file is put there by one and removed by it. Whether one that was left belongs to a
process that still runs is then decided by its number and the time it began, which only its own machine can tell.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import sys
import time
import weakref
from typing import Any, NamedTuple

from aliquot.journal.errors import JournalError, RunHeldError
from aliquot.journal.explaining import explain_os_error
from aliquot.journal.json_text import from_json, to_json

# Someone who looks whether it is held locks it for a moment; so does one who finds that it was removed meanwhile.
_PATIENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.01
# Without locks: how long others are waited for who want it at the same moment, and how their files end.
_TAKING_PATIENCE_SECONDS = 5.0
_WANTING = ".wanting"
_TOKEN_BYTES = 8


class Holder(NamedTuple):
    """A process that holds a run directory."""

    pid: int
    host: str
    # The boot and the space of process numbers that `pid` belongs to; empty where the system does not tell.
    boot: str
    pid_space: str
    # In clock ticks since the boot; None where the system does not tell.
    process_began_ticks: int | None
    since: str
    command: str
    token: str = ""  # tells two holds of one process apart
    has_lock: bool = True

    @classmethod
    def this_process(cls, command: str, *, has_lock: bool = True) -> Holder:
        """Describe this process."""
        return cls(
            pid=os.getpid(),
            host=os.uname().nodename,
            boot=boot_id(),
            pid_space=_pid_space(),
            process_began_ticks=_began_ticks(os.getpid()),
            since=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            # It may name files whose names are not text.
            command=command.encode(errors="backslashreplace").decode(),
            token=os.urandom(_TOKEN_BYTES).hex(),
            has_lock=has_lock,
        )

    def is_running(self) -> bool | None:
        """Whether that very process still runs; None where that cannot be known from here."""
        if self.host != os.uname().nodename:
            return None
        if self.boot != boot_id():
            return False
        if self.pid_space != _pid_space():
            return None
        if os.path.exists("/proc/self/stat"):
            began = _began_ticks(self.pid)
            return began is not None and self.process_began_ticks in (None, began)
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since} ({self.command})"


_FIELD_TYPES = (int, str, str, str, int | None, str, str, str, bool)


class _Found(NamedTuple):
    """What is in the file, and of whom that is, if it makes sense."""

    content: bytes
    holder: Holder | None

    @property
    def is_in_use(self) -> bool:
        """Whether somebody has it who runs, or of whom that cannot be known."""
        return self.holder is not None and self.holder.is_running() is not False


class Hold:
    """Has the run directory from its making until `release`."""

    def __init__(self, path: str, command: str) -> None:
        self.path = path
        self._content = _describe(command, has_lock=True)
        # None where the file system has no locks.
        self._descriptor: int | None = None
        try:
            if not self._lock():
                self._content = _describe(command, has_lock=False)
                self._make()
        except OSError as error:
            raise explain_os_error(error, path) from error
        _held.add(self)

    def release(self) -> None:
        """Let others have it. May be called again."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            # Emptied, not removed: others may have it open and wait.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)
        elif self._content:
            self._remove_own()
        self._content = b""
        _held.discard(self)

    def close_in_child(self) -> None:
        """A forked process would keep the lock when this one is killed; and it must not let others in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._content = b""

    def _lock(self) -> bool:
        """Lock the file and write into it who has it; False where there are no locks."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                is_locked = _try_lock(descriptor)
                if is_locked is None:
                    return False
                # One that was removed before it was locked keeps nobody out.
                if is_locked and _is_the_file(descriptor, self.path):
                    self._refuse_holder_without_lock()
                    os.pwrite(descriptor, self._content, 0)
                    os.ftruncate(descriptor, len(self._content))
                    self._descriptor = descriptor
                    return True
            finally:
                if self._descriptor is None:
                    os.close(descriptor)
            if not is_locked:
                found = _read(self.path)
                if found.is_in_use or time.monotonic() > deadline:
                    raise _is_held(self.path, found)
            time.sleep(_PAUSE_SECONDS)

    def _refuse_holder_without_lock(self) -> None:
        """There may be one for whom the same file system has no locks, on another machine or by another mount."""
        found = _read(self.path)
        if found.holder is not None and not found.holder.has_lock and found.is_in_use:
            raise _is_held(self.path, found)

    def _make(self) -> None:
        """Without locks: put the file where there is none, or where the one who made it no longer runs.

        Whoever wants it says so in a file of its own, and only then looks who else does: of two, at least one sees the
        other, and steps back. Nobody's file is taken away who may still run, and no name is used twice: what somebody
        has left who was killed amid this can be removed by anybody at any time.
        """
        own = f"{self.path}.{os.urandom(_TOKEN_BYTES).hex()}"
        try:
            self._put_in_place(own, own + _WANTING)
        except BaseException:
            self._remove_own()
            raise
        finally:
            _remove(own)
            _remove(own + _WANTING)

    def _put_in_place(self, own: str, wanting: str) -> None:
        deadline = time.monotonic() + _TAKING_PATIENCE_SECONDS
        while True:
            with open(own, "wb") as file:
                file.write(self._content)
            os.rename(own, wanting)
            # In this order: who has become the holder between the two looks is seen by one of them.
            other = _find_other(self.path, wanting)
            found = _read(self.path)
            if found.is_in_use:
                raise _is_held(self.path, found)
            if other is None:
                os.replace(wanting, self.path)
                return
            if time.monotonic() > deadline:
                raise _is_held(*other)
            _remove(wanting)
            # Each for another time, so that one of them finds itself alone.
            time.sleep(_PAUSE_SECONDS * (1 + os.urandom(1)[0] / 16))

    def _remove_own(self) -> None:
        with contextlib.suppress(OSError):
            if _read(self.path).content == self._content:
                os.unlink(self.path)


def _describe(command: str, *, has_lock: bool) -> bytes:
    return to_json(Holder.this_process(command, has_lock=has_lock)._asdict()).encode()


# Those of this process.
_held: weakref.WeakSet[Hold] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for hold in list(_held):
        hold.close_in_child()
    _held.clear()


os.register_at_fork(after_in_child=_close_all_in_child)


def find_holder(path: str) -> Holder | None:
    """Who holds it now; None if nobody does. One on another machine is said to where nothing else can be known."""
    try:
        found = _read(path).holder
    except OSError:
        return None
    if found is None:
        return None
    is_running = found.is_running()
    if is_running is None:
        is_running = not found.has_lock or _is_locked(path)
    return found if is_running else None


def _try_lock(descriptor: int) -> bool | None:
    """Whether the lock was got; None where the file system has none."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_locked(path: str) -> bool:
    """Whether someone, anywhere, has it locked; True where that cannot be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read(path: str) -> _Found:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return _Found(b"", None)
    try:
        return _Found(content, _holder_from(from_json(content.decode())))
    except (ValueError, TypeError, RecursionError):
        return _Found(content, None)  # released, or being written


def _holder_from(said: Any) -> Holder:
    """Of another release it may say more."""
    if not isinstance(said, dict):
        raise TypeError
    holder = Holder(**{name: said[name] for name in Holder._fields if name in said})
    if not all(map(isinstance, holder, _FIELD_TYPES)):
        raise TypeError
    return holder


def _is_held(path: str, found: _Found) -> JournalError:
    holder = found.holder
    if holder is None:
        who, advice = "another process", f"Wait until it ends; 'fuser {path}' says which one it is"
    elif holder.is_running() is None:
        who = f"{holder}; whether it still runs cannot be known on {os.uname().nodename}"
        advice = f"Wait for it, or stop it there. If you know that it has ended, remove {path}"
    elif holder.is_running():
        who, advice = str(holder), f"Wait for it, or stop it with 'kill {holder.pid}'"
    elif holder.has_lock:
        who = f"{holder}, which has ended; but something that it started has not"
        advice = f"'fuser {path}' says what that is"
    else:
        who, advice = f"{holder}, which has just ended", "Start it again"
    beside = "Another run, with outputs of its own, can go on beside it in another --run-dir"
    return RunHeldError(f"the run is held by {who}", path=path, advice=f"{advice}. {beside}")


def is_of_one_who_wants(name: str) -> bool:
    """Whether a file in a run directory is one that somebody has left who was killed while it took the run."""
    token = name.removeprefix("holder.").removesuffix(_WANTING)
    return name.startswith("holder.") and len(token) == 2 * _TOKEN_BYTES and set(token) <= set("0123456789abcdef")


def _find_other(path: str, own: str) -> tuple[str, _Found] | None:
    """Somebody else who wants it without locks, and may still run; the files of those who do not are removed."""
    directory, name = os.path.split(path)
    for entry in os.listdir(directory):
        other = os.path.join(directory, entry)
        if not entry.startswith(f"{name}.") or not is_of_one_who_wants(entry) or other == own:
            continue
        found = _read(other)
        is_said = entry.endswith(_WANTING)
        if found.is_in_use and is_said:
            return other, found
        if not found.is_in_use and (is_said or found.content):  # else it may be about to be written
            _remove(other)
    return None


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _is_the_file(descriptor: int, path: str) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _began_ticks(pid: int) -> int | None:
    """When a process began, which with its number tells it from all others; None if it has ended or none is told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def boot_id() -> str:
    """What tells this run of the machine from those before it; nothing where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def this_command() -> str:
    """The command line of this process."""
    return " ".join(sys.argv) or "python"
