from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aliquot.coordinator import Command, Event
    from aliquot.running.outcome import Failure
    from aliquot.workers.packing import Packed


class Recorder(Protocol):
    """Is told of all that must not be lost."""

    def arrived(self, start: int, stop: int, packed: Packed) -> None:
        """The result of some units is here."""

    def failed(self, failure: Failure) -> None:
        """Some units were given up."""

    def note(self, event: Event, commands: list[Command], now_seconds: float) -> None:
        """What happened, for reports."""

    @property
    def due_seconds(self) -> float | None:
        """When to keep up, whether anything happens until then or not; None if nothing is to be made certain."""

    def keep_up(self, now_seconds: float) -> None:
        """Make certain what has come since the last time, if that is worth it already."""


class Unrecorded:
    """Nothing is kept: the run is over when its process is."""

    due_seconds: float | None = None

    def arrived(self, start: int, stop: int, packed: Packed) -> None:
        """Nothing."""

    def failed(self, failure: Failure) -> None:
        """Nothing."""

    def note(self, event: Event, commands: list[Command], now_seconds: float) -> None:
        """Nothing."""

    def keep_up(self, now_seconds: float) -> None:
        """Nothing."""
