"""The README and the docs are true: their code runs, and what they name exists."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import aliquot

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def sample_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the docs speak of, in the current directory."""
    monkeypatch.chdir(tmp_path)
    reads = "".join(f"@read{number}\n{'ACGT' * 10}\n+\n{'IIII' * 10}\n" for number in range(3000))
    Path("reads.fastq.gz").write_bytes(gzip.compress(reads.encode()))
    Path("sample.fastq.gz").write_bytes(gzip.compress(reads.encode()))
    Path("ref.fa").write_text(f">ref\n{'ACGT' * 100}\n")
    if shutil.which("bwa"):
        subprocess.run(["bwa", "index", "ref.fa"], check=True, capture_output=True)
    for side in (1, 2):
        mates = (f"@pair{number}/{side}\nACGT\n+\nIIII\n" for number in range(100))
        Path(f"reads_{side}.fastq").write_text("".join(mates))
    notes = ("two\nlines", "plain", "plain")
    rows = (f'{number},{number * number},"{notes[number % 3]}"\n' for number in range(2000))
    Path("measurements.csv").write_text("time,value,note\n" + "".join(rows))
    values = ("not a number" if number == 3 else str(number) for number in range(20))
    Path("broken.csv").write_text("time,value\n" + "".join(f"{time},{value}\n" for time, value in enumerate(values)))
    Path("analysis.py").write_text(
        "def add_values(rows):\n    return sum(int(row['value']) for row in rows)\n"
        "def parse(line):\n    return len(line)\n"
        "def count_muons(events):\n    return int(sum(events.nMuon))\n"
        "def add_prices(rows):\n    return float(rows.price.sum())\n"
    )
    Path("semicolons.txt").write_text("a;b\n1;2\n")
    Path("text.txt").write_text("".join(f"{'word ' * (number % 9)}end\n" for number in range(50)))
    Path("events.bin").write_bytes(bytes(80))
    Path("molecules.sdf").write_text("water\n  O H H\n$$$$\nbenzene\n  C6 H6\n$$$$\n")
    np.save("energies.npy", np.linspace(0, 1, 1000))
    Path("camera.frames").write_bytes(bytes(range(256)))
    _make_tables()
    Path("logs").mkdir()
    for day in (1, 2):
        Path(f"logs/day{day}.jsonl").write_text("".join(f'{{"day": {day}, "n": {n}}}\n' for n in range(10)))
    return tmp_path


def _make_tables() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tests.virtual_file.tables.making_root import write_tree

    Path("nano").mkdir()
    for number in range(3):
        write_tree(Path(f"nano/{number}.root"))
    sales = {"price": [number / 10 for number in range(1000)], "city": ["Bern"] * 1000}
    pq.write_table(pa.table(sales), "sales.parquet")
    Path("rows").mkdir()
    for name in ("first", "second"):
        pq.write_table(pa.table({"n": list(range(100))}), f"rows/{name}.parquet")
    Path("rows/truncated.parquet").write_bytes(Path("rows/first.parquet").read_bytes()[:-50])
    with contextlib.closing(sqlite3.connect("muons.sqlite")) as database, database:
        database.execute("CREATE TABLE muons (event INTEGER, pt REAL)")
        database.executemany("INSERT INTO muons VALUES (?, ?)", [(n // 3, float(n)) for n in range(300)])
        database.execute("CREATE INDEX by_event ON muons (event)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, sample_files: Path) -> None:
    """All Python blocks of a page, one after the other, as one script."""
    script = "\n".join(blocks(page, "python"))
    # In CI it must be installed.
    if "coffea" in script and find_spec("coffea") is None and os.environ.get("CI") != "true":
        pytest.skip("coffea is not installed")
    # A script, not exec: pools start processes that import it.
    Path("page.py").write_text(script)
    ran = subprocess.run([sys.executable, "page.py"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, sample_files: Path) -> None:
    """Every line that begins with $ exits with 0."""
    programs = Path(sys.executable).parent
    for block in blocks(page, "console"):
        for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            if "bwa" in command and not shutil.which("bwa"):
                pytest.skip("bwa is not installed")
            ran = subprocess.run(
                command,
                shell=True,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            )
            assert ran.returncode == 0, f"{shlex.quote(command)}: {ran.stderr}"


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link names a file that is there."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_table_of_formats_is_complete() -> None:
    """Every format and every suffix that aliquot knows is in docs/formats.md."""
    from aliquot.virtual_file.formats.registry import _BUILT_IN, find_format

    page = (ROOT / "docs" / "formats.md").read_text()
    for name, (_, suffixes) in _BUILT_IN.items():
        built_in = find_format(name)
        assert built_in is not None
        assert (built_in.name, built_in.suffixes) == (name, suffixes)
        assert f"`{built_in.name}`" in page
        for suffix in built_in.suffixes:
            assert re.search(rf"[`\s]{re.escape(suffix)}[`\s]", page), f"{suffix} is not in the table"
        for option in built_in.option_names():
            assert option in page, f"the option {option} of {built_in.name} is not in the table"


def test_every_public_name_can_be_had() -> None:
    """What __all__ promises is there, and has a docstring if it is a class or function."""
    for name in aliquot.__all__:
        thing = getattr(aliquot, name)
        if callable(thing):
            assert thing.__doc__, f"aliquot.{name} has no docstring"
