from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aliquot.errors import UsageError
from aliquot.virtual_file.boundaries import EqualSizes
from aliquot.virtual_file.formats.format import Format


@dataclass(frozen=True, eq=False)
class FixedRecords(Format):
    """A unit is a record of a fixed size, given in bytes or as a numpy dtype such as '<f8' or '<i4,<f4'.

    Records are bytes, or a numpy array where a dtype is given.
    """

    name: ClassVar[str] = "fixed"
    terminator: ClassVar[bytes] = b""

    record_bytes: int | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        if (self.record_bytes is None) == (self.dtype is None):
            raise UsageError("format='fixed' needs either record_bytes=... or dtype=...")
        if self.dtype is not None:
            try:
                found = np.dtype(self.dtype)
            except TypeError as error:
                raise UsageError(f"{self.dtype!r} is not a numpy dtype: {error}") from None
            if found.hasobject or not found.itemsize:
                raise UsageError(f"the dtype {self.dtype!r} has no fixed size in a file")

    def boundaries_for(self, header: bytes) -> EqualSizes:
        """All units have the same size."""
        return EqualSizes(np.dtype(self.dtype).itemsize if self.record_bytes is None else self.record_bytes)

    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """A list of bytes, or one array."""
        if self.record_bytes is None:
            # A copy, so that the array can be written to.
            return np.frombuffer(data, dtype=self.dtype).copy()  # type: ignore[return-value]  # an array is one, but for numpy
        return [data[at : at + self.record_bytes] for at in range(0, len(data), self.record_bytes)]
