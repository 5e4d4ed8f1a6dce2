"""JSON as journals hold it: in few bytes, and of ASCII alone, as names of files need not be UTF-8."""

from __future__ import annotations

import json
import math
from typing import Any

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
from_json = json.loads


def to_json(value: Any) -> str:
    """Encode anything that JSON can hold; NaN and infinities become null."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(held) for key, held in value.items()}
    return [_finite(held) for held in value] if isinstance(value, list | tuple) else value
