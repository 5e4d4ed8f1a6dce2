"""Every error that aliquot raises on purpose, by whose fault it is.

A message says what happened, with its numbers, and what to do next.
"""

from __future__ import annotations


class AliquotError(Exception):
    """The root of all errors raised by aliquot."""


class UsageError(AliquotError, ValueError):
    """The call is wrong: nothing was read or run."""


class MissingExtraError(UsageError, ImportError):
    """An optional library is needed that is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an optional library. Install it with: pip install 'aliquot[{extra}]'")
        self._arguments = (purpose, extra)

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return (type(self), self._arguments)


class JobError(AliquotError):
    """The job, as its author wrote it or as it was described, is at fault."""


class DescriptionError(JobError):
    """A description cannot be turned back into what it describes."""


class JobStateError(JobError):
    """An operation does not fit the state (not run, done, failed) of a job."""


class DataError(AliquotError):
    """The input is at fault. Names the file and, where known, the unit and the byte.

    ``unit`` counts from 0 within that file, also where it is one of many. ``unit_name`` is how the message names it:
    "unit 7" by default, and "row 7" or "rows 7 to 9" of a table. ``byte`` is an offset into the uncompressed content.
    ``spoiled_units``, numbered as those of the source, are all those that cannot be had for the same reason: to divide
    them is of no use. ``has_failed_a_run`` says that units of a run have failed for it, and not that none was begun;
    ``is_of_unit``, that it was found while units were counted, and that all but one can be had.
    """

    has_failed_a_run = False
    is_of_unit = False

    def __init__(
        self,
        problem: str,
        *,
        path: str | None = None,
        unit: int | None = None,
        unit_name: str | None = None,
        byte: int | None = None,
        advice: str | None = None,
        spoiled_units: tuple[int, int] | None = None,
    ) -> None:
        self.problem = problem
        self.spoiled_units = spoiled_units
        self.path = path
        self.unit = unit
        self.unit_name = f"unit {unit}" if unit_name is None and unit is not None else unit_name
        self.byte = byte
        self.advice = advice
        place = [] if path is None else [path]
        if self.unit_name is not None:
            place.append(self.unit_name)
        if byte is not None:
            place.append(f"byte {byte}")
        message = f"{', '.join(place)}: {problem}" if place else problem
        super().__init__(f"{message}. {advice}" if advice else message)

    def __reduce__(self) -> tuple[object, ...]:
        keywords = {
            "path": self.path,
            "unit": self.unit,
            "unit_name": self.unit_name,
            "byte": self.byte,
            "advice": self.advice,
            "spoiled_units": self.spoiled_units,
        }
        return (_rebuild_data_error, (type(self), self.problem, keywords))


def _rebuild_data_error(kind: type[DataError], problem: str, keywords: dict[str, object]) -> DataError:
    return kind(problem, **keywords)  # type: ignore[arg-type]  # the keywords come from __reduce__ above


class SourceChangedError(DataError):
    """A source is not what it was when it was opened, described or indexed."""


class Malformed(Exception):  # noqa: N818  # a verdict for the caller, who knows the file; users see a DataError
    """Raised by a format about some bytes: which unit or byte among them is malformed, and how.

    Always caught and turned into a `DataError` that names the file, the unit and the byte. With ``is_of_file``, no unit
    of the file can be had.
    """

    def __init__(
        self,
        problem: str,
        *,
        unit_within: int = 0,
        byte_within: int | None = None,
        advice: str | None = None,
        is_of_file: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.unit_within = unit_within
        self.byte_within = byte_within
        self.advice = advice
        self.is_of_file = is_of_file


class SiteError(AliquotError):
    """The place where work runs is at fault: no workers, or none that can be started."""
