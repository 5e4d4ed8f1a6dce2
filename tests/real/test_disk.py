"""Temporary files are limited like memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytest

import aliquot
from aliquot import UnitsSetAsideWarning

MB = 1 << 20
TWO = aliquot.sites.Local(cores=2)


def write_and_stay(unit: int) -> str:
    """Unit 5 writes far more than it may, and stays until it is stopped."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"x" * (100 * MB if unit == 5 else MB // 10))
        file.flush()
        while unit == 5:
            pass
    return file.name


def test_a_unit_that_fills_the_disk_is_set_aside() -> None:
    """All others are done, each worker has a directory of its own, and nothing is left of it."""
    with pytest.warns(UnitsSetAsideWarning, match="scratch directory"):
        values: list[Any] = aliquot.map(write_and_stay, range(20), disk=20 * MB, max_failures=1, on=TWO)
    assert isinstance(values[5], aliquot.Failure)
    assert values[5].kind == "exhausted"
    places = {os.path.dirname(value) for value in values if isinstance(value, str)}
    assert len(places) >= 2
    assert not any(os.path.exists(place) or os.path.exists(os.path.dirname(place)) for place in places)


def test_temporary_files_are_measured() -> None:
    """The most that a worker had at once."""
    job = aliquot.FunctionJob(lambda units: [write_and_stay(unit) for unit in units], aliquot.open(range(4)))
    report = aliquot.run(job, disk=20 * MB, on=aliquot.sites.Local(cores=1)).report
    assert 4 * (MB // 10) <= report.scratch_bytes <= MB


def test_without_a_limit_temporary_files_are_where_they_always_are() -> None:
    """And stay, as a function may return their names."""
    for path in aliquot.map(write_and_stay, range(2), on=TWO):
        assert os.path.dirname(path) == tempfile.gettempdir()
        os.unlink(path)
