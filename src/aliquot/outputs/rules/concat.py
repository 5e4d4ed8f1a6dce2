from __future__ import annotations

from aliquot.outputs.rules.appending import AppendingRule


class Concat(AppendingRule):
    """Pieces one after another, as `cat` does it: nothing is added, also not where a piece lacks a last newline."""

    name = "concat"
