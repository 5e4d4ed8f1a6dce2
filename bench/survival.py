"""What a user's run comes to when one unit is bad: the results that the user holds in the end, and what the user saw.

One bad unit takes memory without end, the other ends its process. When the user's patience ends, a contender that has
given no result for half of the time is called hung. Others were only not over: compare with what they take for units
that are all good.

Each turn has 2 GB of memory in all, in a control group of its own where one may be made. Elsewhere each of its
processes has a limit of its own, with which a unit gets a MemoryError instead of being killed, and nothing is known of
the memory in all. A library that watches the memory of its machine, as Ray does, sees no limit of either kind.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from rich.table import Table

from bench.bad_units import Case, cases
from bench.measuring import Finding, console
from bench.survival_turn import CONTENDERS, HUNG, NOT_OVER, OURS, PATIENCE_SECONDS, QUICK_PATIENCE_SECONDS

TURN_MEMORY_BYTES = 2_000_000_000

_GROUPS = "/sys/fs/cgroup/memory"
_PACKAGES = {
    "joblib": "joblib",
    "joblib, generator_unordered": "joblib",
    "dask.distributed": "distributed",
    "ray": "ray",
}
# What each contender takes for good units, and whether the way to die matters: one look is enough.
_ONE_TURN = ("harmless", "killed")
# Before the clock starts, a library is imported; after it has stopped, a program comes to its end.
_AROUND_SECONDS = 30
# Some libraries have a process that removes files and semaphores when all others have gone.
_GRACE_SECONDS = 3
_MOST_CLEARING_SECONDS = 60
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Survival:
    """What one turn came to; the memory is None where no group counted it."""

    held: int
    seconds: float
    saw: str
    peak_bytes: int | None
    kernel_kills: int | None


def run(data: object, repeats: int, *, quick: bool) -> list[Finding]:
    if sys.platform != "linux":
        console.print("survival is left out: it needs Linux, to find all that a turn leaves behind")
        return []
    contenders = [name for name in CONTENDERS if _is_installed(name)]
    findings = []
    with _terminated_properly(), _adopting():
        for name, case in cases(quick=quick).items():
            turns = _take_turns(contenders, name, 1 if name in _ONE_TURN else repeats, quick=quick)
            _print(case, turns)
            held = {contender: statistics.median_low(turn.held for turn in taken) for contender, taken in turns.items()}
            beside = ", ".join(f"{contender} {held[contender]:,}" for contender in contenders if contender != OURS)
            findings.append(
                Finding.at_least(
                    f"survival: {name}, results of {case.count:,}", held[OURS], "units", case.count - case.bad, beside
                )
            )
    return findings


def _is_installed(contender: str) -> bool:
    package = _PACKAGES.get(contender)
    if package is None or find_spec(package):
        return True
    console.print(f"{contender} is left out: {package} is not installed")
    return False


def _take_turns(contenders: Sequence[str], case: str, repeats: int, *, quick: bool) -> dict[str, list[Survival]]:
    turns: dict[str, list[Survival]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name in contenders:
            turns[name].append(_in_fresh_process(name, case, quick=quick))
    return turns


def _in_fresh_process(contender: str, case: str, *, quick: bool) -> Survival:
    before = _children()
    patience_seconds = QUICK_PATIENCE_SECONDS if quick else PATIENCE_SECONDS
    with contextlib.ExitStack() as stack:
        with _undisturbed():
            directory = tempfile.mkdtemp(prefix="bench-")
            group = _make_group()
            stack.callback(_clear, group, before, directory)
        limit = ["--group", group] if group else ["--data-bytes", str(TURN_MEMORY_BYTES)]
        command = [sys.executable, "-m", "bench.survival_turn", contender, case, *limit]
        output = stack.enter_context(open(os.path.join(directory, "output"), "w+"))
        errors = stack.enter_context(open(os.path.join(directory, "errors"), "w+"))
        # Not pipes, whose end would come only with the last worker's.
        process = subprocess.Popen(
            [*command, *(["--quick"] if quick else [])],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=_environment(directory),
            start_new_session=True,
        )
        try:
            exit_code = process.wait(patience_seconds + _AROUND_SECONDS)
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        peak_bytes = _read_number(group, "memory.max_usage_in_bytes")
        kernel_kills = _read_number(group, "memory.oom_control", "oom_kill")
        for file in (output, errors):
            file.seek(0)
        report = _find_report(output.read())
        if report is None and exit_code == 0:
            raise RuntimeError(f"{contender} reported nothing of {case}")
        if report is None and exit_code is not None and exit_code > 0:
            raise RuntimeError(f"{contender} failed at {case} with exit code {exit_code}:\n{errors.read()[-4000:]}")
        if report is None:
            saw = f"{HUNG}, deaf to signals" if exit_code is None else f"the whole program died of signal {-exit_code}"
            report = {"held": 0, "seconds": float(patience_seconds), "saw": saw}
        elif exit_code is None:
            report["saw"] += ", and the program did not end"
        for ended in (HUNG, NOT_OVER):
            if report["saw"].startswith(ended):
                report["saw"] = f"{ended}, stopped after {patience_seconds} s{report['saw'].removeprefix(ended)}"
        return Survival(**report, peak_bytes=peak_bytes, kernel_kills=kernel_kills)


def _environment(directory: str) -> dict[str, str]:
    # With bytecode, as installed packages have it; without what an earlier turn has learned or left.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **inherited,
        "ALIQUOT_CACHE": os.path.join(directory, "learned"),
        "TMPDIR": directory,
        "RAY_TMPDIR": directory,
    }


def _find_report(output: str) -> dict[str, Any] | None:
    """Libraries may print as well, even after the report."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"held"'):
            report: dict[str, Any] = json.loads(line)
            return report
    return None


