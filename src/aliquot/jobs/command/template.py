"""Command texts with placeholders.

    bwa mem -t {cores} ref.fa {reads} > {sam}

    {reads}                     the path of a file with the units of the step
    {reads:pipe}, < {reads}     the path of a pipe, through which units come as long as there are any
    {reads:source}              the path of the source itself, with
    {reads:offset}, {reads:length}    where the units are in it, in bytes
    {sam}                       where to write an output: a file or, by the rule `dir`, a directory that is there
    {unit_start}, {units}       the number of the first unit in the source, and how many there are
    {cores}, {memory}           what the step may use: a number of cores, and bytes
    {scratch}                   an empty directory of the step's own
    {{ and }}                   braces

Paths are quoted for the shell, also where they stand between quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from aliquot.errors import UsageError
from aliquot.jobs.command.shell_text import (
    ShellReader,
    is_simple_command,
    programs_of,
    quote_for_shell,
    words_of,
)

NUMBERS = ("unit_start", "units", "cores", "memory", "scratch")
_WAYS = ("pipe", "offset", "length", "source")
_RESERVED = (*NUMBERS, "stderr")
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_TOKEN = re.compile(r"\{\{|\}\}|\{(\w+)(?::(\w*))?\}|[{}]", re.ASCII)


class Placeholder(NamedTuple):
    """What a command's text leaves open: ``name``, and ``way`` where it is not a plain path."""

    name: str
    way: str
    quote: str  # that is open where it stands

    @property
    def key(self) -> str:
        """What its word is called."""
        return f"{self.name}:{self.way}" if self.way else self.name


