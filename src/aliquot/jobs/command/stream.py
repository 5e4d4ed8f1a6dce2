"""A command that reads its units from pipes: one process, started once and fed as long as there are units.

Several pipes are fed at the same time, each as fast as it is read: a program may read one far ahead of another, or one
after the other, since what a pipe still has to get is only remembered as numbers of units. No thread is needed.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from aliquot.errors import UsageError
from aliquot.jobs.command.error import CommandError
from aliquot.jobs.command.feeding import FedPipe, first_pipe_bytes
from aliquot.jobs.command.shells import kill_tree, reap
from aliquot.jobs.command.step import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from aliquot.jobs.command.command import Command

# Nothing tells that a program has opened a pipe, or has read from it: it is looked for again, soon at first.
_FIRST_TRY_SECONDS, _LONGEST_TRY_SECONDS = 0.0005, 0.02
# A program that has opened its pipe waits for us, for a tenth at most of what it took it to come so far.
_NEXT_TRY = 1.1
_LONGEST_KNOCK_SECONDS = 0.25


class Stream:
    """One process of a command, fed through pipes from the unit ``start`` of the command's source on.

    Units that the command did not read count as done all the same: a command that reads as much as it wants and then
    exits with success, as `head` does, has made what it makes of all units. ``process`` is the number of the process.
    Each pipe holds ``pipe_bytes``, where the system allows. ``note_peak``: as for `run_step`. ``sleep`` leaves
    a program alone that has begun to read from a full pipe: see feeding.py.
    """

    def __init__(
        self,
        command: Command,
        start: int,
        place: str,
        *,
        cores: int = 1,
        memory_bytes: int = 0,
        pipe_bytes: int | None = None,
        note_peak: Callable[[int], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if command.mode != "stream":
            raise UsageError(f"this command reads no pipe, so it cannot be fed: {command.template.text}")
        self._command = command
        self._sleep = sleep
        self._step = Step(command, start, place, cores=cores, memory_bytes=memory_bytes, note_peak=note_peak)
        self._pipes: list[FedPipe] = []
        self.process = -1
        self._ending: int | None = None  # readable when the process has ended
        self._exit_code: int | None = None
        self._next_try_seconds = _FIRST_TRY_SECONDS
        for name, source in command.sources.items():
            path = self._step.words[f"{name}:pipe"] = self._step.path_of(name)
            self._pipes.append(FedPipe(name, path, source, holds_bytes=pipe_bytes or first_pipe_bytes(cores)))
        self.process = self._step.start_command()
        try:
            self._ending = os.pidfd_open(self.process)
        except (OSError, AttributeError):
            pass  # the system has no such thing: the end is looked for now and then
        except BaseException:
            self.abort()
            raise

    def feed(self, start: int, stop: int) -> bool:
        """Give the command more units, and wait until it has taken them, but for what fits into a pipe.

        With several pipes, until one of them has: the others follow while it goes on. False if the command reads no
        more, since it has ended or has closed all its pipes; `finish` tells whether that was as it should be.
        """
        first = self._command.source.start
        if start + first < self._step.stop or stop < start:
            raise UsageError(f"units {start} to {stop} cannot follow those before {self._step.stop - first} in a pipe")
        try:
            self._command.source.source.check_ends(start + first, stop + first)
            self._step.stop = stop + first
            for pipe in self._pipes:
                if not pipe.is_ended:
                    pipe.add(start + first, stop + first)
            while self._is_reading() and not any(pipe.has_all and not pipe.is_ended for pipe in self._pipes):
                self._wait()
        except BaseException:
            self.abort()
            raise
        return self._is_reading()

    def wait_until_read(self, unread_bytes: int) -> bool:
        """Wait until no more than that is left unread of what was fed, in one pipe of several; else as `feed`."""
        try:
            next_look_seconds = _FIRST_TRY_SECONDS
            while self._is_reading() and not any(
                pipe.is_open and pipe.has_all and pipe.unread_bytes <= unread_bytes for pipe in self._pipes
            ):
                self._wait(next_look_seconds)
                next_look_seconds = min(2 * next_look_seconds, _LONGEST_TRY_SECONDS)
        except BaseException:
            self.abort()
            raise
        return self._is_reading()

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until the command does something; else as `feed`."""
        try:
            self._wait(seconds)
        except BaseException:
            self.abort()
            raise
        return self._is_reading()

    def finish(self) -> dict[str, str]:
        """Let the command see the end of its units, wait for it, and judge it; the path of each output."""
        next_knock_seconds = _FIRST_TRY_SECONDS
        try:
            while self._exit_code is None:
                for pipe in self._pipes:
                    pipe.end_last_unit()
                    if pipe.is_open and pipe.has_all:
                        pipe.close()
                    pipe.knock()
                self._wait(next_knock_seconds)
                next_knock_seconds = min(_NEXT_TRY * next_knock_seconds, _LONGEST_KNOCK_SECONDS)
            self._close()
        except BaseException:
            self.abort()
            raise
        try:
            return self._step.end(self._exit_code)
        except CommandError as error:
            for pipe in self._pipes:
                if pipe.path in error.stderr:
                    error.problem += f". {{{pipe.name}}} is a pipe, which can be opened once, and only from its front"
            raise

    def abort(self) -> None:
        """Kill the command and what it has started."""
        try:
            if self.process >= 0 and self._exit_code is None:
                self._exit_code = self._step.note_end(kill_tree(self.process))
        finally:
            self._close()

    def _close(self) -> None:
        for pipe in self._pipes:
            pipe.remove()
        if self._ending is not None:
            os.close(self._ending)
            self._ending = None

    def _is_reading(self) -> bool:
        return self._exit_code is None and not all(pipe.is_ended for pipe in self._pipes)

    def _wait(self, at_most_seconds: float | None = None) -> None:
        """Wait for a pipe that takes more, or one that is opened, or the end of the process; then write."""
        poll = select.poll()
        waits_for_reader = self._ending is None
        open_pipes: dict[int, FedPipe] = {}
        for pipe in self._pipes:
            if pipe.is_open and not pipe.has_all:
                poll.register(pipe.descriptor, select.POLLOUT)
                open_pipes[pipe.descriptor] = pipe
            elif not pipe.is_open and not pipe.is_ended:
                waits_for_reader = True
        if self._ending is not None:
            poll.register(self._ending, select.POLLIN)
        seconds = self._next_try_seconds if waits_for_reader else at_most_seconds
        events = dict(poll.poll(None if seconds is None else seconds * 1000))
        writable = [open_pipes[descriptor] for descriptor in events if descriptor in open_pipes]
        paused_seconds = 0.0
        if set(events.values()) == {select.POLLOUT}:  # nobody has closed a pipe, or ended
            paused_seconds = min(pipe.pause_seconds for pipe in writable)
        if paused_seconds:
            self._sleep(paused_seconds)
        for pipe in writable:
            pipe.write(paused_seconds)
        self._look_for_end()
        if self._exit_code is None and waits_for_reader:
            self._open_pipes()

    def _open_pipes(self) -> None:
        self._next_try_seconds = min(_NEXT_TRY * self._next_try_seconds, _LONGEST_TRY_SECONDS)
        for pipe in self._pipes:
            if not pipe.is_open and not pipe.is_ended and pipe.try_to_open():
                self._next_try_seconds = _FIRST_TRY_SECONDS
                pipe.write()

    def _look_for_end(self) -> None:
        ended = reap(self.process, os.WNOHANG)
        if ended is not None:
            self._exit_code = self._step.note_end(ended)
