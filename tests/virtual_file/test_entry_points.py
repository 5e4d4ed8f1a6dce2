"""Formats that installed packages offer, found by their entry points in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .making import write

MODULE = """
import aliquot
from aliquot.virtual_file.boundaries import After

class Stars(aliquot.Format):
    name = "stars"
    suffixes = (".stars",)
    boundaries = After(b"*")

    def parse(self, data, header):
        return data.decode().removesuffix("*").split("*") if data else []
"""


def install(folder: Path, name: str, value: str) -> None:
    """What an installer leaves of a package that offers one format."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    write(info / "entry_points.txt", f"[aliquot.formats]\n{name} = {value}\n")


def run(folder: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_format_of_an_installed_package_is_found(tmp_path: Path) -> None:
    """By its suffix and by its name, without being imported."""
    write(tmp_path / "stars_module.py", MODULE)
    install(tmp_path, "stars", "stars_module:Stars")
    write(tmp_path / "a.stars", b"one*two*")
    write(tmp_path / "b", b"three*")
    found = run(tmp_path, "import aliquot; print(list(aliquot.open('a.stars')), list(aliquot.open('b', 'stars')))")
    assert found == "['one', 'two'] ['three']\n"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_module:Format", "No module named 'no_such_module'"),
        ("stars_module:NoSuchClass", "NoSuchClass"),
        ("stars_module:__name__", "is not a subclass of aliquot.Format"),
    ],
    ids=["no module", "no class", "no format"],
)
def test_a_broken_package_is_named_each_time(tmp_path: Path, value: str, says: str) -> None:
    """Not only the first time, after which it would be forgotten; a good one beside it does not hide it."""
    write(tmp_path / "stars_module.py", MODULE)
    install(tmp_path, "stars", "stars_module:Stars")
    install(tmp_path, "broken", value)
    write(tmp_path / "a.unknown", b"a\n")
    program = (
        "import aliquot\n"
        "for _ in range(3):\n"
        "    try: aliquot.open('a.unknown')\n"
        "    except aliquot.UsageError as error: print(error)\n"
    )
    lines = run(tmp_path, program).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert "the format 'broken' of an installed package cannot be loaded" in line
        assert value in line
        assert says in line
