from __future__ import annotations

import importlib

from aliquot.errors import DataError, SourceChangedError, UsageError
from aliquot.virtual_file.storage.magics import looks_like_bgzf, looks_like_zstd
from aliquot.virtual_file.storage.storage import Identity, Storage, read_identity

# The class for each compression, imported when it is first used.
_STORAGES = {
    "none": "plain:PlainStorage",
    "bgzf": "framed:BgzfStorage",
    "gzip": "gzip:GzipStorage",
    "zstd": "framed:ZstdStorage",
}
COMPRESSION_SUFFIXES = {".gz": "gzip", ".bgz": "bgzf", ".bgzf": "bgzf", ".zst": "zstd"}
_REFUSED_MAGICS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}


def open_storage(path: str, compression: str | None = None, expected: Identity | None = None) -> Storage:
    """Open a file by what its first bytes say, or as told; refuse it if it is not the one expected."""
    identity, head = read_identity(path)
    found = _compression_by_content(head)
    if compression is None:
        _check_name(path, head, found)
        compression = found
    if compression not in _STORAGES:
        raise UsageError(f"unknown compression {compression!r}: choose from {', '.join(sorted(_STORAGES))}")
    # BGZF is gzip, too.
    if compression not in ("none", found) and (compression, found) != ("gzip", "bgzf"):
        raise DataError(
            f"is not a {compression} file (it begins with {head[:4]!r})",
            path=path,
            byte=0,
            advice="Leave compression out, and its first bytes decide",
        )
    if expected is not None and identity != expected:
        raise SourceChangedError(
            f"the file is not the one that was described: it had {expected.size_bytes} bytes "
            f"and now has {identity.size_bytes}, or its content or time of change differs",
            path=path,
            advice="Describe it again",
        )
    module, _, class_name = _STORAGES[compression].partition(":")
    storage_class: type[Storage] = getattr(
        importlib.import_module(f"aliquot.virtual_file.storage.{module}"), class_name
    )
    return storage_class(path, identity)


def compression_by_name(path: str) -> tuple[str, str]:
    """Split what a file name says about compression off: the rest of the name, and the suffix or nothing."""
    suffix = next((suffix for suffix in COMPRESSION_SUFFIXES if path.lower().endswith(suffix)), "")
    return path[: len(path) - len(suffix)], suffix


def _compression_by_content(head: bytes) -> str:
    if looks_like_bgzf(head):
        return "bgzf"
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    return "zstd" if looks_like_zstd(head) else "none"


def _check_name(path: str, head: bytes, found: str) -> None:
    """Refuse a file that is not what its name says, or is of a kind that cannot be read from the middle."""
    if found != "none":
        return
    for magic, name in _REFUSED_MAGICS.items():
        if head.startswith(magic):
            raise DataError(
                f"is compressed with {name}, which cannot be read from the middle",
                path=path,
                byte=0,
                advice="Recompress it with bgzip",
            )
    _, suffix = compression_by_name(path)
    if suffix:
        what = f"is not one (it begins with {head[:4]!r})" if head else "is empty"
        raise DataError(
            f"is named like a {COMPRESSION_SUFFIXES[suffix]} file but {what}",
            path=path,
            byte=0,
            advice="Rename it, or open it with compression='none'",
        )
