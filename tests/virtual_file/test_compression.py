"""Compressed files: every way of writing one gives the content of the plain file, and damage is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import aliquot

from .making import random_lines, reads, write
from .refusals import refused

Program = Callable[[str], str]
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
BGZF_END_BYTES = 28


def run(command: list[str], data: bytes) -> bytes:
    """What a program writes when it reads this."""
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def compressed(kind: str, data: bytes, program: Program) -> bytes:
    """The same content, as one of the writers in use writes it."""
    match kind:
        case "gzip module":
            return gzip.compress(data, 6)
        case "gzip":
            return run([program("gzip"), "-c"], data)
        case "pigz":
            return run([program("pigz"), "-c", "-p", "2", "-b", "128"], data)
        case "members":
            third = len(data) // 3
            return b"".join(
                gzip.compress(part, 6) for part in (data[:third], b"", data[third : 2 * third], data[2 * third :])
            )
        case "bgzip":
            return run([program("bgzip"), "-c"], data)
        case "pzstd":
            return run([program("pzstd"), "-q", "-c", "-1", "-p", "2"], data)
        case "zstd":
            return run([program("zstd"), "-q", "-c"], data)
        case "frames":
            halves = (data[: len(data) // 2], data[len(data) // 2 :])
            # A frame to be skipped between two others, as the seekable format has one.
            skipped = bytes.fromhex("502a4d18") + (5).to_bytes(4, "little") + b"hello"
            return skipped.join(run([program("zstd"), "-q", "-c"], half) for half in halves)
    raise AssertionError(kind)


SUFFIXES = {
    "gzip module": ".gz",
    "gzip": ".gz",
    "pigz": ".gz",
    "members": ".gz",
    "bgzip": ".gz",
    "pzstd": ".zst",
    "zstd": ".zst",
    "frames": ".zst",
}
OPENED_AS = {"gzip module": "gzip", "members": "gzip", "bgzip": "bgzf", "zstd": "zstd", "frames": "zstd"}


@pytest.mark.parametrize("kind", SUFFIXES)
def test_random_slices_equal_those_of_the_plain_file(tmp_path: Path, kind: str, program: Program) -> None:
    """Whoever compressed it: before counting, after counting, and from the remembered index."""
    data = random_lines(20_000)
    lines = data.splitlines(keepends=True)
    path = write(tmp_path / f"a.txt{SUFFIXES[kind]}", compressed(kind, data, program))
    random = Random(kind)
    for _ in range(2):
        vf = aliquot.open(path)
        for count in range(12):
            start = random.randrange(20_000)
            stop = min(20_000, start + random.choice([1, 10, 2000]))
            assert vf[start:stop].read() == b"".join(lines[start:stop])
            if count == 5:
                assert len(vf) == 20_000
        assert vf[-1].encode() + b"\n" == lines[-1]


@pytest.mark.parametrize("kind", SUFFIXES)
def test_a_compressed_file_is_read_whole(tmp_path: Path, kind: str, program: Program) -> None:
    """And the byte range is one of the uncompressed content."""
    data = random_lines(2000)
    vf = aliquot.open(write(tmp_path / f"a.txt{SUFFIXES[kind]}", compressed(kind, data, program)))
    assert vf.read() == data
    assert vf.byte_range() == (0, len(data))
    vf[10:20].instantiate(tmp_path / "part.txt")
    assert (tmp_path / "part.txt").read_bytes() == b"".join(data.splitlines(keepends=True)[10:20])


@pytest.mark.parametrize("kind", SUFFIXES)
def test_an_empty_content_has_no_units(tmp_path: Path, kind: str, program: Program) -> None:
    """The compressed form of nothing is nothing, in any format."""
    data = compressed(kind, b"", program)
    for name in ("a.txt", "a.csv", "a.fastq"):
        vf = aliquot.open(write(tmp_path / f"{name}{SUFFIXES[kind]}", data))
        assert list(vf) == []
        assert len(vf) == 0
    assert len(aliquot.open(write(tmp_path / f"x{SUFFIXES[kind]}", data), "fixed", record_bytes=4)) == 0


@pytest.mark.parametrize("kind", SUFFIXES)
def test_formats_are_known_below_the_compression(tmp_path: Path, kind: str, program: Program) -> None:
    """By the name without .gz or .zst, and by the first bytes of the content."""
    for name in ("reads.fq", "reads"):
        vf = aliquot.open(write(tmp_path / f"{name}{SUFFIXES[kind]}", compressed(kind, reads(20), program)))
        assert [record.name for record in vf[5:7]] == ["read5", "read6"]


@pytest.mark.parametrize("kind", ["gzip module", "bgzip", "zstd"])
def test_compression_is_known_without_a_suffix(tmp_path: Path, kind: str, program: Program) -> None:
    """The first bytes say it."""
    vf = aliquot.open(write(tmp_path / "reads", compressed(kind, reads(20), program)))
    assert [record.name for record in vf[5:7]] == ["read5", "read6"]


@pytest.mark.parametrize("kind", ["gzip module", "bgzip", "zstd"])
def test_compressed_records_of_a_fixed_size_are_remembered(tmp_path: Path, kind: str, program: Program) -> None:
    """Their number is known only after reading; the second time at once."""
    path = write(tmp_path / f"a.bin{SUFFIXES[kind]}", compressed(kind, bytes(range(256)) * 64, program))
    first = aliquot.open(path, "fixed", record_bytes=16)
    assert (len(first), first[3]) == (1024, bytes(range(48, 64)))
    second = aliquot.open(path, "fixed", record_bytes=16)
    assert second.count(wait=False) == 1024
    assert second[-1] == bytes(range(240, 256))


# A library that aborts ends the process that uses it: each file is opened in a process of its own.
OPEN_EACH_ALONE = """
import os, sys
import aliquot, rapidgzip

