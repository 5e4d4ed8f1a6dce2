"""Numbers as people read and write them."""

from __future__ import annotations


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
