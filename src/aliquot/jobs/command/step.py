"""One process of a command: the directory with its files, the words for its placeholders, and how it ended.

    place/                      given by the caller
        reads.fastq             the units, as a file or a pipe
        sam.sam                 what the command makes, also what it writes to standard output
        scratch/                where it is asked for
        stderr.txt              what it writes to standard error: shown only where it fails, since many programs tell
                                there what they are doing
        check.txt               what its check writes

In a sandbox, all but the last two is in place/sandbox, with links to the declared inputs, and the command runs there.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from aliquot.errors import DataError
from aliquot.jobs.command.error import CommandError
from aliquot.jobs.command.shells import (
    Ended,
    find_shell,
    is_success,
    kill_tree,
    no_process_error,
    reap,
    signal_name,
    start_process,
    write_script,
)
from aliquot.jobs.command.template import Template
from aliquot.quantities import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from aliquot.jobs.command.command import Command

_SHOWN_BYTES = 4096
_SHOWN_LINES = 20
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # what a shell exits with where a program is not there
_ADVICE = {
    _NOT_EXECUTABLE: "Is it a program, and may it be executed?",
    _NOT_FOUND: "Is the program installed, and found on the PATH?",
    "SIGKILL": "The system kills programs when memory runs out",
}
_BROKEN_PIPE_ADVICE = (
    "it wrote on to one that had read enough, and what depends on it, as behind &&, may have been left out. "
    "Where that is no failure, write '(that program || [ $? = 141 ]) | ...'"
)
# What a shell says that cannot start a program, and exits with then.
_NO_FORK = re.compile(r"(?:Cannot fork|fork: (?:retry: )?Resource temporarily unavailable)\Z")
_NO_FORK_STATUSES = (2, 254)


class Step:
    """The place of one process, and what is done with it there.

    ``note_peak`` is told what each process held that ends here, however it ends.
    """

    def __init__(
        self,
        command: Command,
        start: int,
        place: str,
        *,
        cores: int,
        memory_bytes: int,
        note_peak: Callable[[int], None],
    ) -> None:
        self.command = command
        self._note_peak = note_peak
        self.place = os.path.abspath(place)
        self.start = command.source.start + start  # in the source, as all numbers of units here
        self.stop = self.start
        self._stderr = f"{self.place}/stderr.txt"  # of what runs now
        self._script = ""
        _make_directory(self.place)
        self.directory = f"{self.place}/sandbox" if command.sandbox else self.place
        if command.sandbox:
            self._make_sandbox()
        self.words = {"unit_start": str(self.start), "cores": str(cores)}
        if command.wants("memory"):
            self.words["memory"] = str(memory_bytes or _memory_of_cores(cores))
        if command.wants("scratch"):
            self.words["scratch"] = f"{self.directory}/scratch"
            os.mkdir(self.words["scratch"])
        self.outputs: dict[str, str] = {}
        for output in command.outputs:
            path = self.path_of(output.name)
            self.outputs[output.name] = self.words[output.name] = path
            if command.makes_directory(output):
                os.mkdir(path)

    def path_of(self, name: str) -> str:
        """Where the file for a placeholder is."""
        return f"{self.directory}/{self.command.file_names[name]}"

    def start_command(self) -> int:
        """Start it; the number of its process."""
        named = self.command.template.stdout_output
        return self._start(self.command.template, stdout=None if named is None else self.outputs[named])

    def end(self, exit_code: int) -> dict[str, str]:
        """Judge how the command ended, and what it left; its outputs."""
        self._judge(self.command.template, exit_code, "the command")
        self._look_at_outputs()
        if self.command.check is not None:
            template = self.command.check
            self._stderr = f"{self.place}/check.txt"
            exit_code = self.wait_for(self._start(template, stdout=self._stderr))
            self._judge(template, exit_code, "the check of the command")
        return self.outputs

    def wait_for(self, process: int) -> int:
        """Wait until a process ends; its exit code. Where the wait is broken off, all that it has started is killed."""
        try:
            ended = reap(process)
        except BaseException:
            self.note_end(kill_tree(process))
            raise
        assert ended is not None, "it was waited for"
        return self.note_end(ended)

    def note_end(self, ended: Ended) -> int:
        """A process of this step has ended; its exit code."""
        self._note_peak(ended.peak_bytes)
        return ended.exit_code

    def error(self, problem: str, *, status: int | None = None, signal: str | None = None) -> CommandError:
        """What went wrong with these units, with all that is known about it."""
        return self._error(f"{problem} on {self._units()}", status=status, signal=signal)

    def _error(
        self, problem: str, *, status: int | None, signal: str | None = None, is_program_missing: bool = False
    ) -> CommandError:
        return CommandError(
            problem,
            is_program_missing=is_program_missing,
            command=self._script,
            status=status,
            signal=signal,
            stderr=_end_of(self._stderr),
            place=self.place,
        )

    def _start(self, template: Template, *, stdout: str | None) -> int:
        command = self.command
        shell = find_shell(for_pipes=template.has_pipes)
        directory = self.directory if command.sandbox else command.directory
        self._script = template.render(self.words)
        script = write_script(
            self._script,
            shell=shell,
            directory=None if directory == os.getcwd() else directory,
            is_simple=template.is_simple,
        )
        return start_process([shell.path, "-c", script], stdout=stdout, stderr=self._stderr)

    def _judge(self, template: Template, exit_code: int, what: str) -> None:
        shell = find_shell(for_pipes=template.has_pipes)
        if is_success(exit_code, shell, has_conditions=template.has_conditions):
            return
        if exit_code < 0:
            name = signal_name(-exit_code)
            raise self.error(_advised(f"{what} was killed by {name}", name), signal=name)
        if 128 < exit_code < 160 and not template.is_simple:
            name = signal_name(exit_code - 128)  # as a shell tells that a program was killed
            problem = _advised(f"a program of {what} was killed by {name}", name)
            if name == "SIGPIPE" and template.has_pipes and template.has_conditions:
                problem += f" ({_BROKEN_PIPE_ADVICE})"
            raise self.error(problem, status=exit_code, signal=name)
        if exit_code in _NO_FORK_STATUSES and (refused := _NO_FORK.search(_end_of(self._stderr))):
            raise no_process_error(refused[0])
        if exit_code in (_NOT_EXECUTABLE, _NOT_FOUND):
            self._raise_missing(template, what, exit_code)
        problem = _advised(f"{what} exited with status {exit_code}", exit_code)
        # A check is there to fail: what it finds is no mistake in it.
        is_check = template is self.command.check
        if exit_code == 1 and not is_check and "grep" in " ".join(template.programs()):
            problem += " (grep does so where nothing matches: write 'grep ... || [ $? = 1 ]' if that is no failure)"
        raise self.error(problem, status=exit_code)

    def _raise_missing(self, template: Template, what: str, exit_code: int) -> None:
        """Name the program, where the text of the command and the shell agree on which it is."""
        said = _end_of(self._stderr)
        missing = [name for name in template.programs() if _is_missed(name, said) and not self._is_found(name)]
        if missing:
            were = "was" if len(missing) == 1 else "were"
            programs = f"the program{'s' * (len(missing) > 1)} {', '.join(missing)} {were}"
            how = "not found" if exit_code == _NOT_FOUND else "not to be executed"
            problem = _advised(f"{programs} {how}, and {what} exited with status {exit_code}", exit_code)
            raise self._error(problem, status=exit_code, is_program_missing=True)

    def _is_found(self, program: str) -> bool:
        import shutil

        directory = self.directory if self.command.sandbox else self.command.directory
        return shutil.which(os.path.join(directory, program) if "/" in program else program) is not None

    def _look_at_outputs(self) -> None:
        for name, path in self.outputs.items():
            if not os.path.exists(path):
                raise self.error(f"the command ended well, but did not write its output {{{name}}}")
        least = self.command.least_bytes_per_unit
        if least is None:
            return
        units = self.stop - self.start
        total_bytes = sum(size_of(path) or 0 for path in self.outputs.values())
        if total_bytes < least * units:
            raise self.error(
                f"the command ended well, but its output is too short: {format_bytes(total_bytes)}, and with "
                f"{least:g} bytes for each of {units} units it should be {format_bytes(least * units)} at least,"
            )

    def _units(self) -> str:
        last = self.stop - 1
        units = f"unit {self.start}" if self.start >= last else f"units {self.start} to {last}"
        return f"{units} of {self.command.source.source}"

    def _make_sandbox(self) -> None:
        os.mkdir(self.directory)
        for path in self.command.inputs:
            os.symlink(path, os.path.join(self.directory, os.path.basename(path)))


def _is_missed(program: str, said: str) -> bool:
    """Whether a shell has said of it that it is not there, or may not be executed, in its own words."""
    words = "(?:command )?not found|No such file or directory|Permission denied|[Cc]annot execute.*"
    return re.search(rf"(?:^|: ){re.escape(program)}: (?:{words})$", said, re.MULTILINE) is not None


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror}", path=path, advice="Its folder must be there") from error


def size_of(path: str) -> int | None:
    """The bytes of a file, or of all files of a directory; None if it is not there."""
    try:
        if os.path.isdir(path):
            return sum(size_of(entry.path) or 0 for entry in os.scandir(path) if not entry.is_symlink())
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def _memory_of_cores(cores: int) -> int:
    """A share of the machine, where nobody has said how much memory there is for a step."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * cores // max(cores, os.cpu_count() or 1)


def _advised(problem: str, about: str | int) -> str:
    return f"{problem} ({_ADVICE[about]})" if about in _ADVICE else problem


def _end_of(path: str) -> str:
    """The last lines of a text."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _SHOWN_BYTES))
            data = file.read(_SHOWN_BYTES)
    except FileNotFoundError:
        return ""
    lines = data.decode(errors="backslashreplace").rstrip().split("\n")
    return "\n".join(line.rstrip("\r") for line in lines[-_SHOWN_LINES:])
