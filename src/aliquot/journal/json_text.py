"""JSON, quickly; also of file names that are no UTF-8, which Python has as lone surrogates and msgspec refuses."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any) -> str:
    """Encode anything that JSON can hold; NaN and infinities become null."""
    try:
        return _encode(value).decode()
    except UnicodeEncodeError:
        import json

        return json.dumps(value)


def from_json(text: str) -> Any:
    """Decode what `to_json` gave."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        import json

        return json.loads(text)
