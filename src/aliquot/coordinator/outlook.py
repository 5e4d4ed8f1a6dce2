from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from aliquot.coordinator.events import Progressed
from aliquot.coordinator.rates import Noise, UnitSeconds
from aliquot.coordinator.speeds import compare, first_speeds
from aliquot.coordinator.stealing import Cut, Load, Spread, cut, equal_part, level_seconds
from aliquot.coordinator.worker import OWNING, Worker
from aliquot.sizing import MEMORY_QUANTILE, LinearModel, Observation

# What is known of the time to begin a span before any was begun.
_STARTUP_SECONDS = 0.001
# What takes a look at all workers is found anew after an eighth as many events as there are workers.
_EVENTS_A_LOOK = 8
# A rate or a speed is certain enough, to a sixteenth, when its relative variance is below this.
_CERTAIN = 0.004
# What a tail takes is expected to a tenth, by whom it was taken from and by how the two compare, if that is known: a
# relative variance.
_TAIL_DOUBT = 0.01
# Silent for so many times its last report, and for this long, a worker is stuck in a unit; a report may come twice as
# late as the one before.
_STUCK = 3.0
_STUCK_SECONDS = 0.02
# All aim so many start-ups later than the level: else what is left where pieces do not fit goes to a few, who are late.
_LATER_STARTUPS = 0.08
# Where units differ, some workers are late by chance: all are expected to be, by so many deviations of what is left.
# With more, what thieves take makes many starts.
_LATE_DEVIATIONS = 0.7
# What a step takes is learned from all reports of so many workers; of more, from as many, and the first of each span.
_WORKERS_TO_LEARN_FROM = 64
# Multiples of it fall evenly between whole numbers, and into no rhythm with the order in which workers report.
_GOLDEN = 0.6180339887498949
# What units take all workers lately is told by so many reports of each.
_REPORTS_TO_RATE_BY = 4
# What others learned counts like so many own steps.
_HINT_STEPS = 2.0


