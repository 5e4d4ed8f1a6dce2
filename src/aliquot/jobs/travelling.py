"""How a function gets from one process to another: by its import path where it has one, else pickled by value."""

from __future__ import annotations

import binascii
import sys
from collections.abc import Callable
from typing import Any

from aliquot.errors import DescriptionError, JobError, UsageError
from aliquot.job import Description, find_by_import_path, import_path_of


class TravellingFunction:
    """A function and its description, which is made when it is first wanted and then stays the same.

    It stays the same because two pickles of one function may differ.
    """

    def __init__(self, function: Callable[..., Any], desc: Description | None = None) -> None:
        if not callable(function):
            raise UsageError(f"{function!r} is not a function")
        self.function = function
        self._desc = desc

    def to_desc(self) -> Description:
        """Say as JSON which function it is."""
        if self._desc is None:
            self._desc = _describe(self.function)
        return self._desc

    def is_same_as(self, other: TravellingFunction) -> bool:
        """Whether both are the same function, here or described."""
        return self is other or self.function is other.function or self.to_desc() == other.to_desc()

    def __reduce__(self) -> tuple[object, ...]:
        return (TravellingFunction.from_desc, (self.to_desc(),))

    @classmethod
    def from_desc(cls, desc: Description) -> TravellingFunction:
        """Find or rebuild a described function."""
        match desc:
            case {"import": str(path)}:
                function = find_by_import_path(path)
            case {"cloudpickle": str(text)}:
                import cloudpickle  # slow to import, and not for functions of a module

                try:
                    function = cloudpickle.loads(binascii.a2b_base64(text))
                except Exception as error:
                    raise DescriptionError(
                        f"a pickled function cannot be rebuilt: {type(error).__name__}: {error}. "
                        "It needs the same Python version and the same libraries as where it was described"
                    ) from error
            case _:
                raise DescriptionError(f"this does not describe a function: {desc!r:.200}")
        if not callable(function):
            raise DescriptionError(f"{desc!r:.200} is not a function")
        return cls(function, desc)


def _describe(function: Callable[..., Any]) -> Description:
    if _is_importable(function):
        return {"import": import_path_of(function)}
    import cloudpickle

    try:
        return {"cloudpickle": binascii.b2a_base64(cloudpickle.dumps(function), newline=False).decode("ascii")}
    except Exception as error:
        raise JobError(
            f"the function {function!r} cannot be sent to another process: {type(error).__name__}: {error}. "
            "Define it at the top of a module, and open files and connections inside of it"
        ) from error


def _is_importable(function: Any) -> bool:
    """Whether another process finds this very function by importing its module."""
    module_name = getattr(function, "__module__", None)
    qualified_name = getattr(function, "__qualname__", None)
    # A script is called __main__ in every process, and is a different one in each.
    if not module_name or not qualified_name or module_name == "__main__" or "<" in qualified_name:
        return False
    found: Any = sys.modules.get(module_name)
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found is function
