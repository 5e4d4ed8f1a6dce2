from __future__ import annotations

import os

_AS_IT_IS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~/")


def as_uri(path: str, mode: str, *, vfs: str | None = None, immutable: bool = False) -> str:
    """Name a database for SQLite, whatever bytes are in its path. ``mode``: ro, rw, rwc (made where there is none)."""
    uri = f"file:{_quote(os.path.abspath(path))}?mode={mode}"
    if vfs is not None:
        uri += f"&vfs={vfs}"
    return uri + "&immutable=1" if immutable else uri


def _quote(path: str) -> str:
    """As urllib.parse has it, without importing all that is for addresses in the web."""
    return "".join(chr(byte) if byte in _AS_IT_IS else f"%{byte:02X}" for byte in os.fsencode(path))
