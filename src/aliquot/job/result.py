from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from aliquot.errors import DescriptionError, JobStateError
from aliquot.job.description import Description, decode_value, encode_value


class NotRun:
    """The job has not been executed."""

    state = "not run"

    def __eq__(self, other: object) -> bool:
        return True if isinstance(other, NotRun) else NotImplemented

    def __hash__(self) -> int:
        return hash(NotRun)

    def __repr__(self) -> str:
        return "NotRun()"


class Done(NamedTuple):
    """The job was executed and gave ``value``."""

    value: Any

    @property
    def state(self) -> str:
        """'done'."""
        return "done"


class Failed(NamedTuple):
    """The job was executed and raised: the error in a line, and the traceback."""

    error: str
    traceback: str = ""

    @property
    def state(self) -> str:
        """'failed'."""
        return "failed"

    @classmethod
    def from_exception(cls, error: BaseException) -> Failed:
        """Keep what a person needs of an exception, and nothing that holds memory."""
        return cls(
            error="".join(traceback.format_exception_only(error)).strip(),
            traceback="".join(traceback.format_exception(error)),
        )


Result = NotRun | Done | Failed
NOT_RUN = NotRun()


def same_value(first: Any, second: Any) -> bool:
    """Whether two values are equal; also arrays, containers of them, and numbers that are not numbers."""
    if hasattr(first, "__array__") and hasattr(second, "__array__"):
        if first.shape == second.shape and first.dtype == second.dtype and bool((first == second).all()):
            return True
    elif isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same_value(first[key], second[key]) for key in first)
    elif isinstance(first, list | tuple) and type(first) is type(second):
        return len(first) == len(second) and all(map(same_value, first, second))
    elif bool(first == second):
        return True
    return type(first) is type(second) and encode_value(first) == encode_value(second)


def same_result(first: Result, second: Result) -> bool:
    """Whether two results are of one kind and say the same."""
    if isinstance(first, Done) and isinstance(second, Done):
        return same_value(first.value, second.value)
    return first == second


def join_results(first: Result, second: Result, combine: Callable[[Any, Any], Any]) -> Result:
    """Two done results combined, or two not run ones; anything else cannot be joined."""
    match first, second:
        case NotRun(), NotRun():
            return NOT_RUN
        case Done(), Done():
            return Done(combine(first.value, second.value))
    raise JobStateError(
        f"cannot join a job that is {first.state} with one that is {second.state}: "
        "join two that are done or two that are not run (a Bundle keeps any mix)"
    )


def describe_result(result: Result) -> Description:
    """Say as JSON what came of a job."""
    match result:
        case Done():
            return {"state": "done", "value": encode_value(result.value)}
        case Failed():
            return {"state": "failed", "error": result.error, "traceback": result.traceback}
    return {"state": "not run"}


def result_from_desc(desc: Description) -> Result:
    """Rebuild what `describe_result` described."""
    match desc:
        case {"state": "not run"}:
            return NOT_RUN
        case {"state": "done", "value": value}:
            return Done(decode_value(value))
        case {"state": "failed", "error": str(error), "traceback": str(trace)}:
            return Failed(error, trace)
    raise DescriptionError(f"this does not describe a result: {desc!r:.200}")
