from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aliquot.virtual_file.tables.root.branches import Branch, Column, Group, TreeEntries
from aliquot.virtual_file.tables.root.entries import BROKEN, FLAT, OTHERS, check_flat
from aliquot.virtual_file.tables.table import UnreadableTable, check_columns
from aliquot.virtual_file.tables.wording import one_line


def tree_entries(tree: Any, wanted: Sequence[str] | None, form: str) -> TreeEntries:
    """The wanted branches of a tree that uproot has opened."""
    return _Maker(tree, form).entries(wanted)


class _Maker:
    """Makes the branches of a tree."""

    def __init__(self, tree: Any, form: str) -> None:
        from uproot.interpretation.library import Awkward, NumPy

        self._tree = tree
        self._units = int(tree.num_entries)
        self._form = form
        self._numpy = NumPy()
        self._library = self._numpy if form in FLAT else Awkward()
        self._made: dict[int, Branch] = {}  # by the branch: one counts the entries of many
        self._counters: list[Branch] = []

    def entries(self, wanted: Sequence[str] | None) -> TreeEntries:
        columns, types = {}, {}
        for name, branch in _chosen_branches(self._tree, wanted):
            check_flat(name, _is_flat(branch.interpretation), self._form)
            columns[name] = self._column(name, branch)
            types[name] = str(branch.typename)
        return TreeEntries(self._units, types, columns, self._counters)

    def _column(self, name: str, branch: Any) -> Column:
        from uproot.interpretation.grouped import AsGrouped

        if isinstance(branch.interpretation, AsGrouped):
            subbranches = branch.interpretation.subbranches
            return Group({sub: self._column(f"{name}/{sub}", branch[sub]) for sub in subbranches})
        _check_readable(name, branch)
        library = self._numpy if _is_plain(branch.interpretation) else self._library
        made = self._made[id(branch)] = Branch(name, branch, library, self._counter)
        _check_offsets(name, made.offsets)
        if made.offsets[-1] != self._units:
            raise UnreadableTable(
                f"has {made.offsets[-1]:,} entries of column {name!r}, and {self._units:,} of the tree",
                advice="It cannot be read together with others: leave it out of 'columns'",
            )
        return made

    def _counter(self, branch: Any) -> Branch:
        if id(branch) not in self._made:
            made = self._made[id(branch)] = Branch(branch.name, branch, self._numpy, self._counter)
            _check_offsets(branch.name, made.offsets)
            self._counters.append(made)
        return self._made[id(branch)]


def _check_offsets(name: str, offsets: Sequence[int]) -> None:
    if offsets[0] or sorted(offsets) != list(offsets):
        raise UnreadableTable(f"has baskets of column {name!r} that do not follow each other", advice=BROKEN)


def _chosen_branches(tree: Any, wanted: Sequence[str] | None) -> list[tuple[str, Any]]:
    """The wanted branches by name; all that can be read by default, by their short names where these are unique."""
    if wanted is not None:
        within = tree.keys(recursive=True)
        known = set(within)
        short = [name for name in wanted if name not in known and tree.get(name) is not None]
        return [(name, tree[name]) for name in check_columns(wanted, [*within, *short])]
    from uproot.interpretation.grouped import AsGrouped
    from uproot.interpretation.identify import UnknownInterpretation

    every = [
        (path, branch)
        for path, branch in tree.iteritems(recursive=True)
        if not isinstance(branch.interpretation, AsGrouped | UnknownInterpretation)
    ]
    times: dict[str, int] = {}
    for _, branch in every:
        times[branch.name] = times.get(branch.name, 0) + 1
    return [(branch.name if times[branch.name] == 1 else path, branch) for path, branch in every]


def _check_readable(name: str, branch: Any) -> None:
    from uproot.interpretation.identify import UnknownInterpretation
    from uproot.interpretation.objects import AsObjects, CannotBeAwkward

    interpretation = branch.interpretation
    why = ""
    if isinstance(interpretation, UnknownInterpretation):
        why = "uproot does not know its type"
    elif isinstance(interpretation, AsObjects):
        try:
            interpretation.awkward_form(branch.file)
        except CannotBeAwkward as error:
            why = f"its objects do not fit into arrays: {one_line(error)}"
    if why:
        raise UnreadableTable(f"has a column {name!r} that cannot be read ({why})", advice=OTHERS)


def _is_plain(interpretation: Any) -> bool:
    """Whether it is a number for each entry."""
    from uproot.interpretation.numerical import AsDtype

    if type(interpretation) is not AsDtype:
        return False
    return interpretation.to_dtype.names is None and interpretation.to_dtype.shape == ()


def _is_flat(interpretation: Any) -> bool:
    from uproot.interpretation.numerical import Numerical
    from uproot.interpretation.strings import AsStrings

    return isinstance(interpretation, Numerical | AsStrings)
