from __future__ import annotations

from pathlib import Path

import pytest

import aliquot
from aliquot.sizing import ReportPacer, StepSizer
from aliquot.workers.cell import Cell
from aliquot.workers.channel import FAILED, Message
from aliquot.workers.command_stepping import CommandStepper
from aliquot.workers.main import Worker
from aliquot.workers.span_run import SpanRun
from aliquot.workers.stepping import UnitError


class _Spoiling(CommandStepper):
    """Its third step does not fit, and what the two before it have made cannot be relied on any more."""

    calls = 0

    def run(self, start: int, stop: int, patience_seconds: float | None = None) -> int:
        self.calls += 1
        if self.calls == 3:
            raise UnitError(MemoryError(), start, stop, spoils_earlier_steps=True)
        return super().run(start, stop, patience_seconds)


class _NoLimit:
    def lift(self) -> None:
        pass


class _Channel:
    """Looks at what is in the spool when something is sent."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def send(self, *_: object) -> None:
        self.seen += _places()

    def receive_ready(self) -> list[Message]:
        return []


class _Cell(Cell):
    """Looks when units are given back."""

    seen: list[list[str]]

    def unclaim(self, span: int, unit: int) -> None:
        self.seen.append(_places())
        super().unclaim(span, unit)


def _places() -> list[str]:
    return [path.name for path in Path("spool").iterdir() if path.is_dir()]


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


def test_places_of_spoiled_steps_are_gone_before_their_units_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of them may be given to another worker, which has the same places for them."""
    monkeypatch.chdir(tmp_path)
    Path("n.txt").write_text("".join(f"{number}\n" for number in range(15)))
    Path("spool").mkdir()
    command = aliquot.Command("cat {n} > {out}", split={"n": "n.txt"}, join={"out": "out.txt"})
    cell = _Cell.create()
    assert isinstance(cell, _Cell)
    cell.seen = []
    cell.begin(0, 0, 15)
    worker = Worker(_Channel(), cell)  # type: ignore[arg-type]
    worker.stepper = _Spoiling(command, "spool", "failed")
    # Three steps, without a report between them.
    monkeypatch.setattr(StepSizer, "choose", lambda *_, **__: 5)
    run = SpanRun(worker, 0, 0, is_careful=False)
    monkeypatch.setattr(ReportPacer, "is_due", lambda *_, **__: False)
    run.run()
    assert cell.seen == [[]]
    assert cell.claimed_to == 15, "all units are done in the end"
    cell.close()
