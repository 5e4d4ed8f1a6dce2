"""Several files as one stream of units, and side by side."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import aliquot
from aliquot.virtual_file.boundaries import After

from .making import numbered_lines, random_lines, reads, write
from .refusals import refused


def three_files(folder: Path) -> list[str]:
    """Ten lines in three files; the second is empty, the first without a last newline."""
    contents = (b"0\n1\n2", b"", b"3\n4\n5\n6\n7\n8\n9\n")
    return [str(write(folder / f"part{number}.txt", data)) for number, data in enumerate(contents)]


def test_units_are_numbered_across_files(tmp_path: Path) -> None:
    """A glob is one stream, in the order of the names."""
    three_files(tmp_path)
    vf = aliquot.open(tmp_path / "part*.txt")
    assert len(vf) == 10
    assert list(vf) == [str(number) for number in range(10)]
    assert [vf[number] for number in range(10)] == [str(number) for number in range(10)]
    assert vf[-1] == "9"


def test_a_list_of_files_is_read_in_its_order(tmp_path: Path) -> None:
    """Not in the order of the names; a file may be there twice."""
    first, _, last = three_files(tmp_path)
    assert list(aliquot.open([last, Path(first), first]))[6:] == ["9", "0", "1", "2", "0", "1", "2"]


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (2, 4), (0, 3), (3, 10), (2, 3), (1, 5), (3, 3), (10, 10)])
def test_slices_may_cross_files(tmp_path: Path, start: int, stop: int) -> None:
    """Where the first file lacks its last newline, one is put in before the next file."""
    view = aliquot.open(three_files(tmp_path))[start:stop]
    assert list(view) == [str(number) for number in range(start, stop)]
    assert view.read().split() == [b"%d" % number for number in range(start, stop)]
    view.instantiate(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == view.read()


def test_each_file_of_a_slice_has_its_byte_range(tmp_path: Path) -> None:
    """Only files that hold some of the units are named."""
    first, _, last = three_files(tmp_path)
    view = aliquot.open(three_files(tmp_path))[1:5]
    assert [(found.path, found.start, found.stop) for found in view.byte_ranges()] == [(first, 2, 5), (last, 0, 4)]
    with pytest.raises(aliquot.UsageError, match="byte_ranges"):
        view.byte_range()


def test_random_slices_of_many_files_equal_those_of_the_whole(tmp_path: Path) -> None:
    """Cutting a file into files changes nothing."""
    random = Random(3)
    lines = random_lines(5000).splitlines(keepends=True)
    cuts = [0, *sorted(random.sample(range(5001), 20)), 5000]
    for number, (begin, end) in enumerate(pairwise(cuts)):
        write(tmp_path / f"{number:03}.txt", b"".join(lines[begin:end]))
    vf = aliquot.open(str(tmp_path / "*.txt"))
    for _ in range(30):
        start, stop = sorted((random.randrange(5001), random.randrange(5001)))
        assert vf[start:stop].read() == b"".join(lines[start:stop])


def test_tables_of_one_header_are_one_table(tmp_path: Path) -> None:
    """The header stands once in front of a slice that crosses files, also where a file ends without a newline."""
    write(tmp_path / "a.csv", b"x,y\n1,2\n3,4")
    write(tmp_path / "b.csv", b"x,y")
    write(tmp_path / "c.csv", b"x,y\n5,6\n")
    vf = aliquot.open(tmp_path / "*.csv")
    assert vf.read() == b"x,y\n1,2\n3,4\n5,6\n"
    assert [row["x"] for row in vf] == ["1", "3", "5"]


def test_tables_of_other_headers_are_refused(tmp_path: Path) -> None:
    """With the name of the file that differs, and of the one that it differs from."""
    write(tmp_path / "a.csv", b"x,y\n1,2\n")
    write(tmp_path / "b.csv", b"y,x\n1,2\n")
    with refused(f"differs from that of {tmp_path / 'a.csv'}", path=tmp_path / "b.csv", byte=0):
        aliquot.open(tmp_path / "*.csv")


def test_arrays_in_several_files_are_one_array(tmp_path: Path) -> None:
    """A slice across files is a .npy file of its rows."""
    whole = np.arange(60).reshape(20, 3)
    np.save(tmp_path / "a.npy", whole[:7])
    np.save(tmp_path / "b.npy", whole[7:])
    view = aliquot.open(tmp_path / "?.npy")[5:15]
    assert np.array_equal(np.concatenate(list(view.batches())), whole[5:15])
    view.instantiate(tmp_path / "part.npy")
    assert np.array_equal(np.load(tmp_path / "part.npy"), whole[5:15])


def test_arrays_of_other_shapes_are_refused(tmp_path: Path) -> None:
    """Rows of three and rows of four are not one array."""
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 4)))
    with refused("header differs", path=tmp_path / "b.npy"):
        aliquot.open(tmp_path / "*.npy")


def test_files_of_different_formats_are_refused(tmp_path: Path) -> None:
    """One stream has one format."""
    paths = [write(tmp_path / "a.txt", b"a\n"), write(tmp_path / "b.jsonl", b"1\n")]
    with pytest.raises(aliquot.UsageError, match=r"a\.txt is lines .*b\.jsonl is jsonl"):
        aliquot.open(paths)
    assert list(aliquot.open(paths, "lines")) == ["a", "1"]


def test_files_may_be_compressed_differently(tmp_path: Path) -> None:
    """How a file is kept does not matter."""
    import gzip

    write(tmp_path / "a.txt", b"a\nb\n")
    write(tmp_path / "b.txt.gz", gzip.compress(b"c\nd"))
    write(tmp_path / "c.txt", b"e\n")
    assert aliquot.open(tmp_path / "?.txt*").read() == b"a\nb\nc\nd\ne\n"


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    """With the pattern."""
    with refused("no file matches", path=tmp_path / "*.txt"):
        aliquot.open(tmp_path / "*.txt")


def test_a_name_that_looks_like_a_pattern_is_a_name_if_it_exists(tmp_path: Path) -> None:
    """Brackets are common in names of files."""
    path = write(tmp_path / "sample[1].txt", b"a\n")
    assert list(aliquot.open(path)) == ["a"]


def test_an_error_in_a_later_file_names_it(tmp_path: Path) -> None:
    """With the unit as that file counts it, so that it is found there."""
    write(tmp_path / "a.jsonl", b"1\n2\n")
    write(tmp_path / "b.jsonl", b"3\nbad\n")
    with refused("not JSON", path=tmp_path / "b.jsonl", unit=1, byte=2):
        list(aliquot.open(tmp_path / "*.jsonl"))


def test_a_stream_of_files_travels(tmp_path: Path) -> None:
    """Described as JSON and rebuilt, a slice across files is the same."""
    view = aliquot.open(three_files(tmp_path))[2:5]
    travelled = aliquot.VirtualFile.from_desc(json.loads(json.dumps(view.to_desc())))
    assert travelled == view
    assert travelled.read() == b"2\n3\n4\n"


def test_a_front_slice_does_not_need_the_later_files(tmp_path: Path) -> None:
    """They are counted only when they are wanted."""
    paths = three_files(tmp_path)
    vf = aliquot.open(paths)
    Path(paths[2]).unlink()
    assert list(vf[0:2]) == ["0", "1"]


# Side by side


def pair(folder: Path, first: bytes, second: bytes) -> tuple[Path, Path]:
    """Two files of mates."""
    return write(folder / "r1.fastq", first), write(folder / "r2.fastq", second)


def test_pairs_are_cut_at_the_same_units(tmp_path: Path) -> None:
    """Records are tuples, and each part has the same reads of both files."""
    paths = pair(tmp_path, reads(50, "/1"), reads(50, "/2"))
    vf = aliquot.together(*paths)
    assert len(vf) == 50
    for part in vf.split(10, 7):
        assert [(one.name[:-2], other.name[:-2]) for one, other in part] == [
            (f"read{unit}", f"read{unit}") for unit in range(part.start, part.stop)
        ]
        first, second = part.members
        assert first.read().count(b"/1\n") == second.read().count(b"/2\n") == len(part)


@pytest.mark.parametrize(("first", "second"), [(50, 40), (40, 50), (40, 0)])
def test_pairs_of_unequal_length_are_refused(tmp_path: Path, first: int, second: int) -> None:
    """With the number of the first unit that has no mate."""
    paths = pair(tmp_path, reads(first), reads(second))
    fewest = min(first, second)
    with refused(f"ends after {fewest} units", path=paths[0] if first < second else paths[1], unit=fewest):
        len(aliquot.together(*paths))


def test_pairs_of_unequal_length_are_refused_when_iterated(tmp_path: Path) -> None:
    """Not only when counted: the last reads are never silently left out."""
    paths = pair(tmp_path, reads(50), reads(40))
    with refused("ends after 40 units", unit=40):
        list(aliquot.together(*paths))


def test_names_that_disagree_are_refused(tmp_path: Path) -> None:
    """With the unit's number and both names."""
    paths = pair(tmp_path, reads(50), reads(30) + reads(50)[len(reads(31)) :] + b"@x\nA\n+\nI\n")
    with refused("'read30' and 'read31'", unit=30) as _:
        list(aliquot.together(*paths))
    with refused("same_names=False", unit=30):
        aliquot.together(*paths)[30]


