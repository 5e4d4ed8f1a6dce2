"""Bytes that ROOT has compressed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

_HEADER_BYTES = 9
_CHECKSUM_BYTES = 8


def decompressed(data: memoryview, plain_bytes: int) -> bytes | memoryview:
    """One block after the other, each with nine bytes that say how it was compressed."""
    if len(data) == plain_bytes:
        return data
    blocks = []
    at = 0
    while at < len(data):
        head = bytes(data[at : at + _HEADER_BYTES])
        size = int.from_bytes(head[3:6], "little")
        at += _HEADER_BYTES + size
        block = _decompressor(head[:2])(data[at - size : at], int.from_bytes(head[6:9], "little"))
        if len(block) == plain_bytes:
            return block  # mostly it is one; what may follow is not read by ROOT either
        blocks.append(block)
    found = b"".join(blocks)
    if len(found) != plain_bytes:
        raise ValueError(f"{len(found)} bytes instead of {plain_bytes}")
    return found


@cache
def _decompressor(kind: bytes) -> Callable[[memoryview, int], bytes]:
    """By the name that a block has for it; where a library is there that is faster than uproot's, that one."""
    import uproot

    if kind == b"ZS":
        return _zstd() or uproot.ZSTD(1).decompress
    if kind == b"ZL":
        return _zlib()
    if kind == b"L4":
        return _lz4
    if kind == b"XZ":
        return uproot.LZMA(1).decompress  # type: ignore[no-any-return]  # it has no types
    raise ValueError(f"it was compressed by {kind!r}, which nobody knows")


def _zlib() -> Callable[[memoryview, int], bytes]:
    try:
        from isal.isal_zlib import decompress
    except ImportError:
        from zlib import decompress
    return lambda data, plain_bytes: decompress(data, bufsize=plain_bytes)


def _zstd() -> Callable[[memoryview, int], bytes] | None:
    try:
        from zstandard import ZstdDecompressor
    except ImportError:
        return None
    decompress = ZstdDecompressor().decompress  # what it needs is made once, not for each block
    return lambda data, plain_bytes: decompress(data, max_output_size=plain_bytes)


def _lz4(data: memoryview, plain_bytes: int) -> bytes:
    import uproot
    import xxhash

    content = data[_CHECKSUM_BYTES:]
    if xxhash.xxh64(content).digest() != data[:_CHECKSUM_BYTES]:
        raise ValueError("its checksum is not that of what is there")
    return uproot.LZ4(1).decompress(content, plain_bytes)  # type: ignore[no-any-return]
