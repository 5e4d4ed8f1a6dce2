"""Trees of numbers, whose baskets are found without uproot: the same entries as uproot finds, or nothing at all."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uproot")

import awkward
import numpy
import uproot

from aliquot.errors import MissingExtraError
from aliquot.virtual_file.tables.root import table as root
from aliquot.virtual_file.tables.root.finding import find_layout
from aliquot.virtual_file.tables.root.keys import KEY, NotPlainError, _find_key
from aliquot.virtual_file.tables.root.layout import PlainTree, TreeLayout, _unpacking
from aliquot.virtual_file.tables.root.table import RootTable
from aliquot.virtual_file.tables.table import BadRows, UnreadableTable
from tests.virtual_file.tables.making_root import overwrite, write_tree

KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
BY_ROOT = Path(__file__).parent / "samples" / "nano_tree.root"


def layout_of(path: Path, *wanted: str, tree: str = "", every: bool = False) -> TreeLayout | None:
    with path.open("rb") as file:
        return find_layout(file.fileno(), tree, None if every else wanted)


def table(path: Path, *wanted: str, tree: str = "", form: str = "awkward") -> RootTable:
    return RootTable(str(path), tree, columns=wanted, form=form)


def write(path: Path, columns: dict[str, Any], *more: dict[str, Any], compression: Any = None) -> Path:
    with uproot.recreate(path, compression=compression) as file:
        file.mktree("Events", {name: array.type if array.ndim > 1 else array.dtype for name, array in columns.items()})
        for basket in (columns, *more):
            file["Events"].extend(basket)
    return path


def lists(dtype: str, counts: list[int]) -> awkward.Array:
    return awkward.unflatten(numpy.arange(sum(counts)).astype(dtype), counts)


# What is plain is read as uproot reads it


@pytest.mark.parametrize("compression", ["ZLIB", "LZMA", "LZ4", "ZSTD", None])
def test_every_kind_of_number_is_what_uproot_has(tmp_path: Path, compression: str | None) -> None:
    """One for each entry, and any number of them; from parts of baskets too."""
    counts = [0, 3, 1, 0, 70, 2]
    first = {f"one_{kind[-2:]}": numpy.arange(6).astype(kind) for kind in KINDS if kind != "?"}
    first["one_bool"] = numpy.arange(6) % 2 == 0
    first |= {f"many_{kind}": lists(kind, counts) for kind in KINDS if kind != "?"}
    first["many_bool"] = lists("i4", counts) % 2 == 0
    second = {name: array[::-1] for name, array in first.items()}
    path = write(tmp_path / "a.root", first, second, compression=compression and getattr(uproot, compression)(1))
    with uproot.open(path) as file:
        expected = file["Events"].arrays(list(first))
        types = {name: file["Events"][name].typename for name in first}
    assert layout_of(path, *first) is not None
    reader = table(path, *first)
    assert reader.facts().columns == types
    for start, stop in ((0, 12), (0, 0), (2, 3), (4, 9), (5, 6), (6, 12)):
        found = reader.read(start, stop)
        assert found.type == expected[start:stop].type
        assert found.to_list() == expected[start:stop].to_list()


def test_a_file_that_root_wrote_is_read_as_uproot_reads_it() -> None:
    """It refers to classes and counters where uproot, when it writes, says them again."""
    with uproot.open({str(BY_ROOT): "Events"}) as tree:
        names = tree.keys()[::7]
        expected = tree.arrays(names)
        types = {name: tree[name].typename for name in names}
    found = layout_of(BY_ROOT, *names, tree="Events")
    assert found is not None
    assert {branch.counter is None for branch in found.branches.values()} == {True, False}
    reader = table(BY_ROOT, *names, tree="Events")
    facts = reader.facts()
    assert (facts.units, facts.columns) == (len(expected), types)
    batch = reader.read(0, facts.units)
    for name in names:
        assert batch[name].type == expected[name].type
        assert awkward.array_equal(batch[name], expected[name], equal_nan=True)


def test_arrays_belong_to_whoever_has_them(tmp_path: Path) -> None:
    """A function may change its batch; the next one, of the same basket, is not changed by that."""
    path = write(tmp_path / "a.root", {"x": numpy.arange(100, dtype="i1"), "y": numpy.arange(100.0)})
    reader = table(path, "x", "y", form="numpy")
    for name in ("x", "y"):
        reader.read(0, 50)[name][:] = 0
    again = reader.read(25, 75)
    assert again["x"].tolist() == again["y"].tolist() == list(range(25, 75))


def test_entries_of_several_files_are_put_together(tmp_path: Path) -> None:
    """Also where one of the files is not plain, and uproot reads it."""
    columns = {"x": numpy.arange(3), "y": lists("f4", [1, 0, 2])}
    plain = write(tmp_path / "a.root", columns)
    again = write(tmp_path / "b.root", {name: array[::-1] for name, array in columns.items()})
    assert layout_of(plain, "x", "y") is not None
    readers = [table(plain, "x", "y"), table(again, "x", "y")]
    together = RootTable.put_together([reader.pieces(1, 3) for reader in readers], "awkward")
    assert together.to_list() == [row for reader in readers for row in reader.read(1, 3).to_list()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(root, "find_layout", lambda *told: None)
        reader = table(again, "x", "y")
        by_uproot = reader.pieces(1, 3)
        reader.close()
    mixed = RootTable.put_together([readers[0].pieces(1, 3), by_uproot], "awkward")
    assert mixed.to_list() == together.to_list()


def test_the_newest_of_two_trees_is_read(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as file:
        for entries in (3, 5):
            file.mktree("Events", {"x": "i4"}).extend({"x": numpy.arange(entries)})
    assert layout_of(tmp_path / "a.root", "x", tree="Events") is not None
    assert table(tmp_path / "a.root", "x", tree="Events").facts().units == 5


def test_a_tree_that_something_else_has_replaced_is_not_the_only_one(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "a.root") as file:
        file.mktree("T", {"x": "i4"}).extend({"x": numpy.arange(3)})
        file["T"] = numpy.histogram(numpy.arange(3))
    assert layout_of(tmp_path / "a.root", "x") is None


def test_odd_trees_are_what_uproot_has(tmp_path: Path) -> None:
    """Empty baskets, a name that is not ASCII, a counter before and after its lists."""
    some = {"größe": numpy.arange(4.0), "y": lists("f4", [2, 0, 0, 1])}
    empty = {name: array[:0] for name, array in some.items()}
    path = write(tmp_path / "a.root", some, empty, some)
    with uproot.open(path) as file:
        expected = file["Events"].arrays(["größe", "y", "ny"])
    for wanted in (["ny", "größe", "y"], ["y", "ny", "größe"]):
        assert layout_of(path, *wanted) is not None
        reader = table(path, *wanted)
        for start, stop in ((0, 8), (3, 5), (4, 4), (7, 8)):
            assert reader.read(start, stop).to_list() == expected[wanted][start:stop].to_list()
    none = write(tmp_path / "b.root", empty)
    assert layout_of(none, "y") is not None
    assert table(none, "y").read(0, 0).to_list() == []


def test_threads_do_not_share_what_decompresses(tmp_path: Path) -> None:
    """Some libraries end the process where they do."""
    counts = [3] * 20_000
    path = write(tmp_path / "a.root", {"x": lists("f8", counts)}, compression=uproot.ZSTD(1))
    program = (
        "import sys, threading, aliquot\n"
        "def read():\n"
        "    for _ in range(30):\n"
        "        assert len(aliquot.open(sys.argv[1], columns=['x']).batch()) == 20_000\n"
        "threads = [threading.Thread(target=read) for _ in range(4)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)


def test_many_baskets(tmp_path: Path) -> None:
    """More than a new tree has room for."""
    path = write_tree(tmp_path / "a.root", (3,) * 50)
    found = layout_of(path, "run", "Muon_pt")
    assert found is not None
    assert found.branches["Muon_pt"].offsets == tuple(range(0, 151, 3))
    assert table(path, "run").read(4, 149).run.to_list() == list(range(4, 149))


def test_all_columns_where_none_are_named() -> None:
    """In the order, and by the names, that uproot has."""
    with uproot.open({str(BY_ROOT): "Events"}) as tree:
        types = tree.typenames()
        ends = tuple(tree.common_entry_offsets()[1:])
    assert layout_of(BY_ROOT, tree="Events", every=True) is not None
    facts = RootTable(str(BY_ROOT), "Events", form="awkward").facts()
    assert list(facts.columns.items()) == list(types.items())
    assert facts.ends == ends


# What is not is left to uproot


def test_what_is_not_plain_is_left_to_uproot(tmp_path: Path) -> None:
    path = write_tree(tmp_path / "a.root")
    assert layout_of(path, "run") is not None
    assert layout_of(path, "run", "Vertex") is None  # three numbers an entry
    assert layout_of(path, "run", "missing") is None
    assert layout_of(path, "run", tree="Other") is None
    odd = write(tmp_path / "odd.root", {"x[1]": numpy.arange(3), "/a": numpy.arange(3), "x": numpy.arange(3)})
    assert layout_of(odd, "x") is not None
    assert layout_of(odd, "x[1]") is None  # to uproot, lists of one
    assert layout_of(odd, "/a") is None  # a path
    with uproot.recreate(tmp_path / "b.root") as file:
        columns = {"x": numpy.arange(3), "name": awkward.Array(["a", "b", "c"])}
        file.mktree("Events", {"x": "i4", "name": columns["name"].type}).extend(columns)
        file.mktree("sub/Runs", {"x": "i4"}).extend({"x": numpy.arange(5)})
    assert layout_of(tmp_path / "b.root", "x", tree="Events") is not None
    assert layout_of(tmp_path / "b.root", "name", tree="Events") is None
    assert layout_of(tmp_path / "b.root", "x") is None  # which one?
    assert layout_of(tmp_path / "b.root", "x", tree="sub/Runs") is None


def test_no_file_without_uproot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed it is told how, also where it would be used for little."""
    path = write_tree(tmp_path / "a.root")
    monkeypatch.setitem(sys.modules, "uproot", None)
    with pytest.raises(MissingExtraError, match="hep"):
        table(path, "run").facts()


