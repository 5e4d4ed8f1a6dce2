"""What a refusal must say: which file, which unit, which byte, and what to do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import pytest

import aliquot


@contextlib.contextmanager
def refused(
    says: str,
    *,
    path: object = None,
    unit: int | None = None,
    byte: int | None = None,
    kind: type[aliquot.DataError] = aliquot.DataError,
) -> Iterator[None]:
    """Expect a `DataError` that says it in its message, has these attributes and gives advice."""
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    assert re.search(says, str(error)), f"{error} does not say {says!r}"
    if path is not None:
        assert error.path == str(path)
        assert str(path) in str(error)
    if unit is not None:
        assert error.unit == unit
        assert f"unit {unit}" in str(error)
    if byte is not None:
        assert error.byte == byte
        assert f"byte {byte}" in str(error)
    assert error.advice, f"{error} does not say what to do"
