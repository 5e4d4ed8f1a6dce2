"""Events and commands: tuples with names, that are equal only to their own kind.

Named tuples and not a library's records, because every run waits for the import of this: some 20 ms of each run.
"""

from __future__ import annotations

from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


def record(kind: Kind) -> Kind:
    """Make a named tuple differ from every other tuple with the same content."""
    kind.__eq__ = _is_same  # type: ignore[method-assign, assignment]
    kind.__ne__ = _is_other  # type: ignore[method-assign, assignment]
    return kind


def _is_same(self: tuple[Any, ...], other: object) -> bool:
    return type(self) is type(other) and tuple.__eq__(self, other)


def _is_other(self: tuple[Any, ...], other: object) -> bool:
    return not _is_same(self, other)
