"""What a run learned about its function is kept, and starts the next run of the same job well."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import zlib
from typing import Any

from aliquot.cache import cache_directory, read_file, replace_file
from aliquot.sizing import MEMORY_QUANTILE, LinearModel

_VERSION = 1
_LONGEST_NAMES = 180


def fingerprint(*functions: Any) -> str:
    """Tell functions apart, also those of the same name: by their names and their code; commands, by their text."""
    names, checksum = [], 0
    for function in functions:
        if isinstance(function, str):
            names.append("command")
            checksum = zlib.crc32(function.encode("utf-8", "replace"), checksum)
            continue
        while isinstance(function, functools.partial):
            function = function.func  # noqa: PLW2901  # what it wraps
        module = getattr(function, "__module__", None) or "builtins"
        name = getattr(function, "__qualname__", type(function).__qualname__)
        names.append("".join(character if character.isalnum() else "_" for character in f"{module}.{name}"[-60:]))
        checksum = _checksum_code(
            getattr(function, "__code__", None), zlib.crc32(f"{module}:{name}".encode(), checksum)
        )
    # It is the name of a file; the checksum is of all of them.
    return f"{'-'.join(names)[:_LONGEST_NAMES]}-{checksum:08x}"


def load(key: str) -> tuple[LinearModel, LinearModel]:
    """The models of time and memory that were kept, or new ones."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        kept = json.loads(read_file(_path(key)))
        if kept["version"] == _VERSION:
            return LinearModel.from_dict(kept["time"]), LinearModel.from_dict(kept["memory"], MEMORY_QUANTILE)
    return LinearModel(), LinearModel(MEMORY_QUANTILE)


def save(key: str, time: LinearModel, memory: LinearModel) -> None:
    """Keep them; a cache that cannot be written is done without."""
    kept = {"version": _VERSION, "time": time.to_dict(), "memory": memory.to_dict()}
    replace_file(_path(key), json.dumps(kept).encode())


def _path(key: str) -> str:
    return os.path.join(cache_directory(), "learned", f"{key}.json")


def _checksum_code(code: Any, checksum: int) -> int:
    if code is None:
        return checksum
    checksum = zlib.crc32(" ".join(code.co_names).encode(), zlib.crc32(code.co_code, checksum))
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            checksum = _checksum_code(constant, checksum)
        else:
            # The order in a set differs from process to process.
            shown = sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
            checksum = zlib.crc32(str(shown).encode("utf-8", "replace"), checksum)
    return checksum
