"""What compressed files begin with."""

from __future__ import annotations

_ZSTD_MAGIC = bytes.fromhex("28b52ffd")


def looks_like_bgzf(data: bytes | memoryview) -> bool:
    """Whether data begins with a gzip header that has a BC field of two bytes first."""
    return data[:4] == b"\x1f\x8b\x08\x04" and data[12:16] == b"BC\x02\x00"


def looks_like_zstd(data: bytes | memoryview) -> bool:
    """Whether data begins with a zstd frame, or with one that is to be skipped."""
    return data[:4] == _ZSTD_MAGIC or is_skippable(data)


def is_skippable(data: bytes | memoryview) -> bool:
    """Whether data begins with a zstd frame that holds nothing of the content."""
    return data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50
