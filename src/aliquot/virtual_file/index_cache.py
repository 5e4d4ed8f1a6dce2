"""Indexes kept in the user's cache directory, so that a file is counted once.

One small file for each source and format, replaced atomically, so that several processes may write it at once: the
last one wins, and all wrote the truth. A damaged record is removed; one of another content of the source is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile

import msgspec
from msgspec import Struct

from aliquot.cache import cache_directory
from aliquot.virtual_file.index import PackedIndex
from aliquot.virtual_file.storage import Identity

_MAGIC = b"ALIQUOT\x01"
_DIGEST_BYTES = 16


class IndexRecord(Struct, frozen=True):
    """What is remembered of a source; ``total_units`` is None where the end has not been seen."""

    identity: Identity
    index: PackedIndex
    total_units: int | None
    storage_state: bytes


class IndexCache:
    """Where the index of one source, read in one format, is kept."""

    def __init__(self, source_path: str, how_it_is_read: str) -> None:
        key = hashlib.sha256(f"{os.path.realpath(source_path)}\0{how_it_is_read}".encode(errors="surrogateescape"))
        self.path = os.path.join(cache_directory(), f"{key.hexdigest()[:32]}.index")

    def load(self, identity: Identity) -> IndexRecord | None:
        """Find what is known of the source, if it is of this very content."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        if not data.startswith(_MAGIC[:-1]):
            self.remove()
            return None
        if data[: len(_MAGIC)] != _MAGIC:
            return None  # of another release, which may still want it
        digest = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
        content = data[len(_MAGIC) + _DIGEST_BYTES :]
        if _digest(content) != digest:
            self.remove()
            return None
        try:
            record = msgspec.msgpack.decode(content, type=IndexRecord)
        except msgspec.DecodeError:
            self.remove()
            return None
        return record if record.identity == identity else None

    def save(self, record: IndexRecord) -> bool:
        """Keep a record; False where the cache cannot be written, which only costs time."""
        content = msgspec.msgpack.encode(record)
        temporary = None
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(self.path), suffix=".tmp")
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + _digest(content) + content)
            os.replace(temporary, self.path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return False
        return True

    def remove(self) -> None:
        """Forget what is known."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
