from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aliquot.outputs.rules.folding import Value, ValueRule

if TYPE_CHECKING:
    from decimal import Context, Decimal

_WHOLE = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
# More than the digits between the largest and the smallest number that a computer's own arithmetic has.
_DIGITS = 700
_LONGEST_SHOWN = 50


class Sum(ValueRule):
    """Numbers, with blanks between them and as many on each line as you like, added place by place.

    Every piece has the same number of lines, and of numbers on each. Whole numbers stay whole. Others are added as they
    are written, in decimal and without rounding: 0.1 and 0.2 are 0.3, 1.50 and 1.50 are 3.00, and the sum does not
    depend on how the work was divided. Blanks are those of the first piece.
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
        self._context: Context | None = None

    def add(self, data: bytes) -> None:
        texts = data.split(b"\n")
        ends = len(texts) - 1 if not texts[-1] else len(texts)
        lines = [self._numbers(text, number) for number, text in enumerate(texts[:ends], 1)]
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
            sums[:] = map(self._plus, sums, numbers)

    def _numbers(self, text: bytes, line: int) -> list[int | Decimal]:
        numbers: list[int | Decimal] = []
        for word in text.split():
            if _WHOLE.fullmatch(word):
                numbers.append(int(word))
            elif _DECIMAL.fullmatch(word):
                from decimal import Decimal

                numbers.append(Decimal(word.decode()))
            else:
                shown = word.decode(errors="backslashreplace")
                shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."
                raise ValueError(
                    f"has {shown!r} on line {line}, which is no number: the command must write numbers alone"
                )
        return numbers

    def _plus(self, one: int | Decimal, other: int | Decimal) -> int | Decimal:
        if isinstance(one, int) and isinstance(other, int):
            return one + other
        if self._context is None:
            from decimal import MAX_EMAX, MIN_EMIN, Context

            self._context = Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
        return self._context.add(one, other)

    def written(self) -> bytes:
        texts = []
        for number, blanks in enumerate(self._blanks or []):
            words = [_written(value) for value in self._lines[number]] if number < len(self._lines) else []
            texts.append(blanks[0] + b"".join(word + blank for word, blank in zip(words, blanks[1:], strict=True)))
        return b"\n".join(texts)


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


def _written(value: int | Decimal) -> bytes:
    return str(value).replace("E", "e").replace("NaN", "nan").replace("Infinity", "inf").encode()
