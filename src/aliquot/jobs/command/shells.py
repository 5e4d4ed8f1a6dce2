"""Starting a command in a shell, and ending it with all that it has started.

Commands stay in the process group of the worker that starts them: what kills a worker's group kills its commands.
"""

from __future__ import annotations

import errno
import functools
import os
import shlex
import signal
import sys
from typing import NamedTuple

from aliquot.jobs.command.error import NoProcessError

_SH = "/bin/sh"
# What Python ignores, and programs expect to die of.
_RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
_BROKEN_PIPE_STATUS = 128 + signal.SIGPIPE
# What bash makes of "a\\tb" and {a,b} is to be the same whether a command has a pipe or not.
_LIKE_SH = "shopt -s xpg_echo; set +o braceexpand"
_PEAK_BYTES = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss


# The system has too many processes or open files.
_TOO_MANY = frozenset((errno.EAGAIN, errno.EMFILE, errno.ENFILE))


class Ended(NamedTuple):
    """How a process ended, and what the largest held of it and those that it waited for, not all of them together.

    Of a small one, that is what the process held that has started it: Linux counts this for its child.
    """

    exit_code: int
    peak_bytes: int


class Shell(NamedTuple):
    """A shell, and whether it tells of every program of a pipe that failed, or only of the last one."""

    path: str
    has_pipefail: bool


@functools.cache
def find_shell(*, for_pipes: bool) -> Shell:
    """The system's sh; for a command with pipes rather bash, where only bash knows `pipefail`.

    Without it, `bwa ... | samtools ...` succeeds when bwa is killed half-way, and its output looks complete.
    """
    if for_pipes:
        import shutil

        for path in (_SH, shutil.which("bash")):
            if path is not None and _knows_pipefail(path):
                return Shell(path, has_pipefail=True)
    return Shell(_SH, has_pipefail=False)


def _knows_pipefail(path: str) -> bool:
    process = start_process([path, "-c", "set -o pipefail"], stdout="/dev/null", stderr="/dev/null")
    return os.waitpid(process, 0)[1] == 0


def write_script(command: str, *, shell: Shell, directory: str | None, is_simple: bool) -> str:
    """What the shell is given: the command, in another directory if told."""
    if is_simple:
        command = f"exec {command}"  # one process less
    if shell.has_pipefail:
        command = f"set -o pipefail\n{command}"
    if shell.path != _SH:
        command = f"{_LIKE_SH}\n{command}"
    return command if directory is None else f"cd -- {shlex.quote(directory)} || exit\n{command}"


def start_process(arguments: list[str], *, stdout: str | None, stderr: str) -> int:
    """Start a program with nothing to read; its number. None leaves standard output where ours goes.

    By posix_spawn: through `subprocess` it takes half a millisecond longer, and a step may be as short as that.
    """
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666),
    ]
    if stdout is not None:
        how = os.O_APPEND if stdout == stderr else os.O_TRUNC
        files.append((os.POSIX_SPAWN_OPEN, 1, stdout, os.O_WRONLY | os.O_CREAT | how, 0o666))
    try:
        return os.posix_spawn(
            arguments[0], arguments, os.environb, file_actions=files, setsigdef=_RESTORED_SIGNALS, setsigmask=()
        )
    except OSError as error:
        if error.errno not in _TOO_MANY:
            raise
        raise no_process_error(os.strerror(error.errno)) from error


def no_process_error(reason: str) -> NoProcessError:
    """With what to do about it."""
    return NoProcessError(
        f"no process can be started: {reason}. There may be too many of this user's, or too many open files: see "
        "'ulimit -u' and 'ulimit -n'. Later, the same again goes on from here"
    )


def is_success(exit_code: int, shell: Shell, *, has_conditions: bool) -> bool:
    """Whether a command ended well. With `pipefail`, also when a program wrote on to one that had read enough.

    But not where something else in the command depends on that: it may have been left out.
    """
    return exit_code == 0 or (shell.has_pipefail and exit_code == _BROKEN_PIPE_STATUS and not has_conditions)


def signal_name(number: int) -> str:
    """9 -> 'SIGKILL'."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def reap(process: int, options: int = 0) -> Ended | None:
    """Wait for a process that was started here; None if it goes on, and the options say not to wait for that."""
    found, status, usage = os.wait4(process, options)
    return Ended(os.waitstatus_to_exitcode(status), usage.ru_maxrss * _PEAK_BYTES) if found else None


def kill_tree(process: int) -> Ended:
    """Kill a process that was started here and all that it has started, and wait for it.

    What has left its parents, as a daemon does, is not found; it stays in the worker's process group.
    """
    stopped = {process}
    _send(process, signal.SIGSTOP)  # what is stopped starts nothing more
    while new := _children_of(stopped) - stopped:
        for child in new:
            _send(child, signal.SIGSTOP)
        stopped |= new
    for member in stopped:
        _send(member, signal.SIGKILL)
    try:
        ended = reap(process)
    except ChildProcessError:
        ended = None  # somebody else has waited for it
    return ended or Ended(-signal.SIGKILL, 0)


def _send(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except OSError:
        pass  # it has just ended


def _children_of(parents: set[int]) -> set[int]:
    """By /proc, as far as it is there."""
    found: set[int] = set()
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if not name.isdecimal():
            continue
        try:
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # it has ended
        try:
            stat = os.read(descriptor, 512)
        except OSError:
            continue
        finally:
            os.close(descriptor)
        # A name in parentheses may hold anything, also parentheses; what follows it does not.
        if int(stat[stat.rfind(b")") + 1 :].split(None, 2)[1]) in parents:
            found.add(int(name))
    return found
