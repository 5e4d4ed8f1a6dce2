"""Lists of units of which one is bad; a good unit gives its number.

In a module of its own, as the workers of every library must be able to import it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

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
