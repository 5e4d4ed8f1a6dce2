"""What a function uses besides its own code: helper functions, constants, settings of the user's own modules.

A run that goes on with another threshold, or another helper, would put two analyses together in one result. But one
that is the same must never be taken for another: so values are compared only where they have a text that is the same in
every process. Of all others, such as locks, files and whatever libraries have made, only the kind is.
"""

from __future__ import annotations

import dis
import functools
import pickle
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from aliquot.workers.copied import is_from_library

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
# What these make is the same when it is pickled twice.
_PICKLED = ("numpy", "pandas", "polars", "pyarrow", "awkward", "hist", "boost_histogram")
_PICKLED_BY_PYTHON = ("datetime", "decimal", "fractions", "pathlib", "re", "uuid")
# What else they make: the state of it says nothing, or is another in each process.
_RANDOM = "numpy.random"
# Objects of Python that hold nothing but what the user has put there.
_HOLDERS = ("Namespace", "SimpleNamespace")
# Of larger ones, only the kind is compared: it would take seconds.
_MOST_BYTES = 256 << 20
_MOST_OBJECTS = 200_000
# Longer lists of numbers or texts are taken as they are pickled, which is a hundred times as quick.
_LONG = 1000
# Members of a class that Python has made, some of them only when an object of it is pickled.
_NOT_GIVEN = {
    *("__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__", "_abc_impl"),
    "__slotnames__",
}
# Libraries make some, too.
_WORKED_OUT = "__pydantic_"
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")

# By its number, what a value was told as; and the value, so that its number stays its own.
_Told = dict[int, tuple[int, Any]]


def used_values(*functions: Any) -> dict[str, str]:
    """The global names that functions of the user's own use, also by way of others, and a checksum of each value.

    The class of a method, or of an object that is called, is among them.
    """
    found: dict[str, str] = {}
    checksums: dict[int, str] = {}
    seen: dict[int, Any] = {}
    waiting = [("", one) for one in functions if not isinstance(one, str)]
    waiting += [(_name_of(kind), kind) for _, one in waiting for kind in _classes_of(one)]
    while waiting:
        name, value = waiting.pop()
        if name:
            if id(value) not in checksums:
                checksums[id(value)] = checksum(value)
            found[name] = checksums[id(value)]
        if id(value) not in seen:
            seen[id(value)] = value
            for function in _functions_of(value):
                waiting += _globals_of(function)
                waiting += [("", carried) for carried in carried_by(function) if callable(carried)]
    return dict(sorted(found.items()))


def carried_by(function: Any) -> Iterator[Any]:
    """The values of its closure, and its defaults."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # there is none yet
    yield from getattr(function, "__defaults__", None) or ()
    yield from (getattr(function, "__kwdefaults__", None) or {}).values()


def _classes_of(one: Any) -> Iterator[type]:
    one = unwrapped(one)
    held = one.__self__ if isinstance(one, MethodType) else one
    kind = held if isinstance(held, type) else type(held)
    if is_own(kind.__module__):
        yield kind


def _name_of(value: Any) -> str:
    named = value if isinstance(value, type | MethodType | BuiltinFunctionType) else type(value)
    return f"{named.__module__}.{named.__qualname__}".removeprefix("__main__.")


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """Those of the user's own that may be run when something is called, or when it is asked for something."""
    value = unwrapped(value)
    if isinstance(value, MethodType):
        yield from _functions_of(value.__self__)
        value = value.__func__
    if isinstance(value, FunctionType):
        if is_own(value.__globals__.get("__name__")):
            yield value
        return
    for base in (value if isinstance(value, type) else type(value)).__mro__:
        if is_own(base.__module__):
            parts = (unwrapped(part) for member in vars(base).values() for part in _within(member))
            yield from (
                part for part in parts if isinstance(part, FunctionType) and is_own(part.__globals__.get("__name__"))
            )


def unwrapped(value: Any) -> Any:
    """What a partial, a cache or a compiler is for; what a decorator of a library has made something of."""
    for _ in range(100):
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, FunctionType) and is_own(value.__globals__.get("__name__")):
            return value
        else:
            wrapped = _attribute(value, "__wrapped__")
            if wrapped is None:
                return value
            value = wrapped
    return value


def _within(member: Any) -> Iterable[Any]:
    """The functions that a member of a class is made of, or itself."""
    if isinstance(member, staticmethod | classmethod):
        return (member.__func__,)
    if isinstance(member, property):
        return (member.fget, member.fset, member.fdel)
    return (member.func,) if isinstance(member, functools.cached_property) else (member,)


