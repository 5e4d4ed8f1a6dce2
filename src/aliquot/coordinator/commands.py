"""What the coordinator wants done: by a worker, or with a result."""

# Without postponed annotations: each of them would be compiled, which doubles the time that this takes to import.
from typing import NamedTuple

from aliquot.coordinator.records import record
from aliquot.sizing import Observation


@record
class Assign(NamedTuple):
    """The worker owns the units ``start`` up to ``stop`` from now on, until some are trimmed.

    ``first_units`` is the size of its first step where nothing is known; ``seconds`` and ``peak_bytes`` are what is.
    A step may hold ``allowed_bytes``. With ``is_careful``, something of it has failed before: where it can, the worker
    keeps note of the very unit that it is at. With ``is_end``, nothing waits behind it, so that balance matters. With
    ``is_open``, it does not end at ``stop``: the worker waits there until it is extended or trimmed.
    """

    worker: int
    span: int
    start: int
    stop: int
    first_units: int = 1
    seconds: tuple[Observation, ...] = ()
    peak_bytes: tuple[Observation, ...] = ()
    allowed_bytes: int | None = None
    is_careful: bool = False
    is_end: bool = True
    is_open: bool = False


@record
class Extend(NamedTuple):
    """An open span of a worker ends at ``stop`` from now on, as more of the source is known; or is still open there."""

    worker: int
    span: int
    stop: int
    is_open: bool


@record
class Trim(NamedTuple):
    """Take back this share of what the worker has not started; it answers with `Trimmed`, whatever is left.

    A span that was open is so no more.
    """

    worker: int
    span: int
    share: float


@record
class Advise(NamedTuple):
    """Tell a worker, amid its span, what others have learned about steps."""

    worker: int
    span: int
    seconds: tuple[Observation, ...]
    peak_bytes: tuple[Observation, ...]


@record
class Allow(NamedTuple):
    """The steps of a worker may hold more than before: others have let go of it."""

    worker: int
    span: int
    allowed_bytes: int


@record
class Suspend(NamedTuple):
    """Steps fail at this worker that others finish: it is to get nothing more, and to be replaced where possible."""

    worker: int


@record
class Append(NamedTuple):
    """This result is the next one: all before it were appended already."""

    result: int


@record
class Join(NamedTuple):
    """The worker is to join ``second`` into ``first``, which are large, and may hold ``allowed_bytes`` for it.

    It answers with `Joined`, or as for a step that fails or does not fit. ``span`` tells one order from the next.
    """

    worker: int
    span: int
    first: int
    second: int
    allowed_bytes: int | None = None


@record
class FailJoin(NamedTuple):
    """Two results cannot be joined, however often that is tried: there will be no value."""

    error: int | None


@record
class Merge(NamedTuple):
    """Join ``second`` into ``first``, here and now: they are small."""

    first: int
    second: int


@record
class Spill(NamedTuple):
    """This result has to wait for long, and too many wait: keep it on disk."""

    result: int


@record
class GiveUp(NamedTuple):
    """These units failed as often as they may, the last time at ``worker``; if for memory, at ``peak_bytes``."""

    start: int
    stop: int
    error: int | None
    attempts: int
    worker: int | None = None
    is_exhausted: bool = False
    peak_bytes: int = 0


@record
class Skip(NamedTuple):
    """There is no result for these units, which were given up; all before them were appended, where order matters."""

    start: int
    stop: int


@record
class Finish(NamedTuple):
    """All units are done; ``result`` holds them all where results were merged."""

    result: int | None


Command = (
    Assign
    | Extend
    | Trim
    | Advise
    | Allow
    | Suspend
    | Join
    | Append
    | Skip
    | Merge
    | Spill
    | GiveUp
    | FailJoin
    | Finish
)