# Damage


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_found_by_both_or_does_not_matter(tmp_path: Path, seed: int) -> None:
    """Some bytes are changed anywhere. What uproot makes of that is right, unless the entries can be had unchanged."""
    choose = random.Random(seed)
    kinds = [None, uproot.ZLIB(1), uproot.LZ4(1), uproot.ZSTD(1), uproot.LZMA(1)]
    path = write_tree(tmp_path / "a.root", compression=choose.choice(kinds))

    def found() -> object:
        reader = table(path, "run", "Muon_pt", tree="Events")
        try:
            facts = reader.facts()
            return facts, reader.read(0, facts.units).to_list()
        except BadRows as bad:
            return bad.start, bad.stop, bad.byte
        except UnreadableTable as fault:
            return fault.problem
        finally:
            reader.close()

    undamaged = found()
    content = bytearray(path.read_bytes())
    for _ in range(choose.choice([1, 1, 3])):
        content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    path.write_bytes(content)
    plain = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(root, "find_layout", lambda *told: None)
        assert plain in (found(), undamaged)


def test_baskets_that_do_not_follow_each_other_are_refused(tmp_path: Path) -> None:
    """By uproot's branches too, to which they are left."""
    path = write(tmp_path / "a.root", {"x": numpy.arange(3)}, {"x": numpy.arange(4)})
    content = bytearray(path.read_bytes())
    content[content.rindex(struct.pack(">qqq", 0, 3, 7)) + 7] = 1
    path.write_bytes(content)
    with pytest.raises(UnreadableTable, match="column 'x' that do not follow each other"):
        table(path, "x").facts()


