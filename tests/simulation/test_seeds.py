"""Thousands of random runs in virtual time, each checked after every event and at its end."""

from __future__ import annotations

import subprocess
import sys
import typing
from pathlib import Path

import pytest

import aliquot
from aliquot.coordinator import Command, Event
from tests.simulation.replay import failing_seeds, fault_of, replay_command, tell_failures
from tests.simulation.scenario import Scenario, play

# Any others by hand: python -m tests.simulation.replay --from 3000 --to 100000
SEEDS = 3_000
# In this story two results cannot be joined, which is rare.
_A_JOIN_FAILS = 495
ROOT = Path(__file__).parent.parent.parent


def test_every_unit_is_done_exactly_once_or_given_up_for_a_reason() -> None:
    """Whatever workers, units and faults a seed brings, nothing is lost, done twice or joined in the wrong order.

    On all cores, by the very thing that is tested.
    """
    faults = aliquot.map(fault_of, range(SEEDS), progress=False)
    failures = {seed: fault for seed, fault in enumerate(faults) if fault is not None}
    if failures:
        pytest.fail(f"{len(failures)} of {SEEDS} seeds fail:\n{tell_failures(failures)}", pytrace=False)


def test_the_seeds_bring_all_that_can_happen() -> None:
    """Every event and every command is part of some story, and some runs stop early."""
    seen: set[str] = set()
    ends: set[bool] = set()
    for seed in (*range(200), _A_JOIN_FAILS):
        played = play(seed)
        ends.add(played.coordinator.is_stopping)
        for line in played.story:
            seen.update(type(one).__name__ for one in (line.event, *line.commands))
    # What is allowed is seldom raised: a step is then short of less than a share, and still under way.
    every = {kind.__name__ for kind in (*typing.get_args(Event), *typing.get_args(Command))}
    assert seen >= every - {"Allow"}
    assert ends == {False, True}


@pytest.mark.parametrize("seed", range(40))
def test_a_seed_always_tells_the_same_story(seed: int) -> None:
    """Events, times and commands are the same to the last digit: a run depends on nothing but its scenario."""
    assert play(seed).story == play(seed).story


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_tells_the_same_story_in_another_process(seed: int) -> None:
    """What is printed for a seed is what happened in the test that named it."""
    command = [sys.executable, *replay_command(seed).split()[1:]]
    replayed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    told = [Scenario.draw(seed).describe(), *map(str, play(seed).story)]
    assert replayed.stdout.startswith("\n".join(told) + "\n")


def test_a_range_is_run_by_hand() -> None:
    """Any range of seeds can be run without pytest."""
    command = [sys.executable, "-m", "tests.simulation.replay", "--from", "10", "--to", "15"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "seeds 10 to 15: all well\n"


def test_a_failing_seed_is_named_with_its_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told of a failure is enough to see it again."""

    def refuse(*_: object) -> None:
        raise AssertionError("units 3 to 4 are missing")

    monkeypatch.setattr("tests.simulation.scenario.check_invariants", refuse)
    seed = next(seed for seed in range(100) if len(Scenario.draw(seed).workload.costs))
    told = tell_failures(failing_seeds(seed, seed + 1))
    assert told.splitlines() == [
        f"seed {seed}: AssertionError: units 3 to 4 are missing",
        f"    python -m tests.simulation.replay {seed}",
    ]
