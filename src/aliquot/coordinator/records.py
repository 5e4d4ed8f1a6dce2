"""Events and commands: tuples with names, that are equal only to their own kind, and travel as JSON.

Named tuples and not a library's records, because every run waits for the import of this: some 20 ms of each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

Kind = TypeVar("Kind", bound=type)


def record(kind: Kind) -> Kind:
    """Make a named tuple differ from every other tuple with the same content."""
    kind.__eq__ = _is_same  # type: ignore[method-assign, assignment]
    kind.__ne__ = _is_other  # type: ignore[method-assign, assignment]
    return kind


def to_json(thing: NamedTuple) -> dict[str, Any]:
    """As an object that says which kind it is."""
    return {"type": type(thing).__name__, **thing._asdict()}


def from_json(kinds: Mapping[str, Any], content: dict[str, Any]) -> Any:
    """Rebuild what `to_json` made, once it was JSON."""
    fields = {name: _as_tuples(value) for name, value in content.items() if name != "type"}
    return kinds[content["type"]](**fields)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _is_same(self: tuple[Any, ...], other: object) -> bool:
    return type(self) is type(other) and tuple.__eq__(self, other)


def _is_other(self: tuple[Any, ...], other: object) -> bool:
    return not _is_same(self, other)
