"""The index: kept, reused, rebuilt, shared, and used while it grows."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import aliquot
from aliquot.virtual_file.boundaries import After
from aliquot.virtual_file.file_source import FileSource

from .making import numbered_lines, reads, write
from .refusals import refused

# More than what one look at a file goes through at least.
SEVERAL_MIB = 8 * 1024 * 1024


@cache
def wide_lines(size_bytes: int = SEVERAL_MIB) -> bytes:
    """Lines of 64 bytes."""
    return b"".join(b"%063d\n" % number for number in range(size_bytes // 64))


def only_index(cache: Path) -> Path:
    """The one index that was kept."""
    (found,) = cache.iterdir()
    return found


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.csv", "a.fastq"])
def test_an_index_is_reused_by_the_next_open(tmp_path: Path, own_cache: Path, name: str) -> None:
    """All units are known before anything was counted."""
    data = reads(100) if name == "a.fastq" else numbered_lines(100)
    path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    units = len(aliquot.open(path))
    assert only_index(own_cache).stat().st_size > 0
    again = aliquot.open(path)
    assert again.count(wait=False) == units
    assert again.read() == data


def test_a_remembered_source_is_complete_at_once(tmp_path: Path) -> None:
    """It says so itself, without looking at the file again."""
    path = write(tmp_path / "a.txt", numbered_lines(100))
    aliquot.open(path).index()
    assert aliquot.open(path).source.complete


def test_one_file_in_two_formats_has_two_indexes(tmp_path: Path, own_cache: Path) -> None:
    """A row over two lines is one row and two lines."""
    path = write(tmp_path / "a.csv", b'x\n"1\n2"\n')
    assert [len(aliquot.open(path, kind)) for kind in ("csv", "lines", "csv", "lines")] == [1, 3, 1, 3]
    assert len(list(own_cache.iterdir())) == 2


def damage_by_flipping(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


def sealed(content: bytes) -> bytes:
    """As if it had been written like that."""
    return b"ALIQUOT\x01" + hashlib.blake2b(content, digest_size=16).digest() + content


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped in the middle": damage_by_flipping,
    "flipped in the checksum": lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
    "flipped in the magic": lambda data: b"X" + data[1:],
    "cut": lambda data: data[: len(data) // 2],
    "cut in the magic": lambda data: data[:3],
    "cut in the checksum": lambda data: data[:12],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"x",
    "of another release": lambda data: data[:7] + b"\xff" + data[8:],
    "whole, but not ours": lambda data: data[:8] + hashlib.blake2b(b"\xc0", digest_size=16).digest() + b"\xc0",
    "whole, but of other types": lambda data: sealed(re.sub(rb"\], 100, ", b'], "x", ', data[24:])),
    "whole, but far too deep": lambda data: sealed(b"[" * 100_000),
    "whole, but of another shape": lambda data: (
        data[:8] + hashlib.blake2b(b"[1]\n", digest_size=16).digest() + b"[1]\n"
    ),
}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_rebuilt(tmp_path: Path, own_cache: Path, damage: str, name: str) -> None:
    """It costs time and nothing else."""
    data = numbered_lines(100)
    path = write(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)
    assert len(aliquot.open(path)) == 100
    kept = only_index(own_cache)
    write(kept, DAMAGES[damage](kept.read_bytes()))
    vf = aliquot.open(path)
    assert vf.count(wait=False) == 0
    assert vf.read() == data
    assert aliquot.open(path).count(wait=False) == 100


def test_a_damaged_index_of_compressed_records_is_rebuilt(tmp_path: Path, own_cache: Path) -> None:
    """Also where only the size of the content is remembered."""
    path = write(tmp_path / "a.bin.gz", gzip.compress(bytes(1000)))
    for damage in DAMAGES.values():
        assert len(aliquot.open(path, "fixed", record_bytes=10)) == 100
        kept = only_index(own_cache)
        write(kept, damage(kept.read_bytes()))
        assert len(aliquot.open(path, "fixed", record_bytes=10)) == 100


def test_a_directory_in_place_of_the_index_only_costs_time(tmp_path: Path, own_cache: Path) -> None:
    """Whatever is there, the file is read."""
    path = write(tmp_path / "a.txt", numbered_lines(100))
    aliquot.open(path).index()
    kept = only_index(own_cache)
    kept.unlink()
    kept.mkdir()
    assert len(aliquot.open(path)) == 100
    assert list(own_cache.iterdir()) == [kept]


def test_a_pipe_in_place_of_the_index_is_not_waited_for(tmp_path: Path, own_cache: Path) -> None:
    """Nobody may ever write to it."""
    path = tmp_path / "lines.txt"
    path.write_text("a\nb\n")
    assert len(aliquot.open(path)) == 2
    kept = only_index(own_cache)
    kept.unlink()
    os.mkfifo(kept)
    assert len(aliquot.open(path)) == 2
    assert only_index(own_cache).is_file()


@pytest.mark.parametrize("place", ["file", "below a file", "missing"])
def test_a_cache_that_cannot_be_written_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It is counted each time; a missing directory is made."""
    in_the_way = write(tmp_path / "in_the_way", b"")
    places = {"file": in_the_way, "below a file": in_the_way / "cache", "missing": tmp_path / "deep" / "cache"}
    monkeypatch.setenv("ALIQUOT_CACHE", str(places[place]))
    path = write(tmp_path / "a.txt", numbered_lines(100))
    for _ in range(2):
        vf = aliquot.open(path)
        assert len(vf) == 100
        assert vf[99] == "99x"
    assert in_the_way.read_bytes() == b""
    assert places["missing"].exists() == (place == "missing")


