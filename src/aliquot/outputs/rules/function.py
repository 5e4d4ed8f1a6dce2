from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable

from aliquot.errors import DescriptionError, UsageError
from aliquot.outputs.copying import copy_range
from aliquot.outputs.errors import OutputError
from aliquot.outputs.rules.folding import Folded
from aliquot.outputs.rules.rule import Growing, Rule, State

Join = Callable[[str, str, str], object]


class FunctionRule(Rule):
    """A function of the user's that makes one file of two: function(first, second, out), all of them paths.

    It is called with neighbours, in order, and on what it made itself: how they are grouped must not matter. An only
    piece is taken as it is. The paths end as the output does. It may change and remove its first two files.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.join = find_join(name)

    def grow(self, path: str, state: State | None) -> Growing:
        """Every section is a piece."""
        return FoldedByFunction(self, path, state)


def find_join(name: str) -> Join:
    """Find the function of a rule 'module:function'."""
    from aliquot.job.registry import find_by_import_path

    try:
        found = find_by_import_path(name)
    except DescriptionError as error:
        raise UsageError(f"the rule {name!r} is not found: {error}") from error
    if not callable(found):
        raise UsageError(f"the rule {name!r} is a {type(found).__name__}, not a function of (first, second, out)")
    join: Join = found
    return join


class FoldedByFunction(Folded):
    """Pieces, which are joined at the end as a tree, so that nothing is copied again with each piece."""

    reads_text = False  # the function does, or does not

    def __init__(self, rule: FunctionRule, path: str, state: State | None) -> None:
        super().__init__(path, state)
        self._rule = rule

    def fold(self, into: str, suffix: str) -> None:
        """Join neighbours that are made of as many pieces, like carrying in binary numbers; then what is left."""
        directory = f"{self.path}.folding"
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        try:
            names = (os.path.join(directory, f"{number}{suffix}") for number in itertools.count())
            heights: list[int] = []
            paths: list[str] = []
            for start, stop in self.sections:
                paths.append(self._extract(start, stop, next(names)))
                heights.append(0)
                while len(heights) > 1 and heights[-1] == heights[-2]:
                    heights[-2:] = [heights[-1] + 1]
                    paths[-2:] = [self._join(paths[-2], paths[-1], next(names))]
            while len(paths) > 1:
                paths[-2:] = [self._join(paths[-2], paths[-1], next(names))]
            if paths:
                os.replace(paths[0], into)
            else:
                open(into, "wb").close()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _extract(self, start: int, stop: int, path: str) -> str:
        with open(path, "wb") as file:
            copy_range(self.sections.file.descriptor, start, stop, file.fileno())
        return path

    def _join(self, first: str, second: str, out: str) -> str:
        try:
            self._rule.join(first, second, out)
        except Exception as error:
            problem = f"{self._rule.name} failed to join two pieces: {type(error).__name__}: {error}"
            raise OutputError(problem, path=self.path, advice="Mend it and run again: no piece is lost") from error
        if not os.path.isfile(out):
            problem = f"{self._rule.name} was called with two pieces and has not written {out}"
            raise OutputError(problem, path=self.path, advice="It must write the file that its third argument names")
        for used in (first, second):
            if os.path.exists(used):
                os.unlink(used)
        return out
