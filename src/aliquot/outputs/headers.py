"""What the beginning of a second piece tells about the joined output: nobody is refused for it, but should know."""

from __future__ import annotations

import contextlib
import re
import zlib

LOOKED_AT_BYTES = 4096

_SAM, _BAM, _GZIP = (b"@HD\t", b"@SQ\t"), b"BAM\1", b"\x1f\x8b"
_SORTED = re.compile(rb"@HD\t[^\n]*SO:(coordinate|queryname)")


def warning_about(beginning: bytes, *, rule: str, name: str, target: str) -> str | None:
    """What is wrong with an output whose pieces begin so, in words; None if nothing is known to be."""
    if rule == "concat" and beginning.startswith(_SAM):
        return (
            f"each part of {name} begins with the header of a SAM file, and so it is in there several times: "
            f"--join {name}={target}:sam has it once"
        )
    if rule == "concat" and beginning.startswith(_GZIP) and _unpacked(beginning).startswith((*_SAM, _BAM)):
        return (
            f"each part of {name} is compressed and begins with the header of a SAM or BAM file, so that most programs "
            f"cannot read {target}: let the command write SAM, --join {name}=PATH.sam, and compress what was joined"
        )
    if rule == "sam" and (found := _SORTED.match(beginning)):
        return (
            f"the header of {name} says that its records are sorted (SO:{found[1].decode()}), and each part was sorted "
            f"by itself: unless the input was in that order, {target} is not. Sort what was joined, not its parts"
        )
    return None


def _unpacked(beginning: bytes) -> bytes:
    with contextlib.suppress(zlib.error):
        return zlib.decompressobj(31).decompress(beginning, 16)
    return b""
