"""Several functions over one pass, and one function over several datasets: what is called and joined in a worker.

Both return a dict of values, one for each name. `merge` joins those key by key; any other join is applied to each.
"""

from __future__ import annotations

from aliquot.jobs.merging import merge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from aliquot.virtual_file.datasets import Parts


class EachFunction:
    """Calls all of several functions on the same batch."""

    def __init__(self, functions: Mapping[Any, Callable[[Any], Any]]) -> None:
        self._functions = functions

    def __call__(self, batch: Any) -> dict[Any, Any]:
        """The value of each, by its name."""
        return {name: function(batch) for name, function in self._functions.items()}


class EachDataset:
    """Calls a function once for each dataset that a batch has units of."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, parts: Parts) -> dict[Any, Any]:
        """The value of each dataset, by its name."""
        return {name: self._function(batch) for name, batch in parts.parts}


class JoinByName:
    """Joins the values of the same name; what only one has is kept."""

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join = join

    def __call__(self, first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Any]:
        """One dict of two."""
        joined = {**first, **second}
        for name, value in first.items():
            if name in second:
                joined[name] = self._join(value, second[name])
        return joined


def by_name(join: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The same join, for a dict of values."""
    return join if join is merge else JoinByName(join)


def in_order(names: Sequence[Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Values in the order of their names; those are left out for which there is none, as all of its units failed."""
    return {name: values[name] for name in names if name in values}
