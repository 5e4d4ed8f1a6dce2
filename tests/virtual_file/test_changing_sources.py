"""Files that change under a view, and things that are no files."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import aliquot

from .making import numbered_lines, random_lines, write
from .refusals import refused


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def rewrite(path: Path) -> None:
    before = path.stat()
    path.write_bytes(bytes(reversed(path.read_bytes())))
    assert path.stat().st_size == before.st_size
    # Two writes may be closer than the clock of the file system can tell.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


def replace(path: Path) -> None:
    other = write(path.with_suffix(".other"), b"other\n" * 3)
    other.replace(path)


CHANGES = [grow, shrink, rewrite, replace]
READS: list[Callable[[aliquot.VirtualFile], object]] = [
    list,
    lambda vf: vf[50],
    lambda vf: vf[50:60].read(),
]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_after_it_was_counted_is_refused(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    """Records and bytes of a stale index are never given."""
    data = numbered_lines(100)
    path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    vf = aliquot.open(path)
    assert len(vf) == 100
    change(path)
    for read in READS:
        with refused("since it was opened", path=path, kind=aliquot.SourceChangedError):
            read(vf)


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_before_it_was_counted_is_refused(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """What was opened is what is counted."""
    path = write(tmp_path / "a.txt", numbered_lines(100))
    vf = aliquot.open(path)
    change(path)
    with refused("since it was opened", path=path, kind=aliquot.SourceChangedError):
        len(vf)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_can_be_opened_again(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """As the advice of the refusal says; its old index is not used."""
    path = write(tmp_path / "a.txt", numbered_lines(100))
    assert len(aliquot.open(path)) == 100
    change(path)
    assert aliquot.open(path).read() == path.read_bytes()
    assert len(aliquot.open(path)) == len(path.read_bytes().split(b"\n")) - path.read_bytes().endswith(b"\n")


def test_a_file_that_grew_says_so(tmp_path: Path) -> None:
    """With both sizes."""
    path = write(tmp_path / "a.txt", b"12345\n")
    vf = aliquot.open(path)
    grow(path)
    with refused("6 to 11 bytes", path=path, kind=aliquot.SourceChangedError):
        vf.read()


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_deleted_file_is_refused(tmp_path: Path, name: str) -> None:
    """With its name."""
    data = numbered_lines(100)
    path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    vf = aliquot.open(path)
    assert len(vf) == 100
    path.unlink()
    for read in READS:
        with refused("cannot be opened any more", path=path):
            read(vf)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """With its name."""
    with refused("no such file", path=tmp_path / "missing.txt"):
        aliquot.open(tmp_path / "missing.txt")


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    """As a missing file."""
    (tmp_path / "link.txt").symlink_to(tmp_path / "missing.txt")
    with refused("no such file", path=tmp_path / "link.txt"):
        aliquot.open(tmp_path / "link.txt")


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    """A name below something that is no directory."""
    write(tmp_path / "a.txt", b"a\n")
    with refused("", path=tmp_path / "a.txt" / "b.txt"):
        aliquot.open(tmp_path / "a.txt" / "b.txt")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """With the glob that opens the files in it."""
    with refused(r"is a directory.*\*", path=tmp_path):
        aliquot.open(tmp_path)


def test_a_named_pipe_is_refused(tmp_path: Path) -> None:
    """Without waiting for somebody to write to it."""
    os.mkfifo(tmp_path / "fifo.txt")
    with refused("pipe or a device", path=tmp_path / "fifo.txt"):
        aliquot.open(tmp_path / "fifo.txt")


def test_a_device_is_refused() -> None:
    """It has no end."""
    with refused("pipe or a device", path="/dev/zero"):
        aliquot.open("/dev/zero")


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user can look into, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


OPEN_AS_NOBODY = """
import os, sys
import aliquot
aliquot.open(__file__ if "__file__" in globals() else sys.executable, "fixed", record_bytes=1)
if os.getuid() == 0:
    os.setuid(65534)
try:
    aliquot.open(sys.argv[1])
except aliquot.DataError as error:
    print(error.path, error, sep="\\n")
"""


def test_a_file_without_permission_is_refused(public_folder: Path) -> None:
    """With its name and what to look at."""
    path = write(public_folder / "secret.txt", b"a\n")
    path.chmod(0)
    done = subprocess.run([sys.executable, "-c", OPEN_AS_NOBODY, str(path)], capture_output=True, text=True, check=True)
    named, message = done.stdout.splitlines()
    assert named == str(path)
    assert "Permission denied" in message
    assert "permissions" in message


def test_a_file_in_a_closed_folder_is_refused(public_folder: Path) -> None:
    """With its name and what to look at."""
    folder = public_folder / "closed"
    folder.mkdir(mode=0o755)
    path = write(folder / "a.txt", b"a\n")
    folder.chmod(0)
    done = subprocess.run([sys.executable, "-c", OPEN_AS_NOBODY, str(path)], capture_output=True, text=True, check=True)
    folder.chmod(0o755)
    named, message = done.stdout.splitlines()
    assert named == str(path)
    assert "Permission denied" in message
    assert "permissions" in message


def test_names_of_files_may_be_odd(tmp_path: Path) -> None:
    """Spaces, quotes, newlines, and bytes that are not UTF-8."""
    for name in ("with space.txt", "quo'te\".txt", "new\nline.txt", os.fsdecode(b"latin-\xe9.txt")):
        path = write(tmp_path / name, b"a\nb\n")
        vf = aliquot.open(path)
        assert list(vf) == ["a", "b"]
        assert aliquot.VirtualFile.from_desc(vf.to_desc()).read() == b"a\nb\n"
        assert aliquot.open(path).count(wait=False) == 2


def compress_as(kind: str, data: bytes, program: Callable[[str], str]) -> bytes:
    command = {"gzip": ["gzip", "-c", "-1"], "bgzf": ["bgzip", "-c"], "zstd": ["zstd", "-q", "-c", "-1"]}
    if kind == "plain":
        return data
    name, *arguments = command[kind]
    return subprocess.run([program(name), *arguments], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("units", [slice(0, None), slice(10, 100_000)], ids=["all", "some"])
@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzf", "zstd"])
def test_a_file_that_is_rewritten_between_two_pieces_is_refused(
    tmp_path: Path, kind: str, units: slice, program: Callable[[str], str]
) -> None:
    """The units are never half of one content and half of another, though size and compression are right."""
    # Several frames of zstd; a BGZF file may have its end marker in the middle, too.
    copies = 1 if kind == "plain" else 8
    path = write(tmp_path / "a", compress_as(kind, random_lines(160_000 // copies), program) * copies)
    view = aliquot.open(path, "lines")[units]
    assert len(view) > 90_000
    pieces = view.source.body_pieces(view.start, view.stop)
    assert len(next(pieces)) > 0
    before = path.stat()
    write(path, path.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    with refused("was rewritten since it was opened", path=path, kind=aliquot.SourceChangedError):
        for _ in pieces:
            pass
