"""What C does with memory that was freed: give it back to the kernel, or keep it for the next who asks.

The C library gives large pieces back at once, and every page of the next such piece must be made and cleared by the
kernel anew. A function that makes arrays of some MB can spend a quarter of its time on that.
"""

from __future__ import annotations

# Numbers of the GNU C library, for what Python has no names.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Larger pieces than this have pages of their own, whatever is kept: of a large array of zeros that is hardly filled,
# only what is touched takes memory. The library takes no larger number, and comes to it by itself in time.
_LARGE_BYTES = 32 << 20
_USUAL_TRIM_BYTES, _NEVER_BYTES = 2 * _LARGE_BYTES, (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Keep it from now on; False where the C library has no such choice."""
    return _set(_NEVER_BYTES)


def give_freed_memory_back() -> None:
    """Give back all that was kept so far, and from now on what is much at the end, as is usual."""
    _set(_USUAL_TRIM_BYTES)
    trim()


def trim() -> None:
    """Give back what is free now."""
    try:
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, ImportError, MemoryError):
        pass  # another C library, or no room even for this


def _set(trim_bytes: int) -> bool:
    try:
        import ctypes

        library = ctypes.CDLL(None)
        return bool(library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES) and library.mallopt(_M_TRIM_THRESHOLD, trim_bytes))
    except (OSError, AttributeError, ImportError, MemoryError):
        return False
