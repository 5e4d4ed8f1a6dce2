"""From the partial output to the target: whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aliquot.outputs import OutputError, PartialOutput, check_target, find_rule, is_finished

from .joining import reopened, write_pieces

ODD_NAMES = ["a b", 'it\'s "q"', "new\nline", os.fsdecode(b"caf\xe9"), "x" * 255, "-x", "$HOME `id`"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a file system of its own")
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def begun(directory: Path, rule: str = "concat", *contents: bytes) -> PartialOutput:
    """An output with some pieces."""
    partial = PartialOutput(find_rule(rule), str(directory / "partial"))
    for piece in write_pieces(directory, contents or [b"a\n", b"b\n"]):
        partial.append(piece)
    return partial


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("far", [False, True])
def test_names_may_be_odd(tmp_path: Path, elsewhere: Path, name: str, far: bool) -> None:
    """Those of pieces, of the partial output and of the target, here and on another file system."""
    piece = tmp_path / name
    piece.write_bytes(b"1\n")
    partial = PartialOutput(find_rule("concat"), str(tmp_path / f"p{name[:200]}"))
    partial.append(str(piece))
    target = (elsewhere if far else tmp_path) / name
    partial.finish(str(target))
    assert target.read_bytes() == b"1\n"
    assert os.listdir(target.parent) == [name] if far else True


@pytest.mark.parametrize("rule", ["concat", "lines-sorted"])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_a_target_has_the_permissions_of_a_new_file(
    tmp_path: Path, elsewhere: Path, rule: str, far: bool, mask: int
) -> None:
    """On whatever file system."""
    target = (elsewhere if far else tmp_path) / "out"
    before = os.umask(mask)
    try:
        begun(tmp_path, rule).finish(str(target))
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("far", [False, True])
def test_a_target_is_replaced_and_a_link_to_it_stays(tmp_path: Path, elsewhere: Path, far: bool) -> None:
    """What the link leads to is the output."""
    target = (elsewhere if far else tmp_path) / "out"
    target.write_bytes(b"old")
    (tmp_path / "link").symlink_to(target)
    begun(tmp_path).finish(str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert target.read_bytes() == b"a\nb\n"


def test_a_relative_target_is_in_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the partial output, and a link that leads nowhere yet."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("new")
    partial = PartialOutput(find_rule("concat"), "partial")
    partial.append(*write_pieces(tmp_path, [b"x"]))
    partial.finish("link")
    assert (tmp_path / "new").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("missing/out", "there is no folder .*missing.*Make it first"),
        ("folder", "is a directory, and the output is a file"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path: Path, target: str, says: str) -> None:
    """With its name; another can be given."""
    (tmp_path / "folder").mkdir()
    partial = begun(tmp_path)
    with pytest.raises(OutputError, match=says) as caught:
        partial.finish(str(tmp_path / target))
    assert caught.value.path == str(tmp_path / target)
    partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"a\nb\n"


def test_targets_can_be_checked_beforehand(tmp_path: Path) -> None:
    """At the beginning of a run instead of its end."""
    check_target(str(tmp_path / "out"), is_directory=False)
    check_target("-", is_directory=False)
    with pytest.raises(OutputError, match="there is no folder"):
        check_target(str(tmp_path / "missing" / "out"), is_directory=True)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file"):
        check_target(str(tmp_path / "file"), is_directory=True)


def test_devices_and_pipes_are_written_into(tmp_path: Path) -> None:
    """Never replaced."""
    begun(tmp_path).finish("/dev/null")
    assert not os.path.isfile("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE) as reader:
        begun(tmp_path).finish(str(tmp_path / "pipe"))
        assert reader.communicate()[0] == b"a\nb\n"
    assert not os.path.isfile(tmp_path / "pipe")


@pytest.mark.parametrize("rule", ["concat", "lines-sorted", "dir"])
@pytest.mark.parametrize("far", [False, True])
def test_what_is_finished_is_known_after_a_crash(tmp_path: Path, elsewhere: Path, rule: str, far: bool) -> None:
    """Between the move and the note of it; not before, and not of another file."""
    place = elsewhere if far else tmp_path
    if rule == "dir":
        (tmp_path / "piece").mkdir()
        (tmp_path / "piece" / "a").write_bytes(b"1")
    else:
        (tmp_path / "piece").write_bytes(b"1\n")
    path, target = tmp_path / "partial", place / "out"
    partial = reopened(rule, path, None)
    partial.append(str(tmp_path / "piece"))
    partial.sync()
    assert not is_finished(str(path), str(target))
    partial.finish(str(target))
    assert is_finished(str(path), str(target))
    assert not path.exists()
    (shutil.copytree if rule == "dir" else shutil.copy)(target, place / "copy")
    assert not is_finished(str(path), str(place / "copy"))
    os.rename(place / "copy", place / "copied")
    (shutil.rmtree if rule == "dir" else os.unlink)(target)
    assert not is_finished(str(path), str(target))


def test_a_move_that_did_not_happen_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receipt is there, and the old target is not what it is about."""
    partial = begun(tmp_path)
    state = partial.sync()
    target = tmp_path / "out"
    target.write_bytes(b"old\n")

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(Killed):
            partial.finish(str(target))
    assert list(tmp_path.glob("*.receipt"))
    assert not is_finished(partial.path, str(target))
    reopened("concat", tmp_path / "partial", state).finish(str(target))
    assert target.read_bytes() == b"a\nb\n"


