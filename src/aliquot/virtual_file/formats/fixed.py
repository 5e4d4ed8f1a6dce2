from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from aliquot.errors import UsageError
from aliquot.virtual_file.boundaries import EqualSizes
from aliquot.virtual_file.formats.format import Format

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class FixedRecords(Format):
    """A unit is a record of a fixed size, given in bytes or as a numpy dtype such as '<f8' or '<i4,<f4'.

    Records are bytes, or a numpy array where a dtype is given.
    """

    name: ClassVar[str] = "fixed"

    record_bytes: int | None = None
    dtype: Any = None

    def __post_init__(self) -> None:
        if (self.record_bytes is None) == (self.dtype is None):
            raise UsageError("format='fixed' needs either record_bytes=... or dtype=...")
        if self.dtype is not None:
            # Any way of saying a dtype is fine; a text of it can be described and compared.
            object.__setattr__(self, "dtype", _as_text(self.dtype))
        elif not isinstance(self.record_bytes, int) or self.record_bytes < 1:
            raise UsageError(f"record_bytes={self.record_bytes!r} is not a number of bytes from 1")

    def boundaries_for(self, header: bytes) -> EqualSizes:
        """All units have the same size."""
        return EqualSizes(_from_text(self.dtype).itemsize if self.dtype is not None else self.record_bytes or 0)

    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """A list of bytes, or one array."""
        if self.dtype is not None:
            import numpy as np

            # A copy, so that the array can be written to.
            records: Any = np.frombuffer(data, dtype=_from_text(self.dtype)).copy()
            return cast(Sequence[Any], records)
        size = self.record_bytes or 0
        return [data[at : at + size] for at in range(0, len(data), size)]


def _as_text(given: Any) -> str:
    import numpy as np
    from numpy.lib import format as npy_format

    try:
        dtype = _from_text(given) if isinstance(given, str) else np.dtype(given)
    except (TypeError, ValueError, SyntaxError) as error:
        raise UsageError(f"{given!r} is not a numpy dtype: {error}") from None
    if dtype.hasobject or not dtype.itemsize:
        raise UsageError(f"the dtype {given!r} has no fixed size in a file")
    if dtype.subdtype is not None:
        raise UsageError(f"the dtype {given!r} is an array itself: give its base, and reshape the batches")
    return str(npy_format.dtype_to_descr(dtype))


def _from_text(text: str) -> np.dtype[Any]:
    """'<f8', '<i4,<f4', or the list of fields that numpy writes for a structured dtype."""
    import numpy as np
    from numpy.lib import format as npy_format

    if text.startswith("["):
        return np.dtype(npy_format.descr_to_dtype(ast.literal_eval(text)))
    return np.dtype(text)
