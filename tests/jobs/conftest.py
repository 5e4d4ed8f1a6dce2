from __future__ import annotations

import os
import tempfile

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What tests leave in temporary directories goes with those of the session."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("t"))
