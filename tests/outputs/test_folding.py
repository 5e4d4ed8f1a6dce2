"""Something new from all pieces: lines-sorted, json-merge, sum, and functions."""

from __future__ import annotations

import decimal
import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aliquot.outputs import OutputError, PartialOutput, find_rule, join_pieces
from aliquot.outputs.rules import lines_sorted
from aliquot.outputs.rules.json_merge import JsonMerge

from .joining import joined, scratch_directory, write_pieces

JOINING = "tests.outputs.joining"


def sorted_lines(data: bytes) -> bytes:
    """Sort as `LC_ALL=C sort` does."""
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return b"".join(line + b"\n" for line in sorted(lines))


def test_lines_are_sorted_by_their_bytes(tmp_path: Path) -> None:
    """A tab is less than a newline, and a shorter line still comes first."""
    pieces = [b"b\na\nZ\n", b"", b"a\tx\na\n\n", b"\xff\n\xc3\xa9\n\0"]
    assert joined(tmp_path, "lines-sorted", *pieces) == b"\n\0\nZ\na\na\na\tx\nb\n\xc3\xa9\n\xff\n"
    assert joined(tmp_path, "lines-sorted", b"", b"") == b""


@pytest.mark.parametrize(("run_bytes", "at_once"), [(20, 2), (50, 3), (200, 128), (1000, 2)])
def test_runs_are_merged_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_bytes: int, at_once: int
) -> None:
    """In as many passes as that takes; nothing is left of them."""
    monkeypatch.setattr(lines_sorted, "_RUN_BYTES", run_bytes)
    monkeypatch.setattr(lines_sorted, "_RUNS_AT_ONCE", at_once)
    pieces = [b"".join(b"%d\n" % (number * 7919 % 1000) for number in range(at, at + 50)) for at in range(0, 1000, 50)]
    pieces[3] += b"x" * 5000 + b"\n"
    assert joined(tmp_path, "lines-sorted", *pieces) == sorted_lines(b"".join(pieces))
    assert not [name for name in os.listdir(tmp_path) if not name.startswith(("piece", "target", "partial"))]
    assert not [name for name in os.listdir(tmp_path) if "runs" in name or "folded" in name]


@given(st.lists(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=30), max_size=8))
def test_any_lines_are_merged(runs: list[list[bytes]]) -> None:
    """Equal ones, empty ones, runs of nothing."""
    with _file_of_runs([sorted(run) for run in runs]) as (descriptor, places):
        out: list[bytes] = []
        lines_sorted.merge([lines_sorted.Run(descriptor, *place) for place in places], out.append)
    expected = b"".join(line + b"\n" for line in sorted(line for run in runs for line in run))
    assert b"".join(out) == expected


class _file_of_runs:  # noqa: N801  # used like a function
    def __init__(self, runs: list[list[bytes]]) -> None:
        texts = [b"".join(line + b"\n" for line in run) for run in runs]
        self._descriptor = os.memfd_create("runs")
        os.write(self._descriptor, b"".join(texts))
        ends = [sum(map(len, texts[:number])) for number in range(len(texts) + 1)]
        self._places = list(itertools.pairwise(ends))

    def __enter__(self) -> tuple[int, list[tuple[int, int]]]:
        return self._descriptor, self._places

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
        ([{"a": 1, "b": "x"}, {"a": 2}], {"a": 2, "b": "x"}),
        ([{"a": {"x": [1], "y": 1}}, {"a": {"x": [2, 3], "z": {}}}], {"a": {"x": [1, 2, 3], "y": 1, "z": {}}}),
        ([[1], [], [2, [3]]], [1, 2, [3]]),
        ([1, 2], 2),
        ([{"a": None}, {"a": [1]}, {"a": None}], {"a": [1]}),
        ([None, {"a": 1}], {"a": 1}),
    ],
)
def test_json_values_are_merged(tmp_path: Path, pieces: list[Any], expected: Any) -> None:
    """Objects by key, lists one after another, of all else the later."""
    assert json.loads(joined(tmp_path, "json-merge", *(json.dumps(piece).encode() for piece in pieces))) == expected


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"separators": (",", ":")},
        {"ensure_ascii": False},
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_merged_json_is_laid_out_like_its_pieces(tmp_path: Path, layout: dict[str, Any], end: str) -> None:
    """As the program would have written it."""
    values: list[dict[str, Any]] = [{}, {"m": {"z": [1], "b": "\u00e9\U0001f600"}, "k": 1.5}, {"a": 1, "b": {}}]
    pieces = [(json.dumps(value, **layout) + end).encode() for value in values]
    whole = (json.dumps({**values[1], **values[2]}, **layout) + end).encode()
    assert joined(tmp_path, "json-merge", *pieces) == whole


