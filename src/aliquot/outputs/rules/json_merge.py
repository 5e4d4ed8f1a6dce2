from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from aliquot.outputs.rules.folding import Value, ValueRule

_INDENT = re.compile(rb"\s*[\[{]\r?\n([ \t]+)")
_COLON = re.compile(rb'":( ?)')
_WORDS = {None: "null", True: "true", False: "false"}


class JsonMerge(ValueRule):
    """One JSON value from the JSON values of all pieces.

    Objects are merged key by key, at every depth; lists are put one after another; of two numbers, texts or truths the
    later one stays. A null gives way to whatever else there is. An object and a list, or one of these and a number,
    cannot be merged. Numbers keep the digits that they were written with. The result is laid out like the first piece
    that tells how: indent, blanks and last newline; keys are in the order in which they came, as any other would depend
    on how pieces were grouped.
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
            # Numbers stay as they are written, as bytes, which nothing else in JSON becomes: a float would lose digits.
            # So do NaN and Infinity, which JSON does not have, and many programs write.
            value = json.loads(data, parse_float=str.encode, parse_int=str.encode, parse_constant=str.encode)
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
        if not self._pieces:
            return b""
        text = "".join(self._texts()) + "\n" * self._ends_with_newline
        # Half of a surrogate pair is no character that UTF-8 has: it is written as JSON's escape, which looks the same.
        return text.encode("utf-8", "backslashreplace")

    def _texts(self) -> Iterator[str]:
        """The value in small parts; not by recursion, so that all that could be read can be written."""
        from json.encoder import encode_basestring, encode_basestring_ascii

        quoted = encode_basestring_ascii if self._is_ascii else encode_basestring
        comma, colon = self._separators or (",", ":")
        newline, indent = ("", "") if self._indent is None else ("\n", self._indent)
        # What is begun and not ended, the innermost last: the members to come, and what ends it.
        begun: list[tuple[Iterator[tuple[str, Any]], str]] = [(iter([("", self._value)]), "")]
        before = ""
        while begun:
            members, end = begun[-1]
            line = newline + indent * (len(begun) - 1)
            for label, value in members:
                yield before + label
                if value and isinstance(value, dict):
                    yield "{"
                    begun.append((((quoted(key) + colon, inner) for key, inner in value.items()), line + "}"))
                elif value and isinstance(value, list):
                    yield "["
                    begun.append(((("", inner) for inner in value), line + "]"))
                else:
                    yield quoted(value) if isinstance(value, str) else _word(value)
                    before = comma + line
                    continue
                before = line + indent
                break
            else:
                yield end
                begun.pop()
                before = comma + line.removesuffix(indent)


def _word(value: Any) -> str:
    """A number, truth or null, or what is empty."""
    if isinstance(value, bytes):
        return value.decode()
    return "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else _WORDS[value]


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
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return f"{value.decode() if isinstance(value, bytes) else repr(value):.50}"
