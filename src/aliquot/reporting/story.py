"""What happened in a run: events of its journal in, numbers out.

The events are those that a journal records; seconds count from the first sitting on, without the time between sittings.
A run that still goes on, or that was killed, has a story too: up to its last event, or up to ``wall_seconds``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from aliquot.reporting.lanes import Lane, Mark, Purpose, Worker
from aliquot.reporting.losses import Loss, tell_losses
from aliquot.reporting.thinning import Curve, Rate, highest_steps, rates, thin, thin_bars, units_since

Event: TypeAlias = tuple[float, str, Mapping[str, Any]]

RECENT_SECONDS = 60.0

# What is kept of each; all are counted.
_MOST_SETBACKS = 1000
_MOST_SET_ASIDE = 1000
_MOST_MARKS = 600
_MOST_REPORT_TICKS = 1500


class Sitting(NamedTuple):
    """A start or restart of the run."""

    begin_seconds: float
    end_seconds: float
    cores: int
    allowed_bytes: int
    started: str  # as a date and time
    step_cores: int = 1

    @property
    def places(self) -> int:
        """How many workers there are at once."""
        return max(1, self.cores // self.step_cores)


class Setback(NamedTuple):
    """A step that failed, or that was too large for memory and could not be smaller."""

    seconds: float
    kind: str
    worker: int | None
    start: int
    stop: int
    error: str
    peak_bytes: int


class SetAside(NamedTuple):
    """Units that the result is without."""

    seconds: float
    start: int
    stop: int
    error: str


class Totals(NamedTuple):
    """The numbers of the whole run.

    ``available_seconds`` is wall time x the workers that there are at once, one a core unless steps use several cores.
    It went into ``busy_seconds`` (steps), ``stopped_seconds`` (steps that were stopped for memory), ``wasted_seconds``
    (failed or cut off), ``overhead_seconds`` (what workers did besides, or have not reported yet) and ``idle_seconds``.
    The five add up to it, as long as there are so many workers.
    """

    units: int  # each counted once
    repeated_units: int
    set_aside_units: int
    wall_seconds: float
    cores: int
    places: int  # workers that there are at once
    workers: int  # there at the end
    lost_workers: int
    reports: int
    tasks: int
    steps: int
    steals: int
    stopped_steps: int
    failed_steps: int
    available_seconds: float
    busy_seconds: float
    repeated_seconds: float  # of the busy ones: for units that were done before
    stopped_seconds: float
    wasted_seconds: float
    overhead_seconds: float
    unreported_seconds: float  # of those
    idle_seconds: float
    peak_bytes: int
    allowed_bytes: int
    result_bytes: int
    recent_units_per_second: float
    smallest_step_units: float
    largest_step_units: float

    @property
    def useful_seconds(self) -> float:
        """In steps, without those that did units again."""
        return self.busy_seconds - self.repeated_seconds

    @property
    def efficiency(self) -> float:
        """The part of cores x wall time that was useful."""
        return self.useful_seconds / self.available_seconds if self.available_seconds > 0 else 0.0

    @property
    def ideal_seconds(self) -> float:
        """How long it takes if no core ever does anything but useful steps."""
        return self.wall_seconds * self.efficiency

    @property
    def units_per_second(self) -> float:
        """On the average."""
        return self.units / self.wall_seconds if self.wall_seconds > 0 else 0.0


class Story(NamedTuple):
    """All that there is to tell about a run."""

    totals: Totals
    sittings: tuple[Sitting, ...]
    losses: tuple[Loss, ...]
    step_units: Curve
    peak_bytes: Curve
    allowed_bytes: tuple[tuple[float, float], ...]  # from when on, how much; the highest of those at a time
    stopped: tuple[tuple[float, float], ...]  # when steps were stopped for memory, and what they were allowed
    throughput: tuple[Rate, ...]
    lanes: tuple[Lane, ...]
    setbacks: tuple[Setback, ...]
    set_aside: tuple[SetAside, ...]


def tell_story(events: Iterable[Event], *, wall_seconds: float | None = None) -> Story:
    """The story that events tell.

    :param wall_seconds: how long the run has taken, where that is longer than up to its last event
    """
    teller = _Teller()
    for seconds, kind, about in events:
        teller.hear(seconds, kind, about)
    return teller.tell(wall_seconds)


class _Teller:
    """Hears the events one by one, and tells the story at the end."""

    def __init__(self) -> None:
        self._now_seconds = 0.0
        # After a crash a sitting goes on from the time that was noted last, which is a little before the last event.
        self._shift_seconds = 0.0
        self._sittings: list[Sitting] = []
        self._workers: dict[int, Worker] = {}
        self._spent: dict[Purpose, float] = dict.fromkeys(
            ("startup", "steals", "between", "stopped", "failed", "lost", "waiting", "end", "finishing", "open"), 0.0
        )
        self._arrived_workers = 0  # in this sitting
        self._has_begun = False  # whether anything was reported in this sitting
        self._last_report_seconds = 0.0
        self._busy_seconds = 0.0
        self._covered: list[tuple[int, int, float]] = []  # start, stop, busy seconds of each report
        self._pieces: list[tuple[float, float, int]] = []  # begin, end, units of each report
        self._step_units: list[tuple[float, float]] = []
        self._peak_bytes: list[tuple[float, float]] = []
        self._allowed_bytes: list[tuple[float, float]] = []
        self._stopped: list[tuple[float, float]] = []
        self._setbacks: list[Setback] = []
        self._set_aside: dict[tuple[int, int], SetAside] = {}
        self._result_bytes = 0
        self._steps = self._stopped_steps = self._failed_steps = 0
        self._tasks = self._steals = self._lost_workers = 0

    def hear(self, seconds: float, kind: str, about: Mapping[str, Any]) -> None:
        """Take an event; of a kind that is not known, only its time."""
        if kind == "sitting":
            self._shift_seconds = max(self._shift_seconds, self._now_seconds - seconds)
        seconds = self._now_seconds = max(seconds + self._shift_seconds, self._now_seconds)
        match kind:
            case "sitting":
                self._sit_down(seconds, about)
            case "report":
                self._report(seconds, about)
            case "worker" if about["state"] == "joined":
                self._arrive(int(about["worker"]), seconds)
            case "worker":
                self._lost_workers += 1
                self._here(about, seconds).lose(seconds, str(about.get("reason") or ""))
            case "span":
                self._tasks += 1
                self._steals += bool(about.get("is_steal"))
                self._here(about, seconds).assign(seconds, about)
            case "extend":
                self._here(about, seconds).extend(about)
            case "trim":
                self._here(about, seconds).trim(seconds, about)
            case "failed" | "exhausted":
                self._fail(seconds, kind, about)
            case "set aside":
                start, stop = int(about["start"]), int(about["stop"])
                self._set_aside[start, stop] = SetAside(seconds, start, stop, str(about.get("error") or ""))

    def tell(self, wall_seconds: float | None) -> Story:
        """The story up to now."""
        wall_seconds = max(self._now_seconds, (wall_seconds or 0.0) + self._shift_seconds)
        workers_here = sum(worker.is_here for worker in self._workers.values())
        self._stand_up(wall_seconds, is_last=True)
        numbers = sorted(self._workers)
        all_bars = thin_bars([self._workers[number].bars for number in numbers], wall_seconds)
        shows_reports = len(self._pieces) <= _MOST_REPORT_TICKS
        every = 1 + sum(len(worker.marks) for worker in self._workers.values()) // _MOST_MARKS
        lanes = tuple(
            Lane(
                number,
                tuple(bars),
                _thin_marks(self._workers[number].marks, every),
                tuple(self._workers[number].report_seconds) if shows_reports else (),
            )
            for number, bars in zip(numbers, all_bars, strict=True)
        )
        totals, losses, cover = self._add_up(wall_seconds, workers_here)
        return Story(
            totals=totals,
            sittings=tuple(self._sittings),
            losses=losses,
            step_units=thin(self._step_units, wall_seconds),
            peak_bytes=thin(self._peak_bytes, wall_seconds),
            allowed_bytes=highest_steps(self._allowed_bytes, wall_seconds),
            stopped=tuple(self._stopped[:: 1 + len(self._stopped) // _MOST_MARKS]),
            throughput=rates(self._pieces, wall_seconds),
            lanes=lanes,
            setbacks=tuple(self._setbacks),
            set_aside=tuple(self._missing(cover)[:_MOST_SET_ASIDE]),
        )

    def _sit_down(self, seconds: float, about: Mapping[str, Any]) -> None:
        self._stand_up(seconds, is_last=False)
        self._arrived_workers = 0
        self._has_begun = False
        self._last_report_seconds = seconds
        cores = max(1, int(about.get("cores") or 1))
        allowed_bytes = int(about.get("allowed_bytes") or 0)
        started, step_cores = str(about.get("started") or ""), max(1, int(about.get("step_cores") or 1))
        # What passes before the first one is recorded belongs to it: a short run takes half of its time to begin.
        began_seconds = seconds if self._sittings else 0.0
        self._sittings.append(Sitting(began_seconds, seconds, cores, allowed_bytes, started, step_cores))

    def _stand_up(self, seconds: float, *, is_last: bool) -> None:
        """The sitting, if there is one, is over at ``seconds``."""
        here = [worker for worker in self._workers.values() if worker.is_here]
        # Once nobody has anything left to do, what still takes time is the outputs.
        is_finishing = is_last and not any(worker.has_span for worker in here)
        finishing_seconds = self._last_report_seconds if is_finishing else seconds
        for worker in here:
            worker.leave(seconds, finishing_seconds, is_last=is_last, has_begun=self._has_begun)
        if self._sittings:
            last = self._sittings.pop()
            self._sittings.append(last._replace(end_seconds=max(seconds, last.begin_seconds)))

    def _arrive(self, number: int, seconds: float) -> Worker:
        worker = self._workers.get(number)
        if worker is None:
            worker = self._workers[number] = Worker(number, self._spent)
        if not self._sittings:
            self._sit_down(0.0, {})
        sitting = self._sittings[-1]
        # The first ones were being started since the sitting began; later ones take the place of others.
        is_first = self._arrived_workers < sitting.places
        self._arrived_workers += 1
        worker.appear(sitting.begin_seconds if is_first else seconds)
        return worker

    def _here(self, about: Mapping[str, Any], seconds: float) -> Worker:
        """The worker that an event is about, which was there even if nothing said so."""
        number = int(about["worker"])
        worker = self._workers.get(number)
        return worker if worker is not None and worker.is_here else self._arrive(number, seconds)

    def _report(self, seconds: float, about: Mapping[str, Any]) -> None:
        start, stop = int(about["start"]), int(about["stop"])
        steps = int(about.get("steps") or 0)
        stopped_steps = int(about.get("stopped_steps") or 0)
        busy_seconds = float(about.get("busy_seconds") or 0.0)
        peak_bytes = int(about.get("peak_bytes") or 0)
        allowed_bytes = int(about.get("allowed_bytes") or 0)
        began_seconds = self._here(about, seconds).report(seconds, about)
        self._has_begun = True
        self._last_report_seconds = seconds
        self._busy_seconds += busy_seconds
        self._covered.append((start, stop, busy_seconds))
        self._pieces.append((began_seconds, seconds, stop - start))
        self._steps += steps
        self._stopped_steps += stopped_steps
        self._result_bytes += int(about.get("result_bytes") or 0)
        if steps and stop > start:
            self._step_units.append((seconds, (stop - start) / steps))
        if peak_bytes:
            self._peak_bytes.append((seconds, float(peak_bytes)))
        if allowed_bytes:
            self._allowed_bytes.append((seconds, float(allowed_bytes)))
        if stopped_steps:
            self._stopped.append((seconds, float(allowed_bytes)))

    def _fail(self, seconds: float, kind: str, about: Mapping[str, Any]) -> None:
        start, stop = int(about["start"]), int(about["stop"])
        error = str(about.get("error") or "")
        number = about.get("worker")
        if kind == "failed":
            self._failed_steps += 1
        else:
            self._stopped_steps += 1
        if number is not None:
            text = f"{kind}: units {start:,} to {stop - 1:,}"
            self._here(about, seconds).fail(seconds, "failed" if kind == "failed" else "exhausted", text)
        if len(self._setbacks) < _MOST_SETBACKS:
            worker = None if number is None else int(number)
            peak_bytes = int(about.get("peak_bytes") or 0)
            self._setbacks.append(Setback(seconds, kind, worker, start, stop, error, peak_bytes))

    def _add_up(self, wall_seconds: float, workers_here: int) -> tuple[Totals, tuple[Loss, ...], _Cover]:
        spent = self._spent
        cover = _Cover(self._covered)
        available_seconds = sum(
            sitting.places * (sitting.end_seconds - sitting.begin_seconds) for sitting in self._sittings
        )
        present_seconds = sum(worker.present_seconds for worker in self._workers.values())
        absent_seconds = max(0.0, available_seconds - present_seconds)
        recent_seconds = min(RECENT_SECONDS, wall_seconds)
        recent_units = units_since(self._pieces, wall_seconds - recent_seconds)
        steps_units = [units for _, units in self._step_units]
        totals = Totals(
            units=cover.units,
            repeated_units=cover.repeated_units,
            set_aside_units=sum(item.stop - item.start for item in self._missing(cover)),
            wall_seconds=wall_seconds,
            cores=self._sittings[-1].cores if self._sittings else 0,
            places=self._sittings[-1].places if self._sittings else 1,
            workers=workers_here,
            lost_workers=self._lost_workers,
            reports=len(self._pieces),
            tasks=self._tasks,
            steps=self._steps,
            steals=self._steals,
            stopped_steps=self._stopped_steps,
            failed_steps=self._failed_steps,
            available_seconds=available_seconds,
            busy_seconds=self._busy_seconds,
            repeated_seconds=cover.repeated_seconds,
            stopped_seconds=spent["stopped"],
            wasted_seconds=spent["failed"] + spent["lost"],
            overhead_seconds=spent["startup"] + spent["steals"] + spent["between"] + spent["open"],
            unreported_seconds=spent["open"],
            idle_seconds=spent["waiting"] + spent["end"] + spent["finishing"] + absent_seconds,
            peak_bytes=int(max((value for _, value in self._peak_bytes), default=0)),
            allowed_bytes=self._sittings[-1].allowed_bytes if self._sittings else 0,
            result_bytes=self._result_bytes,
            recent_units_per_second=recent_units / recent_seconds if recent_seconds > 0 else 0.0,
            smallest_step_units=min(steps_units, default=0.0),
            largest_step_units=max(steps_units, default=0.0),
        )
        counts = {
            "steals": self._steals,
            "stopped_steps": self._stopped_steps,
            "failed_steps": self._failed_steps,
            "repeated_units": cover.repeated_units,
        }
        all_spent: dict[Purpose, float] = {**spent, "absent": absent_seconds, "again": cover.repeated_seconds}
        return totals, tell_losses(all_spent, available_seconds, counts), cover

    def _missing(self, cover: _Cover) -> list[SetAside]:
        """What was set aside and not done later, in another sitting."""
        items = (self._set_aside[key] for key in sorted(self._set_aside))
        return [item for item in items if not cover.holds(item.start, item.stop)]


class _Cover:
    """Which units were reported, each counted once, and what was done more than once."""

    def __init__(self, reports: list[tuple[int, int, float]]) -> None:
        self.units = 0
        self.repeated_units = 0
        self.repeated_seconds = 0.0
        self._ranges: list[tuple[int, int]] = []
        reach = -1
        for start, stop, busy_seconds in sorted(reports):
            if stop <= start:
                continue
            again = max(0, min(stop, reach) - start)
            self.units += stop - start - again
            self.repeated_units += again
            self.repeated_seconds += busy_seconds * again / (stop - start)
            if start <= reach:
                self._ranges[-1] = (self._ranges[-1][0], max(reach, stop))
            else:
                self._ranges.append((start, stop))
            reach = max(reach, stop)

    def holds(self, start: int, stop: int) -> bool:
        """Whether all of these units were done."""
        number = bisect_right(self._ranges, start, key=lambda found: found[0]) - 1
        return number >= 0 and self._ranges[number][1] >= stop


def _thin_marks(marks: list[Mark], every: int) -> tuple[Mark, ...]:
    """Lost workers are always shown, of the rest every so many-th."""
    return tuple(mark for number, mark in enumerate(marks) if mark.kind == "lost" or number % every == 0)