def test_a_full_disk_only_costs_time(tmp_path: Path) -> None:
    """An index that cannot be written to its end leaves nothing behind."""
    path = write(tmp_path / "a.txt", numbered_lines(100))
    program = (
        "import os, resource, signal, sys, aliquot\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\n"
        "print(len(aliquot.open(sys.argv[1])), os.listdir(os.environ['ALIQUOT_CACHE']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "100 []\n"


def test_several_processes_may_index_one_file_at_once(tmp_path: Path, own_cache: Path) -> None:
    """All find the same, and what they leave is whole."""
    path = write(tmp_path / "a.txt", wide_lines())
    program = "import sys, aliquot; sys.stdin.read(); print(len(aliquot.open(sys.argv[1])))"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()  # they begin together
        child.stdin = None
    assert [child.communicate()[0] for child in children] == [f"{SEVERAL_MIB // 64}\n"] * 2
    assert only_index(own_cache).suffix == ".index"
    assert aliquot.open(path).count(wait=False) == SEVERAL_MIB // 64


def test_a_killed_process_leaves_an_index_that_is_continued(tmp_path: Path) -> None:
    """The next one begins where the last save was, and finds all units."""
    path = write(tmp_path / "a.txt", wide_lines())
    program = (
        "import os, signal, sys, aliquot\n"
        "from aliquot.virtual_file import scanning\n"
        "scanning._SECONDS_BETWEEN_SAVES = 0.0\n"
        "vf = aliquot.open(sys.argv[1])\n"
        "vf[0]\n"
        "print(vf.count(wait=False), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    counted = int(done.stdout)
    assert 0 < counted < SEVERAL_MIB // 64
    vf = aliquot.open(path)
    assert 0 < vf.count(wait=False) <= counted
    assert len(vf) == SEVERAL_MIB // 64
    assert vf.read() == path.read_bytes()


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_indexing_that_is_stopped_is_continued(tmp_path: Path, name: str) -> None:
    """A stop is noticed between two looks at the file; the units found until then are right."""
    data = wide_lines()
    path = write(tmp_path / name, data)
    vf = aliquot.open(path, header=False) if name == "a.csv" else aliquot.open(path)
    stop = threading.Event()
    stop.set()
    known = [0]
    while not vf.source.complete:
        vf.source.advance(None, stop)
        assert vf.source.known_units > known[-1] or vf.source.complete
        known.append(vf.source.known_units)
        assert vf[known[-1] - 1 : known[-1]].read() == data[64 * (known[-1] - 1) : 64 * known[-1]]
    assert len(known) > 2
    assert len(vf) == SEVERAL_MIB // 64


def test_a_front_slice_is_readable_while_the_rest_is_unknown(tmp_path: Path) -> None:
    """Nothing waits for the end of the file."""
    vf = aliquot.open(write(tmp_path / "a.txt", wide_lines()))
    assert vf.count(wait=False) == 0
    assert vf[5:7].read() == b"%063d\n%063d\n" % (5, 6)
    assert 7 <= vf.count(wait=False) < SEVERAL_MIB // 64
    assert not vf.source.complete


def test_a_view_to_the_end_grows_with_what_is_known(tmp_path: Path) -> None:
    """count(wait=False) is at least how many; count() is all."""
    vf = aliquot.open(write(tmp_path / "a.txt", wide_lines()))[10:]
    vf[0]
    assert 0 < vf.count(wait=False) < vf.count() == SEVERAL_MIB // 64 - 10 == vf.count(wait=False)


def test_indexing_in_the_background_ends_by_itself(tmp_path: Path) -> None:
    """index(wait=False) returns at once; who needs the end waits for it."""
    vf = aliquot.open(write(tmp_path / "a.txt", wide_lines()))
    vf.index(wait=False)
    assert vf[100] == f"{100:063d}"
    assert len(vf) == SEVERAL_MIB // 64
    for thread in threading.enumerate():
        if thread.name == "aliquot indexes":
            thread.join()
    assert aliquot.open(tmp_path / "a.txt").count(wait=False) == SEVERAL_MIB // 64


def test_a_fault_found_in_the_background_is_raised_where_it_matters(tmp_path: Path) -> None:
    """In the thread that asks for the end, not in a lost one."""
    path = write(tmp_path / "a.fastq", reads(100) + b"@torn\n")
    vf = aliquot.open(path)
    vf.index(wait=False)
    with refused("1 of 4 lines", path=path, unit=100):
        len(vf)


def test_a_program_may_end_while_it_indexes(tmp_path: Path) -> None:
    """The thread in the background stops with it, without a word."""
    path = write(tmp_path / "a.txt.gz", gzip.compress(wide_lines(), compresslevel=1))
    program = "import sys, aliquot; aliquot.open(sys.argv[1]).index(wait=False)"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_many_threads_may_ask_at_once(tmp_path: Path) -> None:
    """One of them counts, all get what they asked for."""
    data = wide_lines()
    vf = aliquot.open(write(tmp_path / "a.txt", data))
    found: dict[int, bytes] = {}

    def ask(unit: int) -> None:
        found[unit] = vf[unit : unit + 1].read()

    units = range(0, SEVERAL_MIB // 64, 9973)
    threads = [threading.Thread(target=ask, args=(unit,)) for unit in units]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {unit: data[64 * unit : 64 * unit + 64] for unit in units}


def test_an_index_is_forgotten_when_told(tmp_path: Path, own_cache: Path) -> None:
    """What 'aliquot index --rebuild' does."""
    path = write(tmp_path / "a.txt", numbered_lines(10))
    vf = aliquot.open(path)
    vf.index()
    vf.source.forget_index()
    assert os.listdir(own_cache) == []
    assert aliquot.open(path).count(wait=False) == 0


def test_an_index_is_small(tmp_path: Path, own_cache: Path) -> None:
    """Some bytes for each 64 KiB."""
    aliquot.open(write(tmp_path / "a.txt", wide_lines())).index()
    assert only_index(own_cache).stat().st_size < SEVERAL_MIB / 1000


def test_a_link_and_its_file_share_an_index(tmp_path: Path, own_cache: Path) -> None:
    """The index belongs to the content, not to the name."""
    path = write(tmp_path / "a.txt", numbered_lines(10))
    (tmp_path / "link.txt").symlink_to(path)
    aliquot.open(path).index()
    assert aliquot.open(tmp_path / "link.txt").count(wait=False) == 10
    assert isinstance(aliquot.open(path).source, FileSource)
    assert only_index(own_cache).exists()


@pytest.mark.parametrize("options", [{}, {"format": "fixed", "record_bytes": 64}], ids=["lines", "fixed"])
@pytest.mark.parametrize("command", [["bgzip", "-c"], ["pzstd", "-q", "-c", "-1", "-p", "2"], ["gzip", "-c", "-1"]])
def test_who_asks_while_a_thread_counts_gets_the_exact_number(
    tmp_path: Path, options: dict[str, Any], command: list[str], program: Callable[[str], str]
) -> None:
    """However the two threads meet: nothing is counted twice or left out, and no more is said than there is."""
    name, *arguments = command
    done = subprocess.run([program(name), *arguments], input=wide_lines(), stdout=subprocess.PIPE, check=True)
    path = write(tmp_path / f"a.txt{'.zst' if name == 'pzstd' else '.gz'}", done.stdout)
    for _ in range(4):
        vf = aliquot.open(path, **options)
        vf.index(wait=False)
        assert vf.count(wait=False) <= SEVERAL_MIB // 64
        assert len(vf) == SEVERAL_MIB // 64
        vf.source.forget_index()


@pytest.mark.parametrize("command", [["bgzip", "-c"], ["gzip", "-c", "-1"], ["pzstd", "-q", "-c", "-1"]])
@pytest.mark.parametrize("options", [{}, {"format": "fixed", "record_bytes": 64}], ids=["lines", "fixed"])
def test_a_program_may_end_while_it_decodes_in_threads(
    tmp_path: Path, command: list[str], options: dict[str, Any], program: Callable[[str], str]
) -> None:
    """Whatever is being decoded, it ends without a word."""
    name, *arguments = command
    done = subprocess.run([program(name), *arguments], input=wide_lines(), stdout=subprocess.PIPE, check=True)
    path = write(tmp_path / f"a.txt{'.zst' if name == 'pzstd' else '.gz'}", done.stdout)
    ending = f"import sys, aliquot; aliquot.open(sys.argv[1], **{options!r}).index(wait=False)"
    ended = subprocess.run([sys.executable, "-c", ending, str(path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_format_that_is_registered_with_another_mark_is_counted_anew(tmp_path: Path) -> None:
    """An index is of no use to other boundaries, though name and options are the same."""
    path = write(tmp_path / "a.marked", b"a;b;c|d;")
    found = []
    for mark in (b";", b"|", b";"):

        class Marked(aliquot.Format):
            name = "test_marked"
            suffixes = (".marked",)
            boundaries = After(mark)

            def parse(self, data: bytes, header: bytes) -> list[bytes]:
                end = self.boundaries.terminator
                return data.removesuffix(end).split(end) if data else []

        aliquot.register_format(Marked)
        found.append(list(aliquot.open(path)))
    assert found == [[b"a", b"b", b"c|d"], [b"a;b;c", b"d;"], [b"a", b"b", b"c|d"]]


def test_no_more_units_are_claimed_than_there_are(tmp_path: Path, program: Callable[[str], str]) -> None:
    """Also while several threads read a compressed file to learn how many records of a fixed size it has."""
    # What does not compress comes in many batches, between which the threads take turns.
    data = Random(0).randbytes(SEVERAL_MIB)
    done = subprocess.run([program("bgzip"), "-c", "-l", "0"], input=data, stdout=subprocess.PIPE, check=True)
    vf = aliquot.open(write(tmp_path / "a.bin.gz", done.stdout), "fixed", record_bytes=64)
    claimed: list[int] = []

    class Watching(threading.Event):
        """Asked after each piece whether to stop."""

        def is_set(self) -> bool:
            claimed.append(vf.count(wait=False))
            return False

    threads = [threading.Thread(target=vf.source.advance, args=(None, Watching())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < max(claimed) <= SEVERAL_MIB // 64
