"""Pieces one after another: concat, sam, csv."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from aliquot.outputs import OutputError, PartialOutput, find_rule, growing_file

from .joining import joined, reopened, write_pieces

HEADER = b"@HD\tVN:1.6\n@SQ\tSN:chr1\tLN:100\n"


def program(number: int, name: bytes = b"bwa") -> bytes:
    """Write the @PG line of one piece."""
    return b"@PG\tID:%s\tPN:%s\tVN:0.7\tCL:bwa mem ref.fa piece-%d.fq\n" % (name, name, number)


def test_concat_adds_nothing(tmp_path: Path) -> None:
    """Also no newline where a piece lacks one: whatever the pieces are, these are their bytes."""
    assert joined(tmp_path, "concat", b"a\nb", b"", b"c\n", b"\0\xff") == b"a\nbc\n\0\xff"
    assert joined(tmp_path, "concat") == b""
    assert joined(tmp_path, "concat", b"", b"") == b""


def test_sam_has_the_header_of_the_first_piece(tmp_path: Path) -> None:
    """And the records of all, in order."""
    pieces = [HEADER + program(number) + b"r%d\t0\n" % number for number in range(3)]
    assert joined(tmp_path, "sam", *pieces) == HEADER + program(0) + b"r0\t0\nr1\t0\nr2\t0\n"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([HEADER, HEADER + b"r1\n"], HEADER + b"r1\n"),
        ([HEADER + b"r1\n", HEADER, HEADER + b"r2\n"], HEADER + b"r1\nr2\n"),
        ([HEADER + b"r1\n", b"", HEADER + b"r2\n"], HEADER + b"r1\nr2\n"),
        ([b"", b"", HEADER + b"r2\n"], HEADER + b"r2\n"),
        ([b"", b""], b""),
        ([HEADER, HEADER], HEADER),
        ([b"r1\n", b"", b"r2\n"], b"r1\nr2\n"),
        ([HEADER + b"r1", HEADER + b"r2"], HEADER + b"r1\nr2"),
        ([HEADER[:-1], HEADER + b"r2"], HEADER + b"r2"),
    ],
)
def test_sam_pieces_may_lack_records_or_everything(tmp_path: Path, pieces: list[bytes], expected: bytes) -> None:
    """Or the newline of their last line, which then stands between the lines."""
    assert joined(tmp_path, "sam", *pieces) == expected


@pytest.mark.parametrize("references", [1, 60, 130, 140, 40_000])
@pytest.mark.parametrize("same", [True, False])
def test_sam_headers_may_be_long(tmp_path: Path, references: int, same: bool) -> None:
    """Longer than any block that is read at once, and of every length about those."""
    header = b"".join(b"@SQ\tSN:contig%06d\tLN:100000\n" % number for number in range(references))
    pieces = [header + program(0 if same else number) + b"r%d\n" % number for number in range(2)]
    assert joined(tmp_path, "sam", *pieces) == header + program(0) + b"r0\nr1\n"


def test_a_sam_header_ends_where_a_block_ends(tmp_path: Path) -> None:
    """Whichever byte that is."""
    for length in range(4080, 4112):
        header = b"@CO\t" + b"x" * (length - 5) + b"\n"
        assert joined(tmp_path, "sam", header + b"r1\n", header + b"r2\n") == header + b"r1\nr2\n"


def test_sam_comments_may_differ(tmp_path: Path) -> None:
    """Some programs write their command line there."""
    pieces = [HEADER + b"@CO\tuser command line: STAR %d\nr%d\n" % (number, number) for number in range(2)]
    assert joined(tmp_path, "sam", *pieces) == HEADER + b"@CO\tuser command line: STAR 0\nr0\nr1\n"


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (HEADER.replace(b"LN:100", b"LN:200"), r"line 2.*LN:200.*LN:100"),
        (HEADER.replace(b"VN:1.6", b"VN:1.5"), r"line 1.*VN:1\.5.*VN:1\.6"),
        (HEADER + b"@SQ\tSN:chr2\tLN:5\n", r"line 3.*chr2.*@PG"),
        (HEADER + program(0, b"minimap2"), r"minimap2.*bwa"),
        (HEADER, r"line 3.*is not there, and in the first.*bwa"),
        (b"", r"line 1.*is not there"),
    ],
)
def test_sam_headers_that_differ_are_refused(tmp_path: Path, header: bytes, says: str) -> None:
    """With both lines, both files, and nothing added: the next piece can be."""
    good, bad, last = write_pieces(
        tmp_path, [HEADER + program(0) + b"r0\n", header + b"r1\n", HEADER + program(2) + b"r2"]
    )
    with PartialOutput(find_rule("sam"), str(tmp_path / "partial")) as partial:
        partial.append(good)
        with pytest.raises(OutputError, match=says) as caught:
            partial.append(bad)
        assert caught.value.path == bad
        assert partial.path in str(caught.value)
        partial.append(last)
        partial.finish(str(tmp_path / "out.sam"))
    assert (tmp_path / "out.sam").read_bytes() == HEADER + program(0) + b"r0\nr2"


@pytest.mark.parametrize(
    "header",
    [
        b"x,y\n",
        b"x,y\r\n",
        b'"x\n1","y ""\n"""\n',
        b'"a""\n","b"\n',
        b'size 5",width\n',
        b'x\t"y\n\n"\tz\n',
        b'\xef\xbb\xbf"x\ny",z\n',
        b"\n",
        b'"' + b"long\n" * 30_000 + b'",y\n',
        b'"' + b'""' * 30_000 + b'"\n',
    ],
)
def test_csv_has_its_first_row_once(tmp_path: Path, header: bytes) -> None:
    """Whatever newlines and quotes are in it."""
    assert joined(tmp_path, "csv", header + b"1,2\n", header + b"3,4\n", header) == header + b"1,2\n3,4\n"