def _globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """By which names it refers to what is outside of it; of a module of the user's, what it takes from there.

    What it changes itself is no constant.
    """
    codes = list(_codes(function.__code__))
    changed = {one.argval for code in codes for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL"}
    for code in codes:
        module: ModuleType | None = None  # that was just named
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            named, module = module, None
            if instruction.opname in _NAMES and name in function.__globals__ and name not in changed:
                value, where = function.__globals__[name], function.__globals__.get("__name__")
            elif instruction.opname in _ATTRIBUTES and named is not None and name in vars(named):
                value, where = vars(named)[name], named.__name__
            else:
                continue
            if isinstance(value, ModuleType):
                module = value if is_own(value.__name__) else None
            else:
                yield f"{where}.{name}".removeprefix("__main__."), value


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def is_own(module_name: Any) -> bool:
    """Whether a module is the user's: not Python's, nor a library's."""
    if module_name == "__main__":
        return True
    module = sys.modules.get(module_name) if isinstance(module_name, str) else None
    return module is not None and module_name.partition(".")[0] != "aliquot" and not is_from_library(module)


# Values


def checksum(value: Any) -> str:
    """What tells a value from another, in any process, as far as that can be."""
    try:
        text = repr(_plain(value, {}))
    except Exception:  # too deep, or something of the user's own that raises when it is looked at
        text = type(value).__qualname__
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def _plain(value: Any, told: _Told) -> Any:  # noqa: PLR0911  # one for each kind
    """Something whose text is the same in each process where the value is."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if id(value) in told:
        return ("again", told[id(value)][0])
    told[id(value)] = (len(told), value)
    if len(told) > _MOST_OBJECTS:
        return kind.__qualname__
    if isinstance(value, FunctionType | functools.partial) or _attribute(value, "__wrapped__") is not None:
        return _plain_function(value, told)
    if isinstance(value, type):
        return _plain_class(value, told)
    if isinstance(value, MethodType | BuiltinFunctionType):
        held = value.__self__
        return (_name_of(value), None if isinstance(held, ModuleType) else _plain(held, told))
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, dict | MappingProxyType):
        members: Any = [(_plain(key, told), _plain(one, told)) for key, one in value.items()]
    elif isinstance(value, list | tuple | deque):
        members = (
            _pickled(value) if len(value) > _LONG and _are_scalars(value) else [_plain(one, told) for one in value]
        )
    elif isinstance(value, set | frozenset):
        # Their order differs from process to process.
        members = sorted(repr(_plain_member(one)) for one in value)
    else:
        members = _plain_value(value)
    if is_own(kind.__module__) or kind.__qualname__ in _HOLDERS:
        return [_plain_class(kind, told), members, _plain_state(value, told)]
    return [kind.__qualname__, members]


def _plain_function(value: Any, told: _Told) -> Any:
    if isinstance(value, functools.partial):
        return [_plain(part, told) for part in (value.func, value.args, value.keywords)]
    if not isinstance(value, FunctionType) or not is_own(value.__globals__.get("__name__")):
        # Of a library; or the user's, in something that a library has made of it.
        wrapped = _attribute(value, "__wrapped__")
        return (_name_of(value), None if wrapped is None else _plain(wrapped, told))
    carried = [_plain(one, told) for one in carried_by(value)]
    return (value.__qualname__, _plain_code(value.__code__, value.__doc__, told), carried)


def _plain_code(code: CodeType, doc: str | None, told: _Told) -> Any:
    """What is done; not what is said about it."""
    constants = [
        _plain_code(constant, None, told) if isinstance(constant, CodeType) else _plain(constant, told)
        for number, constant in enumerate(code.co_consts)
        if number or doc is None or constant != doc
    ]
    return (code.co_code, code.co_names, constants)


def _plain_class(kind: type, told: _Told) -> Any:
    if not is_own(kind.__module__):
        return f"{kind.__module__}.{kind.__qualname__}"
    members = [
        (name, [_plain(part, told) for part in _within(member)])
        for name, member in vars(kind).items()
        if name not in _NOT_GIVEN and not name.startswith(_WORKED_OUT)
    ]
    return (kind.__qualname__, members, [_plain(base, told) for base in kind.__bases__])


def _plain_state(value: Any, told: _Told) -> Any:
    """What an object of the user's own holds, but for what it has worked out."""
    kind = type(value)
    held = dict(_attribute(value, "__dict__") or {})
    slots = [name for base in kind.__mro__ for name in _slots_of(base)]
    held |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return [
        (name, _plain(one, told))
        for name, one in held.items()
        if not isinstance(getattr(kind, name, None), functools.cached_property)
    ]


def _slots_of(base: type) -> Iterable[str]:
    slots = vars(base).get("__slots__", ()) if is_own(base.__module__) else ()
    return (slots,) if isinstance(slots, str) else slots


def _plain_member(one: Any) -> Any:
    """Of a set: what can be told without regard to what else there is."""
    if isinstance(one, tuple | frozenset):
        return sorted(map(repr, map(_plain_member, one))) if isinstance(one, frozenset) else [*map(_plain_member, one)]
    return one if type(one) in _SCALARS else _plain_value(one)


def _plain_value(value: Any) -> Any:
    """Where it is known how it is pickled."""
    kind = type(value)
    if isinstance(value, Enum):
        return value.name
    for scalar in (int, float, complex, str, bytes):
        if isinstance(value, scalar):
            return scalar.__repr__(value)  # not as a class of the user's own may show it
    for base in kind.__mro__:
        library = base.__module__.partition(".")[0]
        is_random = f"{base.__module__}.".startswith(f"{_RANDOM}.")
        if base.__module__ in _PICKLED_BY_PYTHON or (library in _PICKLED and not is_random):
            return _pickled(value) if base is kind else base.__qualname__
    return kind.__qualname__


def _are_scalars(values: Iterable[Any]) -> bool:
    return set(map(type, values)).issubset(_SCALARS)


def _pickled(value: Any) -> int:
    """A checksum of its pickle, where that does not take long."""
    held_bytes = _attribute(value, "nbytes")
    if isinstance(held_bytes, int) and held_bytes > _MOST_BYTES:
        return 0
    checksum = 0

    def take(buffer: pickle.PickleBuffer) -> bool:
        nonlocal checksum
        try:
            checksum = zlib.crc32(buffer.raw(), checksum)
        except BufferError:
            return True  # it is not in one piece, and becomes a part of the rest
        return False

    return zlib.crc32(pickle.dumps(value, protocol=5, buffer_callback=take), checksum)


def _attribute(value: Any, name: str) -> Any:
    """None where there is none, or where it raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None