aliquot.open  # loaded before the processes part

def outcome(path):
    for options in ({}, {"format": "fixed", "record_bytes": 1}):
        vf = aliquot.open(path, **options)
        for asked in ("once", "twice"):
            try:
                len(vf)
            except aliquot.DataError as error:
                if error.path != path or "gzip -t" not in str(error):
                    return f"refused, but badly: {error}"
            else:
                return f"accepted when asked {asked} with {options}"
    return "refused"

for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            print(outcome(path), flush=True)
        finally:
            os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended:
        print("exit status", ended, flush=True)
"""


@pytest.mark.parametrize("members_before", [0, 1])
@pytest.mark.parametrize(("lines", "level"), [(300, 9), (3000, 9), (3000, 1), (10_000, 6)])
def test_a_gzip_file_that_is_cut_anywhere_is_refused(
    tmp_path: Path, members_before: int, lines: int, level: int
) -> None:
    """Each time that it is asked, with advice, without ending the process; a whole member in front changes nothing."""
    member = gzip.compress(random_lines(lines), level)
    random = Random(5)
    # In the header, behind it, in the middle, in front of the trailer and in it.
    cuts = [3, 10, 11, 18, len(member) // 2, *(len(member) - missing for missing in (9, 8, 5, 1))]
    cuts += [random.randrange(1, len(member)) for _ in range(8)]
    paths = [write(tmp_path / f"{cut}.txt.gz", member * members_before + member[:cut]) for cut in cuts]
    done = subprocess.run(
        [sys.executable, "-c", OPEN_EACH_ALONE, *map(str, paths)], capture_output=True, text=True, check=True
    )
    found = dict(zip(cuts, done.stdout.splitlines(), strict=True))
    assert {cut: outcome for cut, outcome in found.items() if outcome != "refused"} == {}


@pytest.mark.parametrize("lines", [300, 30_000], ids=["small", "large"])
@pytest.mark.parametrize("place", [0.1, 0.5, 0.9, 1.0])
def test_a_flipped_bit_in_gzip_is_refused(tmp_path: Path, place: float, lines: int) -> None:
    """The checksum is checked, wherever the damage is, be it the checksum itself."""
    data = bytearray(gzip.compress(random_lines(lines), compresslevel=1))
    data[int((len(data) - 7) * place)] ^= 0x10  # the last eight bytes are the checksum and the length
    path = write(tmp_path / "a.txt.gz", bytes(data))
    with refused("gzip -t", path=path):
        len(aliquot.open(path))


@pytest.mark.parametrize("kind", ["gzip module", "members", "bgzip", "zstd", "frames"])
def test_no_flipped_bit_changes_the_content(tmp_path: Path, kind: str, program: Program) -> None:
    """Whichever bit it is, the file is refused or has the content that it had."""
    content = random_lines(40)
    whole = compressed(kind, content, program)
    random = Random(kind)
    for number in range(40):
        data = bytearray(whole)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path = write(tmp_path / f"{number}", bytes(data))
        try:
            found = aliquot.open(path, "lines", compression=OPENED_AS[kind]).read()
        except aliquot.DataError:
            continue
        assert found == content


def test_garbage_behind_gzip_is_refused(tmp_path: Path) -> None:
    """What follows the last member must be a member."""
    path = write(tmp_path / "a.txt.gz", gzip.compress(random_lines(300)) + b"garbage behind it")
    with refused("gzip -t", path=path):
        len(aliquot.open(path))


def test_a_bgzf_file_cut_in_a_block_is_refused(tmp_path: Path, program: Program) -> None:
    """With the byte of the file at which it ends."""
    data = compressed("bgzip", random_lines(10_000), program)
    for kept in (len(data) // 2, len(data) - BGZF_END_BYTES - 3, len(data) - 3):
        path = write(tmp_path / f"{kept}.txt.gz", data[:kept])
        with refused(f"cut short at byte {kept}", path=path):
            len(aliquot.open(path))


def block_edges(data: bytes) -> list[int]:
    """Where the blocks of BGZF end."""
    edges = [0]
    while edges[-1] < len(data):
        edges.append(edges[-1] + int.from_bytes(data[edges[-1] + 16 : edges[-1] + 18], "little") + 1)
    return edges


def test_a_bgzf_file_cut_between_blocks_is_refused(tmp_path: Path, program: Program) -> None:
    """Only the end marker tells that blocks are missing."""
    data = compressed("bgzip", random_lines(10_000), program)
    for edge in block_edges(data)[1:-1]:
        path = write(tmp_path / f"{edge}.txt.gz", data[:edge])
        with refused("end marker is missing", path=path):
            len(aliquot.open(path))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.npy.gz"])
def test_a_bgzf_file_without_its_end_stays_refused(tmp_path: Path, name: str, program: Program) -> None:
    """The same object does not become complete by asking again, nor does the next one."""
    data = random_lines(10_000)
    if name == "a.npy.gz":
        saved = io.BytesIO()
        np.save(saved, np.frombuffer(data, dtype=np.uint8))
        data = saved.getvalue()
    path = write(tmp_path / name, compressed("bgzip", data, program)[:-BGZF_END_BYTES])
    for _ in range(2):
        with refused("end marker is missing", path=path):
            len(aliquot.open(path))


def test_compressed_records_without_an_end_stay_refused(tmp_path: Path, program: Program) -> None:
    """Records of a fixed size are counted by the size of the content, which is not known to be whole."""
    data = compressed("bgzip", random_lines(10_000), program)[:-BGZF_END_BYTES]
    path = write(tmp_path / "a.gz", data)
    vf = aliquot.open(path, "fixed", record_bytes=1)
    for view in (vf, vf, vf, aliquot.open(path, "fixed", record_bytes=1)):
        with refused("end marker is missing", path=path):
            len(view)


def test_a_bgzf_file_without_its_end_stays_refused_on_one_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    """As on several, where blocks are decoded ahead."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    data = compressed("bgzip", random_lines(10_000), program)[:-BGZF_END_BYTES]
    vf = aliquot.open(write(tmp_path / "a.gz", data), "fixed", record_bytes=1)
    for _ in range(2):
        with refused("end marker is missing"):
            len(vf)