def test_a_csv_header_ends_where_a_block_ends(tmp_path: Path) -> None:
    """Also between two quotes that belong together."""
    for length in range(4090, 4102):
        header = b'"' + b"x" * length + b'""\n",y\n'
        assert joined(tmp_path, "csv", header + b"1,2\n", header + b"3,4\n") == header + b"1,2\n3,4\n"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"x\n", b"x\n1\n"], b"x\n1\n"),
        ([b"", b"x\n1\n", b"", b"x\n", b"x\n2\n"], b"x\n1\n2\n"),
        ([b"", b""], b""),
        ([b"x", b"x"], b"x"),
        ([b"x", b"x\n1"], b"x\n1"),
        ([b"x\n1", b"x\n2", b"x"], b"x\n1\n2"),
        ([b"x\r\n1", b"x\r\n2"], b"x\r\n1\r\n2"),
    ],
)
def test_csv_pieces_may_lack_rows_or_everything(tmp_path: Path, pieces: list[bytes], expected: bytes) -> None:
    """Or the newline of their last row, which then stands between the rows."""
    assert joined(tmp_path, "csv", *pieces) == expected


def test_csv_headers_that_differ_are_refused(tmp_path: Path) -> None:
    """With both, and what to do where there are none."""
    with pytest.raises(OutputError, match=r"'x;z'.*'x;y'.*NAME=PATH:concat"):
        joined(tmp_path, "csv", b"x;y\n1;2\n", b"x;z\n1;2\n")


def test_a_csv_header_without_end_is_refused(tmp_path: Path) -> None:
    """A quote is missing: not all of the piece is read for it."""
    with pytest.raises(OutputError, match="Is a quote missing"):
        joined(tmp_path, "csv", b'"x,y\n' + b"1,2\n" * (5 << 20))


@pytest.mark.parametrize("rule", ["sam", "csv"])
def test_the_header_is_known_after_a_crash(tmp_path: Path, rule: str) -> None:
    """Also where there was none yet."""
    header = b"@HD\tVN:1.6\n"
    empty, first, second = write_pieces(tmp_path, [b"", header + b"1\n", header + b"2\n"])
    state = None
    for piece in (empty, first, empty, second):
        partial = reopened(rule, tmp_path / "partial", state)
        partial.append(piece)
        state = partial.sync()
        partial.append(second)
        partial.close()
    reopened(rule, tmp_path / "partial", state).finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == header + b"1\n2\n"


@pytest.mark.parametrize("rule", ["concat", "sam", "sum", "lines-sorted"])
def test_a_piece_is_a_file(tmp_path: Path, rule: str) -> None:
    """Not a directory, a named pipe, or nothing at all."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with PartialOutput(find_rule(rule), str(tmp_path / "partial")) as partial:
        for name, says in (("pipe", "is not a file"), ("folder", "is a directory"), ("nothing", "cannot be read")):
            with pytest.raises(OutputError, match=says) as caught:
                partial.append(str(tmp_path / name))
            assert caught.value.path == str(tmp_path / name)


def test_the_first_piece_becomes_the_output(tmp_path: Path) -> None:
    """What one program has written is not written again, however large it is."""
    [piece] = write_pieces(tmp_path, [HEADER + b"r1\n"])
    inode = os.stat(piece).st_ino
    partial = reopened("sam", tmp_path / "partial", None)
    partial.take(piece)
    assert partial.sync() == {"rule": "sam", "bytes": len(HEADER) + 3, "header_bytes": len(HEADER)}
    os.unlink(piece)
    partial.finish(str(tmp_path / "out.sam"))
    assert (tmp_path / "out.sam").stat().st_ino == inode
    assert (tmp_path / "out.sam").read_bytes() == HEADER + b"r1\n"


@pytest.mark.parametrize("is_removed", [True, False])
def test_what_follows_does_not_change_the_first_piece(tmp_path: Path, is_removed: bool) -> None:
    """While it is there: it may be needed after a crash."""
    first, second = write_pieces(tmp_path, [b"first\n", b"second\n"])
    partial = reopened("concat", tmp_path / "partial", None)
    partial.take(first)
    partial.sync()
    if is_removed:
        os.unlink(first)
    inode = (tmp_path / "partial").stat().st_ino
    partial.take(second)
    assert ((tmp_path / "partial").stat().st_ino == inode) == is_removed
    assert is_removed or Path(first).read_bytes() == b"first\n"
    assert Path(second).read_bytes() == b"second\n"
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"first\nsecond\n"


def _another_name(piece: Path) -> None:
    os.link(piece, piece.with_name("of-the-user"))


def _symbolic(piece: Path) -> None:
    os.symlink(piece.rename(piece.with_name("of-the-user")), piece)


def _read_only(piece: Path) -> None:
    piece.chmod(0o444)


@pytest.mark.parametrize("change", [_another_name, _symbolic, _read_only])
def test_what_is_not_a_plain_new_file_is_copied(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """A program may have made a link to a file of the user's, which the output must not become."""
    [piece] = write_pieces(tmp_path, [b"first\n"])
    inode = os.stat(piece).st_ino
    change(Path(piece))
    partial = reopened("concat", tmp_path / "partial", None)
    partial.take(piece)
    partial.sync()
    os.unlink(piece)
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"first\n"
    assert (tmp_path / "out").stat().st_ino != inode
    assert (tmp_path / "out").stat().st_mode & 0o200


