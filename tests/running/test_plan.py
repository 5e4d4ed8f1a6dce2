"""What a plan says before anything runs."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.running.options import make_options
from aliquot.running.planning import plan_batches, plan_job


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("numbers.txt").write_text("1\n2\n3\n")


def seconds_of(command: str, **told: Any) -> float:
    job = aliquot.Command(command, split={"n": "numbers.txt"}, join={"o": "out.txt"})
    return plan_job(job, make_options(**told)).target_seconds


def test_programs_that_are_started_for_a_step_take_longer_than_calls() -> None:
    """To start one costs more; one that is fed can be left at any time."""
    assert seconds_of("cat {n} > {o}") == 4
    assert seconds_of("tail -c +{n:offset} {n:source} | head -c {n:length} > {o}") == 4
    assert seconds_of("cat {n:pipe} > {o}") == 1
    assert plan_batches(sum, range(9), operator.add, make_options(), is_ordered=True).target_seconds == 1


def test_who_says_how_long_a_step_takes_is_heard() -> None:
    """Also where one that takes long is stopped: a good one must not be."""
    assert seconds_of("cat {n} > {o}", target_seconds=7) == 7
    assert seconds_of("cat {n} > {o}", wall_seconds=8) == 2
    assert seconds_of("cat {n} > {o}", wall_seconds=100) == 4
    assert seconds_of("cat {n} > {o}", wall_seconds=8, target_seconds=0) == 0
