"""Slices as files of their own."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aliquot

from .making import numbered_lines, reads, write
from .refusals import refused


def test_a_slice_is_written_as_read_gives_it(tmp_path: Path) -> None:
    """To a new file, or over an old one, by any kind of path."""
    view = aliquot.open(write(tmp_path / "a.txt", numbered_lines(100)))[10:20]
    for target in (tmp_path / "out.txt", str(tmp_path / "out.txt")):
        view.instantiate(target)
        assert (tmp_path / "out.txt").read_bytes() == view.read()
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "out.txt"]


def test_a_relative_path_is_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for any program; the source is found wherever the program goes."""
    write(tmp_path / "a.txt", b"a\nb\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    vf = aliquot.open("a.txt")
    monkeypatch.chdir(tmp_path / "elsewhere")
    vf.instantiate("out.txt")
    assert (tmp_path / "elsewhere" / "out.txt").read_bytes() == b"a\nb\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_target_is_kept_where_the_source_has_changed(tmp_path: Path, name: str) -> None:
    """Whole or not at all: the old content stays, and nothing lies beside it."""
    data = numbered_lines(100)
    path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    target = write(tmp_path / "out.txt", b"old")
    view = aliquot.open(path)[10:20]
    assert view.read()
    with path.open("ab") as file:
        file.write(b"more\n")
    with refused("since it was opened", path=path, kind=aliquot.SourceChangedError):
        view.instantiate(target)
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == [name, "out.txt"]


def test_a_target_is_kept_where_a_unit_is_malformed(tmp_path: Path) -> None:
    """A slice that does not begin with a read is not written."""
    before = reads(1000)
    path = write(tmp_path / "a.fastq", before + b"bad\nA\n+\nI\n" + reads(1000))
    target = write(tmp_path / "out.fastq", b"old")
    with refused("must begin with '@'", path=path, unit=1000, byte=len(before)):
        aliquot.open(path)[1000:1010].instantiate(target)
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.fastq", "out.fastq"]


def test_a_full_disk_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    """The error names the target and says that the disk may be full."""
    path = write(tmp_path / "a.txt", numbered_lines(20_000))
    target = write(tmp_path / "out.txt", b"old")
    program = (
        "import resource, signal, sys, aliquot\n"
        "vf = aliquot.open(sys.argv[1])\n"
        "len(vf)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    vf.instantiate(sys.argv[2])\n"
        "except aliquot.DataError as error:\n"
        "    print(error.path, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(target)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{target} {target}: cannot be written")
    assert "disk" in done.stdout
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "out.txt"]


@pytest.mark.parametrize("way", ["itself", "a link", "a hard link", "another spelling"])
@pytest.mark.parametrize("units", [slice(0, 5), slice(0, 0), slice(0, None)], ids=["some", "none", "all"])
def test_a_slice_is_not_written_over_its_source(tmp_path: Path, way: str, units: slice) -> None:
    """Whatever the source is called, and whichever units they are."""
    data = numbered_lines(100)
    path = write(tmp_path / "a.txt", data)
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    names = {"itself": path, "a link": tmp_path / "link", "a hard link": tmp_path / "hard"}
    target = names.get(way, os.path.join(tmp_path, ".", "a.txt"))
    with pytest.raises(aliquot.UsageError, match="source itself"):
        aliquot.open(path)[units].instantiate(target)
    assert path.read_bytes() == data


@pytest.mark.parametrize("units", [slice(0, 2), slice(5, 6), slice(0, 0)], ids=["of another file", "of it", "none"])
def test_a_slice_is_not_written_over_any_file_of_its_source(tmp_path: Path, units: slice) -> None:
    """Also not over one that holds none of its units: the others would lose theirs."""
    paths = [write(tmp_path / "a.txt", b"0\n1\n2\n"), write(tmp_path / "b.txt", b"3\n4\n5\n6\n")]
    with pytest.raises(aliquot.UsageError, match="source itself"):
        aliquot.open(paths)[units].instantiate(paths[1])
    assert paths[1].read_bytes() == b"3\n4\n5\n6\n"


def test_a_slice_of_a_pair_is_not_written_over_its_mate(tmp_path: Path) -> None:
    """Each of the two files is the source of both."""
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", reads(10, " 2"))
    with pytest.raises(aliquot.UsageError, match="source itself"):
        aliquot.together(*paths)[:5].instantiate(paths[1], tmp_path / "out.fq")
    assert paths[1].read_bytes() == reads(10, " 2")


def test_two_members_are_not_written_to_one_file(tmp_path: Path) -> None:
    """The second would replace the first."""
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", reads(10))
    with pytest.raises(aliquot.UsageError):
        aliquot.together(*paths)[:5].instantiate(tmp_path / "out.fq", tmp_path / "out.fq")


def test_pairs_are_written_to_two_files(tmp_path: Path) -> None:
    """With the same reads; one path for each."""
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", reads(10, " 2"))
    view = aliquot.together(*paths)[4:7]
    view.instantiate(tmp_path / "out1.fq", tmp_path / "out2.fq")
    assert [len(record) for record in aliquot.together(tmp_path / "out1.fq", tmp_path / "out2.fq")] == [2, 2, 2]
    assert aliquot.open(tmp_path / "out2.fq")[0].name == "read4 2"
    with pytest.raises(aliquot.UsageError, match=r"2 path\(s\)"):
        view.instantiate(tmp_path / "only_one.fq")


