from __future__ import annotations

from aliquot.errors import DataError, SourceChangedError, UsageError
from aliquot.virtual_file.storage.framed import BgzfStorage, ZstdStorage, looks_like_bgzf, looks_like_zstd
from aliquot.virtual_file.storage.gzip import GzipStorage
from aliquot.virtual_file.storage.plain import PlainStorage
from aliquot.virtual_file.storage.storage import Identity, Storage, read_identity

_STORAGES: dict[str, type[Storage]] = {
    storage.compression: storage for storage in (PlainStorage, BgzfStorage, GzipStorage, ZstdStorage)
}
COMPRESSION_SUFFIXES = {".gz": "gzip", ".bgz": "bgzf", ".bgzf": "bgzf", ".zst": "zstd"}
_REFUSED_MAGICS = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}


def open_storage(path: str, compression: str | None = None, expected: Identity | None = None) -> Storage:
    """Open a file by what its first bytes say, or as told; refuse it if it is not the one expected."""
    identity, head = read_identity(path)
    if compression is None:
        compression = _detect_compression(path, head)
    if compression not in _STORAGES:
        raise UsageError(f"unknown compression {compression!r}: choose from {', '.join(sorted(_STORAGES))}")
    if expected is not None and identity != expected:
        raise SourceChangedError(
            f"the file is not the one that was described: it had {expected.size_bytes} bytes "
            f"and now has {identity.size_bytes}, or its content or time of change differs",
            path=path,
            advice="Describe it again",
        )
    return _STORAGES[compression](path, identity)


def _detect_compression(path: str, head: bytes) -> str:
    named = next((kind for suffix, kind in COMPRESSION_SUFFIXES.items() if path.endswith(suffix)), None)
    if looks_like_bgzf(head):
        found = "bgzf"
    elif head[:2] == b"\x1f\x8b":
        found = "gzip"
    elif looks_like_zstd(head):
        found = "zstd"
    else:
        found = "none"
        for magic, name in _REFUSED_MAGICS.items():
            if head.startswith(magic):
                raise DataError(
                    f"is compressed with {name}, which cannot be read from the middle",
                    path=path,
                    byte=0,
                    advice="Recompress it with bgzip",
                )
    if named and found == "none":
        raise DataError(
            f"is named like a {named} file but is not one (it begins with {head[:4]!r})"
            if head
            else f"is named like a {named} file but is empty",
            path=path,
            byte=0,
            advice="Rename it, or open it with compression='none'",
        )
    return found
