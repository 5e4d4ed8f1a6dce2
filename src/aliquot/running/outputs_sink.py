from __future__ import annotations

import contextlib
import os
from threading import Thread
from typing import Any

from aliquot.jobs.command import size_of
from aliquot.outputs import OutputError, PartialOutput
from aliquot.running.outcome import Failure
from aliquot.workers.command_stepping import Produced, remove
from aliquot.workers.packing import Packed

# So much at most may wait to be removed, where a disk is slow at that: it is needed.
_MOST_LEFT_BYTES = 256 << 20


class OutputsSink:
    """Appends what a program has written to partial outputs, which are files too, and so outlive this process.

    Where `append` raises, one output may have what another has not: nothing may be made certain after that.
    """

    def __init__(
        self, partials: dict[str, PartialOutput], targets: dict[str, str], spool: str, *, is_same_boot: bool
    ) -> None:
        self.partials = partials
        self.targets = targets
        self._spool = spool
        self._is_same_boot = is_same_boot
        self._known_files: set[str] = set()  # of pieces that an earlier sitting has recorded
        self._starts: list[int] = []  # of pieces that were appended since the last checkpoint
        self._files: list[str] = []  # theirs
        self._appended_bytes = 0  # since files were last removed
        self._to_be_removed: list[str] = []  # of those before
        self._removing: Thread | None = None
        self._pieces: dict[str, int] = {}  # of each output, in this sitting
        self.warnings: list[str] = []  # about outputs, in words

    def append(self, start: int, stop: int, value: Produced) -> None:
        """Put its files to the ends of the outputs."""
        for name, (file, size) in value.files.items():
            path = os.path.join(self._spool, file)
            if size_of(path) != size:
                advice = "Does the command leave something running that still writes to it?"
                raise OutputError(f"was {size} bytes when its step ended, and is not now", path=path, advice=advice)
            self._look_for_header(name, path)
            self.partials[name].take(path)
            self._files.append(path)
            self._appended_bytes += size
        if start < stop:  # else it is of no unit, and was not recorded
            self._starts.append(start)

    def _look_for_header(self, name: str, path: str) -> None:
        """Of the second piece: what it begins with is then amid the output, or was left out."""
        self._pieces[name] = pieces = self._pieces.get(name, 0) + 1
        rule = self.partials[name].rule.name
        if pieces == 2 and rule in ("concat", "sam"):
            from aliquot.outputs.headers import LOOKED_AT_BYTES, warning_about  # many runs have one piece

            with open(path, "rb") as file:
                beginning = file.read(LOOKED_AT_BYTES)
            warning = warning_about(beginning, rule=rule, name=name, target=self.targets[name])
            if warning is not None:
                self.warnings.append(warning)

    def skip(self, failure: Failure) -> None:
        """Nothing was written for them."""

    def finish(self, value: Any) -> dict[str, str]:
        """Where the outputs will be: they are moved there by whoever has recorded that all is done."""
        return dict(self.targets)

    @property
    def is_certain(self) -> bool:
        """Whether no units were appended since the last checkpoint."""
        return not self._starts

    def checkpoint(self) -> tuple[list[int], dict[str, Any]]:
        """What was appended since the last time, and the state of all outputs, which is on the disk now."""
        return self._starts, {name: partial.sync() for name, partial in self.partials.items()}

    def forget_appended(self) -> None:
        """What was told by the last checkpoint is recorded: the files are in the outputs for certain."""
        self._starts = []
        self._to_be_removed += self._files
        self._files = []
        is_removing = self._removing is not None and self._removing.is_alive()
        if is_removing and self._appended_bytes > _MOST_LEFT_BYTES:
            self._wait_for_removal()
        elif self._to_be_removed and not is_removing:
            self._appended_bytes = 0
            files, self._to_be_removed = self._to_be_removed, []
            # It can take a second for each gigabyte, during which nobody would be told what to do next.
            self._removing = Thread(target=_remove_all, args=(files,), daemon=True)
            try:
                self._removing.start()
            except RuntimeError:  # there may be no more threads
                self._removing = None
                _remove_all(files)

    def _wait_for_removal(self) -> None:
        if self._removing is not None:
            self._removing.join()
            self._removing = None
        _remove_all(self._to_be_removed)
        self._to_be_removed = []
        self._appended_bytes = 0

    def is_there(self, packed: Packed) -> bool:
        """Whether the files of a recorded piece are still what they were.

        Nobody has waited for the disk to have them: after a restart of the machine they may be anything.
        """
        if not self._is_same_boot:
            return False
        files = packed.load().files.values()
        if any(size_of(os.path.join(self._spool, file)) != size for file, size in files):
            return False
        self._known_files.update(file for file, _ in files)
        return True

    def remove_unknown_files(self) -> None:
        """Remove what nobody has recorded: of steps that did not end, or of pieces that are in the outputs."""
        with os.scandir(self._spool) as entries:
            for entry in entries:
                if entry.name not in self._known_files:
                    remove(entry.path)

    def close(self) -> None:
        """Let the outputs go as they are."""
        try:
            self._wait_for_removal()
        finally:
            for partial in self.partials.values():
                partial.close()


def _remove_all(paths: list[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # the whole spool is removed when the run is done
            remove(path)
