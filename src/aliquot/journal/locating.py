from __future__ import annotations

import os
import urllib.parse


def as_uri(path: str, mode: str, *, vfs: str | None = None, immutable: bool = False) -> str:
    """Name a database for SQLite, whatever bytes are in its path. ``mode``: ro, rw, rwc (made where there is none)."""
    uri = f"file:{urllib.parse.quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"
    if vfs is not None:
        uri += f"&vfs={vfs}"
    return uri + "&immutable=1" if immutable else uri