class Outlook:
    """What is expected of whom: how long units take, how fast workers are, who finishes last, and when all could.

    ``workers`` is the coordinator's own: all that are not gone.
    """

    def __init__(
        self,
        workers: dict[int, Worker],
        time: LinearModel | None,
        memory: LinearModel | None,
        *,
        is_memory_limited: bool = False,
    ) -> None:
        self._workers = workers
        self._is_memory_limited = is_memory_limited
        self._victims: list[tuple[float, int, int]] = []  # (-finish, version, worker); outdated ones are skipped
        self._is_startup_known = False
        self._noise = Noise()
        self._events = 0
        self._reports = 0
        self._level_at = self._equal_at = -math.inf  # the number of events when these were found
        self._equal_units = 0.0
        self._equal_of = 0  # units that were not done then
        self._are_speeds_settled = False
        self._rate_units = 0.0  # of all workers lately
        self._rate_seconds = 0.0
        self.startup_seconds = _STARTUP_SECONDS
        self.level_seconds = 0.0  # when all can have finished: see stealing.py
        self.time = time or LinearModel()  # what a step takes, over all workers
        self.memory = memory or LinearModel(quantile=MEMORY_QUANTILE)

    def note_event(self) -> None:
        """Something has happened since all workers were looked at."""
        self._events += 1

    def _is_time_for_a_look(self, last: float) -> bool:
        """Whether so much has happened since that a look at all workers is worth its time."""
        return (self._events - last) * _EVENTS_A_LOOK >= len(self._workers)

    def typical_units_in(self, seconds: float, worker: Worker) -> float | None:
        """How many units a worker does in a time, by what all did lately; None if nothing is known."""
        if not self._rate_units:
            return None
        return seconds * self._rate_units / self._rate_seconds * worker.speed.value

    def equal_units(self, waiting_units: int, undone_units: int, missing_workers: int, now_seconds: float) -> float:
        """Up to how many units each worker should have, if all were alike, so that all that waits goes to somebody.

        In units, not in time: what is believed of workers at the beginning can be far off, what they own cannot.
        Handing out some does not change it; it is found anew now and then, and when there prove to be more or fewer.
        """
        has_jumped = abs(undone_units - self._equal_of) * _EVENTS_A_LOOK > self._equal_of
        if has_jumped or self._is_time_for_a_look(self._equal_at):
            self._equal_at, self._equal_of = self._events, undone_units
            owned = [self._left_units(worker, now_seconds) for worker in self._workers.values()]
            self._equal_units = equal_part(waiting_units, [*owned, *[0.0] * missing_workers])
        return self._equal_units

    def _left_units(self, worker: Worker, now_seconds: float) -> float:
        """What a worker still has, without what it has probably done since its last report."""
        if worker.state not in OWNING:
            return 0.0
        left_units = float(worker.stop - worker.done_to)
        unit_seconds = self.unit_seconds(worker)
        if unit_seconds:
            left_units -= max(0.0, now_seconds - worker.ready_seconds) / unit_seconds
        return max(0.0, left_units)

    def cut_for(self, worker: Worker, victim: Worker, now_seconds: float) -> Cut | None:
        """What a worker without work should take of another's span."""
        self._find_level(now_seconds)
        return cut(
            Load(victim.finish_seconds, victim.speed.value),
            worker.speed.value,
            ready_seconds=max(now_seconds, victim.ready_seconds),
            now_seconds=now_seconds,
            startup_seconds=self.startup_seconds,
            level=self.level_seconds + _LATER_STARTUPS * self.startup_seconds,
            spread=self._spread(victim),
        )

    def _spread(self, victim: Worker) -> Spread:
        """How far off it may be what the units of a span take, whoever gets them."""
        unit_seconds = self.unit_seconds(victim)
        if unit_seconds is None:
            return Spread()
        doubt = _doubt_of_tail(victim) if victim.rate is None else victim.rate.doubt
        return Spread(self._noise.variance * unit_seconds * victim.speed.value, doubt)

    def find_victim(self) -> Worker | None:
        """The running worker that will finish last and has more than one unit left."""
        while self._victims:
            _, version, worker_id = self._victims[0]
            worker = self._workers.get(worker_id)
            if worker is not None and worker.version == version and worker.state == "running":
                return worker
            heapq.heappop(self._victims)
        return None

    def unit_seconds(self, worker: Worker) -> float | None:
        """What a unit of its span takes this worker: by its own reports, else as was expected, else as for all."""
        if worker.rate is not None:
            return worker.rate.seconds
        if worker.model is not None:
            return worker.model_unit_seconds * worker.model.speed.value / worker.speed.value
        if self._rate_units:
            return self._rate_seconds / self._rate_units / worker.speed.value
        return None

    def expect(self, worker: Worker, now_seconds: float) -> None:
        """Work out when a worker will finish, and offer it to thieves."""
        self._offer(worker, max(now_seconds, worker.ready_seconds + self._left_seconds(worker)))

    def _left_seconds(self, worker: Worker) -> float:
        """What a worker will need for what is left of its span, if it is late by a little.

        So it is when a thief shares with it too, which then looks at how late either may be.
        """
        unit_seconds = self.unit_seconds(worker)
        left_units = worker.stop - worker.done_to
        if unit_seconds is None:
            return left_units  # the spans with the most units are taken to have the most time left
        return unit_seconds * (left_units + _LATE_DEVIATIONS * math.sqrt(self._noise.variance * left_units))

    def _find_level(self, now_seconds: float) -> None:
        """Work out when all can have finished, unless little has happened since."""
        if not self._is_time_for_a_look(self._level_at):
            return
        self._level_at = self._events
        if not self._are_speeds_settled:
            self._find_speeds()
        self.level_seconds = level_seconds(
            (
                Load(
                    max(now_seconds, worker.finish_seconds) if worker.state in OWNING else now_seconds,
                    worker.speed.value,
                )
                for worker in self._workers.values()
            ),
            self.startup_seconds,
        )

    def _find_speeds(self) -> None:
        """Compare all workers by their first spans; what is certain enough stays."""
        begun = [
            (worker.first_start, worker.id, worker.first_rate) for worker in self._workers.values() if worker.first_rate
        ]
        if not begun:
            return
        begun.sort()
        are_most = 2 * len(begun) > len(self._workers)
        self._are_speeds_settled = are_most
        for (_, number, rate), speed in zip(begun, first_speeds([rate.seconds for _, _, rate in begun]), strict=True):
            worker = self._workers[number]
            if not worker.is_speed_settled:
                worker.speed = speed
                worker.is_speed_settled = are_most and rate.doubt < _CERTAIN
                self._are_speeds_settled &= worker.is_speed_settled

    def _offer(self, worker: Worker, finish_seconds: float) -> None:
        worker.finish_seconds = finish_seconds
        worker.version += 1
        worker.has_given_nothing = False
        if worker.stop - worker.done_to > 1:
            heapq.heappush(self._victims, (-finish_seconds, worker.version, worker.id))
        if len(self._victims) > 4 * len(self._workers) + 64:
            self._victims = [entry for entry in self._victims if self._is_current(entry)]
            heapq.heapify(self._victims)

    def _is_current(self, entry: tuple[float, int, int]) -> bool:
        worker = self._workers.get(entry[2])
        return worker is not None and worker.version == entry[1]

    def expect_silent_workers_longer(self, now_seconds: float) -> None:
        """A worker that is silent for much longer than before is stuck: for as long again, and the rest is to come.

        One that is silent for less, and for no longer than what it has takes, is on time.
        """
        for worker in self._workers.values():
            if worker.state != "running" or worker.stop - worker.done_to <= 1 or worker.has_given_nothing:
                continue
            silent_seconds = now_seconds - worker.ready_seconds
            finish_seconds = now_seconds + silent_seconds
            if worker.rate is not None:
                left_seconds = self._left_seconds(worker)
                if silent_seconds > _STUCK * max(worker.report_seconds, _STUCK_SECONDS):
                    finish_seconds += left_seconds
                else:
                    finish_seconds -= left_seconds  # it may have done all that it has not reported yet
            if worker.finish_seconds < finish_seconds:
                self._offer(worker, finish_seconds)

    def learn(self, worker: Worker, event: Progressed, now_seconds: float) -> None:
        """Take in what a report tells about steps, units and the worker."""
        self._reports += 1
        is_among_few = (self._reports * _GOLDEN % 1) * len(self._workers) < _WORKERS_TO_LEARN_FROM
        is_heard = is_among_few or event.setup_seconds is not None
        if is_heard:
            self.time.observe_all(event.seconds)
        if is_heard or self._is_memory_limited:
            # A rare peak must not be missed where it decides what others may hold.
            self.memory.observe_all(event.peak_bytes)
        if event.setup_seconds is not None:
            weight = 0.2 if self._is_startup_known else 1.0
            self.startup_seconds += weight * (event.setup_seconds - self.startup_seconds)
            self._is_startup_known = True
        units, seconds = event.stop - event.start, max(event.busy_seconds, 1e-9)
        # A report counts for as many as it is long beside all before it: else what a few short steps took, most of
        # which may have been overhead, would be believed of long ones.
        reports = _REPORTS_TO_RATE_BY * max(1, len(self._workers))
        fade = (1 - 1 / reports) ** min(reports, max(1.0, reports * seconds / (self._rate_seconds or seconds)))
        self._rate_units = self._rate_units * fade + units
        self._rate_seconds = self._rate_seconds * fade + seconds
        worker.ready_seconds = now_seconds
        worker.report_seconds = seconds / event.reports
        self._follow(worker, units, seconds)
        if worker.model is None:
            if not worker.is_speed_settled:
                worker.first_rate = worker.rate
                self._are_speeds_settled = False
        elif not worker.is_compared:
            self._compare(worker, worker.model, event.stop)

    def _follow(self, worker: Worker, units: int, seconds: float) -> None:
        """Take in what some units took a worker: in a tail, what was expected of it is known already."""
        worker.span_seconds += seconds
        if worker.rate is None and worker.model is None:
            worker.rate = UnitSeconds(units, seconds, self._noise)
            return
        if worker.rate is None:
            known_units = self._noise.variance / _doubt_of_tail(worker)
            expected_seconds = self.unit_seconds(worker)
            assert expected_seconds is not None
            worker.rate = UnitSeconds(known_units, known_units * expected_seconds, self._noise)
        worker.rate.follow(units, seconds, len(self._workers))

    def _compare(self, worker: Worker, model: Worker, done_to: int) -> None:
        """Correct the speeds of two that worked on like units, once this tells enough: by nothing that was expected."""
        rate = UnitSeconds(done_to - worker.span_start, worker.span_seconds, self._noise)
        if rate.doubt < _CERTAIN or done_to == worker.stop:
            compare(worker.speed, rate, model.speed, worker.model_unit_seconds)
            worker.is_compared = worker.is_speed_settled = model.is_speed_settled = True

    def advice(self, worker: Worker) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
        """What is known of steps, at the rate of this worker in its span; a few own steps will count more."""
        seconds = self.time.summary()
        unit_seconds = self.unit_seconds(worker)
        if unit_seconds is not None:
            # Taken over as it is, the cost of other units by other workers would look like an overhead.
            overhead = self.time.overhead
            seconds = [Observation(units, overhead + units * unit_seconds, steps) for units, _, steps in seconds]
        return tuple(_as_a_hint(seconds)), tuple(_as_a_hint(self.memory.summary()))


def _doubt_of_tail(worker: Worker) -> float:
    """Of what its units are expected to take a worker that has not reported any of them: a relative variance."""
    speeds = [one.speed for one in (worker, worker.model) if one is not None]
    return _TAIL_DOUBT + sum(speed.doubt for speed in speeds if not speed.is_known)


def _as_a_hint(known: list[Observation]) -> Iterator[Observation]:
    return (Observation(units, cost, min(steps, _HINT_STEPS)) for units, cost, steps in known)
