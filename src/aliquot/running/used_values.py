"""What a function uses besides its own code: helper functions, constants, settings of the user's own modules.

A run that goes on with another threshold, or another helper, would put two analyses together in one result.
"""

from __future__ import annotations

import dis
import functools
import pickle
import sys
import zlib
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from aliquot.workers.copied import is_from_library

# Longer ones are taken as they are pickled, which is a hundred times as quick.
_LONG = 1000
# Of larger ones, only the kind is compared: it would take seconds.
_MOST_BYTES = 256 << 20
# These differ from process to process and mean nothing, unless somebody gives a seed.
_RANDOM = ("random", "numpy.random")
# Members of a class that Python has made.
_NOT_MADE = ("__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__", "_abc_impl")
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


def used_values(*functions: Any) -> dict[str, str]:
    """The global names that functions of the user's own use, also by way of others, and a checksum of each value."""
    found = {name: _checksum(value) for one in functions for name, value in _objects_of(one)}
    seen: set[int] = set()
    waiting = list(functions)
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for function in _functions_of(one):
            for name, value in _globals_of(function):
                found[name] = _checksum(value)
                if isinstance(value, FunctionType | MethodType | type | functools.partial):
                    waiting.append(value)
            waiting += [value for value in _carried_by(function) if callable(value)]
    return dict(sorted(found.items()))


def _objects_of(one: Any) -> Iterator[tuple[str, Any]]:
    """Of a method or an object that is called, what its code does not tell: its class, and what it holds."""
    while isinstance(one, functools.partial):
        one = one.func
    held = getattr(one, "__self__", None) if isinstance(one, MethodType) else one
    kind = type(held)
    if _is_own(kind.__module__):
        yield kind.__qualname__, kind
        if isinstance(one, MethodType):
            yield f"the {kind.__qualname__}", held


def _within(member: Any) -> Any:
    """The function that a member of a class is made of, if it is."""
    return next((getattr(member, name) for name in ("__func__", "fget", "func") if hasattr(member, name)), member)


def _functions_of(one: Any) -> Iterator[FunctionType]:
    """Those of the user's own that are run when something is called."""
    while isinstance(one, functools.partial):
        one = one.func
    if isinstance(one, MethodType):
        one = one.__func__
    if isinstance(one, FunctionType):
        if _is_own(one.__module__):
            yield one
        return
    kind = one if isinstance(one, type) else type(one)
    for base in kind.__mro__:
        if _is_own(base.__module__):
            yield from (part for part in map(_within, vars(base).values()) if isinstance(part, FunctionType))


def _globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """By which names it refers to what is outside of it; of a module of the user's, what it takes from there."""
    for code in _codes(function.__code__):
        module: ModuleType | None = None  # that was just named
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            named, module = module, None
            if instruction.opname in _NAMES and name in function.__globals__:
                value, where = function.__globals__[name], function.__module__
            elif instruction.opname in _ATTRIBUTES and named is not None and name in vars(named):
                value, where = vars(named)[name], named.__name__
            else:
                continue
            if isinstance(value, ModuleType):
                module = value if _is_own(value.__name__) else None
            else:
                yield name if where == "__main__" else f"{where}.{name}", value


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _carried_by(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # there is none yet
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _is_own(module_name: Any) -> bool:
    """Whether a module is the user's: not Python's, nor a library's."""
    module = sys.modules.get(module_name) if isinstance(module_name, str) else None
    if module_name == "__main__":
        return True
    return module is not None and module_name.partition(".")[0] != "aliquot" and not is_from_library(module)


def _checksum(value: Any) -> str:
    return f"{zlib.crc32(repr(_plain(value, {})).encode(errors='surrogatepass')):08x}"


def _plain(value: Any, known: dict[int, int]) -> Any:  # noqa: PLR0911  # one for each kind
    """Something whose text is the same in each process where the value is. What it was told of before is ``known``."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return value
    if id(value) in known:
        return ("again", known[id(value)])
    known[id(value)] = len(known)
    if isinstance(value, FunctionType):
        carried = [_plain(one, known) for one in _carried_by(value)]
        return (value.__module__, value.__qualname__, _plain(value.__code__, known), carried)
    if isinstance(value, CodeType):
        return (value.co_code, value.co_names, [_plain(constant, known) for constant in value.co_consts])
    if isinstance(value, type) and _is_own(value.__module__):
        members = [
            (name, _plain(_within(member), known)) for name, member in vars(value).items() if name not in _NOT_MADE
        ]
        return (value.__module__, value.__qualname__, members, [_plain(base, known) for base in value.__bases__])
    if isinstance(value, MethodType | BuiltinFunctionType | type | ModuleType):
        return (getattr(value, "__module__", None), getattr(value, "__qualname__", value.__name__))
    if isinstance(value, functools.partial):
        return [_plain(part, known) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, set | frozenset):
        # Their order differs from process to process.
        return [kind.__qualname__, *sorted(repr(_plain(one, {})) for one in value)]
    if isinstance(value, Mapping) and len(value) <= _LONG:
        return [kind.__qualname__, *((_plain(key, known), _plain(one, known)) for key, one in value.items())]
    if isinstance(value, list | tuple) and len(value) <= _LONG:
        return [kind.__qualname__, *(_plain(one, known) for one in value)]
    if kind.__module__.startswith(_RANDOM):
        return kind.__qualname__
    is_own = _is_own(kind.__module__) or kind.__qualname__ in ("Namespace", "SimpleNamespace")
    if is_own and hasattr(value, "__dict__"):
        return [kind.__qualname__, _plain(vars(value), known)]
    return (kind.__qualname__, _pickled_checksum(value))


def _pickled_checksum(value: Any) -> int:
    if getattr(value, "nbytes", 0) > _MOST_BYTES:
        return 0
    checksum = 0

    def take(buffer: pickle.PickleBuffer) -> bool:
        nonlocal checksum
        try:
            checksum = zlib.crc32(buffer.raw(), checksum)
        except BufferError:
            return True  # it is not in one piece, and becomes a part of the rest
        return False

    try:
        return zlib.crc32(pickle.dumps(value, protocol=5, buffer_callback=take), checksum)
    except Exception:
        return 0  # a file, a lock: it is known by its kind
