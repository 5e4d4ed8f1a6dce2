"""Ready-made jobs, for those who do not want to write the five functions.

They are loaded when they are first used: a worker that merges results needs nothing of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from aliquot.jobs.command import Command, CommandError
    from aliquot.jobs.function import FunctionJob

__all__ = ["Command", "CommandError", "FunctionJob"]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in __all__:
        raise AttributeError(f"module 'aliquot.jobs' has no attribute {name!r}")
    home = importlib.import_module("aliquot.jobs.function" if name == "FunctionJob" else "aliquot.jobs.command")
    value = getattr(home, name)
    globals()[name] = value
    return value
