from __future__ import annotations

from aliquot.coordinator import Append, Spill


def test_records_of_different_kinds_differ() -> None:
    """Two commands with the same content are not the same command, and no plain tuple is a command."""
    others: list[object] = [Spill(1), (1,)]
    assert Append(1) not in others
    assert Append(1) in [*others, Append(1)]
    assert Append(1) != Append(2)
