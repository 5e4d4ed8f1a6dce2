from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from aliquot.cli import main

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


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ran]]:
    """The command line without a process of its own, for what needs none: what it says, and its exit code."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["aliquot", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else -1
        printed = capfd.readouterr()
        return Ran(code, printed.out, printed.err)

    yield run
    sys.modules.pop("analysis", None)  # of this test's own directory