@pytest.mark.parametrize("suffix", [".gz", ".bgz", ".zst"])
def test_a_compressed_name_is_refused(tmp_path: Path, suffix: str) -> None:
    """Slices are written uncompressed."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\n"))
    with pytest.raises(aliquot.UsageError, match=f"without {suffix}"):
        vf.instantiate(tmp_path / f"out.txt{suffix}")
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_a_slice_has_the_permissions_of_a_new_file(tmp_path: Path, mask: int) -> None:
    """Those that the umask leaves, and the umask stays as it was."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\n"))
    before = os.umask(mask)
    try:
        vf.instantiate(tmp_path / "out.txt")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "out.txt").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    """With the target's name and what to do."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\n"))
    with refused("cannot be written", path=tmp_path / "missing" / "out.txt"):
        vf.instantiate(tmp_path / "missing" / "out.txt")


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    """With the target's name, and nothing left in it or beside it."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\n"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(aliquot.UsageError, match="folder is a directory"):
        vf.instantiate(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "folder"]


def test_units_can_be_written_to_an_open_descriptor(tmp_path: Path) -> None:
    """A file that is open already, at the place where it is."""
    vf = aliquot.open(write(tmp_path / "a.csv", b"x\n1\n2\n3\n"))
    with (tmp_path / "out").open("wb", buffering=0) as file:
        file.write(b"begin\n")
        vf[1:2].write_to(file.fileno())
        file.write(b"end\n")
    assert (tmp_path / "out").read_bytes() == b"begin\nx\n2\nend\n"


PEAK_OF_INSTANTIATE = """
import sys, aliquot
def peak_bytes():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
vf = aliquot.open(sys.argv[1], "lines", encoding=None)
len(vf)
before = peak_bytes()
vf[1:-1].instantiate(sys.argv[2])
print(peak_bytes() - before)
"""


def test_a_large_slice_takes_little_memory(tmp_path: Path) -> None:
    """Two hundred MB are copied through some MB."""
    path, target = tmp_path / "a.txt", tmp_path / "out.txt"
    line_bytes, lines = 1_000_000, 200
    with path.open("wb") as file:
        for number in range(lines):
            file.seek((number + 1) * line_bytes - 1)  # NULs that take no room on the disk
            file.write(b"\n")
    done = subprocess.run(
        [sys.executable, "-c", PEAK_OF_INSTANTIATE, str(path), str(target)], capture_output=True, text=True, check=True
    )
    assert target.stat().st_size == (lines - 2) * line_bytes
    assert int(done.stdout) < 20_000_000


def test_a_large_compressed_slice_takes_little_memory(tmp_path: Path) -> None:
    """Eighty MB are decoded through some MB."""
    path, target = tmp_path / "a.txt.gz", tmp_path / "out.txt"
    line = bytes(999_999) + b"\n"
    path.write_bytes(gzip.compress(line, 1) * 80)
    done = subprocess.run(
        [sys.executable, "-c", PEAK_OF_INSTANTIATE, str(path), str(target)], capture_output=True, text=True, check=True
    )
    assert target.stat().st_size == 78 * len(line)
    assert int(done.stdout) < 40_000_000


def test_pairs_of_unequal_length_are_not_written(tmp_path: Path) -> None:
    """Neither file appears."""
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", reads(8))
    with refused("ends after 8 units", path=paths[1], unit=8):
        aliquot.together(*paths).instantiate(tmp_path / "out1.fq", tmp_path / "out2.fq")
    assert sorted(os.listdir(tmp_path)) == ["r1.fq", "r2.fq"]


@pytest.mark.parametrize("unit", [0, 9])
def test_reads_that_are_not_mates_are_not_written(tmp_path: Path, unit: int) -> None:
    """The first and the last of a slice are looked at; neither file appears."""
    other = reads(10).replace(b"@read%d\n" % unit, b"@other\n")
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", other)
    with refused("not mates", unit=unit):
        aliquot.together(*paths).instantiate(tmp_path / "out1.fq", tmp_path / "out2.fq")
    assert sorted(os.listdir(tmp_path)) == ["r1.fq", "r2.fq"]


def test_of_a_pair_neither_appears_where_the_second_cannot_be_written(tmp_path: Path) -> None:
    """Both are moved to their places when both are written."""
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", reads(10))
    missing = tmp_path / "missing" / "out2.fq"
    with refused("cannot be written", path=missing):
        aliquot.together(*paths).instantiate(tmp_path / "out1.fq", missing)
    assert sorted(os.listdir(tmp_path)) == ["r1.fq", "r2.fq"]


def test_of_a_pair_the_first_is_kept_where_the_second_is_a_directory(tmp_path: Path) -> None:
    """What was there before is there afterwards."""
    paths = write(tmp_path / "r1.fq", reads(10)), write(tmp_path / "r2.fq", reads(10))
    target = write(tmp_path / "out1.fq", b"old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(aliquot.UsageError, match="folder is a directory"):
        aliquot.together(*paths).instantiate(target, tmp_path / "folder")
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["folder", "out1.fq", "r1.fq", "r2.fq"]


def test_a_missing_directory_is_to_be_made(tmp_path: Path) -> None:
    """Said as advice, instead of asking about the disk."""
    vf = aliquot.open(write(tmp_path / "a.txt", b"a\n"))
    with refused("Make its folder first", path=tmp_path / "missing" / "out.txt"):
        vf.instantiate(tmp_path / "missing" / "out.txt")
