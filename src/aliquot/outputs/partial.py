from __future__ import annotations

import os
from types import TracebackType

from aliquot.outputs.errors import OutputError, naming
from aliquot.outputs.growing_file import remove_if_there
from aliquot.outputs.placing import check_target, place, receipt_of
from aliquot.outputs.rules.rule import Growing, Rule, State


class PartialOutput:
    """An output that grows piece by piece, and of which a state can be noted to go on from after a crash.

    What was appended after the last `sync` is undone by opening it again with the state that `sync` gave.
    """

    def __init__(self, rule: Rule, path: str, state: State | None = None) -> None:
        """Begin it, or cut it to a state of it."""
        if state is not None and state.get("rule") != rule.name:
            problem = f"was joined by the rule {state.get('rule')}, and is to go on by {rule.name}"
            raise OutputError(problem, path=path, advice="Begin the run anew")
        self.rule = rule
        self.path = path
        # Why nothing more can be done with what is in memory.
        self._is_closed: str | None = None
        with naming(path):
            # A receipt is about something that was finished, and this is not.
            remove_if_there(receipt_of(path))
            self._growing: Growing = rule.grow(path, state)

    def append(self, piece: str) -> None:
        """Add a piece: a file, or a directory for the rule dir. Where it raises, nothing was added."""
        self._check_open()
        with naming(self.path):
            self._growing.append(piece)

    def take(self, piece: str) -> None:
        """As `append`, of a piece that is removed once it is certain that it is in here: it may become the output."""
        self._check_open()
        with naming(self.path):
            self._growing.take(piece)

    def sync(self) -> State:
        """Bring all that was appended to the disk, and give the state to go on from: small, and JSON."""
        self._check_open()
        try:
            with naming(self.path, "cannot be brought to the disk"):
                return {"rule": self.rule.name, **self._growing.sync()}
        except OutputError:
            # The system forgets what it could not write: asked again, it would say that all is well.
            self.close()
            self._is_closed = "could not be brought to the disk: open it again with the last state"
            raise

    def finish(self, target: str) -> None:
        """Make the whole, and move it to its target, whole or not at all; '-' is standard output.

        Where it raises, nothing is lost: it can be called again. What is left of the partial output is removed.
        """
        self._check_open()
        is_directory = self.rule.makes_directory
        with naming(target):
            check_target(target, is_directory=is_directory)  # before anything is folded
        self.sync()
        with naming(self.path):
            made = self._growing.result(os.path.splitext(target.rstrip("/"))[1])
        with naming(target):
            place(made, target, receipt_of(self.path), is_directory=is_directory)
        with naming(self.path, "cannot be removed"):
            self._growing.discard()
        self._is_closed = "is finished"

    def close(self) -> None:
        """Let go of it; what is on the disk stays."""
        self._growing.close()
        self._is_closed = self._is_closed or "is closed"

    def _check_open(self) -> None:
        if self._is_closed:
            raise OutputError(self._is_closed, path=self.path)

    def __enter__(self) -> PartialOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
