from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest


@pytest.fixture
def program() -> Callable[[str], str]:
    """Find a real program; without it the test is skipped, but for CI, where it must be installed."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is not None:
            return path
        reason = f"the program {name!r} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    return find
