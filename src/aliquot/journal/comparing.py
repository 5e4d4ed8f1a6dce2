"""What differs between two values of an identity, each difference as a sentence for people, without any JSON.

A reading is how units are read: of files ``{"name": format, "options": {...}}``, of tables
``[{"format":, "form":, "columns":, "options":}, [table, ...]]``; there is one for each source that is cut with others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from aliquot.quantities import format_count, number_of

# More of a list than this nobody reads.
_MOST_SHOWN = 12


def compare_readings(before: Any, now: Any) -> list[str]:
    """The format, the columns, the tables, the form of a batch, the options of the format."""
    if before is None or now is None:
        there = "files now, and was not" if before is None else "something else now, and was read from files"
        return [f"what is divided is read from {there}"]
    if len(before) != len(now):
        return [f"what is divided is read from {number_of(len(now), 'source')}, and was from {len(before)}"]
    found: list[str] = []
    for number, (old, new) in enumerate(zip(map(_Reading.of, before), map(_Reading.of, now), strict=True)):
        of = f" of source {number + 1}" if len(before) > 1 else ""
        found += old.differences(new, of)
    # Where only something differs that this aliquot does not know.
    return list(dict.fromkeys(found)) or ["units are read in another way than they were"]


def compare_units(before: Any, now: Any) -> list[str]:
    """How many there are; of files, that is not told."""
    return [] if before is None or now is None else [f"there are {show(now)} units now, and there were {show(before)}"]


def compare_ends(before: Any, now: Any) -> list[str]:
    """Where a view of a source ends, if that is before the source does."""
    units_now, units_before = (
        "all units to the end" if end is None else f"the units before {show(end)}" for end in (now, before)
    )
    return [f"{units_now} are divided now, and {units_before} were"]


def compare_first_units(before: Any, now: Any) -> list[str]:
    """Where a view of a source begins; items that are not read from one have no such place."""
    return [] if before is None or now is None else [f"the first unit is {show(now)} now and was {show(before)}"]


def compare_outputs(before: Any, now: Any) -> list[str]:
    """Each is its name, its path and the rule by which it is joined."""
    old, new = ({name: (path, rule) for name, path, rule in outputs or ()} for outputs in (before, now))
    found: list[str] = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            found.append(f"{{{name}}} was an output and is none now")
        elif name not in old:
            found.append(f"{{{name}}} is an output and was none")
        else:
            (path, rule), (path_now, rule_now) = old[name], new[name]
            if path != path_now:
                found.append(f"the output {{{name}}} went to {path} and goes to {path_now} now")
            if rule != rule_now:
                found.append(f"the output {{{name}}} was joined by the rule {rule} and is joined by {rule_now} now")
    return found or ["the outputs are in another order than they were"]


def compare_datasets(before: Any, now: Any) -> list[str]:
    """Each is its name and its number of units."""
    old, new = dict(before or ()), dict(now or ())
    found = [f"the dataset {name!r} is not given now" for name in old if name not in new]
    found += [f"the dataset {name!r} is given and was not" for name in new if name not in old]
    for name, units in old.items():
        if new.get(name, units) != units:
            found.append(
                f"the dataset {name!r} has {number_of(new[name], 'unit')} now and had {number_of(units, 'unit')}"
            )
    return found or ["the datasets are in another order than they were"]


def compare_values(name: str, before: Any, now: Any) -> list[str]:
    """Anything else; of an object, what differs within."""
    if before is None:
        return [f"{name} is {show(now)} and was not given"]
    if now is None:
        return [f"{name} was {show(before)} and is not given now"]
    if isinstance(before, dict) and isinstance(now, dict):
        changed = [inner for inner in dict.fromkeys([*before, *now]) if before.get(inner) != now.get(inner)]
        each = [compare_values(f"{name} {inner!r}", before.get(inner), now.get(inner)) for inner in changed]
        return ["; ".join(sentence for sentences in each for sentence in sentences)]
    return [f"{name} was {show(before)} and is {show(now)}"]


def compare_uses(before: Any, now: Any) -> list[str]:
    """Values that a function refers to, by their names; runs of an earlier release have none."""
    if before is None or now is None:
        return []
    return [
        f"{name}, which is used, has changed" if name in before else f"{name} is used, and was not"
        for name in sorted(now)
        if before.get(name) != now[name]
    ]


# By what an identity calls them.
COMPARED_BY: Mapping[str, Callable[[Any, Any], list[str]]] = {
    "reading": compare_readings,
    "units": compare_units,
    "end": compare_ends,
    "first unit": compare_first_units,
    "join": compare_outputs,
    "datasets": compare_datasets,
    "uses": compare_uses,
}


def show(value: Any) -> str:
    """A value as a person would write it."""
    if isinstance(value, str):
        return repr(value)
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={show(inner)}" for name, inner in value.items()) or "nothing"
    if isinstance(value, Sequence):
        more = f" and {format_count(len(value) - _MOST_SHOWN)} more" if len(value) > _MOST_SHOWN else ""
        return ", ".join(map(_show_within, value[:_MOST_SHOWN])) + more or "nothing"
    return format_count(value) if isinstance(value, int) else str(value)


class _Reading(NamedTuple):
    format: str
    columns: Sequence[str] | None = None
    form: str | None = None
    tables: Sequence[str] = ()
    options: Mapping[str, Any] = {}
    kind: str = ""  # the class of a format that is not aliquot's own

    @classmethod
    def of(cls, described: Any) -> _Reading:
        match described:
            case {"name": str(name), "options": dict(options)}:
                return cls(name, options=options, kind=str(described.get("class", "")))
            case [{"format": str(name), "form": form, "columns": columns, "options": dict(options)}, list(tables)]:
                return cls(name, columns, form, tuple(dict.fromkeys(filter(None, tables))), options)
        return cls("unknown")  # by another aliquot than this one, or not from a file

    def differences(self, now: _Reading, of: str) -> list[str]:
        """Where the format is another, all else is, too."""
        if self.format != now.format:
            return [f"the format{of} was {self.format} and is {now.format}"]
        found: list[str] = []
        if self.columns != now.columns:
            found.append(_compare_columns(f"the columns{of}", self.columns, now.columns))
        if self.form != now.form:
            found.append(f"a batch{of} was {self.form} and is {now.form} (as_=)")
        if self.tables != now.tables:
            found += compare_values(f"the table{of}", self.tables or None, now.tables or None)
        for option in dict.fromkeys([*self.options, *now.options]):
            before, given = self.options.get(option), now.options.get(option)
            if before != given:
                found += compare_values(f"the option {option} of the format {self.format}{of}", before, given)
        if self.kind != now.kind:
            found.append(f"the format {self.format}{of} is {_whose(now.kind)} now and was {_whose(self.kind)}")
        return found


def _whose(kind: str) -> str:
    return f"that of {kind}" if kind else "aliquot's own"


def _compare_columns(name: str, before: Sequence[str] | None, now: Sequence[str] | None) -> str:
    """Both lists; of long ones, in which nobody would find it, what is in one of them alone."""
    if before is None or now is None or max(len(before), len(now)) <= _MOST_SHOWN:
        shown = ["all of them" if columns is None else show(columns) for columns in (before, now)]
        return f"{name} were {shown[0]} and are {shown[1]}"
    added = [column for column in now if column not in before]
    left_out = [column for column in before if column not in now]
    if not added and not left_out:
        return f"{name} are in another order than they were"
    told = [f"{show(columns)} {what}" for columns, what in ((added, "added"), (left_out, "left out")) if columns]
    return f"{name} have changed: {'; '.join(told)}"


def _show_within(value: Any) -> str:
    """In a list of names, quotes would only be in the way."""
    if isinstance(value, str):
        return value or "''"
    return f"({show(value)})" if isinstance(value, Mapping | Sequence) else show(value)
