"""Descriptions: JSON objects that say what a job is, of which type and in which version.

    {"type": "aliquot.function", "version": 1, ...what the type needs...}

A description can name any importable class and carry pickled values: treat one as you would treat a program, and
read only those you trust.
"""

from __future__ import annotations

import binascii
import math
from _pickle import dumps, loads  # without what pickle imports besides
from typing import Any

from aliquot.errors import DescriptionError

Description = dict[str, Any]


def check_envelope(desc: object) -> tuple[str, int]:
    """Return the type name and version of a description, or say why it is none."""
    if not isinstance(desc, dict):
        raise DescriptionError(f"a description is a JSON object, not {type(desc).__name__}: {desc!r:.200}")
    match desc:
        case {"type": str(type_name), "version": int(version)} if version >= 1:
            return type_name, version
    raise DescriptionError(
        f"a description needs a 'type' (text) and a 'version' (a whole number from 1): {desc!r:.200}"
    )


def check_version(type_name: str, version: int, newest: int) -> None:
    """Refuse a description from a newer release than this one."""
    if version > newest:
        raise DescriptionError(
            f"the description of a {type_name!r} has version {version}, and this release reads up to {newest}: "
            "upgrade aliquot, or the package that the job comes from"
        )


def encode_value(value: object) -> Description:
    """A result as JSON: itself where JSON says it exactly, else pickled."""
    if _is_exact_json(value):
        return {"json": value}
    try:
        data = dumps(value, protocol=5)
    except Exception as error:
        raise DescriptionError(
            f"a result of type {type(value).__name__} cannot be described: it cannot be pickled ({error})"
        ) from error
    return {"pickle": binascii.b2a_base64(data, newline=False).decode("ascii")}


def decode_value(encoded: Description) -> Any:
    """Rebuild what `encode_value` encoded."""
    match encoded:
        case {"json": value}:
            return value
        case {"pickle": str(text)}:
            try:
                return loads(binascii.a2b_base64(text))
            except Exception as error:
                raise DescriptionError(f"a described result cannot be unpickled: {error}") from error
    raise DescriptionError(f"this does not describe a value: {encoded!r:.200}")


def _is_exact_json(value: object) -> bool:
    """Whether a trip through JSON gives back the same value and the same types."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return True
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]  # a float, as just checked
    if kind is list:
        return all(map(_is_exact_json, value))  # type: ignore[call-overload]  # a list, as just checked
    if kind is dict:
        items = value.items()  # type: ignore[attr-defined]  # a dict, as just checked
        return all(type(key) is str and _is_exact_json(item) for key, item in items)
    return False
