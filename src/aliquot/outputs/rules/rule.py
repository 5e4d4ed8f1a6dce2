from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

State = dict[str, Any]


class Growing(ABC):
    """One output while it grows: a rule at work.

    An `append` that raises has changed nothing, unless the process dies in it: then whatever it has written lies
    behind what the last state tells, and is cut off when the output is opened again with that state.
    """

    path: str

    @abstractmethod
    def append(self, piece: str) -> None:
        """Add what the next piece holds."""

    def take(self, piece: str) -> None:
        """As `append`, where nobody else wants the piece once it is certain that it is in here."""
        self.append(piece)

    @abstractmethod
    def sync(self) -> State:
        """Bring all of it to the disk, and say as JSON what is there."""

    @abstractmethod
    def result(self, suffix: str) -> str:
        """The path of the whole, beside or at the growing output itself. May be called again."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; what is on the disk stays."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what is left of it."""


class Rule(ABC):
    """How the pieces of an output become one. Holds nothing itself: `grow` gives what does."""

    name: str
    # Whether a piece, and what is made of all, is a directory.
    makes_directory = False

    @abstractmethod
    def grow(self, path: str, state: State | None) -> Growing:
        """Begin an output, or go on with one from a state of it."""

    def __repr__(self) -> str:
        return f"<rule {self.name}>"