def test_names_that_disagree_in_a_stream_of_files_are_refused(tmp_path: Path) -> None:
    """Lanes of a run, opened as lists, are checked too."""
    lanes = [write(tmp_path / f"{lane}.fastq", reads(10)) for lane in ("r1a", "r1b", "r2a")]
    other = write(tmp_path / "r2b.fastq", reads(10).replace(b"read7", b"other"))
    vf = aliquot.together(aliquot.open(lanes[:2]), aliquot.open([lanes[2], other]))
    with refused("'read7' and 'other'", unit=17):
        list(vf)


def test_names_may_disagree_if_told(tmp_path: Path) -> None:
    """same_names=False, also after travelling."""
    paths = pair(tmp_path, b"@a\nA\n+\nI\n", b"@b\nC\n+\nI\n")
    vf = aliquot.together(*paths, same_names=False)
    travelled = aliquot.VirtualFile.from_desc(json.loads(json.dumps(vf.to_desc())))
    for view in (vf, travelled):
        assert [(one.name, other.name) for one, other in view] == [("a", "b")]


def test_sources_of_any_kind_are_read_together(tmp_path: Path) -> None:
    """Lines beside numbers beside rows."""
    lines = write(tmp_path / "a.txt", numbered_lines(3))
    rows = write(tmp_path / "b.csv", b"x\n5\n6\n7\n")
    vf = aliquot.together(lines, aliquot.open(range(3)), rows)
    assert list(vf) == [("0", 0, {"x": "5"}), ("1x", 1, {"x": "6"}), ("2xx", 2, {"x": "7"})]


