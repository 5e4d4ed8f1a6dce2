from __future__ import annotations

import os
import re
from typing import NamedTuple

from aliquot.errors import UsageError
from aliquot.outputs.rules import find_rule, is_rule_name

STANDARD_OUTPUT = "-"
# These could not be written beside their places, and then moved there.
_STANDARD_OUTPUT_PATHS = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

_RULES_BY_SUFFIX = {".sam": "sam", ".csv": "csv", ".tsv": "csv"}
# What would be made of these by putting pieces one after another cannot be read, or not all of it.
_NOT_FOR_APPENDING = (
    *(".bam", ".cram", ".bcf", ".vcf", ".parquet", ".feather", ".arrow", ".npy", ".npz", ".root"),
    *(".h5", ".hdf5", ".zip", ".tar", ".xlsx", ".sqlite", ".db", ".png", ".pdf"),
)
_COMPRESSED = (".gz", ".bgz", ".zst", ".xz", ".bz2")
_FUNCTION = re.compile(r"(?P<path>.*):(?P<rule>[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)", re.DOTALL)
_LIKE_A_RULE = re.compile(r"(?P<path>.*):(?P<rule>[A-Za-z][A-Za-z_ -]*)", re.DOTALL)


class Output(NamedTuple):
    """What a command makes: its name in the command, where it goes, and the rule by which its pieces are joined."""

    name: str
    path: str
    rule: str


def parse_output(text: str, *, has_header_row: bool = True) -> Output:
    """NAME=PATH or NAME=PATH:RULE; without a rule, the end of the path tells it.

    Where what is divided has no header row (``has_header_row``), nobody can tell whether a table has one.

    A path that holds a colon can always be told from a rule by naming the rule: 'x=run:a:concat'.
    """
    name, equals, rest = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"{text!r} is not an output: write NAME=PATH or NAME=PATH:RULE, such as sam=out.sam")
    path, rule = _path_and_rule(rest)
    if path in _STANDARD_OUTPUT_PATHS:
        path = STANDARD_OUTPUT
    if not path:
        raise UsageError(f"the output {text!r} has no path: write NAME=PATH, or NAME=- for standard output")
    if "\0" in path:
        raise UsageError(f"the output {text!r} has a zero byte in its path: no file can be called so")
    rule = rule or _rule_by_suffix(text, path, has_header_row=has_header_row)
    if path == STANDARD_OUTPUT and rule == "dir":
        raise UsageError(f"{text!r}: a directory cannot go to standard output: name one")
    if path.endswith("/") and rule != "dir":
        raise UsageError(f"{text!r}: {path!r} is a directory, and the rule {rule!r} makes a file: name a file in it")
    return Output(name, path, rule)


def _path_and_rule(rest: str) -> tuple[str, str | None]:
    path, colon, last = rest.rpartition(":")
    if colon and is_rule_name(last):
        return path, last
    match = _FUNCTION.fullmatch(rest)
    if match is None:
        match = _LIKE_A_RULE.fullmatch(rest)
        if match is not None:
            try:
                find_rule(match["rule"])
            except UsageError as error:
                raise UsageError(f"{error}. Where the colon is a part of the path, add a rule: {rest}:concat") from None
    return (match["path"], match["rule"]) if match else (rest, None)


def _rule_by_suffix(text: str, path: str, *, has_header_row: bool) -> str:
    if path.endswith("/"):
        return "dir"
    stem, suffix = os.path.splitext(path.lower())
    inner = os.path.splitext(stem)[1]
    can_be_text = inner in _RULES_BY_SUFFIX
    if suffix in _COMPRESSED and (can_be_text or inner in _NOT_FOR_APPENDING):
        first = f"Let the command write {inner}, and compress the joined file; or name" if can_be_text else "Name"
        raise UsageError(
            f"{text!r}: files that end in {inner}{suffix} are not joined by putting one after another, as each begins "
            f"with a header. {first} a function that joins two of them, NAME=PATH:module:function; or say "
            "NAME=PATH:concat if there are no headers"
        )
    if suffix in _NOT_FOR_APPENDING:
        raise UsageError(
            f"{text!r}: files that end in {suffix} are not joined by putting one after another. "
            "Name a function that joins two of them, NAME=PATH:module:function, "
            "let the command write another format, or say NAME=PATH:concat if you are sure"
        )
    rule = _RULES_BY_SUFFIX.get(suffix, "concat")
    if rule == "csv" and not has_header_row:
        raise UsageError(
            f"{text!r}: does what the command writes for each part begin with a header row? If so, say {text}:csv, and "
            f"it is there once; if not, {text}:concat. By itself that is known only where the input is CSV or TSV"
        )
    return rule
