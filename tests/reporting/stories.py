"""Runs that never were, as the events that their journals would hold."""

from __future__ import annotations

import random
from typing import Any

from aliquot.reporting.story import Event

GB = 10**9


def report(seconds: float, worker: int, start: int, stop: int, **more: Any) -> Event:
    about = {"worker": worker, "span": 0, "start": start, "stop": stop, "steps": 1, "busy_seconds": 1.0}
    about |= {"peak_bytes": 0, "allowed_bytes": 0, "stopped_steps": 0, "stopped_seconds": 0.0, "result_bytes": 0}
    return (seconds, "report", about | more)


def span(seconds: float, worker: int, start: int, stop: int, *, is_steal: bool = False) -> Event:
    about = {"worker": worker, "span": 0, "start": start, "stop": stop, "allowed_bytes": 0, "is_steal": is_steal}
    return (seconds, "span", about)


def sitting(seconds: float, cores: int, started: str = "2031-05-04T10:00:00") -> Event:
    return (seconds, "sitting", {"cores": cores, "allowed_bytes": 8 * GB, "started": started, "pid": 1})


def joined(seconds: float, worker: int) -> Event:
    return (seconds, "worker", {"worker": worker, "state": "joined", "reason": ""})


def lost(seconds: float, worker: int, reason: str = "killed") -> Event:
    return (seconds, "worker", {"worker": worker, "state": "lost", "reason": reason})


def an_afternoon() -> list[Event]:
    """Two workers learn how large a step may be; a stopped step, a steal, a unit set aside, a restart."""
    run = _Run(cores=2, seed=7)
    run.sit_down("2031-05-04T13:00:00")
    run.assign(0, 0, 600_000)
    run.assign(1, 600_000, 1_000_000)
    run.work(until_seconds=70.0)
    run.fail(1, "ValueError: quality has 149 letters, sequence has 151\n  in read <SRR.77>")
    run.work(until_seconds=95.0)
    run.sit_down("2031-05-04T14:00:00")
    run.assign(0, run.reached[0], 600_000)
    run.assign(1, run.reached[1], 1_000_000)
    run.work(until_seconds=1e9)
    return sorted(run.events, key=lambda event: event[0])


def many_reports(count: int, workers: int, *, spans_each: int = 1) -> list[Event]:
    """As many reports as asked for, of steps that take a second or so; all spans but a worker's first are steals."""
    chance = random.Random(3)
    events: list[Event] = [sitting(0.0, workers)]
    reports_each = count // workers // spans_each
    for worker in range(workers):
        events.append(joined(0.3 + 0.4 * chance.random(), worker))
        seconds, unit, size = 0.8, worker * 10**9, 2.0
        speed = 0.6 + 0.5 * chance.random()
        for number in range(spans_each):
            begin_seconds, begin_unit = seconds, unit
            seconds += 0.2
            for _ in range(reports_each):
                size = min(5000.0, size * 1.3) * (0.9 + 0.2 * chance.random())
                units = int(size) + 1
                busy_seconds = speed * (0.8 + 0.4 * chance.random())
                seconds += busy_seconds + 0.01
                peak_bytes = int(8e7 + 2e5 * size * (0.9 + 0.2 * chance.random()))
                measured = {"busy_seconds": busy_seconds, "peak_bytes": peak_bytes, "allowed_bytes": 2 * GB}
                events.append(report(seconds, worker, unit, unit + units, **measured))
                unit += units
            events.append(span(begin_seconds, worker, begin_unit, unit, is_steal=number > 0))
    # The report that ends a span comes before the next span, as in any journal.
    events.sort(key=lambda event: (event[0], event[1] != "sitting", event[1] == "span"))
    return events


class _Run:
    """Just enough of a run to look like one."""

    def __init__(self, cores: int, seed: int) -> None:
        self.events: list[Event] = []
        self.reached = [0] * cores
        self._stops = [0] * cores
        self._ready_seconds = [0.0] * cores
        self._step_units = [1.0] * cores
        self._chance = random.Random(seed)
        self._now_seconds = 0.0
        self._has_stopped = False

    def sit_down(self, started: str) -> None:
        self.events.append(sitting(self._now_seconds, len(self.reached), started))
        for worker in range(len(self.reached)):
            self._ready_seconds[worker] = self._now_seconds + 0.4 + 0.1 * worker
            self.events.append(joined(self._ready_seconds[worker], worker))

    def assign(self, worker: int, start: int, stop: int, *, is_steal: bool = False) -> None:
        self.reached[worker], self._stops[worker] = start, stop
        self.events.append(span(self._ready_seconds[worker], worker, start, stop, is_steal=is_steal))
        self._ready_seconds[worker] += 2.5

    def fail(self, worker: int, error: str) -> None:
        unit = self.reached[worker]
        now_seconds = self._ready_seconds[worker] + 0.7
        about = {"start": unit, "stop": unit + 1, "error": error}
        self.events.append((now_seconds, "failed", {**about, "worker": worker, "peak_bytes": 10**8}))
        self.events.append((now_seconds, "set aside", about))
        self._ready_seconds[worker] = now_seconds + 0.05
        self.assign(worker, unit + 1, self._stops[worker])

    def work(self, until_seconds: float) -> None:
        while True:
            busy = [worker for worker, stop in enumerate(self._stops) if self.reached[worker] < stop]
            if not busy:
                return
            worker = min(busy, key=lambda one: self._ready_seconds[one])
            if self._ready_seconds[worker] >= until_seconds:
                self._now_seconds = until_seconds
                return
            self._step(worker, until_seconds)
            self._steal()

    def _step(self, worker: int, until_seconds: float) -> None:
        start = self.reached[worker]
        units = min(int(self._step_units[worker]), self._stops[worker] - start)
        speed = (5200.0, 4100.0)[worker]
        busy_seconds = 0.25 + units / speed * (0.9 + 0.2 * self._chance.random())
        peak_bytes = int(2.2e8 + 2.1e5 * units * (0.9 + 0.2 * self._chance.random()))
        stopped: dict[str, Any] = {}
        stopped_seconds = 0.0
        if units > 9000 and not self._has_stopped:
            self._has_stopped = True
            stopped_seconds = 2.0
            stopped = {"stopped_steps": 1, "stopped_seconds": stopped_seconds}
            peak_bytes //= 2
        now_seconds = self._ready_seconds[worker] + busy_seconds + stopped_seconds
        if now_seconds > until_seconds:
            self._ready_seconds[worker] = until_seconds
            return
        allowed = {"peak_bytes": peak_bytes, "allowed_bytes": 3 * GB, "result_bytes": 300 * units}
        self.events.append(
            report(now_seconds, worker, start, start + units, busy_seconds=busy_seconds, **allowed, **stopped)
        )
        self.reached[worker] = start + units
        self._ready_seconds[worker] = now_seconds + 0.02 + 0.05 * self._chance.random()
        self._step_units[worker] = min(self._step_units[worker] * 2.2, 6000.0 if self._has_stopped else 10_000.0)

    def _steal(self) -> None:
        """Whoever has nothing left takes half of what the other has."""
        for taker, owner in ((0, 1), (1, 0)):
            left = self._stops[owner] - self.reached[owner]
            if self.reached[taker] >= self._stops[taker] and left > 20_000:
                cut = self.reached[owner] + left // 2
                self.events.append((self._ready_seconds[taker], "trim", {"worker": owner, "span": 0, "stop": cut}))
                stop, self._stops[owner] = self._stops[owner], cut
                self.assign(taker, cut, stop, is_steal=True)