def _make_group() -> str | None:
    """A control group with the limit; None where none can be made."""
    try:
        group = tempfile.mkdtemp(prefix=f"aliquot-bench-{os.getpid()}-", dir=_GROUPS)
    except OSError:
        return None
    try:
        _write(group, "memory.limit_in_bytes")
    except OSError:
        os.rmdir(group)
        return None
    # Only where the kernel counts swap space as well.
    with contextlib.suppress(OSError):
        _write(group, "memory.memsw.limit_in_bytes")
    return group


def _write(group: str, name: str) -> None:
    with open(os.path.join(group, name), "r+") as file:
        file.write(str(TURN_MEMORY_BYTES))


def _read_number(group: str | None, name: str, key: str | None = None) -> int | None:
    if group is None:
        return None
    with open(os.path.join(group, name)) as file:
        lines = file.read().splitlines()
    return next((int(line.split()[-1]) for line in lines if key is None or line.split()[0] == key), None)


def _clear(group: str | None, before: set[int], directory: str) -> None:
    """Leave nothing behind of a turn."""
    with _undisturbed():
        try:
            _end_all(group, before)
            if group:
                _remove_group(group)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _remove_group(group: str) -> None:
    # A process that has just ended may count for a moment longer.
    for _ in range(100):
        try:
            os.rmdir(group)
        except OSError:
            time.sleep(0.05)
        else:
            return
    os.rmdir(group)


def _end_all(group: str | None, before: set[int]) -> None:
    """Wait for what the turn has left to end by itself, then kill it, until nothing is left."""
    began = time.monotonic()
    while True:
        children = _children() - before
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        left = (_children() - before) | _members(group)
        if not left:
            return
        waited_seconds = time.monotonic() - began
        if waited_seconds > _MOST_CLEARING_SECONDS:
            raise RuntimeError(f"processes {sorted(left)} of a turn cannot be killed")
        if waited_seconds > _GRACE_SECONDS:
            # The children of those become ours, to be found when we look again.
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def _members(group: str | None) -> set[int]:
    if group is None:
        return set()
    with open(os.path.join(group, "cgroup.procs")) as file:
        # 0 is a process that cannot be seen from here.
        return {int(line) for line in file} - {0}


def _children() -> set[int]:
    """The children of this process."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
                # The name in parentheses may hold anything.
                if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found.add(int(name))
    return found


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of processes that lose theirs, to find them all."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "this process cannot adopt those that its turns leave behind")
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let whoever wants this process to end wait a moment."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def _terminated_properly() -> Iterator[None]:
    """Let SIGTERM end this process as Ctrl-C does: not before all is cleared away."""

    def leave(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _print(case: Case, turns: dict[str, list[Survival]]) -> None:
    has_groups = all(turn.peak_bytes is not None for taken in turns.values() for turn in taken)
    limit = f"{TURN_MEMORY_BYTES / 1e9:g} GB for {'the whole turn' if has_groups else 'each process'}"
    table = Table(
        "contender", f"results of {case.count:,}", "seconds", "peak memory", "kernel kills", "runs", "what happened",
        title=f"{case.what}; {limit}", title_justify="left",
    )  # fmt: skip
    for name, taken in turns.items():
        held = [turn.held for turn in taken]
        peaks = [turn.peak_bytes for turn in taken if turn.peak_bytes is not None]
        kills = [turn.kernel_kills for turn in taken if turn.kernel_kills is not None]
        saw = Counter(turn.saw for turn in taken)
        table.add_row(
            name,
            f"{statistics.median_low(held):,}" + (f" ({min(held):,} to {max(held):,})" if len(set(held)) > 1 else ""),
            f"{statistics.median(turn.seconds for turn in taken):.1f}",
            f"{statistics.median(peaks) / 1e9:.2f} GB" if peaks else "not known",
            f"{statistics.median_low(kills)}" if kills else "not known",
            str(len(taken)),
            "; ".join(what if len(saw) == 1 else f"{count}x {what}" for what, count in saw.most_common()),
        )
    console.print(table)