def test_one_source_or_a_part_cannot_be_taken_together(tmp_path: Path) -> None:
    """At least two, and whole ones."""
    path = write(tmp_path / "a.txt", b"a\nb\n")
    with pytest.raises(aliquot.UsageError, match="two"):
        aliquot.together(path)
    with pytest.raises(aliquot.UsageError, match="whole"):
        aliquot.together(aliquot.open(path)[1:], path)
    with pytest.raises(aliquot.UsageError, match="whole"):
        aliquot.together(aliquot.open(path)[:1], path)


def test_several_files_have_no_single_content(tmp_path: Path) -> None:
    """Operations for one file name the way to each of them."""
    vf = aliquot.together(*pair(tmp_path, reads(2), reads(2)))
    for operation in (vf.read, lambda: vf.write_to(1), lambda: vf.pipe().__enter__()):
        with pytest.raises(aliquot.UsageError, match="members"):
            operation()


def test_pairs_of_unequal_length_are_refused_where_one_is_remembered(tmp_path: Path) -> None:
    """The longer one is known to its end before the shorter one is looked at."""
    paths = pair(tmp_path, reads(50), reads(40))
    aliquot.open(paths[0]).index()
    vf = aliquot.together(*paths)
    for ask in (lambda: len(vf), lambda: list(vf), lambda: vf[45]):
        with refused("ends after 40 units", path=paths[1], unit=40):
            ask()


def test_a_whole_view_that_travelled_is_taken_together(tmp_path: Path) -> None:
    """Though it came back with a start and a stop."""
    paths = pair(tmp_path, reads(5), reads(5))
    first, second = (aliquot.open(path) for path in paths)
    assert len(first) == 5
    travelled = [pickle.loads(pickle.dumps(view)) for view in (first, second)]
    assert len(aliquot.together(*travelled)) == 5


def test_a_list_is_not_taken_together(tmp_path: Path) -> None:
    """The message says how to give its files."""
    paths = pair(tmp_path, reads(5), reads(5))
    with pytest.raises(aliquot.UsageError, match=r"together\(\*files\)"):
        aliquot.together(list(paths))  # type: ignore[arg-type]  # what is tested


# Describing some of many files


