"""Views that are pickled or described as JSON, and rebuilt elsewhere."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import aliquot
from aliquot.virtual_file.boundaries import After

from .making import numbered_lines, reads, write
from .refusals import refused


def described(vf: aliquot.VirtualFile) -> dict[str, Any]:
    """As it is after a trip through JSON."""
    desc: dict[str, Any] = json.loads(json.dumps(vf.to_desc()))
    return desc


def rebuilt(vf: aliquot.VirtualFile) -> aliquot.VirtualFile:
    """The same view, as another process would have it."""
    return aliquot.VirtualFile.from_desc(described(vf))


def repickled(vf: aliquot.VirtualFile) -> aliquot.VirtualFile:
    """The same view, as a worker of multiprocessing would have it."""
    copy: aliquot.VirtualFile = pickle.loads(pickle.dumps(vf))
    return copy


@pytest.mark.parametrize("travel", [rebuilt, repickled])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("a.txt", numbered_lines(30), {"encoding": None}),
        ("a.txt.gz", gzip.compress(numbered_lines(30)), {}),
        ("a.csv", b"x;y\n" + b"1;2\n" * 30, {"delimiter": ";"}),
        ("a.bin", bytes(120), {"format": "fixed", "record_bytes": 4}),
        ("a.fastq", reads(30), {}),
    ],
    ids=["lines", "gzip", "csv", "fixed", "fastq"],
)
def test_a_view_travels(
    tmp_path: Path,
    *,
    name: str,
    data: bytes,
    options: dict[str, Any],
    counted: bool,
    travel: Callable[[aliquot.VirtualFile], aliquot.VirtualFile],
) -> None:
    """With its units, its format and its options, counted or not."""
    vf = aliquot.open(write(tmp_path / name, data), **options)
    if counted:
        assert len(vf) == 30
    for view in (vf, vf[10:20], vf[25:], vf[:0]):
        copy = travel(view)
        assert copy == view
        assert hash(copy) == hash(view)
        assert len(copy) == len(view)
        assert copy.read() == view.read()
        assert list(map(str, copy)) == list(map(str, view))


def test_a_description_tells_nothing_but_json(tmp_path: Path) -> None:
    """It has a type, a version, and units; a small file has a small one."""
    desc = described(aliquot.open(write(tmp_path / "a.txt", b"a\nb\n"))[1:2])
    assert (desc["type"], desc["version"], desc["start"], desc["stop"]) == ("aliquot.virtual_file", 1, 1, 2)
    assert len(json.dumps(desc)) < 1000


def test_a_described_file_that_changed_is_refused(tmp_path: Path) -> None:
    """Whether its size differs or only its content and time."""
    for number, change in enumerate((b"a\nb\nc\n", b"x\ny\n", b"a\n")):
        path = write(tmp_path / f"{number}.txt", b"a\nb\n")
        os.utime(path, ns=(1, 1))
        desc = described(aliquot.open(path)[0:1])
        write(path, change)
        with refused("not the one that was described", path=path, kind=aliquot.SourceChangedError):
            aliquot.VirtualFile.from_desc(desc)


def test_a_described_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    """With its name."""
    path = write(tmp_path / "a.txt", b"a\n")
    desc = described(aliquot.open(path))
    path.unlink()
    with refused("no such file", path=path):
        aliquot.VirtualFile.from_desc(desc)


def test_a_pickled_file_that_changed_is_refused(tmp_path: Path) -> None:
    """Unpickling is opening."""
    path = write(tmp_path / "a.txt", b"a\n")
    pickled = pickle.dumps(aliquot.open(path))
    write(path, b"other\n")
    with refused("not the one that was described", path=path, kind=aliquot.SourceChangedError):
        pickle.loads(pickled)


@pytest.mark.parametrize("unit", [None, 5])
def test_errors_travel(unit: int | None) -> None:
    """A DataError that is pickled in a worker says the same here."""
    error = aliquot.SourceChangedError("broke", path="/a", unit=unit, byte=7, advice="Mend it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is aliquot.SourceChangedError
    assert str(copy) == str(error)
    assert (copy.path, copy.unit, copy.byte, copy.advice) == ("/a", unit, 7, "Mend it")


def changed(desc: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {**desc, **keywords}


def without(desc: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in desc.items() if key != name}


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "nothing": lambda desc: {},
    "a list": lambda desc: [desc],
    "another type": lambda desc: changed(desc, type="aliquot.function"),
    "a newer version": lambda desc: changed(desc, version=99),
    "no source": lambda desc: without(desc, "source"),
    "no kind": lambda desc: changed(desc, source={}),
    "another kind": lambda desc: changed(desc, source={"kind": "no such kind"}),
    "no path": lambda desc: changed(desc, source=without(desc["source"], "path")),
    "no identity": lambda desc: changed(desc, source=without(desc["source"], "identity")),
    "half an identity": lambda desc: changed(desc, source=changed(desc["source"], identity={"size_bytes": 4})),
    "a text as identity": lambda desc: changed(desc, source=changed(desc["source"], identity="text")),
    "no format": lambda desc: changed(desc, source=without(desc["source"], "format")),
    "a text as format": lambda desc: changed(desc, source=changed(desc["source"], format="lines")),
    "another format": lambda desc: changed(desc, source=changed(desc["source"], format={"name": "x", "options": {}})),
    "a negative start": lambda desc: changed(desc, start=-1),
    "a text as start": lambda desc: changed(desc, start="0"),
    "no start": lambda desc: without(desc, "start"),
    "a stop before the start": lambda desc: changed(desc, start=2, stop=1),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_description_is_refused(tmp_path: Path, broken: str) -> None:
    """As a description, never as a bug."""
    desc = described(aliquot.open(write(tmp_path / "a.txt", b"a\nb\n")))
    with pytest.raises(aliquot.DescriptionError):
        aliquot.VirtualFile.from_desc(BROKEN[broken](desc))


def test_a_described_view_beyond_the_end_is_refused(tmp_path: Path) -> None:
    """With how many units there are."""
    path = write(tmp_path / "a.txt", b"a\nb\n")
    desc = changed(described(aliquot.open(path)), start=1, stop=5)
    with refused("has 2 units", path=path):
        list(aliquot.VirtualFile.from_desc(desc))


def test_views_that_travelled_are_joined_again(tmp_path: Path) -> None:
    """They are of the same source if it is the same file, read in the same way."""
    path = write(tmp_path / "a.txt", numbered_lines(30))
    first, second, rest = aliquot.open(path).split(2, 10)
    assert rebuilt(second).join(rebuilt(first)) == [aliquot.open(path)[0:20]]
    assert [len(part) for part in rebuilt(first).join(rebuilt(rest))] == [10, 10]
    with pytest.raises(aliquot.UsageError, match="overlap"):
        rebuilt(first).join(rebuilt(first))


SDF = """
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import aliquot
from aliquot.virtual_file.boundaries import After


