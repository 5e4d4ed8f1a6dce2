"""JSON as journals hold it: in few bytes, and of ASCII alone, as names of files need not be UTF-8."""

from __future__ import annotations

import json
import math
from typing import Any


def _as_text(value: Any) -> Any:
    # The order in a set differs from process to process.
    return sorted(map(repr, value)) if isinstance(value, set | frozenset) else repr(value)


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False, default=_as_text).encode
from_json = json.loads


def to_json(value: Any) -> str:
    """Encode anything, to be compared or shown. NaN and infinities become null, and what JSON has no word for text."""
    try:
        return _encode(value)
    except (ValueError, TypeError):
        return _encode(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): _plain(held) for key, held in value.items()}
    return [_plain(held) for held in value] if isinstance(value, list | tuple) else value
