from __future__ import annotations

from aliquot.errors import AliquotError


class JournalError(AliquotError):
    """A journal or a run directory cannot be made, read or written. Names the file and what to do."""

    def __init__(self, problem: str, *, path: str, advice: str) -> None:
        super().__init__(f"{path}: {problem}. {advice}")
        self.problem = problem
        self.path = path
        self.advice = advice

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_journal_error, (type(self), self.problem, self.path, self.advice))


class RunHeldError(JournalError):
    """Another process works in the run directory."""


def _rebuild_journal_error(kind: type[JournalError], problem: str, path: str, advice: str) -> JournalError:
    return kind(problem, path=path, advice=advice)
