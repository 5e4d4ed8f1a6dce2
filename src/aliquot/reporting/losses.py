"""Why a run was not closer to ideal, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aliquot.quantities import format_amount, format_seconds, number_of
from aliquot.reporting.lanes import Purpose


class Loss(NamedTuple):
    """Time of cores that did not go into useful steps: ``share`` is the part of cores x wall time."""

    purpose: Purpose
    name: str
    seconds: float
    share: float
    sentence: str


# The name of each, and a sentence about how long it took; what is counted is put before.
_SENTENCES: dict[Purpose, tuple[str, str]] = {
    "startup": ("start-up", "Start-up took {took}, besides steps, until each worker had sent its first report."),
    "steals": ("steals", "{steals} took {took} to begin with what was taken."),
    "between": (
        "between steps",
        "Between steps, workers spent {took} on reading, sending results up and being told what to do.",
    ),
    "stopped": ("stopped for memory", "{stopped_steps} stopped for memory had taken {took}."),
    "failed": ("failed steps", "{failed_steps} had taken {took}."),
    "lost": ("cut off", "Work that was cut off, as a worker or the whole run was stopped, had taken {took}."),
    "again": ("done again", "{repeated_units} done more than once took {took}."),
    "waiting": ("waiting for a span", "Between spans, workers waited {took} for something to do."),
    "end": ("waiting at the end", "At the end, workers with nothing left to do waited {took} for the others."),
    "finishing": ("finishing", "After the last report, cores waited {took} for the outputs to be finished."),
    "absent": ("no worker", "Cores had no worker for {took}."),
    "open": ("not reported yet", "Work that has not been reported yet has taken {took}."),
}
# Of steps that took more than this part of it, or less time in all, nothing is said.
_BUSY_SHARE = 0.75
_LEAST_SECONDS = 1.0
_NOUNS = {"steals": "steal", "stopped_steps": "step", "failed_steps": "failed step", "repeated_units": "unit"}


def tell_losses(
    spent: Mapping[Purpose, float], available_seconds: float, counts: Mapping[str, int]
) -> tuple[Loss, ...]:
    """The largest first; none for what took no time."""
    counted = {key: number_of(counts[key], noun) for key, noun in _NOUNS.items()}
    losses = []
    for purpose, (name, sentence) in _SENTENCES.items():
        seconds = spent.get(purpose, 0.0)
        if seconds <= 1e-6 * available_seconds or seconds <= 1e-9:
            continue
        share = seconds / available_seconds if available_seconds > 0 else 0.0
        took = f"{format_seconds(seconds)} ({format_share(share)})"
        losses.append(Loss(purpose, name, seconds, share, sentence.format(took=took, **counted)))
    return tuple(sorted(losses, key=lambda loss: -loss.seconds))


def tell_waiting(busy_share: float | None, useful_seconds: float) -> str:
    """A sentence where useful steps took little of the CPU time that they had; nothing where they were short."""
    if busy_share is None or busy_share > _BUSY_SHARE or useful_seconds < _LEAST_SECONDS:
        return ""
    return (
        f"Steps took {format_share(busy_share)} of the CPU time of their cores: they may have waited, for data or for "
        "cores that others used, may have used fewer cores, or have computed where it is not counted."
    )


def format_share(share: float) -> str:
    """0.0123 -> '1.2 %'; neither nothing nor all where it is nearly so."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    return "over 99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"


def format_steps(smallest_units: float, largest_units: float) -> str:
    """(1, 10000) -> '1 to 10,000'; the units of a step, on the average of a report, may be no whole number."""
    smallest, largest = format_amount(smallest_units), format_amount(largest_units)
    return largest if smallest == largest else f"{smallest} to {largest}"
