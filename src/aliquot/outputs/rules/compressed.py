"""Rules that look into text cannot join compressed pieces: what is behind the first header would be lost or broken."""

from __future__ import annotations

import os

from aliquot.outputs.errors import OutputError

_BEGINNINGS = {
    b"\x1f\x8b": "gzip, as BAM and BGZF are",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh91AY&SY": "bzip2",
}


def check_is_text(descriptor: int, piece: str) -> None:
    """Refuse a piece that is compressed."""
    beginning = os.pread(descriptor, 16, 0)
    for first, name in _BEGINNINGS.items():
        if beginning.startswith(first):
            raise OutputError(
                f"is compressed ({name}), and its output is joined as text",
                path=piece,
                advice="Let the command write text, and compress the joined output; or name a function that joins two "
                "such files, NAME=PATH:module:function",
            )
