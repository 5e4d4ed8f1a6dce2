"""Which bytes of a file of ROOT a tree was written as, found by the keys of its directory."""

from __future__ import annotations

import os
from struct import Struct

from aliquot.virtual_file.tables.root.blocks import decompressed

_ROOT_HEADER = Struct(">4sii")  # the version, where the first record begins; then numbers of 4 bytes, or of 8
HEADER_BYTES = 512  # holds the directory too, mostly
_LARGE = 1_000_000  # added to the version of a file above 2 GB
_DIRECTORY = Struct(">hIIii")  # its version, two times, the bytes of its keys and of its name
KEY = Struct(">ihiIhh")  # bytes of it all, version, bytes of the object, time, bytes of the key, cycle
_FAR = 1000  # added to the version of what has positions of 8 bytes
_HOLDING_TREES = (b"TTree", b"TNtuple", b"TDirectory", b"ROOT::RNTuple")  # or being one
_INT = Struct(">I")


class NotPlainError(Exception):
    """This is for uproot."""


def tree_bytes(file: int, name: bytes, file_bytes: int) -> tuple[bytes, int]:
    """What the tree was written as, and the bytes of its key, which positions in it count."""
    head = os.pread(file, HEADER_BYTES, 0)
    magic, version, begin = _ROOT_HEADER.unpack_from(head)
    far = version >= _LARGE
    if magic != b"root" or _position(head, _ROOT_HEADER.size, 0, far=far) > file_bytes:
        raise NotPlainError  # or it is cut off
    # After the end of the file, where the free space is noted, its bytes and its pieces: the bytes of the name.
    name_bytes = _INT.unpack_from(head, 36 if far else 28)[0]
    at = begin + name_bytes
    if at + 64 > len(head):
        head, at = _read(file, 64, at, file_bytes), 0
    directory_version, _, _, keys_bytes, _ = _DIRECTORY.unpack_from(head, at)
    at += _DIRECTORY.size
    seek_keys = _position(head, at, 2, far=directory_version > _FAR)
    seek, total_bytes = _find_key(_read(file, keys_bytes, seek_keys, file_bytes), name)
    return _object_bytes(_read(file, total_bytes, seek, file_bytes))


def _read(file: int, size: int, at: int, file_bytes: int) -> bytes:
    """As many as that; where there are not so many, no memory is asked for them."""
    if size < 0 or at + size > file_bytes:
        raise NotPlainError
    return os.pread(file, size, at)


def _position(data: bytes, at: int, number: int, *, far: bool) -> int:
    """One of some positions that follow each other."""
    size = 8 if far else 4
    return int.from_bytes(data[at + size * number : at + size * (number + 1)], "big")


def _find_key(keys: bytes, wanted: bytes) -> tuple[int, int]:
    """Where the newest tree of that name is, or the only tree if there is no name; and its bytes with its key."""
    *_, key_bytes, _ = KEY.unpack_from(keys)
    count = _INT.unpack_from(keys, key_bytes)[0]
    at = key_bytes + 4
    newest: dict[bytes, tuple[int, bytes, tuple[int, int]]] = {}  # by name: the cycle, the class, the place
    for _ in range(count):
        total_bytes, version, _, _, key_bytes, cycle = KEY.unpack_from(keys, at)
        far = version > _FAR
        kind, name_at = text_at(keys, at + KEY.size + (16 if far else 8))
        name, _ = text_at(keys, name_at)
        if name not in newest or cycle > newest[name][0]:
            newest[name] = cycle, kind, (_position(keys, at + KEY.size, 0, far=far), total_bytes)
        if key_bytes <= 0:
            raise NotPlainError  # it would never end
        at += key_bytes
    if wanted:
        newest = {wanted: newest[wanted]} if wanted in newest else {}
    found = [(kind, place) for _, kind, place in newest.values() if kind.startswith(_HOLDING_TREES)]
    if len(found) != 1 or found[0][0] != b"TTree":
        raise NotPlainError
    return found[0][1]


def _object_bytes(data: bytes) -> tuple[bytes, int]:
    """What an object was written as, by all of its bytes; and those of its key."""
    there_bytes, _, object_bytes, _, key_bytes, _ = KEY.unpack_from(data)
    if there_bytes != len(data):
        raise NotPlainError
    return bytes(decompressed(memoryview(data)[key_bytes:], object_bytes)), key_bytes


def text_at(data: bytes, at: int) -> tuple[bytes, int]:
    """A string, and where it ends."""
    length = data[at]
    at += 1
    if length == 255:
        length = _INT.unpack_from(data, at)[0]
        at += 4
    if at + length > len(data):
        raise NotPlainError
    return data[at : at + length], at + length
