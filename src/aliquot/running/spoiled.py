"""Units that cannot be read for one reason, as a basket of a tree: told as one failure, however they were divided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aliquot.running.outcome import Failure
    from aliquot.virtual_file import RowRange


def told_as_one(failures: Iterable[Failure]) -> list[Failure]:
    """The same failures, in order, where neighbours that have one reason are one."""
    failures = sorted(failures, key=lambda failure: failure.start)
    reasons = {failure.spoiled: failure for failure in failures if failure.spoiled is not None}
    told: list[Failure] = []
    for failure in (_explained(failure, list(reasons.values())) for failure in failures):
        if told and _have_one_reason(told[-1], failure):
            told[-1] = _joined(told[-1], failure)
        else:
            told.append(failure)
    return told


def _explained(failure: Failure, reasons: list[Failure]) -> Failure:
    """What was not looked into, because the run was over, has failed for a reason that is known from its neighbours."""
    if failure.kind != "not looked into":
        return failure
    for reason in reasons:
        assert reason.spoiled is not None
        if reason.spoiled[0] <= failure.start and failure.stop <= reason.spoiled[1]:
            own = failure._asdict()
            return reason._replace(**{name: own[name] for name in ("start", "stop", "attempts", "places", "rows")})
    return failure


def _have_one_reason(first: Failure, second: Failure) -> bool:
    is_same = first.spoiled is not None and (first.spoiled, first.error) == (second.spoiled, second.error)
    return is_same and first.stop == second.start


def _joined(first: Failure, second: Failure) -> Failure:
    return first._replace(
        stop=second.stop,
        shown=None,  # that was one of them
        attempts=max(first.attempts, second.attempts),
        places=tuple(dict.fromkeys(first.places + second.places)),
        rows=_joined_rows(first.rows, second.rows),
    )


def _joined_rows(first: tuple[RowRange, ...], second: tuple[RowRange, ...]) -> tuple[RowRange, ...]:
    if first and second and (first[-1].path, first[-1].stop) == (second[0].path, second[0].start):
        return (*first[:-1], first[-1]._replace(stop=second[0].stop), *second[1:])
    return first + second