@aliquot.register_format
@dataclass(frozen=True, eq=False)
class Sdf(aliquot.Format):
    name: ClassVar[str] = "sdf"
    suffixes: ClassVar[tuple[str, ...]] = (".sdf",)
    boundaries = After(b"$$$$\\n")

    upper: bool = False

    def parse(self, data: bytes, header: bytes) -> Sequence[str]:
        molecules = data.decode().removesuffix("$$$$\\n").split("$$$$\\n") if data else []
        for number, molecule in enumerate(molecules):
            if not molecule:
                raise aliquot.Malformed("is an empty molecule", unit_within=number, advice="Remove it")
        return [molecule.upper() if self.upper else molecule for molecule in molecules]
"""


@pytest.fixture(scope="module")
def sdf_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's module that registers a format."""
    folder = tmp_path_factory.mktemp("user")
    write(folder / "user_sdf.py", SDF)
    sys.path.insert(0, str(folder))
    try:
        __import__("user_sdf")
    finally:
        sys.path.remove(str(folder))
    return folder


MOLECULES = [f"molecule {number}\n  line $$$$ inside\n" for number in range(5000)]


@pytest.fixture
def molecules(tmp_path: Path, sdf_folder: Path) -> Path:
    """A file in the user's format."""
    return write(tmp_path / "a.sdf", "".join(molecule + "$$$$\n" for molecule in MOLECULES))


