from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import AliquotError
from aliquot.running.options import Options
from aliquot.running.outcome import Failure
from aliquot.running.results import Sink
from aliquot.workers.stepping import bounded_repr

if TYPE_CHECKING:
    from aliquot.running.earlier import Keeping
    from aliquot.running.growing import Growing
    from aliquot.virtual_file import VirtualFile
    from aliquot.workers.stepping import Stepper


USUAL_SECONDS = 1.0
_STEPS_A_WALL = 4


class Plan(NamedTuple):
    """What to run, where, and what becomes of the results."""

    stepper: Stepper
    units: int
    sink: Sink
    functions: tuple[Any, ...]
    label: str
    options: Options
    sent_items: Sequence[Any] | None = None
    is_ordered: bool = True
    is_streamed: bool = False
    join: Callable[[Any, Any], Any] | None = None
    view: VirtualFile | None = None  # of the file that the units are from
    growing: Growing | None = None  # who counts on, where ``units`` are only those that are known
    keeping: Keeping | None = None  # where it is recorded
    is_command: bool = False  # whose results are files, on disk
    step_cores: int = 1  # that each step uses
    first_units: int = 1  # of the first step, where nobody says so
    usual_seconds: float = USUAL_SECONDS  # how long a step may take, where nobody says so

    @property
    def expected_units(self) -> int:
        """All that there are, or about so many while they are still being counted."""
        return self.units if self.growing is None else self.growing.expected_units

    @property
    def target_seconds(self) -> float:
        """How long a step may take."""
        told, wall_seconds = self.options.target_seconds, self.options.wall_seconds
        if told is None:
            told = self.usual_seconds
        # One that is as long as it should be must not be stopped for it.
        return told if wall_seconds is None else min(told, wall_seconds / _STEPS_A_WALL)

    def counted(self) -> Plan:
        """The same, with all units known."""
        if self.growing is None or self.view is None:
            return self
        return self._replace(units=len(self.view), growing=None)

    def locate(self, failure: Failure) -> Failure:
        """Add what its unit looks like, where its worker could not tell, and which rows or bytes of which files."""
        items: Any = self.sent_items if self.sent_items is not None else self.view
        if failure.shown is None and not self.is_command and items is not None and failure.stop - failure.start == 1:
            failure = failure._replace(shown=_shown(items, failure.start))
        if self.view is None:
            return failure
        units = self.view[failure.start : failure.stop]
        try:
            failure = failure._replace(rows=tuple(units.row_ranges()))
            ranges = units.byte_ranges()
        except AliquotError:
            return failure  # a source without bytes; or the file itself is broken there, which the failure tells
        return failure._replace(places=tuple((place.path, place.start, place.stop) for place in ranges))


def _shown(items: Any, unit: int) -> str | None:
    """What a unit looks like; nothing where it cannot be read, which the failure tells."""
    try:
        record = items[unit]
    except AliquotError:
        return None
    except Exception:
        return bounded_repr(items, unit)  # which tells what is wrong with it
    return bounded_repr([record], 0)