class Template:
    """A command's text, taken apart: which placeholders it has, and so how its units get to it.

    ``mode`` is "stream" where they come through pipes, "range" where the command is told where they are in the source,
    else "file". A check that runs after a command has the same placeholders but pipes, and may leave any of them out.
    """

    def __init__(self, text: str, splits: Sequence[str], outputs: Sequence[str], *, is_check: bool = False) -> None:
        if not text.strip():
            raise UsageError(f"a command is a line for the shell, not {text!r}")
        if "\0" in text:
            raise UsageError(f"a command cannot hold a zero byte: {text!r}")
        _check_names(splits, outputs)
        self.text = text.strip()
        self._splits = tuple(splits)
        self._outputs = tuple(outputs)
        self._is_check = is_check
        self._redirected: set[str] = set()  # what is split and stands behind "<"
        reader = ShellReader()
        self._parts = tuple(self._parse(reader))
        self.keys = frozenset(part.key for part in self._parts if isinstance(part, Placeholder))
        self._reader = reader
        self.has_pipes = reader.has_pipes
        self.is_simple = is_simple_command(self.text, reader)
        self.mode = self._find_mode()
        unnamed = [name for name in outputs if name not in self.keys]
        self.stdout_output = unnamed[0] if unnamed and not is_check else None
        if not is_check:
            self._check_uses(unnamed)

    @property
    def has_conditions(self) -> bool:
        """Whether some of it is done only if a pipe ends well, or badly."""
        return self._reader.has_conditions

    def render(self, words: Mapping[str, str]) -> str:
        """The text with a word for each placeholder, quoted."""
        return "".join(
            part if isinstance(part, str) else quote_for_shell(words[part.key], part.quote) for part in self._parts
        )

    def programs(self) -> list[str]:
        """The programs that the command starts, as far as its text shows them: for noticing that one was changed."""
        return programs_of(self._reader.text)

    def words(self) -> list[tuple[str, str]]:
        """The words of the text, as `words_of` finds them; "{}" stands for each placeholder."""
        return words_of(self._reader.text)

    def _parse(self, reader: ShellReader) -> Iterator[str | Placeholder]:
        at = 0
        for match in _TOKEN.finditer(self.text):
            literal = self.text[at : match.start()]
            at = match.end()
            if match[0] in ("{{", "}}"):
                literal += match[0][0]
            reader.read(literal)
            yield literal
            if match[0] in ("{{", "}}"):
                continue
            if match[1] is None:
                raise self._stray_brace(match.start())
            yield self._placeholder(match, reader)
            reader.read_word()
        reader.read(self.text[at:])
        yield self.text[at:]

    def _placeholder(self, match: re.Match[str], reader: ShellReader) -> Placeholder:
        name, way = match[1], match[2]
        if name not in (*self._splits, *self._outputs, *NUMBERS):
            raise self._unknown(match[0], name)
        if way is None:
            way = "pipe" if name in self._splits and reader.is_redirected and not self._is_check else ""
            if way:
                self._redirected.add(name)
        elif name not in self._splits:
            raise UsageError(f"{match[0]}: only what is split has a part after a colon. Write {{{name}}}")
        elif way not in _WAYS:
            near = _nearest(way, _WAYS)
            instead = f"Did you mean {{{name}:{near}}}?" if near else f"There are {', '.join(_WAYS)}"
            raise UsageError(f"{match[0]} is not a way to give units to a command. {instead}")
        if reader.is_backticked:
            raise UsageError(f"{match[0]} stands between backticks, where paths cannot be quoted: use $(...) instead")
        return Placeholder(name, way, reader.quote)

    def _find_mode(self) -> str:
        pipes = {part for part in self._splits if f"{part}:pipe" in self.keys}
        ranges = {key for key in self.keys if key.rpartition(":")[2] in ("offset", "length", "source")}
        others = {*(name for name in self._splits if name in self.keys), *ranges}
        if not pipes:
            return "range" if ranges else "file"
        if self._is_check:
            raise UsageError(f"a check runs after the command, when nothing comes through a pipe any more: {self.text}")
        if others:
            raise self._mixed(pipes, others)
        if "units" in self.keys:
            raise UsageError(
                "{units} is not known when a command that reads a pipe starts: units come as long as there are any. "
                "Use a file ({name} without '<' or ':pipe'), or leave {units} out"
            )
        return "stream"

    def _mixed(self, pipes: set[str], others: set[str]) -> UsageError:
        """Which is a pipe and which is not, and how to have all of them in one way."""
        pipe = min(pipes & others or pipes)
        other = pipe if pipe in others else min(others)
        is_redirected = pipe in self._redirected
        written = f"'< {{{pipe}}}'" if is_redirected else f"{{{pipe}:pipe}}"
        as_file = f"'cat {{{pipe}}} |' before the program" if is_redirected else f"{{{pipe}}}"
        if other == pipe:
            return UsageError(
                f"{written} is a pipe, and {{{pipe}}} elsewhere in the command is a file: one part cannot be both. "
                f"Write {as_file} instead of {written}, and both are the same file"
            )
        is_range = ":" in other
        or_pipes = "" if is_range else f", for files; or {{{other}:pipe}} instead of {{{other}}}, for pipes"
        return UsageError(
            f"{written} is a pipe, and {{{other}}} is {'of a range of bytes' if is_range else 'a file'}: a command "
            "reads either only pipes, and runs as long as units come, or none, and runs once for each step. "
            f"Use one way for all: write {as_file} instead of {written}{or_pipes}"
        )

    def _check_uses(self, unnamed: Sequence[str]) -> None:
        for name in self._splits:
            ways = [key.rpartition(":")[2] for key in self.keys if key == name or key.startswith(f"{name}:")]
            if not ways:
                raise UsageError(f"{name!r} is split, but {{{name}}} is nowhere in the command: {self.text}")
            if ways == ["source"] and not self.keys & {"unit_start", "units"}:
                raise UsageError(
                    f"{{{name}:source}} is the whole source: the command must also be told which units to work on, "
                    f"with {{{name}:offset}} and {{{name}:length}}, or {{unit_start}} and {{units}}"
                )
            if (
                ways == ["pipe"]
                and sum(isinstance(part, Placeholder) and part.name == name for part in self._parts) > 1
            ):
                raise UsageError(
                    f"{{{name}}} is a pipe, which can be read only once, and stands here twice: {self.text}"
                )
        if len(unnamed) > 1:
            names = ", ".join(f"{{{name}}}" for name in unnamed)
            raise UsageError(
                f"{names} are outputs that are nowhere in the command: say where it writes them (one of them may be "
                f"left out, and is what it writes to standard output): {self.text}"
            )

    def _known(self) -> list[str]:
        splits = [key for name in self._splits for key in (name, f"{name}:pipe")]
        return [f"{{{name}}}" for name in (*splits, *self._outputs, *NUMBERS)]

    def _unknown(self, token: str, name: str) -> UsageError:
        near = _nearest(name, (*self._splits, *self._outputs, *NUMBERS))
        if near:
            return UsageError(f"{token} is not a placeholder. Did you mean {{{near}}}?")
        return UsageError(
            f"{token} is not a placeholder: there are {', '.join(self._known())}. "
            f"For braces of the shell's or a program's own, write {{{token}}}"
        )

    def _stray_brace(self, at: int) -> UsageError:
        shown = self.text[at : at + 30].split("\n")[0]
        closing = shown.find("}")
        if self.text[at] == "}" or closing < 0:
            twice = self.text[at] * 2
            return UsageError(f"a single brace at {shown!r}: for one of the shell's or a program's own, write {twice}")
        token = shown[: closing + 1]
        return UsageError(
            f"{token} is not a placeholder: there are {', '.join(self._known())}. "
            f"For braces of the shell's or a program's own, as awk has them, write {{{token}}}"
        )


def _check_names(splits: Sequence[str], outputs: Sequence[str]) -> None:
    for name in (*splits, *outputs):
        if not _NAME.match(name):
            raise UsageError(f"{name!r} cannot be the name of a placeholder: use letters, digits and _")
        if name in _RESERVED:
            raise UsageError(f"the name {name!r} has a meaning already: choose another one")
    both = sorted({*splits} & {*outputs})
    if both:
        raise UsageError(f"{both[0]!r} is both split and an output: give the output another name")
    twice = sorted(name for name in {*outputs} if outputs.count(name) > 1)
    if twice:
        raise UsageError(f"two outputs are called {twice[0]!r}: give one of them another name")


def _nearest(told: str, known: Sequence[str]) -> str | None:
    """What was probably meant."""
    import difflib

    return next(iter(difflib.get_close_matches(told, known, 1)), None)
