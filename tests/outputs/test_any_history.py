"""Whatever is appended, synced, lost and done again: the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.outputs import PartialOutput, State, find_rule, join_pieces

from .joining import reopened, scratch_directory, write_pieces

LINES = st.lists(st.sampled_from([b"a", b"b,c", b"", b"\t", b"long" * 9]), max_size=4)


def with_header(header: bytes) -> st.SearchStrategy[bytes]:
    """Make pieces that are empty, a header, or a header and lines."""
    bodies = LINES.map(lambda lines: header + b"".join(line + b"\n" for line in lines))
    return st.one_of(st.just(b""), bodies)


CONTENTS: dict[str, st.SearchStrategy[bytes]] = {
    "concat": st.binary(max_size=30),
    "sam": with_header(b"@HD\tVN:1.6\n@SQ\tSN:a\tLN:1\n"),
    "csv": with_header(b'"x\n",y\n'),
    "lines-sorted": LINES.map(b"\n".join),
    "json-merge": st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 9), max_size=2)).map(
        lambda value: json.dumps(value).encode()
    ),
    "sum": st.lists(st.integers(-9, 9), min_size=2, max_size=2).map(lambda numbers: b"%d\n%d\n" % tuple(numbers)),
    "tests.outputs.joining:concatenate": st.binary(max_size=30),
}


def whole(rule: str, pieces: list[bytes]) -> bytes:
    """What the program would have written over all of the input, said in another way."""
    if rule == "sam":
        records = [line for piece in pieces for line in piece.splitlines(True) if not line.startswith(b"@")]
        header = b"@HD\tVN:1.6\n@SQ\tSN:a\tLN:1\n" if any(pieces) else b""
        return header + b"".join(records)
    if rule == "csv":
        header = b'"x\n",y\n' if any(pieces) else b""
        return header + b"".join(piece.removeprefix(header) for piece in pieces)
    if rule == "lines-sorted":
        lines = [line for piece in pieces if piece for line in piece.removesuffix(b"\n").split(b"\n")]
        return b"".join(line + b"\n" for line in sorted(lines))
    if rule == "json-merge":
        value: dict[str, Any] = {}
        for piece in map(json.loads, pieces):
            for key, numbers in piece.items():
                value[key] = value.get(key, []) + numbers
        return json.dumps(value).encode() if pieces else b""
    if rule == "sum":
        columns = zip(*(map(int, piece.split()) for piece in pieces), strict=True)
        return b"".join(b"%d\n" % sum(column) for column in columns)
    return b"".join(pieces)


@pytest.mark.parametrize("rule", CONTENTS)
@given(data=st.data())
def test_any_history_gives_the_same_bytes(rule: str, data: st.DataObject) -> None:
    """Crashes undo what was not synced, also half a piece; pieces may be joined before they are appended."""
    contents = data.draw(st.lists(CONTENTS[rule], max_size=6))
    with scratch_directory() as name:
        directory = Path(name)
        pieces = write_pieces(directory, contents)
        path = directory / "partial"
        partial = reopened(rule, path, None)
        state: State | None = None
        synced = done = 0
        crashes = 0
        while done < len(pieces):
            match data.draw(st.sampled_from(["append", "append", "join", "sync", "crash"])):
                case "append":
                    partial.append(pieces[done])
                    done += 1
                case "join":
                    stop = data.draw(st.integers(done, len(pieces)))
                    join_pieces(find_rule(rule), pieces[done:stop], str(directory / "several"))
                    partial.append(str(directory / "several"))
                    done = stop
                case "sync":
                    state = json.loads(json.dumps(partial.sync()))
                    synced = done
                case "crash" if crashes < 4:
                    crashes += 1
                    partial.close()
                    with path.open("ab") as file:
                        file.write(data.draw(st.binary(max_size=9)))
                    partial = reopened(rule, path, state)
                    done = synced
        partial.finish(str(directory / "out"))
        assert (directory / "out").read_bytes() == whole(rule, contents)
        assert not path.exists()


@pytest.mark.parametrize("rule", CONTENTS)
@given(data=st.data())
def test_pieces_that_nobody_else_wants_stay_until_they_are_certain(rule: str, data: st.DataObject) -> None:
    """The first may be the output itself by then; a crash finds all that were not noted to be in there."""
    contents = data.draw(st.lists(CONTENTS[rule], max_size=6))
    with scratch_directory() as name:
        directory = Path(name)
        pieces = write_pieces(directory, contents)
        path = directory / "partial"
        partial = reopened(rule, path, None)
        state: State | None = None
        synced = done = crashes = 0
        while done < len(pieces):
            match data.draw(st.sampled_from(["take", "take", "sync", "forget", "crash"])):
                case "take":
                    partial.take(pieces[done])
                    done += 1
                case "sync":
                    state = json.loads(json.dumps(partial.sync()))
                    synced = done
                case "forget":
                    for piece in pieces[:synced]:
                        Path(piece).unlink(missing_ok=True)
                case "crash" if crashes < 4:
                    crashes += 1
                    partial.close()
                    if path.stat().st_nlink == 1:
                        with path.open("ab") as file:
                            file.write(data.draw(st.binary(max_size=9)))
                    partial = reopened(rule, path, state)
                    done = synced
            assert [Path(piece).read_bytes() for piece in pieces[synced:]] == contents[synced:]
        state = partial.sync()
        for piece in pieces:
            Path(piece).unlink(missing_ok=True)
        partial.finish(str(directory / "out"))
        assert (directory / "out").read_bytes() == whole(rule, contents)
        assert [left.name for left in directory.iterdir() if left.name.startswith("partial")] in (
            [],
            ["partial.receipt"],
        )


TREES = st.dictionaries(st.sampled_from(["a", "b/c", "b/d e", "b/f/g", "caf\udce9"]), st.binary(max_size=9), max_size=4)


def write_tree(directory: Path, tree: dict[str, bytes]) -> None:
    directory.mkdir()
    for name, content in tree.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def read_tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@given(trees=st.lists(TREES, max_size=5), data=st.data())
def test_any_history_gives_the_same_directory(trees: list[dict[str, bytes]], data: st.DataObject) -> None:
    """File by file, as for files."""
    with scratch_directory() as name:
        directory = Path(name)
        for number, tree in enumerate(trees):
            write_tree(directory / str(number), tree)
        path = directory / "partial"
        partial = PartialOutput(find_rule("dir"), str(path))
        state: State | None = None
        synced = done = crashes = 0
        while done < len(trees):
            match data.draw(st.sampled_from(["append", "append", "join", "sync", "crash"])):
                case "append":
                    partial.append(str(directory / str(done)))
                    done += 1
                case "join":
                    stop = data.draw(st.integers(done, len(trees)))
                    pieces = [str(directory / str(number)) for number in range(done, stop)]
                    join_pieces(find_rule("dir"), pieces, str(directory / "several"))
                    partial.append(str(directory / "several"))
                    shutil.rmtree(directory / "several")
                    done = stop
                case "sync":
                    state = json.loads(json.dumps(partial.sync()))
                    synced = done
                case "crash" if crashes < 4:
                    crashes += 1
                    write_tree(path / "half", {"written": b"x"})
                    for file in path.rglob("*"):
                        if file.is_file():
                            file.write_bytes(file.read_bytes() + b"half")
                    partial = reopened("dir", path, state)
                    done = synced
        partial.finish(str(directory / "out"))
        expected: dict[str, bytes] = {}
        for tree in trees:
            for file_name, content in tree.items():
                expected[file_name] = expected.get(file_name, b"") + content
        assert read_tree(directory / "out") == expected