@pytest.mark.parametrize(
    "number", [b"1e400", b"-1E-400", b"0.12345678901234567890123", b"1.50", b"-0", b"-0.0", b"7" * 5000, b"NaN"]
)
def test_numbers_in_merged_json_keep_their_digits(tmp_path: Path, number: bytes) -> None:
    """However many there are, and however large the number is."""
    pieces = [b'{"a": %b}' % number, b'{"b": [%b]}' % number]
    assert joined(tmp_path, "json-merge", *pieces) == b'{"a": %b, "b": [%b]}' % (number, number)


@pytest.mark.parametrize("lone", [rb"\ud800", rb"\udfff", "\ud800".encode("utf-8", "surrogatepass")])
def test_half_a_surrogate_pair_is_escaped_in_merged_json(tmp_path: Path, lone: bytes) -> None:
    """Also if other letters are not, as UTF-8 cannot write it."""
    merged = joined(tmp_path, "json-merge", b'{"a": "%b"}' % lone, '{"\u00e9": 1}'.encode())
    assert json.loads(merged.decode("utf-8")) == {"a": json.loads(b'"%b"' % lone), "\u00e9": 1}


# Not a colon, by which the layout is told, nor what is escaped or not depending on other letters.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters=":\x7f"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(JSON_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_merged_json_is_written_as_python_writes_it(value: Any, indent: int | str | None, is_ascii: bool) -> None:
    """Byte by byte, however it is nested."""
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    merged = JsonMerge().new_value()
    merged.add(text)
    assert merged.written() == text


def test_json_that_is_deeply_nested_is_merged(tmp_path: Path) -> None:
    """Writing goes as deep as reading does."""
    deep = b"[\n " * 700 + b"]" * 700
    assert json.loads(joined(tmp_path, "json-merge", deep)) == json.loads(deep)


def test_empty_pieces_are_no_json(tmp_path: Path) -> None:
    """And none at all are an empty file."""
    assert joined(tmp_path, "json-merge", b"", b'{"a": 1}', b" \n") == b'{"a": 1}'
    assert joined(tmp_path, "json-merge", b"", b"") == b""


@pytest.mark.parametrize(
    ("rule", "first", "second", "says"),
    [
        ("json-merge", b"{}", b'{"a": 1}\n{"a": 2}\n', "is not one JSON value: Extra data"),
        ("json-merge", b"{}", b"\xff{}", "is not one JSON value"),
        ("json-merge", b"{}", b"[" * 100_000, "is not one JSON value"),
        ("json-merge", b'{"a": {"b": []}}', b'{"a": {"b": {}}}', r"at 'a\.b' it has an object, and .* a list"),
        ("json-merge", b"[]", b"3", "it has 3, and an earlier piece has a list"),
        ("json-merge", b"{}", b"1" * 80, "it has 1{50}, and an earlier piece has an object"),
        ("sum", b"1 2\n", b"1 2 3\n", "has 3 numbers on line 1, and the first piece has 2 there"),
        ("sum", b"1\n2\n", b"1\n", "has 1 lines of numbers, and the first piece has 2"),
        ("sum", b"1\n2\n", b"1\nx2\n", "has 'x2' on line 2, which is no number"),
        ("sum", b"1", b"1_000", "has '1_000' on line 1"),
        ("sum", b"1", b"\xff", "on line 1, which is no number"),
        ("sum", b"1", b"x" * 80, r"has 'x{50}\.\.\.' on line 1, which is no number"),
        ("sum", b"1", b"1e99999999999999999999", "has '1e99999999999999999999' on line 1, which is no number that"),
        ("sum", b"1", b"1e-99999999999999999999", "has '1e-99999999999999999999' on line 1, which is no number that"),
        ("sum", b"1 1e+400", b"1 1e-400", r"its sum with '1e\+400' .* would need more than 700 digits"),
        ("sum", b"9" * 5000, b"0.5", r"its sum with '9{50}\.\.\.' .* would need more than 700 digits"),
    ],
)
def test_pieces_that_do_not_fit_are_refused_at_once(
    tmp_path: Path, rule: str, first: bytes, second: bytes, says: str
) -> None:
    """With their name; nothing of them is in the output."""
    good, bad = write_pieces(tmp_path, [first, second])
    with PartialOutput(find_rule(rule), str(tmp_path / "partial")) as partial:
        partial.append(good)
        with pytest.raises(OutputError, match=says) as caught:
            partial.append(bad)
        assert caught.value.path == bad
        partial.finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == first


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"1 2\n3\n", b"10 20\n30\n"], b"11 22\n33\n"),
        ([b"1\t 2 \r\n\n3", b"-1 5\n\n+4\n"], b"0\t 7 \r\n\n7"),
        ([b"0.1\n", b"0.2\n"], b"0.3\n"),
        ([b"1.50 2\n", b"1.50 0.25\n"], b"3.00 2.25\n"),
        ([b"1e300 1e-300", b"-1e300 1e-300"], b"0e+300 2e-300"),
        ([b"inf nan inf", b"1 1 -inf"], b"inf nan nan"),
        ([b"99999999999999999999999", b"1"], b"100000000000000000000000"),
        ([b"9" * 4300, b"1"], b"1" + b"0" * 4300),
        ([b"-" + b"9" * 5000, b"-1", b"-1"], b"-1" + b"0" * 4999 + b"1"),
        ([b"9" * 640, b"1"], b"1" + b"0" * 640),
        ([b"", b"1\n", b"\n", b"2\n"], b"3\n"),
        ([b"", b""], b""),
    ],
)
def test_numbers_are_added_place_by_place(tmp_path: Path, pieces: list[bytes], expected: bytes) -> None:
    """Whole ones stay whole, decimal ones are exact, blanks are those of the first piece."""
    assert joined(tmp_path, "sum", *pieces) == expected