def test_a_bgzf_file_without_its_end_can_be_read_as_gzip(tmp_path: Path, program: Program) -> None:
    """As the advice of the refusal says."""
    data = random_lines(10_000)
    path = write(tmp_path / "a.txt.gz", compressed("bgzip", data, program)[:-BGZF_END_BYTES])
    assert aliquot.open(path, compression="gzip").read() == data


def test_a_flipped_bit_in_bgzf_is_refused(tmp_path: Path, program: Program) -> None:
    """In the data of a block, in its checksum, in its length and in its header."""
    whole = compressed("bgzip", random_lines(10_000), program)
    begin, end = block_edges(whole)[2:4]
    for at in ((begin + end) // 2, end - 7, end - 2, begin + 1, begin + 13, begin + 16):
        data = bytearray(whole)
        data[at] ^= 0x10
        path = write(tmp_path / f"{at}.txt.gz", bytes(data))
        with refused("damaged|no compressed block|cut short", path=path):
            len(aliquot.open(path))


def test_blocks_of_bgzf_behind_its_end_marker_are_read(tmp_path: Path, program: Program) -> None:
    """Files that were put together with cat have a marker in the middle."""
    path = write(tmp_path / "a.txt.gz", compressed("bgzip", b"a\nb\n", program) + compressed("bgzip", b"c\n", program))
    assert list(aliquot.open(path)) == ["a", "b", "c"]


def test_pzstd_writes_many_frames(tmp_path: Path, program: Program) -> None:
    """What the other tests call many frames is really several."""
    assert compressed("pzstd", random_lines(60_000), program).count(ZSTD_MAGIC) > 1


@pytest.mark.parametrize("garbage", [b"\0", b"garbage behind the frames", b"\0" * 100])
def test_garbage_behind_zstd_frames_is_refused(tmp_path: Path, garbage: bytes, program: Program) -> None:
    """What follows the last frame must be a frame."""
    data = compressed("zstd", random_lines(300), program)
    path = write(tmp_path / "a.txt.zst", data + garbage)
    with refused(f"byte {len(data)}|cut short", path=path):
        len(aliquot.open(path))


def test_only_the_end_of_a_large_gzip_file_is_held_back(tmp_path: Path) -> None:
    """Where it was cut, all that comes well before the cut is given; nothing that is not there."""
    random = Random(1)
    lines = [random.randbytes(40).hex().encode() + b"\n" for _ in range(200_000)]
    data = gzip.compress(b"".join(lines), 1)
    cut = len(data) - 100_000
    path = write(tmp_path / "a.txt.gz", data[:cut])
    got: list[str] = []
    with refused("damaged|cut short", path=path):
        got += iter(aliquot.open(path))  # not by its length, which would have to be counted
    assert len(got) > 50_000
    assert [f"{line}\n".encode() for line in got] == lines[: len(got)]


def whole_lines_in(data: bytes) -> int:
    """Of a gzip file that was cut, by another decoder."""
    lines = 0
    while data:
        decoder = zlib.decompressobj(31)
        lines += decoder.decompress(data).count(b"\n")
        data = decoder.unused_data
    return lines


@pytest.mark.parametrize("members", [1, 100])
def test_nothing_is_made_up_behind_the_cut_of_a_gzip_file(tmp_path: Path, members: int) -> None:
    """What is decoded behind it may look like lines; a slice behind it gets none of that."""
    lines = [b"%d line %d\n" % (number, number * number % 97) for number in range(500_000)]
    every = len(lines) // members
    data = b"".join(gzip.compress(b"".join(lines[at : at + every]), 1) for at in range(0, len(lines), every))
    random = Random(1)
    # The first one gave 400 lines that nobody had written.
    for cut in [1_084_784, *(random.randrange(len(data) // 4, len(data)) for _ in range(25))]:
        path = write(tmp_path / f"{cut}.txt.gz", data[:cut])
        got: list[str] = []
        with refused("damaged|cut short", path=path):
            got += iter(aliquot.open(path))  # not by its length, which would have to be counted
        assert [f"{line}\n".encode() for line in got] == lines[: len(got)]
        with refused("damaged|cut short", path=path):
            behind = 100 + whole_lines_in(data[:cut])
            aliquot.open(path)[behind : behind + 3].batch()


@pytest.mark.parametrize("kind", ["zstd", "pzstd"])
def test_a_truncated_zstd_file_is_refused(tmp_path: Path, kind: str, program: Program) -> None:
    """Cut in a frame; zstd has no mark for its end."""
    data = compressed(kind, random_lines(60_000), program)
    for kept in (3, 9, len(data) // 2, len(data) - 1):
        path = write(tmp_path / f"{kept}.txt.zst", data[:kept])
        with refused("", path=path):
            len(aliquot.open(path))


def test_a_flipped_bit_in_zstd_is_refused(tmp_path: Path, program: Program) -> None:
    """The checksum is checked."""
    whole = compressed("zstd", random_lines(3000), program)
    for at in (len(whole) // 3, len(whole) // 2, len(whole) - 2):
        data = bytearray(whole)
        data[at] ^= 0x10
        path = write(tmp_path / f"{at}.txt.zst", bytes(data))
        with refused("damaged|cut short|no compressed", path=path):
            len(aliquot.open(path))


@pytest.mark.parametrize("suffix", [".gz", ".bgz", ".zst"])
@pytest.mark.parametrize("data", [b"plain\ntext\n", b""], ids=["plain", "empty"])
def test_a_plain_file_with_a_compressed_name_is_refused(tmp_path: Path, suffix: str, data: bytes) -> None:
    """It may be a failed download; compression='none' reads it."""
    path = write(tmp_path / f"a.txt{suffix}", data)
    with refused("compression='none'", path=path, byte=0):
        aliquot.open(path)
    assert aliquot.open(path, compression="none").read() == data


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.txt.bz2", bz2.compress(b"a\n")), ("a.txt.xz", lzma.compress(b"a\n")), ("a.zip", b"PK\3\4abcd")],
)
def test_other_compressions_are_refused_with_advice(tmp_path: Path, name: str, data: bytes) -> None:
    """With the name of the compression and what to use instead."""
    path = write(tmp_path / name, data)
    with refused("is compressed with .* bgzip", path=path):
        aliquot.open(path)


def test_a_compression_that_is_not_the_files_is_refused(tmp_path: Path, program: Program) -> None:
    """Being told wrongly is an error, whichever is told."""
    data = b"plain\ntext\n"
    kinds = {"none": data, "gzip": gzip.compress(data), "zstd": compressed("zstd", data, program)}
    for told in ("gzip", "bgzf", "zstd"):
        for kind, content in kinds.items():
            if kind != told:
                path = write(tmp_path / f"{told}_{kind}", content)
                with refused("", path=path):
                    len(aliquot.open(path, "lines", compression=told))


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    """With those that there are."""
    with pytest.raises(aliquot.UsageError, match="bgzf, gzip, none, zstd"):
        aliquot.open(write(tmp_path / "a.txt", b"a\n"), compression="rar")


def test_one_huge_zstd_frame_can_still_be_read_at_its_front(tmp_path: Path, program: Program) -> None:
    """A single frame of some MB is decoded whole, however little of it is asked for."""
    data = random_lines(60_000)
    vf = aliquot.open(write(tmp_path / "a.txt.zst", compressed("zstd", data, program)))
    assert vf[0].encode() + b"\n" == data[:63]


def frames_with_a_damaged_end(kind: str, program: Program) -> bytes:
    """More frames than are decoded ahead, of which the last has a wrong checksum."""
    frame = compressed(kind, random_lines(20_000), program)
    if kind == "bgzip":
        end = frame[-BGZF_END_BYTES:]
        blocks = bytearray(frame[:-BGZF_END_BYTES] * 20)
        blocks[-5] ^= 0x10  # the last eight bytes of a block are its checksum and its length
        return bytes(blocks) + end
    whole = bytearray(frame * 20)
    whole[-1] ^= 0x10
    return bytes(whole)


@pytest.mark.parametrize("options", [{}, {"format": "fixed", "record_bytes": 1}], ids=["lines", "fixed"])
@pytest.mark.parametrize("kind", ["zstd", "bgzip"])
def test_a_damaged_last_frame_is_refused_each_time(
    tmp_path: Path, kind: str, options: dict[str, Any], program: Program
) -> None:
    """By the same object and by the next one: a part of the content is never remembered as all of it."""
    path = write(tmp_path / f"a.txt{SUFFIXES[kind]}", frames_with_a_damaged_end(kind, program))
    for _ in range(2):
        vf = aliquot.open(path, **options)
        for _ in range(3):
            with refused("damaged", path=path):
                len(vf)
        assert not vf.source.complete


@pytest.mark.parametrize("kind", ["zstd", "bgzip"])
def test_the_front_of_a_file_with_a_damaged_last_frame_is_read(tmp_path: Path, kind: str, program: Program) -> None:
    """Also after the damage was met."""
    path = write(tmp_path / f"a.txt{SUFFIXES[kind]}", frames_with_a_damaged_end(kind, program))
    vf = aliquot.open(path)
    with refused("damaged", path=path):
        len(vf)
    lines = random_lines(20_000).splitlines(keepends=True)
    for view in (vf, aliquot.open(path)):
        assert view[100:110].read() == b"".join(lines[100:110])


@pytest.mark.parametrize("options", [{}, {"format": "fixed", "record_bytes": 1}], ids=["lines", "fixed"])
def test_a_wrong_checksum_of_gzip_is_refused_each_time(tmp_path: Path, options: dict[str, Any]) -> None:
    """By the same object and by the next one."""
    data = bytearray(gzip.compress(random_lines(10_000), compresslevel=1))
    data[-6] ^= 0x10  # the last eight bytes are the checksum and the length
    path = write(tmp_path / "a.txt.gz", bytes(data))
    for _ in range(2):
        vf = aliquot.open(path, **options)
        for _ in range(3):
            with refused("gzip -t", path=path):
                len(vf)


@pytest.mark.parametrize("says_its_size", [True, False], ids=["with its size", "without its size"])
def test_a_zstd_frame_that_holds_too_much_is_refused(tmp_path: Path, says_its_size: bool, program: Program) -> None:
    """Some KB that would become more than 64 MiB, whether or not the frame says so; the advice names pzstd."""
    plain = tmp_path / "plain"
    plain.touch()
    os.truncate(plain, 65 * 1024 * 1024)  # NULs that take no room on the disk
    path = tmp_path / "a.bin.zst"
    size = [] if says_its_size else ["--no-content-size"]
    subprocess.run([program("zstd"), "-q", *size, str(plain), "-o", str(path)], check=True)
    vf = aliquot.open(path, "fixed", record_bytes=1024)
    for ask in (lambda: len(vf), lambda: vf[0]):
        with refused("more than 64 MiB.*pzstd", path=path):
            ask()


def test_a_zstd_frame_from_a_pipe_that_holds_too_much_is_refused(tmp_path: Path, program: Program) -> None:
    """Its writer could not know how much it would be."""
    path = write(tmp_path / "a.bin.zst", compressed("zstd", bytes(65 * 1024 * 1024), program))
    with refused("more than 64 MiB", path=path):
        len(aliquot.open(path, "fixed", record_bytes=1024))
