"""Tables that nobody has looked at, looked at by the workers of a run of their own: many files take long to open."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from aliquot.errors import DataError
from aliquot.workers.nursery import has_copy

if TYPE_CHECKING:
    from aliquot.running.options import Options
    from aliquot.virtual_file import Source, VirtualFile
    from aliquot.virtual_file.tables.source import TablesSource

# With the library at hand here, looking is begun here: while workers import theirs, which takes about as long; or,
# where they have it at once, for as long as a run of their own would take at the least.
_HERE_SECONDS = 0.4
_BRIEFLY_SECONDS = 0.1
# So few are not worth a run.
_FEW = 4
_MOST_NAMED = 5


def look_at_tables(view: VirtualFile, options: Options) -> None:
    """Look at all that nobody has looked at; refuse to run if more cannot be read than may fail."""
    for tables in _tables_of(view.source):
        tables.look_here(_BRIEFLY_SECONDS if has_copy() else _HERE_SECONDS)
        unknown = tables.unknown()
        if len(unknown) > _FEW:
            _look_in_workers(tables, unknown, options)
        tables.advance(None)
        _refuse_unreadable(tables, view, options)


def _tables_of(source: Source) -> list[TablesSource]:
    # There are none if their module was not imported.
    module = sys.modules.get("aliquot.virtual_file.tables.source")
    if module is None:
        return []
    return [one for one in source.constituents() if isinstance(one, module.TablesSource)]


def _look_in_workers(tables: TablesSource, unknown: list[int], options: Options) -> None:
    from aliquot.running.one_run import value_of
    from aliquot.running.planning import plan_each
    from aliquot.virtual_file.tables.looking import look

    places = [tables.places[number] for number in unknown]
    quick = options._replace(size=None, set_aside=None, run_dir=None, max_failures=0, target_bytes=None)
    plan = plan_each(functools.partial(look, tables.how), places, quick)
    found: Any = value_of(plan)
    tables.learn(dict(zip(unknown, found, strict=True)))


def _refuse_unreadable(tables: TablesSource, view: VirtualFile, options: Options) -> None:
    """A run that would fail for sure is not begun."""
    problems = tables.problems(view.start, view.stop)
    told = options.max_failures
    most = told if told >= 1 else told * len(tables.places)  # a part of the files, as nobody knows of the rows
    if len(problems) <= most:
        return
    path, problem = problems[0]
    error = DataError(problem, path=path)
    for path, problem in problems[1:_MOST_NAMED]:
        error.add_note(f"{path}: {problem}")
    if len(problems) > _MOST_NAMED:
        error.add_note(f"and {len(problems) - _MOST_NAMED} more")
    if told:
        files = "1 file" if len(problems) == 1 else f"{len(problems)} files"
        of_all = f" of {len(tables.places)} files" if told < 1 else ""
        error.add_note(f"aliquot: {files} cannot be read, and max_failures is {told}{of_all}")
    else:
        error.add_note("aliquot: with max_failures, files that cannot be read are set aside, each as one unit")
    raise error
