"""How two partial results become one, by what they are: what joins results unless the user says how.

    numbers, lists                   first + second             None          with None
    sets                             first | second             mappings      key by key, and so on within
    arrays of numpy                  first + second, of one     dataclasses,  field by field
    histograms                       shape; of the same axes    NamedTuples
                                                                others        with their own +

Workers import this, where it is used: nothing here is imported before it is wanted.
"""

from __future__ import annotations

import sys
from _collections_abc import Mapping, MutableMapping, MutableSet, Set  # without what `collections` imports besides

from aliquot.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn, TypeAlias

    # Where something is: the place of what it is in, and its key or the name of its field; None: the result itself.
    Place: TypeAlias = tuple[Any, Any, bool] | None

# Nothing can change them. The first ones are simply added.
_NUMBERS = frozenset((int, float, complex))
_TEXT = frozenset((str, bytes))
_AMBIGUOUS = (*_TEXT, bool, type(None))
_ATOMIC = _NUMBERS | set(_AMBIGUOUS)
_FOR_TUPLES = "join=..., or return a dict of what is to be added up (of np.histogram only its counts, [0])"
_LONGEST_KEY = 60
_LONGEST_AXES = 200

# To add two of these would not put them together, or only by chance: module, name -> what would.
_REFUSED = {
    ("awkward", "Array"): "awkward.concatenate([first, second])",
    ("awkward", "Record"): None,
    ("pandas", "DataFrame"): "pandas.concat([first, second])",
    ("pandas", "Series"): "first.add(second, fill_value=0)",
    ("pandas", "Index"): "first.append(second)",
    ("polars", "DataFrame"): "polars.concat([first, second])",
    ("polars", "LazyFrame"): "polars.concat([first, second])",
    ("polars", "Series"): "polars.concat([first, second])",
    ("pyarrow", "Table"): "pyarrow.concat_tables([first, second])",
    ("pyarrow", "RecordBatch"): "pyarrow.concat_batches([first, second])",
    ("pyarrow", "Array"): "pyarrow.concat_arrays([first, second])",
    ("pyarrow", "ChunkedArray"): None,
    ("xarray", "DataArray"): None,
    ("xarray", "Dataset"): None,
}


def merge(first: Any, second: Any) -> Any:
    """Make one of two partial results, by what they are. Neither is changed.

    Numbers are added; lists are put one after the other, and text where it is all of the result; sets are united;
    mappings are merged key by key, dataclasses and NamedTuples field by field, and so on within. Arrays of numpy are
    added where they have one shape, histograms where they have the same axes, and anything else that knows how to. None
    goes with None. Truth values and tuples are refused, and text within others: they could mean several things.

    What does not go together raises a `UsageError` that says where in the result it is.

    >>> aliquot.merge({"events": 2, "runs": {1}}, {"events": 3, "runs": {1, 2}})
    {'events': 5, 'runs': {1, 2}}
    """
    return _merge(first, second, None, in_place=False)


def merge_into(first: Any, second: Any) -> Any:
    """As `merge`, but ``first``, which `merge` or this has made, may be changed, and is often what is returned.

    ``second`` is not changed, and no part of it that merging could change becomes a part of the result: whoever made it
    may use it again. The items of lists are taken as they are, as nothing here ever changes them.
    """
    return _merge(first, second, None, in_place=True)


# By this, others know that there is such a way, without importing it.
merge.into = merge_into  # type: ignore[attr-defined]


class EachUnitWatch:
    """Notices arrays that have a value for each unit, as element-wise functions return them: their sum means nothing.

    An array may be as long as its batch by chance, as one of a single bin always is where steps have one unit. So where
    two are to be joined and all have been so far, there is a warning, once; from the first on that is not, nothing is
    looked at any more.
    """

    def __init__(self) -> None:
        self._places: set[Place] | None = None  # where such arrays are in all values so far; None before the first

    def look(self, value: Any, units: int, *, is_joined: bool) -> None:
        """Look at what was returned for so many units; ``is_joined``: it is to be joined to what came before."""
        if self._places is not None and not self._places:
            return
        found = set(_arrays_of_length(value, units, None))
        self._places = found if self._places is None else self._places & found
        if self._places and is_joined:
            import warnings

            where = _path(min(self._places, key=_path))
            self._places = set()
            warnings.warn(
                f"{where}: the function seems to return an array with a value for each unit, and arrays are added. Use "
                "aliquot.map for single units, or put them one after the other: "
                "join=lambda a, b: numpy.concatenate([a, b]). If they are to be added, say so: join=operator.add",
                stacklevel=3,
            )


merge.watch = EachUnitWatch  # type: ignore[attr-defined]  # as merge.into


def _arrays_of_length(value: Any, length: int, place: Place) -> Iterator[Place]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _arrays_of_length(part, length, (place, key, True))
    elif _is_array(value) and value.ndim and len(value) == length:
        yield place


