from __future__ import annotations

from typing import NamedTuple, Protocol

from aliquot.coordinator import Advise, Allow, Assign, Event, Extend, Join, Suspend, Trim

WorkerCommand = Assign | Extend | Trim | Advise | Allow | Suspend | Join


class StepError(NamedTuple):
    """Why a step failed: in a line, with the traceback of where it ran, and the exception where it could be sent."""

    summary: str
    traceback: str = ""
    exception: BaseException | None = None
    start: int = 0
    stop: int = 0
    shown: str | None = None
    kind: str = "raised"  # or exhausted, hung, died
    held_bytes: int = 0
    spoiled: tuple[int, int] | None = None  # all units that fail for the same reason, where that is known


class Site(Protocol):
    """A place with workers. It carries out commands, and tells what happens as events; it decides nothing.

    Events of one worker come in the order in which they happened. A `Trim` is always answered with `Trimmed`, unless
    the worker is lost. At the end of a span that is open, a worker waits until that is extended or trimmed. A worker
    that is lost is told of once, after everything else about it.
    """

    @property
    def expected_workers(self) -> int:
        """How many workers will share the work from the beginning."""

    @property
    def total_bytes(self) -> int | None:
        """What all workers may hold together; None if that is not limited."""

    def now_seconds(self) -> float:
        """The time here, from any beginning."""

    def perform(self, command: WorkerCommand) -> None:
        """Pass a command to its worker; ignored if that is gone."""

    def wait(self, until_seconds: float | None) -> list[Event]:
        """The next events, as soon as there are some; at that time, those that there are, which may be none."""

    def close(self) -> None:
        """Let all workers go, at once."""
