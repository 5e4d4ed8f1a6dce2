"""Programs that use several cores: there are as many at once as fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.journal import RunDirectory
from aliquot.reporting.reading import read_run


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("numbers.txt").write_text("".join(f"{number}\n" for number in range(400)))


def told_cores(command: str, cores: int, **options: Any) -> tuple[set[str], aliquot.Outcome]:
    """What the steps of a command were told, and what came of it."""
    job = aliquot.Command(command, split={"n": "numbers.txt"}, join={"o": "told.txt"}, **options)
    outcome = aliquot.run(job, on=aliquot.sites.Local(cores=cores), progress=False)
    return set(Path("told.txt").read_text().split()), outcome


@pytest.mark.parametrize("reading", ["cat {n}", "cat < {n}"])
def test_a_command_that_names_cores_gets_all_of_them(reading: str) -> None:
    """One worker has them: what the program loads is loaded once."""
    told, outcome = told_cores(f"{reading} > /dev/null; echo {{cores}} > {{o}}", 3)
    assert told == {"3"}
    assert outcome.report.units == 400
    assert outcome.report.cores == 3
    about = outcome.report
    assert about.useful_seconds + about.overhead_seconds + about.idle_seconds == pytest.approx(3 * about.wall_seconds)


def test_other_commands_have_one_core_a_step() -> None:
    """And as many workers as there are cores."""
    told, outcome = told_cores("cat {n} > /dev/null; echo $OMP_NUM_THREADS > {o}", 2)
    assert told == {"1"}
    assert outcome.report.cores == 2


@pytest.mark.parametrize(("step_cores", "cores", "expected"), [(2, 4, "2"), (2, 3, "2"), (8, 2, "2"), (1, 2, "1")])
def test_steps_get_as_many_cores_as_they_ask_for(step_cores: int, cores: int, expected: str) -> None:
    """But not more than there are."""
    told, outcome = told_cores("cat {n} > /dev/null; echo {cores} > {o}", cores, step_cores=step_cores)
    assert told == {expected}
    assert outcome.report.cores == int(expected) * max(1, cores // step_cores)


def test_a_step_uses_at_least_one_core() -> None:
    """Nothing else can be meant."""
    for wrong in (0, -1, 1.5, "two"):
        with pytest.raises(aliquot.UsageError, match=r"step_cores=.*at least one core"):
            aliquot.Command("cat {n}", split={"n": "numbers.txt"}, step_cores=wrong)  # type: ignore[arg-type]


def test_a_report_counts_all_cores_of_a_step() -> None:
    """What one worker does with all of them is not half idle."""
    told_cores("cat {n} > /dev/null; sleep 0.3; echo {cores} > {o}", 2)
    totals = read_run(RunDirectory(".aliquot/told.txt"))[0].totals
    assert totals.cores == 2
    assert totals.efficiency > 0.5


def test_how_many_cores_a_step_uses_travels_with_the_job() -> None:
    """As all resources do."""
    job = aliquot.Command("cat {n}", split={"n": "numbers.txt"}, step_cores=4)
    assert aliquot.Command.from_desc(job.to_desc()).resources == aliquot.Resources(cores=4)