def test_a_list_of_keys_that_never_ends_is_given_up() -> None:
    """Keys of no bytes, four billion of them."""
    key = KEY.pack(100, 4, 100, 0, 0, 1) + bytes(8) + b"\5TTree\6Events\0"
    with pytest.raises(NotPlainError):
        _find_key(KEY.pack(100, 4, 100, 0, KEY.size, 1) + b"\xff\xff\xff\xff" + key, b"Events")


def test_what_is_wrong_with_a_basket_is_said(tmp_path: Path) -> None:
    """Not only where uproot was when it noticed."""
    path = write_tree(tmp_path / "a.root")
    found = layout_of(path, "run")
    assert found is not None
    overwrite(path, found.branches["run"].seeks[1], 18)
    with pytest.raises(BadRows) as caught:
        table(path, "run").read(0, 300)
    assert "while reading" not in caught.value.problem
    assert (caught.value.start, caught.value.stop, caught.value.byte) == (100, 200, found.branches["run"].seeks[1])


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = shutil.copy(BY_ROOT, tmp_path / "a.root")
    os.truncate(path, BY_ROOT.stat().st_size - 1)
    with pytest.raises(UnreadableTable, match="cut off"):
        table(Path(path), "run", tree="Events").facts()


# What was found once need not be found again


