"""Units that are found by counting their starts, block by block, as far as anyone has asked so far."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from aliquot.errors import DataError, Malformed
from aliquot.virtual_file.boundaries import BLOCK_BYTES, Block, Boundaries
from aliquot.virtual_file.forking import renew_locks_after_fork
from aliquot.virtual_file.index import BlockIndex
from aliquot.virtual_file.index_cache import BadUnit, IndexCache, IndexRecord
from aliquot.virtual_file.storage import Storage
from aliquot.virtual_file.units import Units

_SECONDS_BETWEEN_SAVES = 2.0
# A format looks at the bytes of one unit in this many blocks, so that a wrong assumption is noticed early.
_BLOCKS_BETWEEN_CHECKS = 256
_BLOCKS_AT_LEAST_PER_SCAN = 64


class ScannedUnits(Units):
    """Units found by counting starts in each block, and remembered in the user's cache."""

    def __init__(
        self,
        storage: Storage,
        content_start: int,
        boundaries: Boundaries,
        check: Callable[[bytes], None],
        cache: IndexCache,
    ) -> None:
        self._storage = storage
        self._content_start = content_start
        self._boundaries = boundaries
        self._check = check
        self._cache = cache
        self._index = BlockIndex()
        self.renew_locks()
        renew_locks_after_fork(self)
        # How many units there are, once the end was seen and found in order.
        self._total: int | None = None
        self._next_check = 0
        self._recently_found: dict[int, int] = {}
        self._are_bad_units_expected = False
        self._bad_unit: BadUnit | None = None  # the first of those that were found
        self._torn_unit: BadUnit | None = None  # the last of the file, if its end is missing
        # What is wrong with the end of the file, once it was seen: all later calls say the same.
        self._fault: DataError | None = None
        self._stamp = self._cache.stamp()  # of the record that is known here
        self._restore()

    def renew_locks(self) -> None:
        """One thread scans at a time; the others wait until what they need is known. In a new process none does."""
        self._progress = threading.Condition()
        self._scanning = False
        self._index.drop_half_added()

    @property
    def known(self) -> int:
        """Units whose end has been seen."""
        if self._total is not None:
            return self._total
        return self._index.start_count // self._boundaries.starts_per_unit

    @property
    def complete(self) -> bool:
        """Whether the end was seen."""
        return self._total is not None

    @property
    def bytes_per_unit(self) -> float:
        """On average so far."""
        # The last block is mostly a short one.
        seen_bytes = self._index.block_count * BLOCK_BYTES
        if self._total is not None:
            seen_bytes = self._content_end() - self._content_start
        return max(1.0, seen_bytes / max(1, self.known))

    def advance(self, units: int | None, stop: threading.Event | None = None) -> None:
        """Count on from where counting stopped."""
        with self._progress:
            self._progress.wait_for(lambda: self._is_known(units) or not self._scanning)
            self.refuse_bad_unit(units)
            if self._is_known(units):
                return
            if self._fault is not None:
                raise self._fault
            self._scanning = True
        try:
            self._take_from_others()
            self.refuse_bad_unit(units)
            if not self._is_known(units):
                self._scan(units, stop)
        finally:
            with self._progress:
                self._scanning = False
                self._progress.notify_all()

    def expect_bad_units(self) -> None:
        """Do not refuse the file for what is in one of its units, as long as it is certain where that ends."""
        self._are_bad_units_expected = True

    def refuse_bad_unit(self, units: int | None) -> None:
        """Somebody may have counted on behind it, who expected some."""
        for bad in (self._bad_unit, self._torn_unit):
            if bad is not None and not self._are_bad_units_expected and (units is None or bad.unit < units):
                raise self._error_of(bad)

    @property
    def whole(self) -> int:
        """All that are known, but for the last one of a file that ends too early."""
        return self.known if self._torn_unit is None else self._torn_unit.unit

    def check_whole(self, stop: int) -> None:
        """What is there of the last one might be read together with what follows it."""
        if self._torn_unit is not None and stop > self._torn_unit.unit:
            raise self._error_of(self._torn_unit)

    def check_good(self, start: int, stop: int) -> None:
        """Whoever is given it might pass it over without a word."""
        if self._bad_unit is not None and start <= self._bad_unit.unit < stop:
            raise self._error_of(self._bad_unit)

    def share(self) -> None:
        """Save it, also unfinished: other processes look there before they count by themselves.

        Not if one of them has saved something meanwhile, which is looked at before anything more is counted here.
        """
        if self._total is None and self._cache.stamp() == self._stamp:
            self._save_unfinished()

    def _is_known(self, units: int | None) -> bool:
        return self._total is not None or (units is not None and self.known >= units)

    def byte_of(self, unit: int) -> int:
        """Look into the one block in which the unit begins."""
        if unit == 0:
            return self._content_start
        if unit == self._total:
            return self._content_end()
        # Of two neighbouring slices, one ends where the other begins.
        found = self._recently_found.get(unit)
        if found is None:
            found = self._byte_of_start(unit * self._boundaries.starts_per_unit)
            if len(self._recently_found) >= 64:
                self._recently_found.clear()
            self._recently_found[unit] = found
        return found

    def _byte_of_start(self, start: int) -> int:
        block, nth, state = self._index.locate(start)
        window, lead = self._read_block(block)
        found = self._boundaries.find_nth(window, lead, state, nth)
        if found is None:
            self._storage.check_unchanged()
            raise DataError(
                f"block {block} of the file does not hold what its index says",
                path=self._storage.path,
                byte=self._content_start + block * BLOCK_BYTES,
                advice="Remove the index with 'aliquot index --rebuild'",
            )
        return self._content_start + block * BLOCK_BYTES + found

    def _read_block(self, block: int) -> tuple[Block, int]:
        """A block behind as many bytes as the boundaries look back at."""
        at = self._content_start + block * BLOCK_BYTES
        lead = min(self._boundaries.lookbehind_bytes, at - self._content_start)
        return self._storage.read_at(at - lead, lead + BLOCK_BYTES), lead

    def _scan(self, units: int | None, stop: threading.Event | None) -> None:
        if not self._all_counted():
            try:
                self._scan_blocks(units, stop)
            except KeyboardInterrupt:
                self._save_unfinished()
                raise
        if self._all_counted():
            self._finish()

    def _all_counted(self) -> bool:
        """Whether every block is in the index, the last of which may be short."""
        size_bytes = self._storage.known_size_bytes
        return size_bytes is not None and self._content_start + self._index.block_count * BLOCK_BYTES >= size_bytes

    def _content_end(self) -> int:
        size_bytes = self._storage.known_size_bytes
        assert size_bytes is not None, "the end is asked for only after it was seen"
        return size_bytes

    def _scan_blocks(self, units: int | None, stop: threading.Event | None) -> None:
        enough = None if units is None else units * self._boundaries.starts_per_unit
        fewest_blocks = self._index.block_count + _BLOCKS_AT_LEAST_PER_SCAN
        last_saved = time.monotonic()
        threads = 1 if enough is not None else os.cpu_count() or 1
        begin = self._content_start + self._index.block_count * BLOCK_BYTES
        lead = min(self._boundaries.lookbehind_bytes, begin - self._content_start)
        pieces = self._storage.pieces(begin - lead, threads=threads)
        for window, behind in _runs_of_blocks(pieces, lead, self._boundaries.lookbehind_bytes):
            self._count(window, behind)
            with self._progress:
                self._progress.notify_all()
            if enough is not None and self._index.start_count >= enough and self._index.block_count >= fewest_blocks:
                return
            if stop is not None and stop.is_set():
                self._save_unfinished()
                return
            if time.monotonic() - last_saved > _SECONDS_BETWEEN_SAVES:
                self._save_unfinished()
                last_saved = time.monotonic()

    def _count(self, window: Block, lead: int) -> None:
        """Add a run of blocks to the index, after a look at one of its units now and then."""
        state = self._index.next_state
        try:
            counts, next_states = self._boundaries.scan_blocks(window, lead, state)
        except Malformed as fault:
            byte_within = fault.byte_within or 0
            starts = self._index.start_count + len(self._boundaries.find(window[: lead + byte_within], lead, state))
            byte = self._content_start + self._index.block_count * BLOCK_BYTES + byte_within
            self._raise(fault, byte, starts // self._boundaries.starts_per_unit)
        if self._index.block_count >= self._next_check:
            self._check_one_unit(window[: lead + BLOCK_BYTES], lead, state)
            self._next_check = self._index.block_count + _BLOCKS_BETWEEN_CHECKS
        self._index.extend(counts, next_states)

    def _check_one_unit(self, window: Block, lead: int, state: int) -> None:
        """Let the format look at the first unit that begins in a block."""
        per_unit = self._boundaries.starts_per_unit
        starts_before = self._index.start_count
        if self._index.block_count == 0:
            offset, unit, next_nth = 0, 0, per_unit - 1
        else:
            # Of the starts in this block, the first one at which a unit begins.
            nth = per_unit - 1 - starts_before % per_unit
            found = self._boundaries.find_nth(window, lead, state, nth)
            if found is None:
                return
            offset, unit, next_nth = found, (starts_before + nth + 1) // per_unit, nth + per_unit
        sample = bytes(window[lead + offset :])
        if not sample:
            return
        try:
            self._check(sample)
        except Malformed as fault:
            byte = self._content_start + self._index.block_count * BLOCK_BYTES + offset
            following = self._boundaries.find_nth(window, lead, state, next_nth)
            neighbour = b"" if following is None else bytes(window[lead + following :])
            bad = self._expected(fault, byte + (fault.byte_within or 0), unit, neighbour)
            self._bad_unit = self._bad_unit or bad

    def _finish(self) -> None:
        """All blocks are counted: the last start begins a unit unless it is at the very end."""
        if self._content_end() == self._content_start:
            starts = 0
        else:
            last_block, lead = self._read_block(self._index.block_count - 1)
            found = self._boundaries.find(last_block, lead, self._index.state_of(self._index.block_count - 1))
            ends_with_start = len(found) > 0 and int(found[-1]) == len(last_block) - lead
            starts = 1 + self._index.start_count - ends_with_start
        try:
            self._check_whole(starts)
        except DataError as fault:
            # What is wrong with one unit may be expected by the next who asks.
            self._fault = None if fault.is_of_unit else fault
            raise
        self._storage.check_unchanged()
        self._total = -(-starts // self._boundaries.starts_per_unit)
        self._save()

    def _check_whole(self, starts: int) -> None:
        per_unit = self._boundaries.starts_per_unit
        whole_units, excess = divmod(starts, per_unit)
        if excess:
            self._found_torn(excess, whole_units)
            return
        if self._index.block_count and self._index.next_state:
            raise DataError(
                "ends inside a quoted field: a quote was opened and never closed",
                path=self._storage.path,
                unit=whole_units - 1 if whole_units else 0,
                byte=self.byte_of(max(0, whole_units - 1)),
                advice="Is the file complete? Open it with quote=None if quotes mean nothing in it",
            )
        if whole_units:
            begin = self.byte_of(whole_units - 1)
            last = self._storage.read_at(begin, self._content_end() - begin)
            try:
                self._check(last if last.endswith(b"\n") else last + b"\n")
            except Malformed as fault:
                byte, unit = begin + (fault.byte_within or 0), whole_units - 1
                bad = self._expected(fault, byte, unit, self._unit_before(unit))
                if last.endswith(b"\n"):
                    self._bad_unit = self._bad_unit or bad
                else:
                    self._torn_unit = bad  # in its last line

    def _found_torn(self, lines: int, unit: int) -> None:
        """The last unit has only some of its lines: expected as a bad one is, if it begins as units do."""
        problem = f"ends in the middle of a unit: the last one has {lines} of {self._boundaries.starts_per_unit} lines"
        advice = "Is the file complete, without blank lines at its end, and no line too many or too few before that?"
        fault = Malformed(problem, advice=advice)
        begin = self.byte_of(unit)
        rest = self._storage.read_at(begin, self._content_end() - begin)
        try:
            if rest.strip():  # else it is blank lines
                self._check(rest)
        except Malformed:
            self._raise(fault, begin, unit)
        self._torn_unit = self._expected(fault, begin, unit, self._unit_before(unit))

    def _unit_before(self, unit: int) -> bytes:
        """The bytes of the unit before that one, if there is one."""
        if not unit:
            return b""
        begin = self.byte_of(unit - 1)
        return bytes(self._storage.read_at(begin, self.byte_of(unit) - begin))

    def _expected(self, fault: Malformed, byte: int, unit: int, neighbour: bytes) -> BadUnit:
        """Refuse the file, unless that is expected, and the unit is a bad one among others."""
        if fault.is_of_file or not self._is_good(neighbour):
            self._raise(fault, byte, unit)
        bad = BadUnit(fault.problem, unit, byte, fault.advice)
        if not self._are_bad_units_expected:
            raise self._error_of(bad) from fault
        return bad

    def _is_good(self, neighbour: bytes) -> bool:
        """Where units are several lines, and the one beside a bad one is bad too, a line is missing or too many."""
        if self._boundaries.starts_per_unit == 1 or not neighbour:
            return True
        try:
            self._check(neighbour)
        except Malformed:
            return False
        return True

    def _error_of(self, bad: BadUnit) -> DataError:
        error = DataError(bad.problem, path=self._storage.path, unit=bad.unit, byte=bad.byte, advice=bad.advice)
        error.is_of_unit = True
        return error

    def _raise(self, fault: Malformed, byte: int, unit: int) -> NoReturn:
        raise DataError(fault.problem, path=self._storage.path, unit=unit, byte=byte, advice=fault.advice) from fault

    def _restore(self) -> None:
        record = self._cache.load(self._storage.identity)
        if record is None:
            return
        try:
            index = BlockIndex.unpack(record.packed)
            self._storage.restore_state(record.storage_state)
        except Exception:  # a cache that cannot be used is as good as none
            self._cache.remove()
            return
        self._index = index
        self._total = record.total_units
        self._bad_unit, self._torn_unit = record.bad_unit, record.torn_unit

    def _take_from_others(self) -> None:
        """Another process may have counted further since, where nothing is needed for it but the counts."""
        stamp = self._cache.stamp()
        if stamp == self._stamp or self._storage.compression != "none":
            return
        self._stamp = stamp
        record = self._cache.load(self._storage.identity)
        if record is None:
            return
        with contextlib.suppress(Exception):  # as good as none
            index = BlockIndex.unpack(record.packed)
            if record.total_units is not None or index.block_count > self._index.block_count:
                self._index, self._total = index, record.total_units
                self._bad_unit = self._bad_unit or record.bad_unit
                self._torn_unit = record.torn_unit

    def _save_unfinished(self) -> None:
        # Counting goes on at a whole block, so an index with a short last one is kept only when it is complete.
        if self._storage.resumable and not self._all_counted():
            self._save()

    def _save(self) -> None:
        self._cache.save(
            IndexRecord(
                identity=self._storage.identity,
                packed=self._index.pack(),
                total_units=self._total,
                storage_state=self._storage.saved_state(),
                bad_unit=self._bad_unit,
                torn_unit=self._torn_unit,
            )
        )
        self._stamp = self._cache.stamp()


def _runs_of_blocks(pieces: Iterator[bytes | memoryview], lead: int, lookbehind: int) -> Iterator[tuple[Block, int]]:
    """Cut pieces of any size into runs of whole blocks, each behind the last bytes of the run before it.

    The first ``lead`` bytes of the first piece are behind the first run. Only the very last block may be short.
    """
    kept = b""
    for piece in pieces:
        data = memoryview(kept + piece if kept else piece)
        whole = (len(data) - lead) // BLOCK_BYTES * BLOCK_BYTES
        if whole > 0:
            yield data[: lead + whole], lead
            next_lead = min(lookbehind, lead + whole)
            data, lead = data[lead + whole - next_lead :], next_lead
        # The piece is gone when the next one is asked for.
        kept = bytes(data)
    if len(kept) > lead:
        yield kept, lead
