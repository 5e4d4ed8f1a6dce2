"""How a worker runs a program on some units: what it writes stays in files, and only their names are sent up.

spool/  120000/               the place of the step from a unit on: its slices, its outputs, its stderr
        3f9a-0002.sam         the output of the steps of one report, which the parent appends
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from aliquot.jobs.command import (
    CommandError,
    NoProcessError,
    Stream,
    first_pipe_bytes,
    large_pipe_bytes,
    run_step,
    size_of,
)
from aliquot.outputs import OutputError, Rule, find_rule, join_pieces
from aliquot.outputs.errors import naming
from aliquot.workers.stepping import UnitError

if TYPE_CHECKING:
    from aliquot.jobs.command import Command

# What a program is started with on files, before anything is known of it: so much as takes no time to read, and no more
# than a small part of all, so that it is short beside the run, whatever a unit takes. (Of several workers, others begin
# with up to eight times as much.)
_FIRST_BYTES = 16 << 10
_MOST_FIRST_UNITS = 64
_FIRST_PART = 1024
# How large units are is told by so many of them: there may be many files.
_UNITS_TO_WEIGH = 10_000
# A program is fed so many times as long at least as it took it to begin to read, before its results are taken.
_STREAM_STARTUPS = 50
_SHORTEST_FED_SECONDS, _LONGEST_FED_SECONDS = 0.02, 0.1
# Where there are too many processes, others may soon have ended.
_MOST_WAITED_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
# A program that fails with less room than this on the disk has failed for want of it.
_FULL_BYTES = 256 << 10
# However fast a program reads, it is fed no more at once than this part of what its pipe holds.
_FED_PART = 0.5


class Produced(NamedTuple):
    """What a program has written for some units: for each output its file in the spool, and how large that is."""

    files: dict[str, tuple[str, int]]


class CommandStepper:
    """One process for each step, on a realised slice or on a range of bytes of the source."""

    items = None
    # Of steps that are not too long. To start a program and to let it end keeps cores waiting for longer than a step of
    # no units takes: it reads before it computes, and writes after.
    overhead_share = 0.0025

    def __init__(self, command: Command, spool: str, failed: str, cores: int = 1) -> None:
        self._command = command
        self._spool = spool
        self._failed = failed
        self._cores = cores
        self._rules = {output.name: find_rule(output.rule) for output in command.outputs}
        self._steps: list[dict[str, str]] = []  # what each one has written, since it was last taken
        self._left: list[str] = []  # places that are not needed any more
        self._peak_bytes = 0  # of a program, since it was last taken
        self._token = os.urandom(8).hex()  # no other worker, of this or an earlier sitting, has such files
        self._places = 0
        self.allowed_bytes = 0

    def __reduce__(self) -> tuple[type[CommandStepper], tuple[Command, str, str, int]]:
        return (type(self), (self._command, self._spool, self._failed, self._cores))

    def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
        """Run the program on these units, also where the system starts no process for a moment."""
        deadline_seconds, pause_seconds = math.inf, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._run(start, stop, patience_seconds)
            except UnitError as failure:
                now_seconds = time.monotonic()
                if not isinstance(failure.error, NoProcessError) or now_seconds >= deadline_seconds:
                    raise
                deadline_seconds = min(deadline_seconds, now_seconds + _MOST_WAITED_SECONDS)
                stop = failure.stop  # a program may have been fed more
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _run(self, start: int, stop: int, patience_seconds: float | None) -> int:
        """Start the program, and wait for its end."""
        place = self._place_of(start)
        try:
            remove(place)
            os.mkdir(place)
            written = run_step(
                self._command,
                start,
                stop,
                place,
                cores=self._cores,
                memory_bytes=self.allowed_bytes,
                note_peak=self._note_peak,
            )
            self._steps.append(self._keep(written, place))
        except BaseException as error:
            raise self._failure(error, place, start, stop) from error
        return stop

    def take(self) -> Produced:
        """The files, those of several steps as one."""
        steps, self._steps = self._steps, []
        files = {}
        with naming(self._spool):
            for name, rule in self._rules.items():
                pieces = [step[name] for step in steps]
                path = pieces[0] if len(pieces) == 1 else self._join(rule, pieces, name)
                files[name] = (os.path.basename(path), size_of(path) or 0)
        return Produced(files)

    def take_programs_peak(self) -> int:
        """The most that a program held that has ended since the last time, by the kernel's own count."""
        peak_bytes, self._peak_bytes = self._peak_bytes, 0
        return peak_bytes

    def _note_peak(self, peak_bytes: int) -> None:
        self._peak_bytes = max(self._peak_bytes, peak_bytes)

    def tidy(self) -> None:
        """Remove what steps have left: a slice takes milliseconds, and nobody waits for it.

        At the latest before their units are given back: another worker uses the same places for them.
        """
        left, self._left = self._left, []
        for place in left:
            remove(place)

    def _join(self, rule: Rule, pieces: list[str], name: str) -> str:
        path = f"{self._spool}/{self._new_name()}.{name}"
        join_pieces(rule, pieces, path)
        for piece in pieces:
            remove(piece)
        return path

    def keep_note(self, note: Callable[[int], None], *, of_each: bool) -> None:
        """All units are begun at once."""

    def _place_of(self, start: int) -> str:
        """Where the step from a unit on has its files: the same each time, as some programs write down their names."""
        return f"{self._spool}/{start}"

    def _new_name(self) -> str:
        self._places += 1
        return f"{self._token}-{self._places:04}"

    def _keep(self, written: dict[str, str], place: str) -> dict[str, str]:
        """Move what was written out of its place, which is soon removed."""
        kept = {}
        token = self._new_name()
        for name, path in written.items():
            kept[name] = f"{self._spool}/{token}.{name}"
            os.rename(_followed_within(place, path), kept[name])
        self._left.append(place)
        return kept

    def _failure(self, error: BaseException, place: str, start: int, stop: int) -> UnitError:
        """Remove what a step has left that failed; what one unit alone has left is kept, to be looked at."""
        if not os.path.isdir(self._spool):
            advice = "What was done and not in the outputs yet is lost with it. The same again begins anew"
            problem = "the directory in which the run is recorded was removed"
            return UnitError(OutputError(problem, path=self._spool, advice=advice, is_out_of_room=True), start, stop)
        is_full = self._is_disk_full(error)
        if is_full or stop - start > 1 or not isinstance(error, CommandError):
            remove(place)
            if isinstance(error, CommandError):
                error.place = None
        else:
            kept = f"{self._failed}/unit-{start}"
            remove(kept)
            with contextlib.suppress(OSError):
                os.rename(place, kept)
                error.place = kept
        if is_full:
            advice = "Make room, and run it again: it goes on where it was"
            error = OutputError(
                "there is no room left on the disk", path=self._spool, advice=advice, is_out_of_room=True
            )
        return UnitError(error, start, stop)

    def _is_disk_full(self, error: BaseException) -> bool:
        """Whether a step failed for want of disk: no unit is to blame, and nothing else would do better."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
                return True
            cause = cause.__cause__ or cause.__context__
        if not isinstance(error, CommandError):
            return False
        if any(os.strerror(number) in error.stderr for number in (errno.ENOSPC, errno.EDQUOT)):
            return True
        disk = os.statvfs(self._spool)
        return disk.f_bavail * disk.f_frsize < _FULL_BYTES or disk.f_favail == 0 < disk.f_files


class StreamStepper(CommandStepper):
    """One process for many claims of units: it is fed as it reads, and what it was not fed can still be given away."""

    def __init__(self, command: Command, spool: str, failed: str, cores: int = 1) -> None:
        super().__init__(command, spool, failed, cores)
        self._unit_bytes = mean_unit_bytes(command)
        self._pipe_bytes = first_pipe_bytes(cores)
        self.units_at_once = 1
        self.claim_more: Callable[[int, Callable[[float], bool], float], tuple[int, int]] = lambda *_: (0, 0)

    def _run(self, start: int, stop: int, patience_seconds: float | None) -> int:
        """Feed a program until there is no more for it, or long enough; then wait for its end."""
        place = self._place_of(start)
        began, startup_seconds = time.perf_counter(), 0.0
        fed_to = start
        begun_to = stop  # what it was fed while it began
        is_reading = True
        stream: Stream | None = None
        try:
            remove(place)
            os.mkdir(place)
            stream = Stream(
                self._command,
                start,
                place,
                cores=self._cores,
                memory_bytes=self.allowed_bytes,
                pipe_bytes=self._pipe_bytes,
                note_peak=self._note_peak,
            )
            while fed_to < stop:
                fed_seconds = time.perf_counter()
                is_reading = self._feed(stream, fed_to, stop)
                now_seconds = time.perf_counter()
                if fed_to == start:
                    startup_seconds = now_seconds - began
                else:
                    self._adapt(now_seconds - fed_seconds)
                fed_to = stop
                longest_seconds = max(patience_seconds or 0.0, _STREAM_STARTUPS * startup_seconds)
                if not is_reading or now_seconds - began - startup_seconds >= longest_seconds:
                    break
                _, stop = self.claim_more(self.units_at_once, stream.wait, began + startup_seconds + longest_seconds)
            if is_reading:
                self._choose_pipe(fed_to - begun_to, time.perf_counter() - began - startup_seconds)
            self._steps.append(self._keep(stream.finish(), place))
        except BaseException as error:
            if stream is not None:
                stream.abort()
            raise self._failure(error, place, start, max(stop, fed_to)) from error
        if not is_reading:
            self._adapt(0.0)  # it wants no more than it was fed, or nothing at all: the next one has more units done
        return fed_to

    def _feed(self, stream: Stream, start: int, stop: int) -> bool:
        """Wait until the program has read most of it, unless it reads so fast that this does not matter."""
        is_reading = stream.feed(start, stop)
        if self.units_at_once < self._most_at_once:
            is_reading = is_reading and stream.wait_until_read(int((stop - start) * self._unit_bytes / 2))
        return is_reading

    def _choose_pipe(self, fed_units: int, seconds: float) -> None:
        """The pipes of programs that follow hold more, where one like them would read that in a moment too."""
        read_bytes = fed_units * self._unit_bytes - self._pipe_bytes  # at least
        large_bytes = large_pipe_bytes(self._cores, len(self._command.sources))
        if read_bytes > self._pipe_bytes and large_bytes * seconds < _LONGEST_FED_SECONDS * read_bytes:
            self._pipe_bytes = large_bytes

    @property
    def _most_at_once(self) -> int:
        return max(1, int(_FED_PART * self._pipe_bytes / self._unit_bytes))

    def _adapt(self, seconds: float) -> None:
        """What a program is fed at once should last it a moment: long enough not to wait, short enough to share."""
        if seconds < _SHORTEST_FED_SECONDS:
            self.units_at_once = min(self._most_at_once, self.units_at_once * 4)
        elif seconds > _LONGEST_FED_SECONDS:
            self.units_at_once = max(1, self.units_at_once // 2)


def first_units(command: Command, expected_units: int, workers: int) -> int:
    """How many units a program is started with that reads files or ranges of bytes, where nobody says so.

    Some units must be known, as how large they are is told by those.
    """
    by_part = expected_units // (_FIRST_PART * workers)
    if by_part <= 1 or command.mode == "stream":
        return 1
    return max(1, min(by_part, _MOST_FIRST_UNITS, int(_FIRST_BYTES / mean_unit_bytes(command))))


def mean_unit_bytes(command: Command) -> float:
    """How large a unit is, on the average of the first of those that are known."""
    view, units = command.source, min(command.source.count(wait=False), _UNITS_TO_WEIGH)
    if not units:
        return 1.0
    source, start, stop = view.source, view.start, view.start + units
    if source.paths():
        total_bytes = sum(place.stop - place.start for place in source.byte_ranges(start, stop))
    else:  # numbers, which become lines
        total_bytes = sum(map(len, source.body_pieces(start, stop)))
    return max(1.0, total_bytes / units)


def _followed_within(place: str, path: str) -> str:
    """The file itself where a command has made a link to one in its place, which is removed."""
    if not os.path.islink(path):
        return path
    place, file = os.path.realpath(place), os.path.realpath(path)
    return file if os.path.commonpath((place, file)) == place else path


def remove(path: str) -> None:
    """Remove a file or a directory, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError):
        import shutil

        shutil.rmtree(path, ignore_errors=True)