@pytest.mark.parametrize("how", ["ab", "r+b"])
def test_a_piece_that_somebody_still_writes_to_is_copied(tmp_path: Path, how: str) -> None:
    """A step may leave a process behind: what that writes later is not a part of the output."""
    [piece] = write_pieces(tmp_path, [b"first\n"])
    partial = reopened("concat", tmp_path / "partial", None)
    with open(piece, how, buffering=0) as left_behind:
        partial.take(piece)
        partial.sync()
        os.unlink(piece)
        partial.finish(str(tmp_path / "out"))
        left_behind.write(b"later\n")
    assert (tmp_path / "out").read_bytes() == b"first\n"


@pytest.mark.parametrize("is_noted", [False, True])
def test_who_was_killed_while_taking_a_piece_leaves_nothing(tmp_path: Path, is_noted: bool) -> None:
    """The piece had a second name then, and still has one of its own; or the output was about to be a copy."""
    [piece] = write_pieces(tmp_path, [b"first\n"])
    state = None
    if is_noted:
        with reopened("concat", tmp_path / "partial", None) as earlier:
            earlier.append(piece)
            state = earlier.sync()
    os.link(piece, tmp_path / "partial.taken")
    with reopened("concat", tmp_path / "partial", state) as partial:
        assert not (tmp_path / "partial.taken").exists()
        partial.take(piece)
    assert ((tmp_path / "partial").stat().st_ino == os.stat(piece).st_ino) == (not is_noted)


def test_a_piece_that_cannot_be_put_in_place_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of the attempt stays, nor stays open."""
    [piece] = write_pieces(tmp_path, [b"first\n"])
    partial = reopened("concat", tmp_path / "partial", None)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    opened_before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        partial.take(piece)
    assert len(os.listdir("/proc/self/fd")) == opened_before
    assert os.stat(piece).st_nlink == 1
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"first\n"


def test_where_files_have_one_name_only_pieces_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    partial = reopened("concat", tmp_path / "partial", None)
    partial.take(write_pieces(tmp_path, [b"first\n"])[0])
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"first\n"


def test_a_disk_that_is_full_leaves_the_first_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the output as it was: there may be room later."""
    first, second = write_pieces(tmp_path, [b"first\n", b"second\n"])
    partial = reopened("concat", tmp_path / "partial", None)
    partial.take(first)

    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(growing_file, "copy_range", fill)
        with pytest.raises(OutputError, match="No space left"):
            partial.take(second)
    assert sorted(os.listdir(tmp_path)) == sorted(["partial", os.path.basename(first), os.path.basename(second)])
    assert Path(first).read_bytes() == b"first\n"
    partial.take(second)
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("rule", ["sam", "csv", "lines-sorted"])
def test_what_is_joined_as_text_is_not_compressed(tmp_path: Path, rule: str) -> None:
    """Behind the first header, nothing of it would be left that can be read; with BAM it is the same."""
    compressors: list[Callable[[bytes], bytes]] = [
        *(gzip.compress, bz2.compress, partial(bz2.compress, compresslevel=1), lzma.compress),
        lambda data: b"\x28\xb5\x2f\xfd" + data,  # as zstd begins
    ]
    for number, compress in enumerate(compressors):
        place = tmp_path / f"{number}"
        place.mkdir()
        with pytest.raises(OutputError, match=r"is compressed \(.*\), and its output is joined as text"):
            joined(place, rule, compress(HEADER))


def test_compressed_pieces_may_be_put_one_after_another(tmp_path: Path) -> None:
    """Where there are no headers, that is a compressed file again."""
    assert gzip.decompress(joined(tmp_path, "concat", gzip.compress(b"a\n"), gzip.compress(b"b\n"))) == b"a\nb\n"
