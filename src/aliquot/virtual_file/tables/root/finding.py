"""The layout of a tree in a file that is open, and what is kept of it for others that read the same file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import error as NotThereError  # noqa: N812  # bytes that end too early

import msgspec

from aliquot.hashing import blake2b
from aliquot.virtual_file.tables.root.keys import HEADER_BYTES, NotPlainError, tree_bytes
from aliquot.virtual_file.tables.root.layout import PlainTree, TreeLayout

_FINGERPRINT_BYTES = 16
_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(TreeLayout)


def find_layout(file: int, tree: str, wanted: Sequence[str] | None) -> TreeLayout | None:
    """Where the wanted branches, or all, have their baskets; None where only uproot may know. The file is open."""
    try:
        file_bytes = os.fstat(file).st_size
        return PlainTree(*tree_bytes(file, tree.encode(), file_bytes), file_bytes).layout(wanted)
    except (NotPlainError, NotThereError, IndexError, ValueError, OverflowError, OSError, ImportError):
        return None


def pack_layout(file: int, layout: TreeLayout) -> bytes:
    """In as few bytes as it takes, for this very file."""
    return _fingerprint(file) + _encoder.encode(layout)


def unpack_layout(file: int, packed: bytes) -> TreeLayout | None:
    """What `pack_layout` packed; None if that was another release, or the file was another then."""
    if packed[:_FINGERPRINT_BYTES] != _fingerprint(file):
        return None
    try:
        return _decoder.decode(packed[_FINGERPRINT_BYTES:])
    except msgspec.DecodeError:
        return None


def _fingerprint(file: int) -> bytes:
    """Of its header: where it ends, when it was written, and the number that nobody else has, which ROOT gives it.

    Size and time of change may be those of another file, which a layout must not be used for: it would be read wrongly.
    """
    return blake2b(os.pread(file, HEADER_BYTES, 0), digest_size=_FINGERPRINT_BYTES).digest()
