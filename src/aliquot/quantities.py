"""Numbers as people read and write them."""

from __future__ import annotations

import operator
from typing import Any

from aliquot.errors import UsageError


def format_bytes(byte_count: float) -> str:
    """1234567 -> '1.2 MB'."""
    if byte_count < 1000:
        return f"{byte_count:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        byte_count /= 1000
        if byte_count < 999.95:
            return f"{byte_count:.1f} {unit}"
    return f"{byte_count / 1000:.1f} PB"


def format_seconds(seconds: float) -> str:
    """0.00123 -> '1.2 ms'; 83 -> '1 min 23 s'."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {whole_seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def format_count(count: int) -> str:
    """1234567 -> '1,234,567'."""
    return f"{count:,}"


def format_amount(amount: float) -> str:
    """0.0213 -> '0.021'; 12345.6 -> '12,346'."""
    return f"{amount:.2g}" if amount < 10 else format_count(round(amount))


def number_of(count: int, noun: str) -> str:
    """1 -> '1 step', 1234 -> '1,234 steps'."""
    return f"{format_count(count)} {noun}{'' if count == 1 else 's'}"


def time_left(left_units: int, units_a_second: float, unreported_seconds: float) -> float:
    """How long units will take of which some were done already in a time that was not reported on.

    What takes longer than expected is expected to take as much longer again.
    """
    return abs(left_units / units_a_second - unreported_seconds)


def as_count(number: Any, name: str, rule: str) -> int:
    """A whole number of at least one, of whatever type; refused with a rule where it is not."""
    try:
        count = operator.index(number)
    except TypeError:
        count = 0
    if count < 1:
        raise UsageError(f"{name}={number!r}: {rule}")
    return count


_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(written: float | str) -> int:
    """'8 GB' -> 8000000000, '512MiB' -> 536870912; a number is bytes already."""
    if not isinstance(written, str):
        try:
            return int(written)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"{written!r} is not an amount of memory") from None
    text = written.strip().lower()
    number = text.rstrip("bkmgti ")
    unit = text[len(number) :].strip().removesuffix("b")
    try:
        return round(float(number) * _FACTORS[unit])
    except (ValueError, KeyError, OverflowError):
        raise UsageError(
            f"{written!r} is not an amount of memory: write bytes, or for example '8GB' or '512MiB'"
        ) from None