def _merge(first: Any, second: Any, place: Place, *, in_place: bool) -> Any:  # noqa: PLR0911  # one for each kind
    kind = type(first)
    if kind is type(second) and (kind in _NUMBERS or (kind in _TEXT and place is None)):
        return first + second
    if isinstance(first, _AMBIGUOUS) or isinstance(second, _AMBIGUOUS):
        return _merge_ambiguous(first, second, place)
    if _is_number(first) and _is_number(second):
        return _added(first, second, place)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return _merge_mappings(first, second, place, in_place=in_place)
    if isinstance(first, list) and isinstance(second, list):
        if in_place and kind is list:
            first.extend(second)
            return first
        return _added(first, second, place)
    if isinstance(first, Set) and isinstance(second, Set):
        return _merge_sets(first, second, in_place=in_place)
    if _is_array(first) or _is_array(second):
        return _merge_arrays(first, second, place, in_place=in_place)
    if _is_a(first, "boost_histogram", "Histogram") or _is_a(second, "boost_histogram", "Histogram"):
        return _merge_histograms(first, second, place, in_place=in_place)
    if kind is type(second) and not _adds_itself(first):
        if hasattr(kind, "__dataclass_fields__"):
            return _merge_fields(first, second, place, in_place=in_place)
        if isinstance(first, tuple) and hasattr(kind, "_fields"):
            merged = [
                _merge(mine, theirs, (place, name, False), in_place=in_place)
                for name, mine, theirs in zip(kind._fields, first, second, strict=True)
            ]
            return kind._make(merged)
    _check_can_be_added(first, second, place)
    return _added(first, second, place)


def _merge_ambiguous(first: Any, second: Any, place: Place) -> None:
    """What could mean several things, unless it is nothing."""
    if type(first) is not type(second):
        _refuse(first, second, place)
    if isinstance(first, bool):
        _refuse(
            first, second, place, "both may have to be true, or one of them", hint="join=operator.and_, or operator.or_"
        )
    if first is not None:
        _refuse(first, second, place, "it may be a name, or text to be put together")


def _merge_mappings(first: Any, second: Any, place: Place, *, in_place: bool) -> Any:
    # Of two types, the more general one.
    if isinstance(second, type(first)):
        model = first
    elif isinstance(first, type(second)):
        model = second
    else:
        _refuse(first, second, place)
    in_place = in_place and model is first and isinstance(first, MutableMapping)
    merged = first if in_place else {key: None if key in second else _own(value) for key, value in first.items()}
    for key, value in second.items():
        if key not in first:
            merged[key] = _own(value)
            continue
        before = first[key]
        kind = type(before)
        if kind is type(value) and kind in _NUMBERS:
            merged[key] = before + value
        else:
            merged[key] = _merge(before, value, (place, key, True), in_place=in_place)
    return merged if in_place or type(model) is dict else _like(model, merged)


def _like(model: Any, merged: dict[Any, Any]) -> Any:
    """The same mapping, with other content: of whatever type it is, with all else that it has."""
    if not isinstance(model, MutableMapping):
        return type(model)(merged)  # as those are made that cannot be changed
    import copy

    like = copy.copy(model)
    like.clear()
    for key, value in merged.items():
        like[key] = value
    return like


def _merge_sets(first: Any, second: Any, *, in_place: bool) -> Any:
    if in_place and isinstance(first, MutableSet):
        first |= second
        return first
    return first | second


def _merge_arrays(first: Any, second: Any, place: Place, *, in_place: bool) -> Any:
    """Of one shape: numpy would repeat a smaller one, as nobody wants who has forgotten to fill some bins."""
    are_arrays = all(_is_array(value) or _is_number(value) for value in (first, second))
    if not are_arrays:
        _refuse(first, second, place)
    shapes = [getattr(value, "shape", ()) for value in (first, second)]
    if shapes[0] != shapes[1]:
        _refuse(
            first,
            second,
            place,
            f"their shapes are {shapes[0]} and {shapes[1]}, and only arrays of one shape are added",
            hint="join=lambda a, b: numpy.concatenate([a, b]) puts one behind the other; or use aliquot.map",
        )
    for array in (first, second):
        kind = getattr(getattr(array, "dtype", None), "kind", "")
        if kind in "bSU" and kind:
            _refuse(first, second, place, "truth values and text can be joined in several ways")
    numpy = sys.modules["numpy"]
    can_be_changed = in_place and type(first) is numpy.ndarray and first.ndim > 0 and first.flags.writeable
    try:
        if can_be_changed and type(second) is numpy.ndarray and numpy.result_type(first, second) == first.dtype:
            first += second
            return first
        return first + second
    except (TypeError, ValueError) as error:
        _refuse(first, second, place, f"numpy says: {error}", error)


