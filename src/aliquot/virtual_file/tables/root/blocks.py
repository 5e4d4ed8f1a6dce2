"""Bytes that ROOT has compressed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

_HEADER_BYTES = 9
_CHECKSUM_BYTES = 8
# What zstandard decompresses with cannot be used by two threads at once.
_of_thread = threading.local()


def decompressed(data: memoryview, plain_bytes: int) -> bytes | memoryview:
    """One block after the other, each with nine bytes that say how it was compressed."""
    if len(data) == plain_bytes:
        return data
    blocks = []
    at = 0
    while at < len(data):
        head = bytes(data[at : at + _HEADER_BYTES])
        size, block_bytes = int.from_bytes(head[3:6], "little"), int.from_bytes(head[6:9], "little")
        at += _HEADER_BYTES + size
        decompress = _decompressor(head[:2])
        try:
            block = decompress(data[at - size : at], block_bytes)
        except (MemoryError, ImportError, ValueError):
            raise
        except Exception as error:  # each library has one of its own
            raise ValueError(f"it cannot be decompressed: {error}") from error
        if len(block) != block_bytes:
            raise ValueError(f"{len(block)} bytes instead of {block_bytes}")
        if block_bytes == plain_bytes:
            return block  # mostly it is one; what may follow is not read by uproot either
        blocks.append(block)
    found = b"".join(blocks)
    if len(found) != plain_bytes:
        raise ValueError(f"{len(found)} bytes instead of {plain_bytes}")
    return found


@cache
def _decompressor(kind: bytes) -> Callable[[memoryview, int], bytes]:
    """By the name that a block has for it; where a library is there that is faster than uproot's, that one."""
    if kind == b"ZL":
        return _zlib()
    if kind == b"ZS":
        return _zstd()
    if kind == b"L4":
        return _lz4
    if kind == b"XZ":
        import uproot

        return uproot.LZMA(1).decompress  # type: ignore[no-any-return]  # it has no types
    raise ValueError(f"it was compressed by {kind!r}, which nobody knows")


def _zlib() -> Callable[[memoryview, int], bytes]:
    try:
        from isal.isal_zlib import decompress
    except ImportError:
        from zlib import decompress
    return lambda data, plain_bytes: decompress(data, bufsize=plain_bytes)


def _zstd() -> Callable[[memoryview, int], bytes]:
    try:
        import zstandard
    except ImportError:
        import uproot

        return uproot.ZSTD(1).decompress  # type: ignore[no-any-return]

    def decompress(data: memoryview, plain_bytes: int) -> bytes:
        # It makes as much room as the data say, which may be damaged; -1: they do not say.
        if zstandard.frame_content_size(data) not in (plain_bytes, -1):
            raise ValueError("it would not be as long as it should be")
        decompressor: Any = getattr(_of_thread, "decompressor", None)
        if decompressor is None:
            decompressor = _of_thread.decompressor = zstandard.ZstdDecompressor()
        return decompressor.decompress(data, max_output_size=plain_bytes)  # type: ignore[no-any-return]

    return decompress


def _lz4(data: memoryview, plain_bytes: int) -> bytes:
    import uproot
    import xxhash

    content = data[_CHECKSUM_BYTES:]
    if xxhash.xxh64(content).digest() != data[:_CHECKSUM_BYTES]:
        raise ValueError("its checksum is not that of what is there")
    return uproot.LZ4(1).decompress(content, plain_bytes)  # type: ignore[no-any-return]
