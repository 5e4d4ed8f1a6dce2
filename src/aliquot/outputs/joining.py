from __future__ import annotations

import os
from collections.abc import Sequence

from aliquot.outputs.errors import naming
from aliquot.outputs.rules.rule import Rule


def join_pieces(rule: Rule, pieces: Sequence[str], into: str) -> None:
    """Make one piece of several that follow each other; they stay as they are. Nothing is forced to the disk.

    For a worker, where what is lost is done again.
    """
    with naming(into):
        growing = rule.grow(f"{into}.joining", None)
        try:
            for piece in pieces:
                growing.append(piece)
            made = growing.result(os.path.splitext(into.rstrip("/"))[1])
            os.replace(made, into.rstrip("/"))
        finally:
            growing.discard()
