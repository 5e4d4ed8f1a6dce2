from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from aliquot.workers.stepping import Stepper


class Work(NamedTuple):
    """What a site is to do: a stepper that is sent to each worker, and the units that are sent from here, if any.

    Steps should take about ``target_seconds`` and hold about ``target_bytes`` at most; one that takes ``wall_seconds``
    is stopped. Where ``disk_bytes`` are limited, workers have scratch directories for their temporary files. With
    ``step_cores`` cores for each step there are so many fewer workers. With ``joins_reports``, where results are lists
    that nobody records, those that come together are one.
    """

    stepper: Stepper
    units: int
    items: Sequence[Any] | None = None
    target_seconds: float = 1.0
    target_bytes: int | None = None
    wall_seconds: float | None = None
    disk_bytes: int | None = None
    step_cores: int = 1
    joins_reports: bool = False
