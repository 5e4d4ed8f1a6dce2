"""What the type of a column is called, where files are compared.

How long texts are, and what the values in lists are called, makes no difference: batches of both can be put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy


def array_type(array: numpy.ndarray[Any, Any]) -> str:
    """Of an array whose first axis are the rows."""
    return numpy_type(array.dtype, array.shape[1:])


def numpy_type(dtype: numpy.dtype[Any], axes: tuple[int, ...] = ()) -> str:
    """Of values, or of as many in each row as the axes have places."""
    if dtype.subdtype is not None:
        return numpy_type(dtype.subdtype[0], (*axes, *dtype.subdtype[1]))
    if dtype.names is not None:
        name = f"{{{', '.join(f'{field}: {numpy_type(dtype[field])}' for field in dtype.names)}}}"
    else:
        name = {"U": "str", "S": "bytes"}.get(dtype.kind) or str(dtype)
    return f"{name}{list(axes)}" if axes else name


def arrow_type(kind: Any) -> str:
    """Of a column of an arrow table."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return f"list<{arrow_type(kind.value_type)}>"
    if types.is_fixed_size_list(kind):
        return f"list<{arrow_type(kind.value_type)}>[{kind.list_size}]"
    if types.is_map(kind):
        return f"map<{arrow_type(kind.key_type)}, {arrow_type(kind.item_type)}>"
    if types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {arrow_type(field.type)}' for field in kind)}>"
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    return "string" if types.is_large_string(kind) else str(kind)
