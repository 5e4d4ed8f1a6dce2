"""The laws of jobs, as checks for the tests of an application.

check_split(job, count, size)      splits cover exactly, in order, and none is empty
check_description(job)             from_desc(to_desc(job)) == job, through real JSON
check_history(job, value, random)  any history of splits, joins, descriptions and executions gives the same value
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from aliquot.job import Bundle, Done, Job
from aliquot.job.result import same_value

AnyJob = TypeVar("AnyJob", bound=Job)


def check_split(job: Job, count: int, size: int) -> None:
    """Raise AssertionError if a split is not at most ``count`` jobs of ``size`` units and one with what remains."""
    sizes = [part.size for part in job.split(count, size)]
    full_parts = min(count, job.size // size)
    remainder = job.size - full_parts * size
    expected = [size] * full_parts + [remainder] * (remainder > 0)
    assert sizes == expected, f"split({count}, {size}) of {job.size} units gave {sizes}, not {expected}"


def check_description(job: AnyJob) -> AnyJob:
    """Raise AssertionError if a job is not the same after a trip through JSON; return the job that came back."""
    travelled = type(job).from_desc(json.loads(json.dumps(job.to_desc())))
    assert travelled == job, f"{job!r} came back as {travelled!r}"
    assert travelled.size == job.size, f"{job.size} units came back as {travelled.size}"
    return travelled


def check_history(
    job: Job,
    value: object,
    random: Random,
    *,
    steps: int = 20,
    equal: Callable[[Any, Any], bool] = same_value,
) -> None:
    """Raise AssertionError if some random history of divisions does not end in ``value``.

    ``equal`` says when two values are the same; `math.isclose` is right for sums of floating-point numbers.
    """
    bundles = [Bundle.of(job)]
    story: list[str] = []
    for _ in range(steps):
        place = random.randrange(len(bundles))
        chosen = bundles.pop(place)
        action = random.choice(("split", "split", "join", "describe", "execute"))
        story.append(f"{action} {chosen!r}")
        if action == "split" and chosen.not_run.size:
            bundles += chosen.done.pack(job.size)
            bundles += chosen.not_run.split(random.randint(1, 3), random.randint(1, max(1, chosen.size)))
        elif action == "join" and bundles:
            bundles += chosen.join(bundles.pop(random.randrange(len(bundles))))
        elif action == "describe":
            bundles.append(check_description(chosen))
        elif action == "execute":
            bundles.append(chosen.attempt())
        else:
            bundles.append(chosen)
    random.shuffle(bundles)
    whole = bundles[0].attempt()
    for bundle in bundles[1:]:
        (whole,) = whole.join(bundle.attempt())
    values = [part.job.result.value if isinstance(part.job.result, Done) else part.job.result for part in whole.parts]
    as_expected = len(values) == 1 and equal(values[0], value) if job.size else not values
    assert as_expected, f"gave {values}, not {value}, after {'; '.join(story)}"
