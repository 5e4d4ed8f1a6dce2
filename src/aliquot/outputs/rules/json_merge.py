from __future__ import annotations

import re
from typing import Any

from aliquot.outputs.rules.folding import Value, ValueRule

_INDENT = re.compile(rb"\s*[\[{]\r?\n([ \t]+)")
_COLON = re.compile(rb'":( ?)')
_DEFAULT_INDENT = "  "


class JsonMerge(ValueRule):
    """One JSON value from the JSON values of all pieces.

    Objects are merged key by key, at every depth; lists are put one after another; of two numbers, texts or truths the
    later one stays. A null gives way to whatever else there is. An object and a list, or one of these and a number,
    cannot be merged. The result is laid out like the first piece that tells how: indent, blanks and last newline; keys
    are in the order in which they came, as any other would depend on how pieces were grouped.
    """

    name = "json-merge"

    def new_value(self) -> Value:
        """Nothing yet."""
        return _Merged()


class _Merged(Value):
    def __init__(self) -> None:
        self._value: Any = None
        self._pieces = 0
        self._is_ascii = True
        self._ends_with_newline = True
        self._indent: str | None = None
        self._separators: tuple[str, str] | None = None

    def add(self, data: bytes) -> None:
        import json

        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"is not one JSON value: {error}") from error
        self._look_at(data, value)
        self._value = value if not self._pieces else _merge(self._value, value, "")
        self._pieces += 1

    def _look_at(self, data: bytes, value: Any) -> None:
        if not self._pieces:
            self._ends_with_newline = data.endswith(b"\n")
        self._is_ascii = self._is_ascii and data.isascii()
        if self._separators is None and value and isinstance(value, dict | list):
            indent = _INDENT.match(data)
            self._indent = indent[1].decode() if indent else None
            colon = _COLON.search(data)
            blank = " " if colon is None or colon[1] else ""
            self._separators = ("," if indent else "," + blank, ":" + blank)

    def written(self) -> bytes:
        import json

        if not self._pieces:
            return b""
        text = json.dumps(
            self._value,
            indent=self._indent if self._separators else _DEFAULT_INDENT,
            separators=self._separators,
            ensure_ascii=self._is_ascii,
        )
        return (text + "\n" * self._ends_with_newline).encode("utf-8", "surrogatepass")


def _merge(first: Any, second: Any, where: str) -> Any:
    """The first, changed in place where it can be, as nobody else holds it."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict) and isinstance(second, dict):
        for key, value in second.items():
            first[key] = _merge(first[key], value, f"{where}.{key}") if key in first else value
        return first
    if isinstance(first, list) and isinstance(second, list):
        first += second
        return first
    if isinstance(first, dict | list) or isinstance(second, dict | list):
        place = f"at {where[1:]!r} it" if where else "it"
        problem = f"{place} has {_kind(second)}, and an earlier piece has {_kind(first)}: they cannot be merged"
        raise ValueError(problem)  # noqa: TRY004  # about what a file holds, not about an argument
    return second


def _kind(value: Any) -> str:
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else f"{value!r:.50}"
