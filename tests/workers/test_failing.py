from __future__ import annotations

from pathlib import Path

import pytest

import aliquot
from aliquot.workers.channel import FAILED
from aliquot.workers.command_stepping import CommandStepper
from aliquot.workers.main import Worker
from aliquot.workers.stepping import UnitError


class _NoLimit:
    def lift(self) -> None:
        pass


class _Channel:
    """Looks at what is in the spool when something is sent."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def send(self, *_: object) -> None:
        self.seen += [path.name for path in Path("spool").iterdir() if path.is_dir()]


def test_places_are_gone_before_their_units_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker soon has the same ones: what was removed later would be its files."""
    monkeypatch.chdir(tmp_path)
    Path("n.txt").write_text("1\n2\n3\n")
    Path("spool").mkdir()
    command = aliquot.Command("cat {n} > {out}", split={"n": "n.txt"}, join={"out": "out.txt"})
    stepper = CommandStepper(command, "spool", "failed")
    stepper.run(0, 2)
    assert Path("spool/0").is_dir()
    worker = Worker.__new__(Worker)  # of which only this is asked
    channel = _Channel()
    worker.stepper, worker.limit, worker.channel = stepper, _NoLimit(), channel  # type: ignore[assignment]
    worker.send_failure(0, UnitError(ValueError("a join that cannot be"), 0, 2), FAILED)
    assert channel.seen == []
    assert not Path("spool/0").exists()
