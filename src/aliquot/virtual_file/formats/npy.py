from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from aliquot.errors import DataError, Malformed
from aliquot.virtual_file.boundaries import EqualSizes
from aliquot.virtual_file.formats.format import Format

if TYPE_CHECKING:
    import numpy as np

    from aliquot.virtual_file.storage import Storage

_MAGIC = b"\x93NUMPY"
_LARGEST_HEADER_BYTES = 1024 * 1024


@dataclass(frozen=True, eq=False)
class Npy(Format):
    """A numpy array on disk. A unit is a row: what the first index selects."""

    name: ClassVar[str] = "npy"
    suffixes: ClassVar[tuple[str, ...]] = (".npy",)

    def read_header(self, storage: Storage) -> bytes:
        """The magic, the version and the shape."""
        data = storage.read_at(0, _LARGEST_HEADER_BYTES)
        file = io.BytesIO(data)
        try:
            shape, fortran_order, dtype = _read_header(file)
        except Exception as error:
            raise DataError(
                f"has no readable .npy header ({error})",
                path=storage.path,
                byte=0,
                advice="Was numpy.save finished?",
            ) from error
        if dtype.hasobject:
            raise DataError(
                "holds Python objects, which have no fixed size",
                path=storage.path,
                byte=0,
                advice="Save it with a numeric or fixed-length dtype",
            )
        if not shape or (fortran_order and len(shape) > 1):
            what = "holds a single number" if not shape else "is stored by columns (Fortran order)"
            raise DataError(
                f"{what}, so it has no rows to divide",
                path=storage.path,
                byte=0,
                advice="Save it with numpy.save(path, numpy.ascontiguousarray(numpy.atleast_1d(array)))",
            )
        if 0 in shape[1:]:
            raise DataError(
                f"has rows without elements (its shape is {shape})",
                path=storage.path,
                byte=0,
                advice="There is nothing in it to work on: is it the right array?",
            )
        return data[: file.tell()]

    def boundaries_for(self, header: bytes) -> EqualSizes:
        """All rows have the same size."""
        shape, _, dtype = _read_header(io.BytesIO(header))
        return EqualSizes(dtype.itemsize * math.prod(shape[1:]))

    def header_for(self, header: bytes, units: int) -> bytes:
        """The same header with another number of rows."""
        from numpy.lib import format as npy_format

        shape, _, dtype = _read_header(io.BytesIO(header))
        file = io.BytesIO()
        npy_format.write_array_header_1_0(
            file,
            {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": (units, *shape[1:])},
        )
        return file.getvalue()

    def parse(self, data: bytes, header: bytes) -> Sequence[Any]:
        """One array of all rows."""
        import numpy as np

        shape, _, dtype = _read_header(io.BytesIO(header))
        # A copy, so that the array can be written to.
        return np.frombuffer(data, dtype=dtype).reshape(-1, *shape[1:]).copy()  # type: ignore[return-value]  # as in fixed

    def looks_like(self, head: bytes) -> bool:
        """Whether it begins as numpy begins a file."""
        return head.startswith(_MAGIC)

    def check_total(self, header: bytes, units: int) -> None:
        """The file holds as many rows as its header says."""
        shape, _, _ = _read_header(io.BytesIO(header))
        if shape[0] != units:
            raise Malformed(
                f"its header announces {shape[0]} rows, and it holds {units}",
                advice="Was numpy.save finished?",
            )


def _read_header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    from numpy.lib import format as npy_format  # slow to import, and few files are arrays

    version = npy_format.read_magic(file)
    if version == (1, 0):
        return npy_format.read_array_header_1_0(file)
    if version == (2, 0):
        return npy_format.read_array_header_2_0(file)
    raise ValueError(f"version {version} is not supported")
