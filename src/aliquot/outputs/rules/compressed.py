"""Rules that look into text cannot join compressed pieces: what is behind the first header would be lost or broken."""

from __future__ import annotations

import os
import re

from aliquot.outputs.errors import OutputError

_BEGINNINGS = {
    re.compile(rb"\x1f\x8b"): "gzip, as BAM and BGZF are",
    re.compile(rb"\x28\xb5\x2f\xfd"): "zstd",
    re.compile(rb"\xfd7zXZ\x00"): "xz",
    re.compile(rb"BZh[1-9]1AY&SY"): "bzip2",
}


def check_is_text(descriptor: int, piece: str) -> None:
    """Refuse a piece that is compressed."""
    beginning = os.pread(descriptor, 16, 0)
    for first, name in _BEGINNINGS.items():
        if first.match(beginning):
            raise OutputError(
                f"is compressed ({name}), and its output is joined as text",
                path=piece,
                advice="Let the command write text, and compress the joined output; or name a function that joins two "
                "such files, NAME=PATH:module:function",
            )