TO_STANDARD_OUTPUT = """
import sys
from aliquot.outputs import PartialOutput, find_rule
partial = PartialOutput(find_rule("concat"), sys.argv[1])
for _ in range(int(sys.argv[3])):
    partial.append(sys.argv[2])
partial.finish("-")
"""


@pytest.mark.parametrize("into", ["pipe", "file", "append"])
def test_a_dash_is_standard_output(tmp_path: Path, into: str) -> None:
    """A pipe, a file, or the end of one."""
    (piece,) = write_pieces(tmp_path, [b"x" * 99_999 + b"\n"])
    command = [sys.executable, "-c", TO_STANDARD_OUTPUT, str(tmp_path / "partial"), piece, "10"]
    out = tmp_path / "out"
    out.write_bytes(b"before\n")
    if into == "pipe":
        written = b"before\n" + subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    else:
        with out.open("ab" if into == "append" else "r+b") as file:
            file.seek(0, os.SEEK_END)
            subprocess.run(command, check=True, stdout=file)
        written = out.read_bytes()
    assert written == b"before\n" + (b"x" * 99_999 + b"\n") * 10


def test_a_reader_of_standard_output_may_go(tmp_path: Path) -> None:
    """As `head` does: quietly."""
    (piece,) = write_pieces(tmp_path, [b"x" * 999_999 + b"\n"])
    command = [sys.executable, "-c", TO_STANDARD_OUTPUT, str(tmp_path / "partial"), piece, "10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(10) == b"x" * 10
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


FULL = """
import os, resource, sys
from aliquot.outputs import OutputError, PartialOutput, find_rule
rule, path, piece, target = sys.argv[1:]
partial = PartialOutput(find_rule(rule), path)
partial.append(piece)
before = os.path.getsize(path)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (before + 100, hard))
for _ in range(2):
    try:
        partial.append(piece)
    except OutputError as error:
        print(error.path == path, error.is_out_of_room, os.path.getsize(path) == before)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
partial.append(piece)
partial.finish(target)
"""


@pytest.mark.parametrize("rule", ["concat", "sam", "csv", "lines-sorted", "json-merge", "sum"])
def test_what_does_not_fit_is_undone(tmp_path: Path, rule: str) -> None:
    """The error names the file, the room is given back, and it goes on once there is more."""
    contents = {"json-merge": json.dumps(list(range(1000))).encode(), "sum": b"1 " * 1000}
    content = contents.get(rule, b"same\n" * 1000)
    (piece,) = write_pieces(tmp_path, [content])
    arguments = [rule, str(tmp_path / "partial"), piece, str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", FULL, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "True True True\n" * 2
    whole = {
        "json-merge": json.dumps(list(range(1000)) * 2).encode(),
        "sum": b"2 " * 1000,
        "csv": content + content[5:],
    }
    assert (tmp_path / "out").read_bytes() == whole.get(rule, content * 2)


@pytest.mark.parametrize("rule", ["concat", "sum"])
def test_a_state_that_is_not_there_is_refused(tmp_path: Path, rule: str) -> None:
    """A partial output that is shorter than recorded, or gone, or another's."""
    partial = begun(tmp_path, rule, b"1\n", b"2\n")
    state = partial.sync()
    partial.close()
    with pytest.raises(OutputError, match=f"by the rule {rule}, and is to go on by csv"):
        reopened("csv", tmp_path / "partial", state)
    os.truncate(tmp_path / "partial", 1)
    with pytest.raises(OutputError, match=r"has 1 bytes, and \d+ were recorded.*anew"):
        reopened(rule, tmp_path / "partial", state)
    os.unlink(tmp_path / "partial")
    with pytest.raises(OutputError, match=r"is not there, and \d+ bytes of it were recorded.*anew"):
        reopened(rule, tmp_path / "partial", state)


def test_nothing_can_be_done_with_what_is_closed(tmp_path: Path) -> None:
    """It says what happened to it."""
    partial = begun(tmp_path)
    partial.finish(str(tmp_path / "out"))
    for call in (lambda: partial.append("x"), partial.sync, lambda: partial.finish("x")):
        with pytest.raises(OutputError, match="is finished"):
            call()
    partial.close()


def test_what_could_not_be_synced_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux reports a failed write once: a second sync would say that all is well."""
    partial = begun(tmp_path)
    state = partial.sync()
    (piece,) = write_pieces(tmp_path, [b"c\n"])
    partial.append(piece)

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OutputError, match="cannot be brought to the disk: Input/output error"):
            partial.sync()
    with pytest.raises(OutputError, match="open it again with the last state"):
        partial.finish(str(tmp_path / "out"))
    again = reopened("concat", tmp_path / "partial", state)
    again.append(piece)
    again.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"a\nb\nc\n"


@pytest.mark.parametrize("ways", [(), ("sendfile",), ("copy_file_range",)])
def test_bytes_are_the_same_in_whatever_way_they_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: tuple[str, ...]
) -> None:
    """In the kernel, or through this process."""
    from aliquot import copying

    functions = {"sendfile": os.sendfile, "copy_file_range": copying._copy_file_range}
    monkeypatch.setattr(copying, "_COPIES", tuple(functions[way] for way in ways))
    content = os.urandom(3_000_000)
    begun(tmp_path, "concat", content, b"", content[:7]).finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == content + content[:7]


def test_workers_load_little() -> None:
    """Neither numpy nor msgspec, nor json before it is needed."""
    program = "import sys, aliquot.outputs; print(sorted({'numpy', 'msgspec', 'json', 'decimal'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "[]\n"