def test_a_registered_format_is_known_by_its_suffix(molecules: Path) -> None:
    """It is divided and read like aliquot's own, also across blocks."""
    vf = aliquot.open(molecules)
    assert len(vf) == len(MOLECULES)
    assert list(vf[2000:2003]) == MOLECULES[2000:2003]
    assert vf[7:8].read() == MOLECULES[7].encode() + b"$$$$\n"


def test_a_registered_format_is_compressed_like_any_other(tmp_path: Path, molecules: Path) -> None:
    """The suffix below .gz is the format's."""
    vf = aliquot.open(write(tmp_path / "b.sdf.gz", gzip.compress(molecules.read_bytes())))
    assert vf[4999] == MOLECULES[4999]


def test_a_registered_format_has_options(molecules: Path) -> None:
    """Those of its dataclass."""
    assert aliquot.open(molecules, upper=True)[1] == MOLECULES[1].upper()
    with pytest.raises(aliquot.UsageError, match="'sdf' has no option 'lower': it has upper"):
        aliquot.open(molecules, lower=True)


def test_an_option_may_be_something_that_json_has_no_word_for(tmp_path: Path) -> None:
    @dataclass(frozen=True, eq=False)
    class Barred(aliquot.Format):
        name: ClassVar[str] = "barred"
        boundaries: ClassVar[After] = After(b"\n")
        bar: bytes = b"|"

        def parse(self, data: bytes, header: bytes) -> list[list[bytes]]:
            return [line.split(self.bar) for line in data.splitlines()]

    path = write(tmp_path / "a.barred", "1|2\n3|4\n")
    assert list(aliquot.open(path, Barred())) == [[b"1", b"2"], [b"3", b"4"]]
    assert len(aliquot.open(path, Barred(b"/"))) == 2


def test_a_registered_format_explains_its_faults(tmp_path: Path, molecules: Path) -> None:
    """What it says of some bytes becomes an error with file, unit and byte."""
    path = write(tmp_path / "b.sdf", "a\n$$$$\nb\n$$$$\n$$$$\nc\n$$$$\n")
    with refused("empty molecule", path=path, unit=2, byte=14):
        list(aliquot.open(path))