def test_numbers_are_added_whatever_the_arithmetic_of_the_thread_is(tmp_path: Path) -> None:
    """One that rounds and makes nan of what it cannot read changes nothing."""
    with decimal.localcontext(decimal.Context(prec=2, traps=[])):
        assert joined(tmp_path, "sum", b"1.2345", b"1") == b"2.2345"
        with pytest.raises(OutputError, match="which is no number that can be added"):
            joined(tmp_path, "sum", b"1e99999999999999999999")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=8), st.data())
def test_a_sum_does_not_depend_on_how_it_is_grouped(numbers: list[float], data: st.DataObject) -> None:
    """Digit for digit, although such numbers are very different."""
    cut = data.draw(st.integers(1, len(numbers) - 1))
    with scratch_directory() as name:
        directory = Path(name)
        texts = [repr(number).encode() for number in numbers]
        parts = joined(directory, "sum", *texts[:cut]), joined(directory, "sum", *texts[cut:])
        assert joined(directory, "sum", *parts) == joined(directory, "sum", *texts)


@pytest.mark.parametrize("count", range(12))
def test_a_function_joins_neighbours_in_order(tmp_path: Path, count: int) -> None:
    """However many there are; nothing is left of the files in between."""
    pieces = [b"%d;" % number for number in range(count)]
    assert joined(tmp_path, f"{JOINING}:concatenate", *pieces) == b"".join(pieces)
    assert all(name.startswith(("piece", "target", "partial")) for name in os.listdir(tmp_path))
    assert not list(tmp_path.glob("*.folding"))


def test_a_function_sees_the_suffix_of_the_output(tmp_path: Path) -> None:
    """Some libraries tell a format by it."""
    rule = find_rule(f"{JOINING}:note_suffixes")
    pieces = write_pieces(tmp_path, [b"", b""])
    join_pieces(rule, pieces, str(tmp_path / "joined.npz"))
    assert (tmp_path / "joined.npz").read_text() == ".npz .npz .npz"
    partial = PartialOutput(rule, str(tmp_path / "partial"))
    for piece in pieces:
        partial.append(piece)
    partial.finish(str(tmp_path / "out.root"))
    assert (tmp_path / "out.root").read_text() == ".root .root .root"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fail", r"tests\.outputs\.joining:fail failed to join two pieces: RuntimeError: no such tree"),
        ("write_nothing", r"tests\.outputs\.joining:write_nothing was called with two pieces and has not written"),
    ],
)
def test_a_function_that_fails_is_named(tmp_path: Path, name: str, says: str) -> None:
    """No piece is lost: with a better function the output can be finished."""
    partial = PartialOutput(find_rule(f"{JOINING}:{name}"), str(tmp_path / "partial"))
    for piece in write_pieces(tmp_path, [b"1", b"2"]):
        partial.append(piece)
    state = partial.sync()
    for _ in range(2):
        with pytest.raises(OutputError, match=says):
            partial.finish(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    better = find_rule(f"{JOINING}:concatenate")
    PartialOutput(better, str(tmp_path / "partial"), {**state, "rule": better.name}).finish(str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"12"


def test_the_order_of_keys_does_not_depend_on_how_pieces_are_grouped(tmp_path: Path) -> None:
    """They are in the order in which they came."""
    pieces = [b'{"b": 1}', b'{"a": 1}', b'{"d": 1, "c": 1}']
    assert joined(tmp_path, "json-merge", *pieces) == b'{"b": 1, "a": 1, "d": 1, "c": 1}'
    (tmp_path / "grouped").mkdir()
    grouped = joined(tmp_path / "grouped", "json-merge", *pieces[:2])
    (tmp_path / "again").mkdir()
    assert joined(tmp_path / "again", "json-merge", grouped, pieces[2]) == b'{"b": 1, "a": 1, "d": 1, "c": 1}'
