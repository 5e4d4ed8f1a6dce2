"""Large files are worked on while they are still being counted: nobody waits for the end of a file to begin."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from aliquot.coordinator import SourceGrew
from aliquot.errors import DataError
from aliquot.running.spoiled import SETTING_ASIDE
from aliquot.workers.stepping import add_note

if TYPE_CHECKING:
    from aliquot.virtual_file import VirtualFile

# Files with fewer bytes are counted at once: it takes no longer than to start a program.
_LEAST_BYTES = 16 << 20
# So long the rest of the run waits while units are counted.
_LOOK_SECONDS = 0.005
# Workers are told now and then, sooner at first; to tell them may take this part of the time.
_FIRST_TELL_SECONDS, _TELL_SECONDS, _TELLING_PART = 0.01, 0.1, 0.05


def count_units(view: VirtualFile, *, may_fail: bool = False) -> tuple[int, Growing | None]:
    """How many units a view has, or the first of them, and who counts the others while these are worked on.

    Where units may fail, a bad one is no reason to refuse them all, wherever it is.
    """
    source = view.source
    if may_fail:
        for one in source.constituents():
            one.expect_bad_units()
    try:
        return _count(view)
    except DataError as error:
        if error.is_of_unit:
            add_note(error, SETTING_ASIDE)
        raise


def _count(view: VirtualFile) -> tuple[int, Growing | None]:
    source = view.source
    if source.can_be_counted_meanwhile and view.is_open_ended and _size_bytes(source.paths()) >= _LEAST_BYTES:
        growing = Growing(view)
        if not source.complete:
            return growing.units, growing
    units = len(view)
    source.advance(view.start + units)  # which also refuses what somebody else has counted, who expected bad units
    return units, None


class Growing:
    """Counts the units of a view on, a little at a time. Unit 0 is the first one of the view."""

    def __init__(self, view: VirtualFile) -> None:
        self._view = view
        self._source = view.source
        self._source.advance(view.start + 1)
        self._source.share_index()
        self._told_seconds = time.monotonic()
        self._pause_seconds = self._least_pause_seconds = _FIRST_TELL_SECONDS

    @property
    def units(self) -> int:
        """That are known."""
        return self._view.count(wait=False)

    @property
    def expected_units(self) -> int:
        """About how many there will be."""
        return max(self.units, self._source.expected_units() - self._view.start)

    def reach(self, units: int) -> SourceGrew:
        """Count on to this many, wherever they come from."""
        self._source.advance(self._view.start + units)
        return self._tell()

    def count_for(self, seconds: float) -> None:
        """Count on; a little in any case."""
        began_seconds = time.monotonic()
        while not self._source.complete:
            self._source.advance(self._source.known_units + 1)
            if time.monotonic() - began_seconds >= seconds:
                return

    def look(self) -> SourceGrew | None:
        """Count on for a moment; what to tell, if it is time for it. Raises what is wrong with the file."""
        self.count_for(_LOOK_SECONDS)
        is_time = time.monotonic() - self._told_seconds >= self._pause_seconds
        return self._tell() if self._source.complete or is_time else None

    def _tell(self) -> SourceGrew:
        """Those that work on it must find what they are told."""
        if self._source.complete:
            self._source.advance(None)  # somebody else may have counted it to the end, who expected bad units
        began_seconds = time.monotonic()
        self._source.share_index()
        self._told_seconds = time.monotonic()
        self._least_pause_seconds = min(2 * self._least_pause_seconds, _TELL_SECONDS)
        self._pause_seconds = max(self._least_pause_seconds, (self._told_seconds - began_seconds) / _TELLING_PART)
        return SourceGrew(self.units, self._source.complete, self.expected_units)


def _size_bytes(paths: list[str]) -> int:
    return sum(os.path.getsize(path) for path in paths)
