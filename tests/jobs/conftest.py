from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What commands leave in temporary directories goes with those of the tests."""
    directory = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory
