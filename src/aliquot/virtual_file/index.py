"""How many starts each block of a file holds: all that is needed to find any unit by reading one block.

It is tiny (some bytes for each 64 KiB), exact, and usable while it grows.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, islice
from operator import sub
from typing import NamedTuple

from aliquot.errors import DataError
from aliquot.virtual_file.boundaries import BLOCK_BYTES


class PackedIndex(NamedTuple):
    """A `BlockIndex` as it is written to disk."""

    block_bytes: int
    block_count: int
    counts: bytes
    states: bytes
    next_state: int


class BlockIndex:
    """Counts of starts for consecutive blocks."""

    def __init__(self) -> None:
        # starts_before[i] is the number of starts that the blocks before block i complete; one longer than the blocks.
        self._starts_before = array("q", [0])
        # states[i] is the state in which block i begins; one longer than the blocks too.
        self._states = bytearray(1)

    @property
    def block_count(self) -> int:
        """How many blocks were counted."""
        return len(self._starts_before) - 1

    @property
    def start_count(self) -> int:
        """How many starts are in them."""
        return self._starts_before[-1]

    @property
    def next_state(self) -> int:
        """The state in which the next block begins."""
        return self._states[-1]

    def extend(self, counts: Sequence[int], next_states: bytes) -> None:
        """Add the counts of the next blocks, each with the state in which the block after it begins."""
        # The states first: a thread that looks a start up meanwhile goes by starts_before.
        self._states += next_states
        after_each = accumulate(counts, initial=self._starts_before[-1])
        self._starts_before += array("q", islice(after_each, 1, None))

    def drop_half_added(self) -> None:
        """Forget states whose counts another thread had not added yet when this process was forked."""
        del self._states[len(self._starts_before) :]

    def locate(self, start: int) -> tuple[int, int, int]:
        """Find a start, counted from 1: its block, its place among that block's starts, that block's first state."""
        block = bisect_left(self._starts_before, start) - 1
        return block, start - self._starts_before[block] - 1, self._states[block]

    def state_of(self, block: int) -> int:
        """The state in which a block begins."""
        return self._states[block]

    def pack(self) -> PackedIndex:
        """Make the small form that is kept on disk."""
        counts = array("I", map(sub, islice(self._starts_before, 1, None), self._starts_before))
        # Level 1 finds nearly all that can be found in counts that hardly differ.
        return PackedIndex(
            block_bytes=BLOCK_BYTES,
            block_count=self.block_count,
            counts=zlib.compress(_little_endian(counts).tobytes(), 1),
            states=zlib.compress(bytes(self._states[:-1]), 1),
            next_state=self.next_state,
        )

    @classmethod
    def unpack(cls, packed: PackedIndex) -> BlockIndex:
        """Rebuild what `pack` packed."""
        if packed.block_bytes != BLOCK_BYTES:
            raise DataError(f"an index with blocks of {packed.block_bytes} bytes, not {BLOCK_BYTES}")
        counts = _little_endian(array("I", zlib.decompress(packed.counts)))
        states = zlib.decompress(packed.states)
        if not len(counts) == len(states) == packed.block_count:
            raise DataError(f"an index of {packed.block_count} blocks with {len(counts)} counts")
        index = cls()
        index._starts_before += array("q", accumulate(counts))
        index._states = bytearray(states) + bytes([packed.next_state])
        return index


def _little_endian(numbers: array[int]) -> array[int]:
    """As they are on disk, on whatever machine; and back."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
