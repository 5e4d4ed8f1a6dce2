from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aliquot.outputs import PartialOutput
from aliquot.running.outcome import Failure
from aliquot.workers.command_stepping import Produced, remove, size_of
from aliquot.workers.packing import Packed


class OutputsSink:
    """Appends what a program has written to partial outputs, which are files too, and so outlive this process."""

    def __init__(self, partials: Mapping[str, PartialOutput], targets: Mapping[str, str], spool: str) -> None:
        self.partials = partials
        self._targets = targets
        self._spool = spool
        self.is_same_boot = True
        self.known_files: set[str] = set()  # of pieces that an earlier sitting has recorded
        self._starts: list[int] = []  # of pieces that were appended since the last checkpoint
        self._files: list[str] = []  # theirs

    def append(self, start: int, stop: int, value: Produced) -> None:
        """Copy its files to the ends of the outputs."""
        for name, (file, _) in value.files.items():
            path = os.path.join(self._spool, file)
            self.partials[name].append(path)
            self._files.append(path)
        self._starts.append(start)

    def skip(self, failure: Failure) -> None:
        """Nothing was written for them."""

    def finish(self, value: Any) -> dict[str, str]:
        """Where the outputs will be: they are moved there by whoever has recorded that all is done."""
        return dict(self._targets)

    def checkpoint(self) -> tuple[list[int], dict[str, Any]]:
        """What was appended since the last time, and the state of all outputs, which is on the disk now."""
        starts, self._starts = self._starts, []
        return starts, {name: partial.sync() for name, partial in self.partials.items()}

    def forget_appended(self) -> None:
        """Remove the files that are in the outputs for certain."""
        files, self._files = self._files, []
        for path in files:
            remove(path)

    def is_there(self, packed: Packed) -> bool:
        """Whether the files of a recorded piece are still what they were.

        Nobody has waited for the disk to have them: after a restart of the machine they may be anything.
        """
        if not self.is_same_boot:
            return False
        files = packed.load().files.values()
        if any(size_of(os.path.join(self._spool, file)) != size for file, size in files):
            return False
        self.known_files.update(file for file, _ in files)
        return True

    def close(self) -> None:
        """Let the outputs go as they are."""
        for partial in self.partials.values():
            partial.close()

    def remove(self, path: str) -> None:
        """Remove a file that nobody has recorded, or a directory of a step that did not end."""
        remove(path)
