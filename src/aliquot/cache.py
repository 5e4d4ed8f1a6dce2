"""Where what aliquot has learned is kept from one run to the next.

A record is a small file, replaced atomically, so that several processes may write it at once: the last one wins, and
all wrote the truth. A damaged record is removed.
"""

from __future__ import annotations

import os

from aliquot.hashing import blake2b

_MAGIC = b"ALIQUOT\x01"
_DIGEST_BYTES = 16
_TOKEN_BYTES = 8


def cache_directory() -> str:
    """$ALIQUOT_CACHE, or 'aliquot' in the user's cache directory."""
    told = os.environ.get("ALIQUOT_CACHE")
    if told:
        return told
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "aliquot")


def record_path(key: str, ending: str) -> str:
    """Where the record of a key is."""
    digest = blake2b(key.encode(errors="surrogateescape"), digest_size=16).hexdigest()
    return os.path.join(cache_directory(), f"{digest}.{ending}")


def read_record(path: str) -> bytes | None:
    """What was written there, if it is whole and of this release."""
    try:
        data = read_file(path)
    except OSError:
        return None
    if not data.startswith(_MAGIC[:-1]):
        remove_record(path)
        return None
    if data[: len(_MAGIC)] != _MAGIC:
        return None  # of another release, which may still want it
    content = data[len(_MAGIC) + _DIGEST_BYTES :]
    if _digest(content) != data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]:
        remove_record(path)
        return None
    return content


def read_file(path: str) -> bytes:
    """All of a file; what is none, such as a pipe, is not waited for."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def write_record(path: str, content: bytes) -> bool:
    """Keep a record; False where the cache cannot be written, which only costs time."""
    return replace_file(path, _MAGIC + _digest(content) + content, mode=0o600)


def replace_file(path: str, content: bytes, mode: int = 0o666) -> bool:
    """Write a file whole or not at all; False where that cannot be."""
    temporary = f"{path}.{os.urandom(_TOKEN_BYTES).hex()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        remove_record(temporary)
        return False
    return True


def remove_record(path: str) -> None:
    """Forget what is known."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
