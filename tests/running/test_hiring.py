"""Workers get ready while the journal of a new run is made: none are left, whatever goes wrong meanwhile."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.errors import SiteError
from aliquot.journal import Journal, RunDirectory
from aliquot.running import learned, one_run
from aliquot.running.earlier import RunChangedError
from aliquot.sites.local import Local, Workplace

TWO = Local(cores=2)


@pytest.fixture
def hired(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Workplace]]:
    """All workplaces that were opened; each of them must be closed, and leave nothing open."""
    opened: list[Workplace] = []
    closed: list[Workplace] = []
    start, close = Local.start, Workplace.close

    def note(*told: Any) -> Workplace:
        opened.append(start(*told))
        return opened[-1]

    def note_close(workplace: Workplace) -> None:
        closed.append(workplace)
        close(workplace)

    aliquot.map(abs, range(3), on=TWO, progress=False)  # the nursery stays
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(Local, "start", note)
    monkeypatch.setattr(Workplace, "close", note_close)
    yield opened
    assert closed == opened
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., aliquot.Outcome]:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("one\ntwo\nthree\n")

    def run(text: str = "cat {x} > {out}", **told: Any) -> aliquot.Outcome:
        command = aliquot.Command(text, split={"x": "lines.txt"}, join={"out": "copy.txt"})
        return aliquot.run(command, on=TWO, progress=False, **told)

    return run


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()], ids=repr)
def test_a_journal_that_cannot_be_made(
    hired: list[Workplace],
    copy: Callable[..., aliquot.Outcome],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    """Nothing was begun, and nothing is left of it."""
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "create", raising(error))
        with pytest.raises(type(error)):
            copy()
    assert len(hired) == 1
    assert not os.path.exists(".aliquot/copy.txt")
    assert copy().report.units == 3


@pytest.mark.parametrize(("where", "name"), [(os, "fsync"), (os, "replace"), (Journal, "commit")])
def test_an_interrupt_while_a_journal_is_made(
    hired: list[Workplace],
    copy: Callable[..., aliquot.Outcome],
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
) -> None:
    """The same call goes on, in the same process."""
    with monkeypatch.context() as patch:
        patch.setattr(where, name, raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            copy()
    assert copy().report.units == 3


def test_half_a_journal_is_ours(hired: list[Workplace], copy: Callable[..., aliquot.Outcome]) -> None:
    """Of one who was killed in that moment, and after whom somebody has cleaned up."""
    os.makedirs(".aliquot/copy.txt")
    Path(".aliquot/copy.txt/journal.sqlite.new").touch()
    assert copy().report.units == 3


def test_nobody_is_hired_for_what_is_done_or_refused(
    hired: list[Workplace], copy: Callable[..., aliquot.Outcome]
) -> None:
    """What is in a worker's way may be slow to import, or print something."""
    copy()
    assert copy().was_done
    with pytest.raises(RunChangedError):
        copy("cat -n {x} > {out}")
    Path("copy.txt").write_text("mine")
    with pytest.raises(aliquot.UsageError, match="exists"):
        copy()
    assert len(hired) == 1


@pytest.mark.parametrize("fresh", [False, True])
def test_workers_that_cannot_be_started(
    hired: list[Workplace], copy: Callable[..., aliquot.Outcome], monkeypatch: pytest.MonkeyPatch, *, fresh: bool
) -> None:
    """Where nothing was begun, nothing is left; what was done before stays, also where it is to be done anew."""
    with monkeypatch.context() as patch:
        patch.setattr(Local, "start", raising(SiteError("no more processes")))
        with pytest.raises(SiteError):
            copy()
    assert not os.path.exists(".aliquot/copy.txt")
    assert not copy("cat {x} > {out} && ! grep -q two {x}", size=1).is_complete
    with monkeypatch.context() as patch:
        patch.setattr(Local, "start", raising(SiteError("no more processes")))
        with pytest.raises(SiteError) as caught:
            copy(fresh=fresh, resume_anyway=not fresh)
    notes = getattr(caught.value, "__notes__", [])
    assert any("is recorded" in note for note in notes) != fresh
    with Journal.open(RunDirectory(".aliquot/copy.txt").journal_path, read_only=True) as journal:
        assert journal.done_units() > 0


def test_what_fails_before_anything_runs(hired: list[Workplace], monkeypatch: pytest.MonkeyPatch) -> None:
    """A function may be odd enough for that."""
    monkeypatch.setattr(learned, "fingerprint", raising(UnicodeEncodeError("utf-8", "\udc80", 0, 1, "odd")))
    with pytest.raises(UnicodeEncodeError):
        aliquot.map(abs, range(3), on=TWO, progress=False)
    assert hired == []


class SlowToSend:
    """As a function with much to pickle."""

    def __call__(self, number: int) -> int:
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        time.sleep(0.2)
        return (SlowToSend, ())


def test_the_time_to_start_workers_counts(hired: list[Workplace]) -> None:
    """The parts of a report add up to what the user has waited."""
    from aliquot.running import options, planning

    plan = planning.plan_each(SlowToSend(), range(3), options.make_options(on=TWO, progress=False))
    assert one_run.run_plan(plan).report.wall_seconds >= 0.2


def test_staff_can_be_closed_twice(hired: list[Workplace]) -> None:
    """By who runs something with it, and by who has hired it."""
    from aliquot.running import options, planning

    plan = planning.plan_each(abs, range(3), options.make_options(on=TWO, progress=False))
    with contextlib.ExitStack() as stack:
        staff = stack.enter_context(one_run.Staff(plan))
        with staff:
            pass
    assert len(hired) == 1
