from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from aliquot.outputs.rules.folding import Value, ValueRule

if TYPE_CHECKING:
    from decimal import Context, Decimal

_WHOLE = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
# More than the digits between the largest and the smallest number that a computer's own arithmetic has.
_DIGITS = 700
# Python converts whole numbers of so many digits however it is set up; of more (4300 by default) it may refuse to.
_PYTHON_DIGITS = 640
_LONG = 10**_PYTHON_DIGITS
_LONGEST_SHOWN = 50


class Sum(ValueRule):
    """Numbers, with blanks between them and as many on each line as you like, added place by place.

    Every piece has the same number of lines, and of numbers on each. Whole numbers stay whole. Others are added as they
    are written, in decimal and without rounding: 0.1 and 0.2 are 0.3, 1.50 and 1.50 are 3.00, and the sum does not
    depend on how the work was divided; one that needs more than 700 digits is refused. Blanks are those of the first
    piece.
    """

    name = "sum"

    def new_value(self) -> Value:
        """No numbers."""
        return _Sums()


class _Sums(Value):
    def __init__(self) -> None:
        self._lines: list[list[int | Decimal]] = []
        # What stands before, between and behind the numbers of each line; None until there was a piece.
        self._blanks: list[list[bytes]] | None = None

    def add(self, data: bytes) -> None:
        texts = data.split(b"\n")
        ends = len(texts) - 1 if not texts[-1] else len(texts)
        lines = [_numbers(text, number) for number, text in enumerate(texts[:ends], 1)]
        if self._blanks is None:
            self._blanks = [_blanks_of(text) for text in texts]
            self._lines = lines
            return
        if len(lines) != len(self._lines):
            raise ValueError(f"has {len(lines)} lines of numbers, and the first piece has {len(self._lines)}")
        for number, (sums, numbers) in enumerate(zip(self._lines, lines, strict=True), 1):
            if len(sums) != len(numbers):
                raise ValueError(
                    f"has {len(numbers)} numbers on line {number}, and the first piece has {len(sums)} there"
                )
            sums[:] = [_plus(one, other, number) for one, other in zip(sums, numbers, strict=True)]

    def written(self) -> bytes:
        texts = []
        for number, blanks in enumerate(self._blanks or []):
            words = [_written(value) for value in self._lines[number]] if number < len(self._lines) else []
            texts.append(blanks[0] + b"".join(word + blank for word, blank in zip(words, blanks[1:], strict=True)))
        return b"\n".join(texts)


def _numbers(text: bytes, line: int) -> list[int | Decimal]:
    numbers: list[int | Decimal] = []
    for word in text.split():
        if _WHOLE.fullmatch(word):
            numbers.append(int(word) if len(word) <= _PYTHON_DIGITS else int(_decimal(word)))
        elif not _DECIMAL.fullmatch(word):
            raise ValueError(
                f"has {_shown(word)} on line {line}, which is no number: the command must write numbers alone"
            )
        else:
            try:
                numbers.append(_decimal(word))
            except ArithmeticError as error:
                raise ValueError(
                    f"has {_shown(word)} on line {line}, which is no number that can be added: its exponent is too "
                    "far from 0"
                ) from error
    return numbers


def _plus(one: int | Decimal, other: int | Decimal, line: int) -> int | Decimal:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    try:
        return _adding().add(one, other)
    except ArithmeticError as error:
        raise ValueError(
            f"has {_shown(_written(other))} on line {line}: its sum with {_shown(_written(one))} from the pieces "
            f"before would need more than {_DIGITS} digits: the command must write numbers with fewer"
        ) from error


def _blanks_of(text: bytes) -> list[bytes]:
    """What stands around the words of a line: always one more than there are words."""
    words = text.split()
    if not words:
        return [text]
    blanks = []
    at = 0
    for word in words:
        begin = text.index(word, at)
        blanks.append(text[at:begin])
        at = begin + len(word)
    return [*blanks, text[at:]]


def _decimal(word: bytes) -> Decimal:
    """All of its digits; an `ArithmeticError` if its exponent is beyond those that there are."""
    from decimal import Decimal

    return Decimal(word.decode(), _reading())


@functools.cache
def _reading() -> Context:
    """Not that of the thread, which may be told to read such numbers as nan."""
    from decimal import Context, InvalidOperation

    return Context(traps=[InvalidOperation])


@functools.cache
def _adding() -> Context:
    """Refuses to round; inf and -inf are nan."""
    from decimal import MAX_EMAX, MIN_EMIN, Context, Inexact

    return Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])


def _shown(word: bytes) -> str:
    text = word.decode(errors="backslashreplace")
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def _written(value: int | Decimal) -> bytes:
    if isinstance(value, int) and not -_LONG < value < _LONG:
        from decimal import Decimal

        value = Decimal(value)
    return str(value).replace("E", "e").replace("NaN", "nan").replace("Infinity", "inf").encode()
