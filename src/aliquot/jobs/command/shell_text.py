"""What can be told of a shell command from its text: quotes, redirections, pipes and the programs that it starts.

The shell's grammar is larger than this. Where the text is beyond it, nothing is refused: the shell has the last word.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator

# What the shell does by itself, so that no program is started and none can take the shell's place.
_BUILTINS = frozenset(
    (
        *(".", ":", "[", "alias", "bg", "break", "cd", "command", "continue", "echo", "eval", "exec", "exit", "export"),
        *("false", "fg", "getopts", "hash", "jobs", "kill", "local", "printf", "pwd", "read", "readonly", "return"),
        *("set", "shift", "source", "test", "times", "trap", "true", "type", "ulimit", "umask", "unalias", "unset"),
        "wait",
    )
)
# A command follows them.
_KEYWORDS = frozenset(("!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "time"))
# Words after which no command follows at once.
_NO_COMMAND_FOLLOWS = frozenset(("for", "case", "function", "[["))
# Programs that start the program that they are given.
_STARTERS = frozenset(("env", "nice", "nohup", "stdbuf", "timeout", "xargs"))
_OPERATORS = frozenset("|&;()")
_BLANKS = frozenset(" \t\n")  # to the shell; Python knows more of them
_OPERATOR_CHARACTERS = _OPERATORS | frozenset("\n`")
_PLAIN_WORD = re.compile(r"[\w./+-]+\Z")
# These are looked for in what stands outside of quotes and comments. Each is compiled where it is needed: most commands
# need few of them, and wait for all.
_OPERATOR = r"[\n;`]|(?<![<>])[|&()]"
_PIPE = r"(?<![|>])\|(?!\|)"
_HERE_DOCUMENT = r"(?<!<)<<(?!<)"
_FUNCTION = r"\w[ \t]*\([ \t]*\)|\bfunction[ \t]"
# Where a command begins: behind an operator, or a word that a command follows.
_BEGINNING = r"(?:^|[\n;&|(){`]|\b(?:then|else|elif|do|time|command|builtin)\b)[ \t]*"
_CONDITION = (
    _BEGINNING + r"(?:case|trap|!)(?=[\s(]|$)"
    # Wherever it stands, as more than that may be before it.
    r"|(?<![\w./-])set[ \t](?:[^\n;&|]*[ \t])?(?:-[a-zA-Z]*e[a-zA-Z]*|errexit)(?!\w)"
)
_BRANCH = _BEGINNING + r"(if|elif|while|until)(?=[\s(]|$)"
_NESTED = r"\b(?:if|while|until|for|case|select)\b"
_STATUS = r"\$\{?\?|PIPESTATUS"
_CASE, _ESAC = _BEGINNING + r"case\s", r"[\s;]esac(?=[\s;)]|$)"


class ShellReader:
    """Reads a command character by character, and knows at each point what the shell would make of it.

    ``quote`` is the quote that the point is in: "", "'" or '"'. ``is_redirected`` says that the next word is what
    standard input comes from.
    """

    def __init__(self) -> None:
        # Quotes and, as "", commands within: "$(...)", (...); as "${", an expansion in double quotes: "${...}".
        self._inside = [""]
        self._previous = "\n"
        self._is_escaped = False
        self._is_comment = False
        self._is_dollar_quoted = False  # $'...', where bash knows escapes and sh may not
        self._is_ambiguous = False  # the shells do not agree where a quote ends
        self._expansions = 0  # that are open: ${...}, in which "#" is no comment
        self._opened: list[int] = []  # where in the bare text the parentheses stand that are open
        self._text: list[str] = []
        self._bare: list[str] = []
        self.is_backticked = False
        self.is_redirected = False

    @property
    def quote(self) -> str:
        """The quote that is open."""
        return '"' if self._inside[-1] == "${" else self._inside[-1]

    @property
    def text(self) -> str:
        """What was read, without comments; "{}" stands for each `read_word`."""
        return "".join(self._text)

    @property
    def has_operators(self) -> bool:
        """Whether there is anything but one simple command."""
        has_some = not _OPERATOR_CHARACTERS.isdisjoint(self._bare) and re.search(_OPERATOR, self._bare_text) is not None
        return has_some or self._is_beyond

    @property
    def has_pipes(self) -> bool:
        """Whether there are pipes, or may be some."""
        return "|" in self._text and re.search(_PIPE, self._shell_text) is not None

    @property
    def has_conditions(self) -> bool:
        """Whether some of it is done only if a pipe ends well, or badly, as far as the text shows it."""
        text = self._shell_text
        pipe = re.search(_PIPE, text)
        if pipe is None:
            return False
        # What a function does may be asked for anywhere.
        has_functions = re.search(_FUNCTION, text) is not None
        behind = text if has_functions else text[pipe.end() :]
        if "&&" in behind or "||" in behind or re.search(_CONDITION, text):
            return True
        all_pipe = re.search(_PIPE, self.text)
        if all_pipe is not None and re.search(_STATUS, self.text[all_pipe.end() :]):
            return True  # also within quotes
        return any(has_functions or _may_have_pipes(condition) for condition in _conditions_of(text))

    @property
    def _bare_text(self) -> str:
        """What stands outside of quotes and comments; "_" stands for what was quoted."""
        return "".join(self._bare)

    @property
    def _shell_text(self) -> str:
        """What the shell reads as such; where it cannot be told what is quoted, all."""
        return self.text if self._is_beyond else self._bare_text

    @property
    def _is_beyond(self) -> bool:
        """Whether it cannot be told what is quoted: lines that are given to a program, a quote that stays open."""
        if self._is_ambiguous or len(self._inside) > 1:
            return True
        return "<" in self._bare and re.search(_HERE_DOCUMENT, self._bare_text) is not None

    def read(self, text: str) -> None:
        """Go on over some text."""
        for character in text:
            was_escaped = self._is_escaped
            self._read_one(character)
            if was_escaped:
                # A line that goes on with the next is as if there were no end; all else is a part of a word.
                self._previous = self._previous if character == "\n" else "x"
            elif not self._is_escaped:
                self._previous = character

    def read_word(self) -> None:
        """Go on over a path or a number that will stand here."""
        self.is_redirected = False
        self._previous = "x"
        if not self._is_comment:
            self._text.append("{}")
            self._bare.append("_")

    def _read_one(self, character: str) -> None:
        if self._is_comment and character != "\n" and not (character == "`" and self.is_backticked):
            return
        if self.quote == "" and character == "#" and not self._is_escaped and self._may_begin_comment():
            self._is_comment = True
            return
        self._is_comment = False
        self._text.append(character)
        if self._is_escaped:
            self._is_escaped = False
            self.is_redirected = False
            self._is_ambiguous = self._is_ambiguous or (self._is_dollar_quoted and character == "'")
            self._bare.append("" if character == "\n" else "_")
        elif self.quote == "'":
            if character == "'":
                self._inside.pop()
                self._is_dollar_quoted = False
            elif character == "\\" and self._is_dollar_quoted:
                self._is_escaped = True
            else:
                self.is_redirected = False
        elif character == "\\":
            self._is_escaped = True
        elif character == "`":
            self.is_backticked = not self.is_backticked
            self._bare.append(character)
        elif self.quote == '"':
            self._read_in_double_quotes(character)
        else:
            self._read_bare(character)

    def _may_begin_comment(self) -> bool:
        return not self._expansions and (self._previous in _BLANKS or self._previous in _OPERATORS)

    def _read_in_double_quotes(self, character: str) -> None:
        is_expansion = self._inside[-1] == "${"
        if character == '"' and is_expansion:
            self._inside.append('"')
            self._is_ambiguous = True  # shells do not agree whether what it holds is quoted
        elif character == ("}" if is_expansion else '"'):
            self._inside.pop()
        elif character == "(" and self._previous == "$":
            self._open_parenthesis()
        elif character == "{" and self._previous == "$":
            self._inside.append("${")
        else:
            self.is_redirected = False
            if self.is_backticked:
                self._bare.append(character)

    def _read_bare(self, character: str) -> None:
        previous = self._previous
        if character in "'\"":
            self._inside.append(character)
            self._is_dollar_quoted = character == "'" and previous == "$"
            self._bare.append("_")
            return
        if character == "(":
            self._open_parenthesis()
            self.is_redirected = False
            return
        self._bare.append(character)
        if character in " \t":
            return
        self.is_redirected = character == "<" and previous != "<"
        if character == ")" and len(self._inside) > 1:
            self._close_parenthesis()
        elif character == "{" and previous == "$":
            self._expansions += 1
        elif character == "}" and self._expansions:
            self._expansions -= 1

    def _open_parenthesis(self) -> None:
        self._inside.append("")
        self._opened.append(len(self._bare))
        self._bare.append("(")

    def _close_parenthesis(self) -> None:
        within = "".join(self._bare[self._opened[-1] :])
        if len(re.findall(_CASE, within)) > len(re.findall(_ESAC, within)):
            return  # it ends a pattern
        self._inside.pop()
        self._opened.pop()


def _conditions_of(text: str) -> Iterator[str]:
    """What stands between each `if` and its `then`, or each `while` and its `do`."""
    for branch in re.finditer(_BRANCH, text):
        behind = text[branch.end() :]
        end = re.search(rf"[\s;&|){{}}]{'then' if branch[1] in ('if', 'elif') else 'do'}(?=[\s;({{]|$)", behind)
        yield behind if end is None else behind[: end.start()]


def _may_have_pipes(condition: str) -> bool:
    return re.search(_PIPE, condition) is not None or re.search(_NESTED, condition) is not None


def quote_for_shell(word: str, quote: str) -> str:
    """Write a word so that the shell reads it as it is, at a point where that quote is open."""
    if quote == "'":
        return word.replace("'", "'\\''")
    if quote == '"':
        return re.sub(r'([\\"$`])', r"\\\1", word)
    return shlex.quote(word)


def programs_of(command: str) -> list[str]:
    """The programs that a command without comments starts, each once, in order; as far as its text shows them."""
    found: dict[str, None] = {}
    is_expected, is_operand = True, False
    for token in _tokens_of(command):
        if set(token) <= set("<>&") and set(token) & set("<>"):
            is_operand = True  # a file or a descriptor comes next
        elif set(token) <= _OPERATORS:
            is_expected, is_operand = True, False
        elif is_operand:
            is_operand = False
        elif is_expected and token not in _KEYWORDS and not _is_prefix(token):
            if token not in _BUILTINS and token not in _NO_COMMAND_FOLLOWS and _PLAIN_WORD.match(token):
                found[token] = None
            is_expected = token in _STARTERS or token in ("exec", "command")
    return list(found)


def words_of(command: str) -> list[tuple[str, str]]:
    """The words of a command without comments, without their quotes, each with its redirection: "", or such as ">"."""
    found = []
    redirection = ""
    for token in _tokens_of(command):
        if set(token) <= _OPERATORS | set("<>"):
            redirection = token if set(token) & set("<>") else ""
        else:
            found.append((redirection, token))
            redirection = ""
    return found


def _tokens_of(command: str) -> Iterator[str]:
    """Words and operators, up to a quote that is never closed: the shell will say so."""
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""  # to it, all of "$#" and "${f##*/}" begins one
    with contextlib.suppress(ValueError):
        yield from lexer


def is_simple_command(command: str, reader: ShellReader) -> bool:
    """Whether a command is one program with its arguments, whose place in the shell the program can take."""
    first = command.split(None, 1)[0]
    is_word = _PLAIN_WORD.match(first) is not None
    is_program = first not in _BUILTINS and first not in _KEYWORDS and first not in _NO_COMMAND_FOLLOWS
    return is_word and is_program and not reader.has_operators


def _is_prefix(token: str) -> bool:
    """Whether a word is an assignment, an option or a number, which stand before a program's name."""
    return re.match(r"[A-Za-z_]\w*=", token) is not None or token.startswith("-") or token.isdecimal()