def _merge_histograms(first: Any, second: Any, place: Place, *, in_place: bool) -> Any:
    if not all(_is_a(value, "boost_histogram", "Histogram") for value in (first, second)):
        _refuse(first, second, place)  # numbers would be added to each bin
    try:
        if in_place:
            first += second
            return first
        return first + second
    except (TypeError, ValueError, RuntimeError) as error:
        axes = " and ".join(_shown_axes(value) for value in (first, second))
        why = f"{error}. Histograms need the same axes and storage; these have the axes {axes}"
        _refuse(first, second, place, why, error)


def _merge_fields(first: Any, second: Any, place: Place, *, in_place: bool) -> Any:
    fields = sys.modules["dataclasses"].fields(first)
    if in_place:
        merged = first
    else:
        import copy

        merged = copy.copy(first)  # without __init__, which may do anything
    for name in [field.name for field in fields]:
        value = _merge(getattr(first, name), getattr(second, name), (place, name, False), in_place=in_place)
        object.__setattr__(merged, name, value)  # it may be frozen
    return merged


def _check_can_be_added(first: Any, second: Any, place: Place) -> None:
    """Two that are not known here, which have to say themselves what their sum is."""
    if type(first) is type(second) is tuple:
        _refuse(first, second, place, "it may be several values, or items to be put together", hint=_FOR_TUPLES)
    for value in (first, second):
        for base in type(value).__mro__:
            refused = (base.__module__.partition(".")[0], base.__name__)
            if refused in _REFUSED:
                how = _REFUSED[refused]
                hint = f"join=lambda first, second: {how}" if how else ""
                _refuse(first, second, place, "there is more than one way to put such tables together", hint=hint)
    if not (isinstance(first, type(second)) or isinstance(second, type(first))):
        _refuse(first, second, place)
    shapes = [getattr(value, "shape", None) for value in (first, second)]
    if shapes[0] != shapes[1]:
        _refuse(first, second, place, f"their shapes are {shapes[0]} and {shapes[1]}")


def _added(first: Any, second: Any, place: Place) -> Any:
    try:
        return first + second
    except TypeError as error:
        _refuse(first, second, place, str(error), error)


def _refuse(
    first: Any, second: Any, place: Place, why: str = "", cause: Exception | None = None, *, hint: str = ""
) -> NoReturn:
    names = [_type_name(value) for value in (first, second)]
    both = f"two of {names[0]}" if names[0] == names[1] else f"{names[0]} and {names[1]}"
    reason = f": {why}" if why else ""
    raise UsageError(
        f"{_path(place)}: {both} cannot be merged into one{reason}. "
        f"Give a function that makes one of two results: {hint or 'join=...'}"
    ) from cause


# What they are


def _is_number(value: Any) -> bool:
    if type(value) in _NUMBERS:
        return True
    if isinstance(value, int | float | complex):
        return True
    # Without importing it: whoever has such a number has it from there.
    numbers = sys.modules.get("numbers")
    return numbers is not None and isinstance(value, numbers.Number)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _is_a(value: Any, package: str, name: str) -> bool:
    return package in sys.modules and any(
        base.__name__ == name and base.__module__.partition(".")[0] == package for base in type(value).__mro__
    )


def _adds_itself(value: Any) -> bool:
    """Whether its class says what a sum is."""
    add = getattr(type(value), "__add__", None)
    return add is not None and add is not tuple.__add__


def _shown_axes(histogram: Any) -> str:
    shown = ", ".join(map(repr, histogram.axes))
    return f"[{shown}]" if len(shown) <= _LONGEST_AXES else f"[{shown[:_LONGEST_AXES]}...]"


# Copies


def _own(value: Any) -> Any:  # noqa: PLR0911  # one for each kind
    """A copy of all parts that merging could change, each by itself, also where it is in several places.

    `copy.deepcopy` would keep it in several places, and each change would be made in all of them.
    """
    if type(value) in _ATOMIC:
        return value
    if isinstance(value, MutableMapping):
        return _like(value, {key: _own(part) for key, part in value.items()})
    if type(value) is list:
        return value.copy()
    if type(value) is tuple and _ATOMIC.issuperset(map(type, value)):
        return value
    import copy

    if hasattr(type(value), "__dataclass_fields__") and not isinstance(value, type):
        copied = copy.copy(value)
        for field in sys.modules["dataclasses"].fields(value):
            object.__setattr__(copied, field.name, _own(getattr(value, field.name)))
        return copied
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(_own, value))
    try:
        return copy.deepcopy(value)
    except Exception:
        return value  # of a type that is not known here, and so never changed here


# Words


def _path(place: Place) -> str:
    steps = []
    while place is not None:
        place, name, is_key = place
        steps.append(f"[{_shown(name)}]" if is_key else f".{name}")
    return "".join(["result", *reversed(steps)])


def _shown(key: Any) -> str:
    if type(key) is str and len(key) <= _LONGEST_KEY:
        return f'"{key}"'
    shown = repr(key)
    return shown if len(shown) <= _LONGEST_KEY else f"{shown[:_LONGEST_KEY]}..."


def _type_name(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


merge.own = _own  # type: ignore[attr-defined]  # as merge.into
