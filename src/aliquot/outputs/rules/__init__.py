"""How pieces become one: a small class for each rule.

rule         what a rule is, and an output that grows by it
appending    concat, sam, csv: one after another, less the headers of all but the first
folding      lines-sorted, json-merge, sum, module:function: kept as sections, made into one at the end
directory    dir: as concat, file by file
"""

from __future__ import annotations

from aliquot.errors import UsageError
from aliquot.outputs.rules.concat import Concat
from aliquot.outputs.rules.csv import Csv
from aliquot.outputs.rules.directory import Directory
from aliquot.outputs.rules.function import FunctionRule
from aliquot.outputs.rules.json_merge import JsonMerge
from aliquot.outputs.rules.lines_sorted import LinesSorted
from aliquot.outputs.rules.rule import Growing, Rule, State
from aliquot.outputs.rules.sam import Sam
from aliquot.outputs.rules.sum import Sum

__all__ = ["Growing", "Rule", "State", "find_rule", "is_rule_name", "rule_names"]

_RULES: dict[str, Rule] = {
    rule.name: rule for rule in (Concat(), Sam(), Csv(), LinesSorted(), JsonMerge(), Sum(), Directory())
}


def is_rule_name(name: str) -> bool:
    """Whether it is one of aliquot's own rules."""
    return name in _RULES


def rule_names() -> list[str]:
    """What aliquot's own rules are called."""
    return list(_RULES)


def find_rule(name: str) -> Rule:
    """Find the rule that is called so, or that joins with the function 'module:function'."""
    found = _RULES.get(name)
    if found is not None:
        return found
    if ":" in name:
        return FunctionRule(name)
    import difflib

    near = difflib.get_close_matches(name.lower(), _RULES, n=1)
    hint = f"did you mean {near[0]!r}? There" if near else "there"
    raise UsageError(f"unknown rule {name!r}: {hint} are {', '.join(_RULES)}, and 'module:function'")