def ten_files(folder: Path) -> list[Path]:
    """Ten files of ten lines each."""
    return [
        write(folder / f"{number}.txt", b"".join(b"%d\n" % (10 * number + unit) for unit in range(10)))
        for number in range(10)
    ]


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("start", "stop", "touched"),
    [(0, 5, [0]), (0, 10, [0]), (10, 20, [1]), (35, 36, [3]), (15, 41, [1, 2, 3, 4]), (95, 100, [9])],
)
def test_only_the_files_of_a_slice_are_described(
    tmp_path: Path, counted: bool, start: int, stop: int, touched: list[int]
) -> None:
    """Its description does not grow with the list, and its units keep their numbers."""
    paths = ten_files(tmp_path)
    vf = aliquot.open(paths)
    if counted:
        assert len(vf) == 100
    desc = json.loads(json.dumps(vf[start:stop].to_desc()))
    assert [file["path"] for file in desc["source"]["files"]] == [str(paths[number]) for number in touched]
    travelled = aliquot.VirtualFile.from_desc(desc)
    assert (travelled.start, travelled.stop) == (start, stop)
    assert list(travelled) == [str(number) for number in range(start, stop)]


@pytest.mark.parametrize("size", [1, 7, 10, 33])
def test_slices_of_many_files_that_travelled_are_joined_again(tmp_path: Path, size: int) -> None:
    """In any order, each holding only some of the files, they become the whole."""
    ten_files(tmp_path)
    vf = aliquot.open(tmp_path / "*.txt")
    parts = [aliquot.VirtualFile.from_desc(json.loads(json.dumps(part.to_desc()))) for part in vf.split(100, size)]
    joined = parts[::2] + parts[1::2]
    while len(joined) > 1:
        joined.sort(key=lambda part: part.start)
        first, second, *rest = joined
        joined = first.join(second) + rest
    assert joined == [vf]
    assert joined[0].read() == vf.read()


def test_slices_that_travelled_and_do_not_touch_stay_apart(tmp_path: Path) -> None:
    """Of one list, and of two lists that have a file in common."""
    paths = ten_files(tmp_path)
    vf = aliquot.open(paths)
    ends = [aliquot.VirtualFile.from_desc(part.to_desc()) for part in (vf[:5], vf[50:55])]
    assert [list(part) for part in ends[1].join(ends[0])] == [list(vf[:5]), list(vf[50:55])]
    other = aliquot.open([paths[0], paths[5]])
    assert [list(part) for part in other[:10].join(vf[10:20])] == [list(vf[:10]), list(vf[10:20])]


# Batches


def test_an_empty_first_file_does_not_make_giant_batches(tmp_path: Path) -> None:
    """How many units are quick is found in a file that has some."""
    paths = [write(tmp_path / "a.txt", b""), write(tmp_path / "b.txt", random_lines(20_000))]
    sizes = [len(batch) for batch in aliquot.open(paths).batches()]
    assert sum(sizes) == 20_000
    assert max(sizes) < 10_000


@pytest.mark.parametrize("name", ["a.txt", "a.fastq"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 25, 100])
def test_batches_that_cross_files_have_the_size_that_was_asked_for(tmp_path: Path, name: str, size: int) -> None:
    """Only the last one is smaller, and nothing is lost, however small the files are."""
    make = reads if name == "a.fastq" else numbered_lines
    paths = [write(tmp_path / f"{number}{name}", make(units)) for number, units in enumerate((7, 0, 1, 20, 2))]
    vf = aliquot.open(paths)
    batches = list(vf.batches(size))
    assert [len(batch) for batch in batches] == [min(size, 30 - at) for at in range(0, 30, size)]
    one_by_one = [str(vf[unit]) for unit in range(30)]
    assert [str(record) for batch in batches for record in batch] == one_by_one


def test_a_mark_is_put_behind_a_first_file_without_its_last_one(tmp_path: Path) -> None:
    """The bytes that are written hold as many units as the stream has."""

    class Marked(aliquot.Format):
        name = "test_stream"
        boundaries = After(b"$$$$\n")

        def parse(self, data: bytes, header: bytes) -> list[bytes]:
            return data.removesuffix(b"$$$$\n").split(b"$$$$\n") if data else []

    paths = [write(tmp_path / "a", b"a\n$$$$\nb\n"), write(tmp_path / "b", b"c\n$$$$\nd\n$$$$\n")]
    vf = aliquot.open(paths, Marked())
    assert list(vf) == [b"a\n", b"b\n", b"c\n", b"d\n"]
    for start in range(4):
        for stop in range(start, 5):
            vf[start:stop].instantiate(tmp_path / "out")
            assert list(aliquot.open(tmp_path / "out", Marked())) == list(vf[start:stop])
            assert (tmp_path / "out").read_bytes() == vf[start:stop].read()
