"""What a run learned about its function is kept, and starts the next run of the same job well."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from typing import Any

from aliquot.cache import cache_directory
from aliquot.sizing import LinearModel

_VERSION = 1


def fingerprint(*functions: Any) -> str:
    """Tell functions apart, also those of the same name: by their name and their code."""
    digest = hashlib.blake2b(digest_size=16)
    for function in functions:
        while hasattr(function, "func") and hasattr(function, "args"):  # functools.partial
            digest.update(repr(len(function.args)).encode())
            function = function.func  # noqa: PLW2901  # what it wraps
        name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        digest.update(name.encode())
        _digest_code(digest, getattr(function, "__code__", None))
    return digest.hexdigest()


def load(key: str) -> tuple[LinearModel, LinearModel]:
    """The models of time and memory that were kept, or new ones."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        with open(_path(key), encoding="utf-8") as file:
            kept = json.load(file)
        if kept["version"] == _VERSION:
            return LinearModel.from_dict(kept["time"]), LinearModel.from_dict(kept["memory"])
    return LinearModel(), LinearModel()


def save(key: str, time: LinearModel, memory: LinearModel) -> None:
    """Keep them; a cache that cannot be written is done without."""
    path = _path(key)
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, "time": time.to_dict(), "memory": memory.to_dict()}, file)
        os.replace(temporary, path)


def _path(key: str) -> str:
    return os.path.join(cache_directory(), "learned", f"{key}.json")


def _digest_code(digest: Any, code: Any) -> None:
    if code is None:
        return
    digest.update(code.co_code)
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            _digest_code(digest, constant)
        else:
            # The order in a set differs from process to process.
            shown = sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
            digest.update(str(shown).encode("utf-8", "replace"))
    digest.update(" ".join(code.co_names).encode())
