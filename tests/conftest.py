from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples everywhere, so that a change is judged by what it changes; more of them by hand:
# HYPOTHESIS_PROFILE=long pytest
settings.register_profile("usual", max_examples=60, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an index cache of its own."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ALIQUOT_CACHE", str(directory))
    return directory
