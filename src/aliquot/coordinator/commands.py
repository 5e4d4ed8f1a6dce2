"""What the coordinator wants done: by a worker, or with a result."""

from __future__ import annotations

from msgspec import Struct

from aliquot.sizing import Observation


class Assign(Struct, frozen=True, tag=True):
    """The worker owns the units ``start`` up to ``stop`` from now on, until some are trimmed.

    ``first_units`` is the size of its first step where nothing is known; ``seconds`` and ``peak_bytes`` are what is.
    """

    worker: int
    span: int
    start: int
    stop: int
    first_units: int = 1
    seconds: tuple[Observation, ...] = ()
    peak_bytes: tuple[Observation, ...] = ()


class Trim(Struct, frozen=True, tag=True):
    """Take back this share of what the worker has not started; it answers with `Trimmed`, whatever is left."""

    worker: int
    span: int
    share: float


class Advise(Struct, frozen=True, tag=True):
    """Tell a worker, amid its span, what others have learned about steps."""

    worker: int
    span: int
    seconds: tuple[Observation, ...]
    peak_bytes: tuple[Observation, ...]


class Append(Struct, frozen=True, tag=True):
    """This result is the next one: all before it were appended already."""

    result: int


class Merge(Struct, frozen=True, tag=True):
    """Join ``second`` into ``first``."""

    first: int
    second: int


class Spill(Struct, frozen=True, tag=True):
    """This result has to wait for long, and too many wait: keep it on disk."""

    result: int


class GiveUp(Struct, frozen=True, tag=True):
    """These units failed as often as they may."""

    start: int
    stop: int
    error: int | None
    attempts: int


class Finish(Struct, frozen=True, tag=True):
    """All units are done; ``result`` holds them all where results were merged."""

    result: int | None


Command = Assign | Trim | Advise | Append | Merge | Spill | GiveUp | Finish
