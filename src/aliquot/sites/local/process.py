from __future__ import annotations

import _socket
import contextlib
import os
from typing import TYPE_CHECKING

from aliquot.quantities import format_bytes
from aliquot.sites.local.output import LineReader, Output
from aliquot.workers import cell
from aliquot.workers.cell import Cell
from aliquot.workers.channel import Channel
from aliquot.workers.nursery import Nursery
from aliquot.workers.nursery_main import CANNOT_FORK

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # every run waits for this, and names of signals are for those that end badly

_VERDICTS = {
    cell.HUNG: "its step took longer than wall_seconds allows, so it was stopped",
    cell.REPLACED: "it had grown over its steps, so it was replaced",
}


class WorkerProcess:
    """The parent's side of one worker: its channel, its cell and what it prints."""

    def __init__(
        self,
        number: int,
        nursery: Nursery,
        output: Output,
        threads: int,
        *,
        scratch: str | None = None,
        cage: tuple[str, str] | None = None,
    ) -> None:
        self.number = number
        self.scratch = scratch
        self.process: int | None = None  # known when it has said that it is ready
        self.has_reported = False
        self.reported_to = 0  # in its present span
        self.joining = -1  # the result that it joins another one into, if it does
        self.has_asked = False  # for items of its present span
        self.was_killed = False  # by a signal that nothing survives
        self.replaced_because = ""  # why it was killed by us, through no fault of its step
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        self.channel = Channel(ours)
        self.cell = Cell.create()
        self.readers = [LineReader(out, "stdout", output), LineReader(err, "stderr", output)]
        self._nursery = nursery
        self._token = -1
        try:
            descriptors = (theirs.fileno(), self.cell.descriptor, their_out, their_err)
            self._token = nursery.fork(descriptors, threads, scratch=scratch, cage=cage)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()
            os.close(their_out)
            os.close(their_err)

    def replace(self, why: str) -> None:
        """Kill it, and remember why; one that has not told its process number yet, once it does: see `ready`."""
        self.replaced_because = why
        self.kill()

    def ready(self, process: int) -> None:
        """It has told its process number."""
        self.process = process
        if self.replaced_because:
            self.kill()

    def kill(self) -> None:
        """End it and all that it started, at once."""
        if self.process is None:
            self._nursery.kill(self._token)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process, signal.SIGKILL)

    def how_it_ended(self) -> str:
        """Why it is gone, in words. Waits until it is: what it held must be free before another takes its place."""
        exit_code = self._nursery.exit_code(self._token, wait_seconds=0.3)
        self.was_killed = exit_code == -signal.SIGKILL
        if self.replaced_because:
            return f"{self.replaced_because}, so it was replaced"
        if self.cell.verdict == cell.EXHAUSTED:
            held, allowed = format_bytes(self.cell.held_bytes), format_bytes(self.cell.allowed_bytes)
            return f"it held {held} and was allowed {allowed}, so it was stopped"
        if self.cell.verdict == cell.FULL_DISK:
            held, allowed = format_bytes(self.cell.held_bytes), format_bytes(self.cell.allowed_disk_bytes)
            return f"it had {held} in its scratch directory and was allowed {allowed}, so it was stopped"
        return _VERDICTS.get(self.cell.verdict) or self._how_the_process_ended(exit_code)

    def _how_the_process_ended(self, exit_code: int | None) -> str:
        if exit_code is None:
            return "it closed its connection, or nobody knows how it ended"
        if exit_code == CANNOT_FORK:
            return "the system could not start another process (see ulimit -u, and free memory)"
        if exit_code >= 0:
            return f"it ended by itself with exit code {exit_code}"
        from signal import Signals

        number = -exit_code
        name = Signals(number).name if number in set(Signals) else f"signal {number}"
        likely = " (often: the machine ran out of memory)" if -exit_code == signal.SIGKILL else ""
        return f"it was killed by {name}{likely}"

    def remove_scratch(self) -> None:
        """Remove its temporary files; it has ended."""
        if self.scratch is not None:
            import shutil

            shutil.rmtree(self.scratch, ignore_errors=True)

    def close(self) -> None:
        """Let it go: it ends when it sees its channel closed."""
        self.channel.close()
        self.cell.close()
        for reader in self.readers:
            reader.close()
        self.readers = []
        self._nursery.forget(self._token)
