"""What C does with memory that was freed: give it back to the kernel, or keep it for the next who asks.

The C library gives large pieces back at once, and every page of the next such piece must be made and cleared by the
kernel anew. A function that makes arrays of some MB can spend a quarter of its time on that.
"""

from __future__ import annotations

# Numbers of the GNU C library, for what Python has no names.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER_BYTES = (1 << 31) - 1
_USUAL_TRIM_BYTES, _USUAL_MMAPS = 128 << 10, 1 << 16


def keep_freed_memory() -> bool:
    """Keep it from now on; False where the C library has no such choice."""
    return _set(_NEVER_BYTES, 0)


def give_freed_memory_back() -> None:
    """As usual, from now on, and all that was kept so far."""
    _set(_USUAL_TRIM_BYTES, _USUAL_MMAPS)
    trim()


def trim() -> None:
    """Give back what is free now."""
    try:
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, ImportError, MemoryError):
        pass  # another C library, or no room even for this


def _set(trim_bytes: int, mmaps: int) -> bool:
    try:
        import ctypes

        library = ctypes.CDLL(None)
        return bool(library.mallopt(_M_TRIM_THRESHOLD, trim_bytes) and library.mallopt(_M_MMAP_MAX, mmaps))
    except (OSError, AttributeError, ImportError, MemoryError):
        return False
