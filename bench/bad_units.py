"""Lists of units of which one is bad; a good unit gives its number.

In a module of its own, as the workers of every library must be able to import it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.units import burn

_ENDLESS_SECONDS = 0.2e-3
_KILLER_SECONDS = 0.1
_ENDLESS_UNIT, _QUICK_ENDLESS_UNIT = 6_789, 678
_KILLER_UNIT = 13
_PIECE_BYTES = 16_000_000
_PAGE_BYTES = 4_096


@dataclass(frozen=True)
class Case:
    """A function for each number below ``count``; of the results, all can be had but those of bad units."""

    what: str
    function: Callable[[int], int]
    count: int
    bad: int = 1


def harmless(number: int) -> int:
    burn(_ENDLESS_SECONDS)
    return number


def endless(number: int) -> int:
    burn(_ENDLESS_SECONDS)
    if number == _ENDLESS_UNIT:
        _fill_memory()
    return number


def endless_quick(number: int) -> int:
    burn(_ENDLESS_SECONDS)
    if number == _QUICK_ENDLESS_UNIT:
        _fill_memory()
    return number


def exiting(number: int) -> int:
    if number == _KILLER_UNIT:
        os._exit(3)
    burn(_KILLER_SECONDS)
    return number


def killed(number: int) -> int:
    if number == _KILLER_UNIT:
        os.kill(os.getpid(), signal.SIGKILL)
    burn(_KILLER_SECONDS)
    return number


def cases(*, quick: bool) -> dict[str, Case]:
    """By name."""
    count, unit, function = (1_000, _QUICK_ENDLESS_UNIT, endless_quick) if quick else (10_000, _ENDLESS_UNIT, endless)
    return {
        "harmless": Case(f"{count:,} units of 0.2 ms, all of them good", harmless, count, bad=0),
        "endless": Case(f"{count:,} units of 0.2 ms, of which unit {unit:,} takes memory without end", function, count),
        "killer": Case(
            f"20 units of 0.1 s, of which unit {_KILLER_UNIT} ends its process with os._exit(3)", exiting, 20
        ),
        "killed": Case(f"20 units of 0.1 s, of which unit {_KILLER_UNIT} sends SIGKILL to its process", killed, 20),
    }


def _fill_memory() -> None:
    pieces = []
    while True:
        piece = bytearray(_PIECE_BYTES)
        # Memory that was never written to would not be there.
        piece[::_PAGE_BYTES] = b"x" * len(range(0, _PIECE_BYTES, _PAGE_BYTES))
        pieces.append(piece)


# A million units, of which seven are bad


def _raise(number: int) -> int:
    raise ValueError(f"nothing can be done with {number}")


def _crash(_: int) -> int:
    return len(ctypes.string_at(0))


def _leave(_: int) -> int:
    os._exit(3)


def _hang(number: int) -> int:
    time.sleep(3600)
    return number


def _take_all_memory(number: int) -> int:
    _fill_memory()
    return number


def _give_a_lock(_: int) -> Any:
    return threading.Lock()


class _Endless:
    def __repr__(self) -> str:
        return repr(self)


def _overflow_the_stack(_: int) -> int:
    """Recursion through C that Python was told to allow."""
    sys.setrecursionlimit(10**9)
    return len(repr(_Endless()))


BAD_OF_A_MILLION: dict[int, Callable[[int], Any]] = {
    1_000: _raise,
    123_456: _crash,
    250_000: _leave,
    499_999: _hang,
    600_001: _take_all_memory,
    777_777: _give_a_lock,
    999_999: _overflow_the_stack,
}
# Each process counts its calls in a place of its own in a file.
CALLS_PLACES = 1 << 16
_calls: memoryview | None = None


@dataclass(frozen=True)
class SevenBad:
    """Counts its calls, also those that do not come back."""

    unit_seconds: float
    calls_path: str

    def __call__(self, number: int) -> Any:
        """The number itself, if it is a good one."""
        global _calls  # noqa: PLW0603  # one for each process
        if _calls is None:
            with open(self.calls_path, "r+b") as file:
                _calls = memoryview(mmap.mmap(file.fileno(), CALLS_PLACES * 8)).cast("q")
        _calls[os.getpid() % CALLS_PLACES] += 1
        bad = BAD_OF_A_MILLION.get(number)
        if bad is not None:
            return bad(number)
        if self.unit_seconds:
            burn(self.unit_seconds)
        return number