def test_whoever_looked_tells_those_who_read_where_the_baskets_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file is read with what is known of it, and nobody looks for its baskets a second time."""
    path = write(tmp_path / "a.root", {"x": numpy.arange(5.0), "y": lists("i4", [1, 0, 2, 3, 0])})
    detail = table(path, "x", "y").facts().detail
    expected = table(path, "x", "y").read(0, 5).to_list()
    monkeypatch.setattr(root, "find_layout", lambda *_: pytest.fail("it was looked for again"))
    knowing = table(path, "x", "y")
    knowing.detail = detail
    assert knowing.read(0, 5).to_list() == expected


def test_what_was_found_in_another_file_is_not_used(tmp_path: Path) -> None:
    """Not even if that had the same name, size and time of change: numbers would be taken for others."""
    path = write(tmp_path / "a.root", {"a": numpy.arange(3.0), "b": -numpy.arange(3.0)})
    detail, size_bytes = table(path, "a", "b").facts().detail, path.stat().st_size
    write(path, {"b": -numpy.arange(3.0), "a": numpy.arange(3.0)})
    assert path.stat().st_size == size_bytes
    knowing = table(path, "a", "b")
    knowing.detail = detail
    assert knowing.read(0, 3)["a"].to_list() == [0, 1, 2]


def test_what_another_release_has_found_is_found_again(tmp_path: Path) -> None:
    """It may have been kept in the cache."""
    path = write(tmp_path / "a.root", {"x": numpy.arange(5)})
    knowing = table(path, "x", form="numpy")
    knowing.detail = knowing.facts().detail[:16] + b"\x93\x01\x02"
    knowing.close()
    assert knowing.read(0, 5)["x"].tolist() == [0, 1, 2, 3, 4]


def test_of_many_baskets_nothing_is_sent_along(tmp_path: Path) -> None:
    """Every worker is sent what is known of every file: that must stay small."""
    basket = {f"x{number}": numpy.arange(5) for number in range(30)}
    path = write(tmp_path / "a.root", basket, *[basket] * 10)
    facts = table(path, *basket).facts()
    assert facts.units == 55
    assert facts.detail == b""


def test_files_that_were_made_alike_are_made_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only numbers differ: how many entries and baskets there are, and where."""
    first = write(tmp_path / "a.root", {"x": numpy.arange(5.0), "y": lists("i4", [1, 0, 2, 3, 0])})
    more = {"x": numpy.arange(3.0), "y": lists("i4", [2, 2, 0])}
    second = write(tmp_path / "b.root", more, more)
    assert layout_of(first, "x", "y") is not None
    monkeypatch.setattr(PlainTree, "_form", lambda *_: pytest.fail("it was made out again"))
    found = layout_of(second, "x", "y")
    assert found is not None
    assert found.entries == 6
    assert found.branches["y"].offsets == (0, 3, 6)
    assert table(second, "x", "y").read(0, 6)["y"].to_list() == [[0, 1], [2, 3], [], [0, 1], [2, 3], []]


def test_columns_are_in_the_order_in_which_they_are_wanted(tmp_path: Path) -> None:
    """Also where the tree has them in another."""
    path = write(tmp_path / "a.root", {"a": numpy.arange(5), "b": 10 * numpy.arange(5)})
    layout = layout_of(path, "b", "a")
    assert layout is not None
    assert list(layout.branches) == ["b", "a"]
    assert table(path, "b", "a").read(3, 5).tolist() == [{"b": 30, "a": 3}, {"b": 40, "a": 4}]


def test_files_that_were_made_alike_may_have_any_number_of_baskets(tmp_path: Path) -> None:
    """What is kept of one form by the number of baskets is used for files with as many, and for no others."""
    paths = [
        write(tmp_path / f"{number}.root", *({"a": numpy.arange(3) + basket} for basket in range(number)))
        for number in range(1, 8)
    ]
    for _ in range(2):
        for number, path in enumerate(paths, 1):
            layout = layout_of(path, "a")
            assert layout is not None
            assert layout.branches["a"].offsets == tuple(range(0, 3 * number + 1, 3))


def test_parts_of_a_damaged_tree_that_overlap_are_refused() -> None:
    """By an error for which the tree is left to uproot."""
    with pytest.raises(struct.error):
        _unpacking([(8, "q", 8), (12, "q", 8)])


def test_files_that_only_look_alike_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """As long as each other, to the byte: with other kinds of numbers, other names, another counter."""
    made = {
        "float": {"x": numpy.arange(4, dtype="f4"), "y": lists("i4", [1, 0, 2, 1])},
        "whole": {"x": numpy.arange(4, dtype="i4"), "y": lists("f4", [1, 0, 2, 1])},
        "named": {"z": numpy.arange(4, dtype="f4"), "y": lists("i4", [1, 0, 2, 1])},
        "count": {"x": numpy.arange(4, dtype="u4"), "y": lists("u4", [1, 0, 2, 1])},
    }
    paths = {name: write(tmp_path / f"{name}.root", columns) for name, columns in made.items()}
    assert len({path.stat().st_size for path in paths.values()}) == 1
    for _ in range(2):
        for name, path in paths.items():
            found = layout_of(path, every=True)
            assert found is not None
            with uproot.open({str(path): "Events"}) as tree:
                expected = {branch.name: branch.typename for branch in tree.branches}
            assert dict(table(path, *expected).facts().columns) == expected, name
        assert layout_of(paths["named"], "x") is None
