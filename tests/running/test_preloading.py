"""What workers will import is known from the name of the first file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aliquot.running.preloading import libraries_for


class Told:
    libraries = ("json",)


class Article:
    source = 5


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("nano/*.root:Events", "uproot"),
        (["a.root:Events", "b.root:Events"], "uproot"),
        ({"data": [Path("a.PARQUET")]}, "pyarrow.parquet"),
        ("/home/.rootless/x.csv", None),
        (range(5), None),
        ([], None),
        (Article(), None),
        (None, None),
    ],
)
def test_libraries_are_told_by_the_name_of_a_file(source: Any, expected: str | None) -> None:
    """By its ending, without opening anything."""
    found = libraries_for(len, source)
    assert (expected in found) if expected else found == ()


def test_a_function_may_tell_by_itself() -> None:
    """It knows best."""
    assert libraries_for(Told(), "a.root") == ("json",)
