"""How pieces become one: a small class for each rule.

rule         what a rule is, and an output that grows by it
appending    concat, sam, csv: one after another, less the headers of all but the first
folding      lines-sorted, json-merge, sum, module:function: kept as sections, made into one at the end
directory    dir: as concat, file by file
"""

from __future__ import annotations

import functools
import importlib

from aliquot.errors import UsageError
from aliquot.outputs.rules.rule import Growing, Rule, State

__all__ = ["Growing", "Rule", "State", "find_rule", "is_rule_name", "rule_names"]

# The module and the class of each, loaded when it is first used: a run seldom has more than one rule.
_RULES = {
    "concat": ("concat", "Concat"),
    "sam": ("sam", "Sam"),
    "csv": ("csv", "Csv"),
    "lines-sorted": ("lines_sorted", "LinesSorted"),
    "json-merge": ("json_merge", "JsonMerge"),
    "sum": ("sum", "Sum"),
    "dir": ("directory", "Directory"),
}


def is_rule_name(name: str) -> bool:
    """Whether it is one of aliquot's own rules."""
    return name in _RULES


def rule_names() -> list[str]:
    """What aliquot's own rules are called."""
    return list(_RULES)


def find_rule(name: str) -> Rule:
    """Find the rule that is called so, or that joins with the function 'module:function'."""
    if name in _RULES:
        return _own_rule(name)
    if ":" in name:
        from aliquot.outputs.rules.function import FunctionRule

        return FunctionRule(name)
    import difflib

    near = difflib.get_close_matches(name.lower(), _RULES, n=1)
    hint = f"did you mean {near[0]!r}? There" if near else "there"
    raise UsageError(f"unknown rule {name!r}: {hint} are {', '.join(_RULES)}, and 'module:function'")


@functools.cache
def _own_rule(name: str) -> Rule:
    module, class_name = _RULES[name]
    rule: Rule = getattr(importlib.import_module(f"{__name__}.{module}"), class_name)()
    return rule
