from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


class FreshCache:
    """A cache directory for indexes that the benchmarks alone use."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def empty(self) -> None:
        """Forget all indexes."""
        for entry in os.scandir(self._directory):
            os.unlink(entry)

    def size_bytes(self) -> int:
        """How large all indexes are."""
        return sum(entry.stat().st_size for entry in os.scandir(self._directory))


@contextlib.contextmanager
def fresh_cache() -> Iterator[FreshCache]:
    """Let aliquot keep its indexes in an empty directory, here and in the processes started meanwhile."""
    before = os.environ.get("ALIQUOT_CACHE")
    with tempfile.TemporaryDirectory(prefix="aliquot-bench-") as directory:
        os.environ["ALIQUOT_CACHE"] = directory
        try:
            yield FreshCache(directory)
        finally:
            if before is None:
                del os.environ["ALIQUOT_CACHE"]
            else:
                os.environ["ALIQUOT_CACHE"] = before
