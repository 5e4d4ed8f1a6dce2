"""Where units begin, found in one block of bytes at a time. No files here: bytes in, numbers out.

    ...previous block | lead |              block              | next block...
                        ^^^^   ^         ^            ^
        bytes looked back at   start     start        start

A *start* is the offset at which a line (or another mark) begins, counted from the beginning of the block. A unit begins
at every `starts_per_unit`-th start. The very first unit begins where the content begins and needs no start of its own;
a start at the very end of the content begins nothing.
"""

from __future__ import annotations

import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aliquot.errors import Malformed, UsageError
from aliquot.virtual_file.forking import importing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Offsets = Sequence[int] | NDArray[np.int64]

Block = bytes | memoryview

BLOCK_BYTES = 64 * 1024
NEWLINE = 10
# Importing numpy takes as long as counting so many bytes without it.
_NUMPY_IMPORT_BYTES = 128 * 1024 * 1024


class Boundaries(ABC):
    """A rule that finds starts in a block, given some bytes before it and a small state from the block before."""

    lookbehind_bytes: int = 0
    starts_per_unit: int = 1
    # What ends a unit: put behind a last unit that lacks it, where the units of another file follow.
    terminator: bytes = b"\n"

    def identity(self) -> str:
        """What tells this rule from others: an index that was made by another rule is of no use."""
        return f"{type(self).__module__}.{type(self).__qualname__} {sorted(vars(self).items())}"

    @abstractmethod
    def find(self, window: Block, lead: int, state: int) -> Offsets:
        """The offsets of all starts that the block ``window[lead:]`` completes, in order."""

    def find_nth(self, window: Block, lead: int, state: int, nth: int) -> int | None:
        """One of the starts that `find` finds, counted from 0; None if there are fewer."""
        found = self.find(window, lead, state)
        return int(found[nth]) if nth < len(found) else None

    def scan(self, window: Block, lead: int, state: int) -> tuple[int, int]:
        """How many starts the block completes, and the state in which the next block begins."""
        return len(self.find(window, lead, state)), 0

    def scan_blocks(self, window: Block, lead: int, state: int) -> tuple[list[int], bytes]:
        """`scan` each block of a run: the counts, and the states in which the blocks after them begin.

        Only the last block may be short. ``window[:lead]`` is what stands before the first.
        """
        counts = []
        states = bytearray()
        for at in range(lead, len(window), BLOCK_BYTES):
            behind = min(at, self.lookbehind_bytes)
            try:
                starts, state = self.scan(window[at - behind : at + BLOCK_BYTES], behind, state)
            except Malformed as fault:
                fault.byte_within = at - lead + (fault.byte_within or 0)
                raise
            counts.append(starts)
            states.append(state)
        return counts, bytes(states)