def test_a_registered_format_travels_by_its_import_path(molecules: Path, sdf_folder: Path) -> None:
    """Another process that never registered it finds its class, if it can import it."""
    desc = json.dumps(aliquot.open(molecules, upper=True)[3:5].to_desc())
    program = "import json, sys, aliquot; print(list(aliquot.VirtualFile.from_desc(json.loads(sys.argv[1]))))"
    done = subprocess.run(
        [sys.executable, "-c", program, desc],
        env={**os.environ, "PYTHONPATH": str(sdf_folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{[molecule.upper() for molecule in MOLECULES[3:5]]}\n"


def test_a_registered_format_that_cannot_be_imported_is_explained(molecules: Path) -> None:
    """With the module that is missing and where it is looked for."""
    desc = json.dumps(aliquot.open(molecules)[3:5].to_desc())
    program = (
        "import json, sys, aliquot\n"
        "try: aliquot.VirtualFile.from_desc(json.loads(sys.argv[1]))\n"
        "except aliquot.DescriptionError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, desc], capture_output=True, text=True, check=True)
    assert "user_sdf" in done.stdout
    assert "PYTHONPATH" in done.stdout


def test_a_format_may_be_given_as_itself(tmp_path: Path, sdf_folder: Path) -> None:
    """Without any name, with the options that it has."""
    sdf: Any = sys.modules["user_sdf"].Sdf
    path = write(tmp_path / "noname", "a\n$$$$\nb\n$$$$\n")
    assert list(aliquot.open(path, sdf(upper=True))) == ["A\n", "B\n"]
    with pytest.raises(aliquot.UsageError, match="options"):
        aliquot.open(path, sdf(), upper=True)


def test_a_name_of_aliquots_own_formats_cannot_be_taken() -> None:
    """Lines stay lines."""
    from aliquot.virtual_file.boundaries import EveryLines

    class Lines(aliquot.Format):
        name = "lines"
        boundaries = EveryLines(1)

        def parse(self, data: bytes, header: bytes) -> list[bytes]:
            return [data]

    with pytest.raises(aliquot.UsageError, match="'lines' is one of aliquot's own"):
        aliquot.register_format(Lines)


def test_what_is_not_a_format_cannot_be_registered() -> None:
    """It needs a name, boundaries and a parse function."""

    class Nameless(aliquot.Format):
        def parse(self, data: bytes, header: bytes) -> list[bytes]:
            return [data]

    class Boundless(aliquot.Format):
        name = "boundless"

        def parse(self, data: bytes, header: bytes) -> list[bytes]:
            return [data]

    for wrong, says in ((Nameless, "name"), (Boundless, "boundaries"), (int, "subclass"), (aliquot.Format, "name")):
        with pytest.raises(aliquot.UsageError, match=says):
            aliquot.register_format(wrong)  # type: ignore[arg-type]  # what is tested


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """With those that there are."""
    with pytest.raises(aliquot.UsageError, match="unknown format 'xml': choose from csv, duckdb, fasta, fastq"):
        aliquot.open(write(tmp_path / "a.txt", b"a\n"), "xml")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("a.csv", {"seperator": ";"}, "'csv' has no option 'seperator': it has delimiter, quote, header, encoding"),
        ("a.jsonl", {"encoding": "latin-1"}, "'jsonl' has no option 'encoding': it has none"),
        ("a.csv", {"delimiter": 5}, "delimiter"),
        ("a.csv", {"delimiter": 0}, "delimiter"),
        ("a.csv", {"encoding": 5}, "encoding"),
        ("a.csv", {"header": "maybe"}, "header"),
        ("a.csv", {"header": 2}, "header"),
        ("a.csv", {"quote": False}, "quote"),
        ("a.csv", {"encoding": None}, "encoding"),
        ("a.csv", {"header": "no"}, "header"),
        ("a.txt", {"encoding": 5}, "encoding"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, name: str, options: dict[str, Any], says: str) -> None:
    """With those that there are, or with the one whose value cannot be."""
    with pytest.raises(aliquot.UsageError, match=says):
        aliquot.open(write(tmp_path / name, b"1\n"), **options)


def sources_of_ten(folder: Path) -> dict[str, aliquot.VirtualFile]:
    """Ten units of each kind of source."""
    path = write(folder / "a.txt", numbered_lines(10))
    half = write(folder / "b.txt", numbered_lines(5))
    return {
        "items": aliquot.open(list(range(10))),
        "range": aliquot.open(range(10)),
        "file": aliquot.open(path),
        "files": aliquot.open([half, half]),
        "together": aliquot.together(path, aliquot.open(range(10))),
    }


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("kind", ["items", "range", "file", "files", "together"])
def test_a_described_stop_beyond_the_end_is_refused(tmp_path: Path, kind: str, counted: bool) -> None:
    """At the latest when units are wanted, whatever the source is."""
    vf = sources_of_ten(tmp_path)[kind]
    if counted:
        assert len(vf) == 10
    desc = changed(described(vf), start=8, stop=12)
    with pytest.raises((aliquot.DescriptionError, aliquot.DataError), match="10"):
        list(aliquot.VirtualFile.from_desc(desc))


@pytest.mark.parametrize("kind", ["items", "files"])
def test_a_described_start_before_what_travelled_is_refused(tmp_path: Path, kind: str) -> None:
    """Units that are not in the description are not made up from others."""
    desc = changed(described(sources_of_ten(tmp_path)[kind][6:8]), start=3)
    with pytest.raises((aliquot.DescriptionError, aliquot.DataError)):
        list(aliquot.VirtualFile.from_desc(desc))


@pytest.mark.parametrize("numbers", [[1, 2, 0], ["a", "b", "c"], 5, None])
def test_a_range_that_cannot_be_is_refused(numbers: Any) -> None:
    """As a description: no step of 0, and nothing but numbers."""
    desc = described(aliquot.open(range(3)))
    broken = changed(desc, source=changed(desc["source"], range=numbers), start=0, stop=0)
    with pytest.raises(aliquot.DescriptionError):
        aliquot.VirtualFile.from_desc(broken)
