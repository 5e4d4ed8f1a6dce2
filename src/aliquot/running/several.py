"""Several functions over one pass, one function over several datasets, or both: how they are called and told apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.jobs.merging import merge
from aliquot.running.adding_up import refuse_what_does_not_add_up
from aliquot.running.results import JoinSink

if TYPE_CHECKING:
    from aliquot.virtual_file import VirtualFile


class Called(NamedTuple):
    """What workers call on a batch, how its values are joined, and what becomes of the joined value."""

    function: Callable[[Any], Any]
    join: Callable[[Any, Any], Any]
    functions: tuple[Any, ...]  # what tells it from another: the user's own, and the names that they have
    label: str
    shape: Callable[[Any], Any] | None = None

    def sink(self) -> JoinSink:
        """Where the values go."""
        return JoinSink(self.join) if self.shape is None else _ShapedSink(self.join, self.shape)


class _ShapedSink(JoinSink):
    """The joined value, as the user wants it."""

    def __init__(self, join: Callable[[Any, Any], Any], shape: Callable[[Any], Any]) -> None:
        super().__init__(join)
        self._shape = shape

    def finish(self, value: Any) -> Any:
        """Shaped, if there is one."""
        value = super().finish(value)
        return None if value is None else self._shape(value)


def call(function: Any, join: Callable[[Any, Any], Any]) -> Called:
    """One function; or several, whose values are a dict where they have names, and else a list."""
    if callable(function):
        if join is merge:
            refuse_what_does_not_add_up(function)
        return Called(function, join, (function, join), name_of(function))
    if not isinstance(function, Mapping | list | tuple):
        raise UsageError(f"{function!r:.200} is not a function")
    if not function:
        raise UsageError("there are no functions: give at least one")
    from aliquot.jobs.several import EachFunction, by_name, in_order

    named = dict(function) if isinstance(function, Mapping) else dict(enumerate(function))
    for name, one in named.items():
        if not callable(one):
            raise UsageError(f"{one!r:.200}, which is to give the result {name!r}, is not a function")
        if join is merge:
            refuse_what_does_not_add_up(one)
    is_named = isinstance(function, Mapping)

    def shape(values: dict[Any, Any]) -> Any:
        return in_order(tuple(named), values) if is_named else list(in_order(tuple(named), values).values())

    names = f"functions {list(named)!r}"
    label = ", ".join(map(str, named)) if is_named else ", ".join(map(name_of, named.values()))
    return Called(EachFunction(named), by_name(join), (*named.values(), join, names), label, shape)


def call_on_datasets(called: Called, view: VirtualFile) -> Called:
    """The same for each of several datasets."""
    from aliquot.jobs.several import EachDataset, by_name, in_order
    from aliquot.virtual_file.datasets import Datasets

    assert isinstance(view.source, Datasets)
    names: Sequence[Any] = tuple(view.source.units_by_name)

    def shape(values: dict[Any, Any]) -> dict[Any, Any]:
        ordered = in_order(names, values)
        return ordered if called.shape is None else {name: called.shape(value) for name, value in ordered.items()}

    return Called(
        EachDataset(called.function),
        by_name(called.join),
        (*called.functions, f"datasets {list(names)!r}"),
        called.label,
        shape,
    )


def name_of(function: Any) -> str:
    """What it is called, or what it is."""
    return str(getattr(function, "__name__", type(function).__name__))
