from __future__ import annotations

from aliquot.errors import AliquotError, JobError

# What programs, languages and the C library say.
_OUT_OF_MEMORY = ("MemoryError", "Cannot allocate memory", "std::bad_alloc", "out of memory", "Out of memory")


class CommandError(JobError):
    """A command did not do its work: it failed, was killed, or left an output out.

    ``command`` is what the shell was given. ``status`` is the exit status, ``signal`` the name of the signal that ended
    it; None where there is none. ``stderr`` is the end of what it wrote to standard error. ``place`` is the directory
    with its files, None where they were removed: whoever removes them says so by setting it. ``is_program_missing``
    says that the shell did not find a program, or may not execute it: no unit is to blame.
    """

    def __init__(
        self,
        problem: str,
        *,
        command: str,
        status: int | None = None,
        signal: str | None = None,
        stderr: str = "",
        place: str | None = None,
        is_program_missing: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.command = command
        self.status = status
        self.signal = signal
        self.stderr = stderr
        self.place = place
        self.is_program_missing = is_program_missing

    @property
    def is_out_of_memory(self) -> bool:
        """Whether it said so itself: memory that is refused is never held, and so cannot be seen from outside."""
        return any(word in self.stderr for word in _OUT_OF_MEMORY)

    def __str__(self) -> str:
        said = self.stderr.rstrip().split("\n")
        # The last line of standard error mostly says it all.
        lines = [f"{self.problem}: {said[-1]}" if said[-1] else self.problem, f"The command was: {self.command}"]
        if len(said) > 1:
            lines += ["The end of what it wrote to standard error:", *(f"  {line}" for line in said)]
        if self.place is not None:
            lines.append(f"Its files are kept in {self.place}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        names = ("command", "status", "signal", "stderr", "place", "is_program_missing")
        keywords = {name: getattr(self, name) for name in names}
        return (_rebuild, (type(self), self.problem, keywords))


class NoProcessError(AliquotError):
    """The system starts no further process now: no unit is to blame, and the run goes on where it was later."""

    is_out_of_room = True


def _rebuild(kind: type[CommandError], problem: str, keywords: dict[str, str | int | None]) -> CommandError:
    return kind(problem, **keywords)  # type: ignore[arg-type]  # the keywords come from __reduce__ above