class EveryLines(Boundaries):
    """A unit is a fixed number of lines."""

    def __init__(self, lines_per_unit: int = 1) -> None:
        if lines_per_unit < 1:
            raise UsageError(f"a unit of {lines_per_unit} lines is not possible: it has at least 1")
        self.starts_per_unit = lines_per_unit

    def find(self, window: Block, lead: int, state: int) -> Offsets:
        """After each newline."""
        return _after_newlines(window[lead:])

    def find_nth(self, window: Block, lead: int, state: int, nth: int) -> int | None:
        """After that newline."""
        block = bytes(window[lead:])
        lines = block.split(b"\n", nth + 1)
        return len(block) - len(lines[-1]) if len(lines) == nth + 2 else None

    def scan(self, window: Block, lead: int, state: int) -> tuple[int, int]:
        """Count newlines."""
        return bytes(window[lead:]).count(b"\n"), 0

    def scan_blocks(self, window: Block, lead: int, state: int) -> tuple[list[int], bytes]:
        """Count newlines: the speed of indexing is the speed of this function.

        A byte for each byte, 1 at a newline, is summed as words of eight bytes: 128 words at a time, so that no byte of
        a sum can overflow into the next, then the bytes of the sums. It takes three quarters of count_nonzero's time.
        """
        if not _is_worth_numpy(len(window)):
            return super().scan_blocks(window, lead, state)
        with importing:
            import numpy as np
        is_newline = np.equal(_as_array(window)[lead:], NEWLINE, out=_scratch(len(window) - lead))
        whole = len(is_newline) // BLOCK_BYTES * BLOCK_BYTES
        words = is_newline[:whole].view(np.uint64).reshape(-1, 128)
        sums = np.add.reduce(words, axis=1).view(np.uint8).reshape(-1, BLOCK_BYTES // 128)
        counts: list[int] = np.add.reduce(sums, axis=1, dtype=np.int64).tolist()
        if whole < len(is_newline):
            counts.append(int(np.count_nonzero(is_newline[whole:])))
        return counts, bytes(len(counts))


class After(Boundaries):
    """A unit ends with a mark, such as a line of its own, and the next one begins behind it."""

    def __init__(self, mark: bytes) -> None:
        if not mark:
            raise UsageError("the mark that ends a unit cannot be empty")
        self.terminator = mark
        self.lookbehind_bytes = len(mark) - 1

    def find(self, window: Block, lead: int, state: int) -> Offsets:
        """Behind each mark."""
        return _ends_of(self.terminator, window, lead)


class LineBeginningWith(Boundaries):
    """A unit begins at each line that begins with a mark, such as the > of FASTA."""

    def __init__(self, mark: bytes) -> None:
        if not mark:
            raise UsageError("the mark that begins a unit cannot be empty")
        self._pattern = b"\n" + mark
        self._mark_bytes = len(mark)
        self.lookbehind_bytes = len(mark)

    def find(self, window: Block, lead: int, state: int) -> Offsets:
        """At each mark that follows a newline."""
        return _ends_of(self._pattern, window, lead) - self._mark_bytes


class QuotedLines(Boundaries):
    """A unit is a line, and a newline between quotes ends none (RFC 4180).

    Two quotes in a row inside a quoted field close and open it again, so that counting quotes is enough.
    The state is 1 where a block begins inside quotes.
    """

    lookbehind_bytes = 1

    def __init__(self, quote: bytes, delimiter: bytes) -> None:
        self._quote = quote
        self._may_precede_opening_quote = delimiter + b"\n" + quote

    def find(self, window: Block, lead: int, state: int) -> Offsets:
        """After each newline that is not between quotes."""
        block = bytes(window[lead:])
        if self._quote not in block:
            return [] if state else _after_newlines(block)
        with importing:
            import numpy as np
        newlines = np.flatnonzero(_as_array(block) == NEWLINE)
        quotes = np.flatnonzero(_as_array(block) == self._quote[0])
        quotes_before = np.searchsorted(quotes, newlines)
        return np.asarray(newlines[(quotes_before + state) % 2 == 0] + 1, dtype=np.int64)

    def scan(self, window: Block, lead: int, state: int) -> tuple[int, int]:
        """Count the newlines that are not between quotes, and check that each quote opens where a field begins."""
        block = bytes(window[lead:])
        if self._quote not in block:
            return (0 if state else block.count(b"\n")), state
        with importing:
            import numpy as np
        quotes = np.flatnonzero(_as_array(block) == self._quote[0])
        opening = quotes[state::2]
        opening = opening[opening + lead > 0]
        before = _as_array(window)[opening + lead - 1]
        misplaced = ~np.isin(before, _as_array(self._may_precede_opening_quote))
        if misplaced.any():
            raise Malformed(
                "has a quote in the middle of a field that does not begin with one",
                byte_within=int(opening[misplaced][0]),
                advice="Quote the whole field and double the quotes in it, or open the file with quote=None "
                "if quotes mean nothing in it",
            )
        return len(self.find(window, lead, state)), (state + len(quotes)) % 2


class EqualSizes:
    """Every unit has the same number of bytes, so that nothing has to be looked for."""

    terminator = b""

    def __init__(self, unit_bytes: int) -> None:
        if unit_bytes < 1:
            raise UsageError(f"a unit of {unit_bytes} bytes is not possible: it has at least 1")
        self.unit_bytes = unit_bytes

    def identity(self) -> str:
        """What tells this rule from others."""
        return f"{self.unit_bytes} bytes"


def _after_newlines(block: Block) -> list[int]:
    return [newline.end() for newline in re.finditer(b"\n", block)]


def _ends_of(pattern: bytes, window: Block, lead: int) -> NDArray[np.int64]:
    """Where occurrences of a pattern end, relative to the block; those that end before it are not its own."""
    with importing:
        import numpy as np
    # Look first for the byte of the pattern that is likely to be the rarest: not a newline.
    probe = next((at for at, byte in enumerate(pattern) if byte != NEWLINE), 0)
    last = len(window) - len(pattern)
    if last < 0:
        return np.empty(0, dtype=np.int64)
    content = _as_array(window)
    starts = np.flatnonzero(content[probe : probe + last + 1] == pattern[probe])
    for at, byte in enumerate(pattern):
        if at != probe:
            starts = starts[content[starts + at] == byte]
    ends = starts + len(pattern) - lead
    return ends[ends > 0]


_counted_bytes = 0


def _is_worth_numpy(length: int) -> bool:
    """Whether so many bytes have been counted in this process that numpy, which is quicker, should be imported."""
    global _counted_bytes  # noqa: PLW0603  # of all files together
    _counted_bytes += length
    return _counted_bytes > _NUMPY_IMPORT_BYTES or "numpy" in sys.modules


def _as_array(window: Block) -> NDArray[np.uint8]:
    import numpy as np

    return np.frombuffer(window, dtype=np.uint8)


_scratch_of_thread = threading.local()


def _scratch(length: int) -> NDArray[np.bool_]:
    """Memory that is used again and again: getting some anew for each run costs as much as counting in it."""
    import numpy as np

    found: NDArray[np.bool_] | None = getattr(_scratch_of_thread, "memory", None)
    if found is None or len(found) < length:
        found = _scratch_of_thread.memory = np.empty(length, dtype=np.bool_)
    return found[:length]
