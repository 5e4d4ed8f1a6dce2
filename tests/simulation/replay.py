"""Run simulated scenarios by hand.

python -m tests.simulation.replay SEED              tell the whole story of one: every event and what it led to
python -m tests.simulation.replay --from A --to B   run the seeds from A up to B, and name those that fail
"""

from __future__ import annotations

import argparse
import signal
import sys
import traceback

from tests.simulation.scenario import Play, Scenario, play


def replay_command(seed: int) -> str:
    """What to type to see a seed again."""
    return f"python -m tests.simulation.replay {seed}"


def fault_of(seed: int) -> str | None:
    """Why a seed fails; None if it does not."""
    try:
        play(seed)
    except Exception as fault:  # whatever goes wrong is what is looked for
        return f"{type(fault).__name__}: {fault}"
    return None


def failing_seeds(start: int, stop: int) -> dict[int, str]:
    """The seeds from start up to stop that fail, and why."""
    faults = {seed: fault_of(seed) for seed in range(start, stop)}
    return {seed: fault for seed, fault in faults.items() if fault is not None}


def tell_failures(failures: dict[int, str]) -> str:
    """Each seed with its fault and how to see it again."""
    return "\n".join(f"seed {seed}: {fault}\n    {replay_command(seed)}" for seed, fault in failures.items())


def tell_story(seed: int) -> bool:
    """Print all that happens in one scenario; whether it went well."""
    scenario = Scenario.draw(seed)
    print(scenario.describe())
    try:
        coordinator = Play(scenario, watch=print).run().coordinator
    except Exception:  # the story so far is on the screen: now the fault
        traceback.print_exc()
        return False
    print(f"{coordinator.done_units} units done, {coordinator.failed_units} given up, {coordinator.steals} steals")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replay", description="Run simulated scenarios.")
    parser.add_argument("seed", type=int, nargs="?", help="tell the story of this one")
    parser.add_argument("--from", type=int, dest="start", default=0, help="run from this seed")
    parser.add_argument("--to", type=int, dest="stop", help="up to, not including, this one")
    options = parser.parse_args()
    if (options.seed is None) == (options.stop is None):
        parser.error("name either a seed or a range, as in --from 0 --to 1000")
    if options.seed is not None:
        return 0 if tell_story(options.seed) else 1
    failures = failing_seeds(options.start, options.stop)
    print(tell_failures(failures) or f"seeds {options.start} to {options.stop}: all well")
    return 1 if failures else 0


if __name__ == "__main__":
    # A story is long: it may be cut short by head or less.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
