from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from aliquot.coffea.release import LIBRARIES
from aliquot.errors import DataError, SourceChangedError
from aliquot.virtual_file.tables.looking import HowRead, Known, TablePlace, problem_of, recall, remember, stat_of
from aliquot.virtual_file.tables.root.entries import common_ends
from aliquot.virtual_file.tables.root.finding import find_layout
from aliquot.virtual_file.tables.root.table import PlainFile, check_root_header
from aliquot.virtual_file.tables.rows_in_order import check_unchanged
from aliquot.virtual_file.tables.table import Facts, UnreadableTable

if TYPE_CHECKING:
    from aliquot.sites.local import Local

# The key under which what was found in files is remembered.
_HOW = HowRead("coffea entries", "awkward")
# Fewer files than this are looked at here: no worker would be quicker.
_FILES_FOR_WORKERS = 3


class CountedTree(Struct, frozen=True):
    """A tree, and what is known of it: how many entries it has and where its clusters end, or why nobody can tell.

    Of a file that is far away, size and time are not known, and 0.
    """

    path: str
    name: str
    known: Known

    @property
    def entries(self) -> int:
        """None, where it cannot be read."""
        return self.known.facts.units

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine."""
        return is_local(self.path)

    def check_file(self) -> None:
        """Raise if the file has changed since it was counted, as far as size and time can tell."""
        if self.is_local:
            check_unchanged(self.path, self.known, lambda: stat_of(self.path))

    def check_entries(self, entries: int) -> None:
        """Raise if it has another number of them now: all that a file that is far away can be known by."""
        if entries != self.entries:
            raise SourceChangedError(
                f"had {self.entries} entries in {self.name} when they were counted, and now has {entries}",
                path=self.path,
                advice="Wait until it is complete",
            )


def count_entries(trees: Sequence[tuple[str, str]], options: dict[str, Any], on: Local | None) -> list[CountedTree]:
    """Look at each tree, told as path and name: once, by all workers, and only where nobody has before."""
    wanted = list(dict.fromkeys(trees))
    found = _recalled(wanted)
    unknown = [tree for tree in wanted if tree not in found]
    look = functools.partial(_look, options)
    look.libraries = LIBRARIES  # type: ignore[attr-defined]  # so that the workers are those of the run
    if len(unknown) < _FILES_FOR_WORKERS:
        looked = [look(tree) for tree in unknown]
    else:
        import aliquot

        looked = aliquot.map(look, unknown, on=on, progress=False)
    remember(_HOW, {_place(tree.path, tree.name): tree.known for tree in looked if tree.is_local})
    found.update(zip(unknown, looked, strict=True))
    return [found[tree] for tree in trees]


def _recalled(trees: Sequence[tuple[str, str]]) -> dict[tuple[str, str], CountedTree]:
    """What earlier processes found, where the files are still the same."""
    places = {tree: _place(*tree) for tree in trees if is_local(tree[0])}
    remembered = recall(_HOW, list(places.values()))
    found = {}
    for tree, place in places.items():
        if place in remembered:
            with contextlib.suppress(DataError):
                counted = CountedTree(*tree, remembered[place])
                counted.check_file()
                found[tree] = counted
    return found


def is_local(path: str) -> bool:
    """Whether it is a file of this machine."""
    return "://" not in path


def _place(path: str, name: str) -> TablePlace:
    return TablePlace(os.path.abspath(path), name)


def _look(options: dict[str, Any], tree: tuple[str, str]) -> CountedTree:
    """Open a file and count the entries of its tree."""
    import uproot

    path, name = tree
    stat = (0, 0)
    try:
        if is_local(path):
            stat = stat_of(path)
        facts = _plain_facts(path, name) if is_local(path) else None
        if facts is None:
            if is_local(path):
                check_root_header(path)
            with uproot.open({path: None}, **options) as file:
                found = file[name]
                facts = Facts(int(found.num_entries), _cluster_ends(found))
    except MemoryError:
        raise
    except DataError as error:
        facts = Facts(0, problem=error.problem)
    except UnreadableTable as fault:
        facts = Facts(0, problem=problem_of(fault, stat[0]))
    except Exception as error:  # whatever uproot makes of bytes that are not what they should be
        facts = Facts(0, problem=f"cannot be read: {in_a_line(error)}")
    return CountedTree(path, name, Known(*stat, facts))


def _plain_facts(path: str, name: str) -> Facts | None:
    """What uproot takes a second to find out about a tree of NanoAOD."""
    file = PlainFile(path)
    try:
        layout = find_layout(file.descriptor, name, None)
    finally:
        file.close()
    if layout is None:
        return None
    return Facts(layout.entries, tuple(common_ends(branch.offsets for branch in layout.branches.values())))


def _cluster_ends(tree: Any) -> tuple[int, ...]:
    """Where all branches have the end of a basket: cut there, no basket is read twice."""
    with contextlib.suppress(Exception):  # without them, steps are only cut elsewhere
        if hasattr(tree, "cluster_summaries"):  # an RNTuple
            starts = [int(cluster.num_first_entry) for cluster in tree.cluster_summaries]
            return (*starts[1:], int(tree.num_entries))
        return tuple(map(int, tree.common_entry_offsets()))[1:]
    return ()


def in_a_line(error: Exception) -> str:
    """What a library says, short enough for a message."""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}"
