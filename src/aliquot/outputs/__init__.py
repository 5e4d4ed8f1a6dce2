"""What commands make: pieces of an output, and how they become one file.

    output      what was asked for: NAME=PATH:RULE
    rules/      how pieces become one
    joining     several pieces become one piece, in a worker
    partial     pieces become the output, in order, so that a crash undoes nothing that is certain
    placing     the output goes to its target, whole or not at all

Workers import this: it loads neither numpy nor msgspec.
"""

from aliquot.outputs.errors import OutputError
from aliquot.outputs.joining import join_pieces
from aliquot.outputs.output import Output, parse_output
from aliquot.outputs.partial import PartialOutput
from aliquot.outputs.placing import check_target, is_finished
from aliquot.outputs.rules import Rule, State, find_rule, rule_names

__all__ = [
    "Output",
    "OutputError",
    "PartialOutput",
    "Rule",
    "State",
    "check_target",
    "find_rule",
    "is_finished",
    "join_pieces",
    "parse_output",
    "rule_names",
]
