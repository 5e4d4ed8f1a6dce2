"""What workers will import to read a source: imported once, before they are forked, while the parent goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

_LIBRARIES = {
    ".root": ("awkward", "uproot"),
    ".parquet": ("numpy", "pyarrow.parquet"),
    ".pq": ("numpy", "pyarrow.parquet"),
    ".feather": ("numpy", "pyarrow"),
    ".arrow": ("numpy", "pyarrow"),
    ".h5": ("h5py",),
    ".hdf5": ("h5py",),
    ".npz": ("numpy",),
}
# Where the user has imported one of these, the function probably needs it.
_COMPANIONS = ("awkward", "boost_histogram", "hist", "pandas")


def libraries_for(function: Any, source: Any) -> tuple[str, ...]:
    """The modules that are worth it; none for what needs none. A function may tell by itself, as ``libraries``."""
    told: tuple[str, ...] | None = getattr(function, "libraries", None)
    if isinstance(told, tuple):
        return told
    name = _name_of(source)
    for suffix, libraries in _LIBRARIES.items():
        if name.endswith(suffix):
            return (*libraries, *(companion for companion in _COMPANIONS if companion in sys.modules))
    return ()


def limits_memory(on: Any, memory: Any) -> bool:
    """Whether the user has said how much memory there is: then workers should hold no more than they need."""
    return (
        memory is not None
        or getattr(on, "memory_bytes", None) is not None
        or getattr(on, "step_bytes", None) is not None
    )


def _name_of(source: Any) -> str:
    """The first of its files, as far as that can be seen without opening anything, without which table of it."""
    if isinstance(source, Mapping):
        source = next(iter(source.values()), "")
    if isinstance(source, list | tuple):
        source = source[0] if source else ""
    module = sys.modules.get("aliquot.virtual_file")
    if module is not None and isinstance(source, module.VirtualFile):
        source = next(iter(source.source.paths()), "")
    if not isinstance(source, str) and not hasattr(source, "__fspath__"):
        return ""
    return str(source).partition(":")[0].lower()
