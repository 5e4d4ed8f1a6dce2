"""Random runs in virtual time: everything that can differ between two runs is drawn from one seed.

Scenario.draw(seed)  ->  workers, units and options
play(scenario)       ->  Play: the coordinator and the simulated site against each other, checked after each event
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Callable
from typing import Literal

import numpy as np
from msgspec import Struct

from aliquot.coordinator import (
    Advise,
    Append,
    AppendAsTheyCome,
    AppendInOrder,
    Assign,
    Command,
    Coordinator,
    Event,
    Finish,
    GiveUp,
    Joining,
    Merge,
    MergeAsTree,
    Progressed,
    SourceGrew,
    Spill,
    StepFailed,
    Ticked,
    Trim,
    WorkerLost,
)
from aliquot.coordinator.commands import COMMANDS
from aliquot.coordinator.events import EVENTS
from aliquot.coordinator.invariants import check_invariants
from aliquot.coordinator.records import from_json, to_json
from aliquot.sites.simulated import EqualCosts, GivenCosts, Simulated, SimulatedWorker, UnitCosts, Workload
from aliquot.slices import Slice, find_cover_fault

JoiningOrder = Literal["in order", "as they come", "as a tree"]

# A run that takes more events or more virtual time than this goes round in circles.
_MOST_EVENTS = 20_000
_MOST_SECONDS = 10_000.0


class Growth(Struct, frozen=True):
    """At a time, the source is known to have so many units."""

    at_seconds: float
    units: int
    is_complete: bool


class Scenario(Struct, frozen=True):
    """A run, before it begins."""

    seed: int
    costs: str
    workload: Workload
    workers: tuple[SimulatedWorker, ...]
    joining: JoiningOrder
    growths: tuple[Growth, ...]
    most_waiting_bytes: int
    first_units: int
    front_first: bool

    @classmethod
    def draw(cls, seed: int) -> Scenario:
        """Everything from a seed: the same one every time."""
        chance = random.Random(f"scenario {seed}")
        most_units = chance.choice((3, 40, 400, 400, 3000))
        units = chance.randint(0, most_units)
        kind, costs, total_seconds = _draw_costs(chance, units)
        workers = _draw_workers(chance, total_seconds)
        bad = _draw_bad_units(chance, units)
        return cls(
            seed=seed,
            costs=kind,
            workload=Workload(
                costs,
                span_seconds=chance.choice((0.0, 0.001, 0.05, 0.3)),
                step_seconds=chance.choice((0.0, 0.0001, 0.005, 0.05)),
                base_bytes=chance.choice((0, 10**6)),
                unit_bytes=chance.choice((0, 1000)),
                failing=frozenset(bad[::2]) if chance.random() < 0.5 else frozenset(),
                flaky=frozenset(bad[1::2]),
                # Of steps of one unit each is told of: with many units that takes long, and shows nothing more.
                target_seconds=chance.choice((0.0 if units < 100 else 0.5, 0.05, 1.0, 1.0)),
            ),
            workers=workers,
            joining=chance.choice(("in order", "as they come", "as a tree")),
            growths=_draw_growths(chance, units, total_seconds),
            most_waiting_bytes=chance.choice((0, 500, 10**9)),
            first_units=chance.choice((1, 1, 7, chance.randint(1, max(1, units)), max(1, units))),
            front_first=chance.random() < 0.5,
        )

    def describe(self) -> str:
        """One line a worker, and what else there is."""
        bad = f"failing {sorted(self.workload.failing)}, flaky {sorted(self.workload.flaky)}"
        lines = [
            f"seed {self.seed}: {len(self.workload.costs)} units, {self.costs} costs, joined {self.joining}, "
            f"first_units {self.first_units}, front_first {self.front_first}, "
            f"target_seconds {self.workload.target_seconds}",
            f"  span_seconds {self.workload.span_seconds}, step_seconds {self.workload.step_seconds}, {bad}",
            *(f"  worker {number}: {worker}" for number, worker in enumerate(self.workers)),
            *(f"  {growth}" for growth in self.growths),
        ]
        return "\n".join(lines)


def _draw_costs(chance: random.Random, units: int) -> tuple[str, UnitCosts, float]:
    """Units that take some seconds together, in one of many shapes."""
    total_seconds = chance.choice((0.0, 0.1, 1.0, 4.0))
    kind = chance.choice(("equal", "equal", "pareto", "dear tail", "dear front", "random", "one giant"))
    if kind == "equal" or not units or not total_seconds:
        each = total_seconds / max(1, units)
        return "equal", EqualCosts(units, each), total_seconds
    if kind == "pareto":
        seconds = np.array([chance.paretovariate(1.2) for _ in range(units)])
    elif kind == "random":
        seconds = np.array([chance.choice((0.0, chance.random())) for _ in range(units)])
    else:
        seconds = np.ones(units)
        if kind == "dear tail":
            seconds[int(units * 0.95) :] *= 50
        elif kind == "dear front":
            seconds[: units // 20] *= 50
        else:
            seconds[chance.randrange(units)] = units
    return kind, GivenCosts(seconds * (total_seconds / max(1e-9, float(seconds.sum())))), total_seconds


def _draw_workers(chance: random.Random, total_seconds: float) -> tuple[SimulatedWorker, ...]:
    """Workers that come and go; the last one drawn comes at some time and stays."""
    horizon_seconds = 0.2 + total_seconds
    latency_seconds = chance.choice((0.0, 0.0001, 0.01, 0.1))
    are_fickle = chance.choice((0.0, 0.3, 0.9))
    workers = []
    count = chance.choice((1, 2, 3, chance.randint(2, 8), chance.randint(2, 8), chance.randint(8, 24)))
    for number in range(count):
        stays = number == count - 1
        arrives = chance.choice((0.0, 0.0, chance.uniform(0, horizon_seconds)))
        ends = arrives + horizon_seconds * chance.random() ** 2 if not stays and chance.random() < are_fickle else None
        dies = chance.random() < 0.5
        workers.append(
            SimulatedWorker(
                speed=chance.choice((1.0, 1.0, 0.25, 4.0, chance.uniform(0.1, 3))),
                latency_seconds=latency_seconds * chance.choice((1.0, 1.0, 0.0, 3.0)),
                arrives_seconds=arrives,
                leaves_seconds=None if dies else ends,
                dies_seconds=ends if dies else None,
            )
        )
    chance.shuffle(workers)
    return tuple(workers)


def _draw_bad_units(chance: random.Random, units: int) -> list[int]:
    if not units or chance.random() < 0.5:
        return []
    return chance.sample(range(units), min(units, chance.choice((1, 2, 5, 20))))


def _draw_growths(chance: random.Random, units: int, total_seconds: float) -> tuple[Growth, ...]:
    """None where the source is complete from the beginning."""
    if chance.random() < 0.6:
        return ()
    count = chance.randint(1, 8)
    times = sorted(chance.uniform(0, 0.1 + total_seconds) for _ in range(count))
    sizes = sorted(chance.randint(0, units) for _ in range(count - 1))
    growths = [Growth(at, size, is_complete=False) for at, size in zip(times, sizes, strict=False)]
    return (*growths, Growth(times[-1], units, is_complete=True))


class Line(Struct, frozen=True):
    """One event and what it led to."""

    now_seconds: float
    event: Event
    commands: list[Command]

    def __str__(self) -> str:
        return "\n".join([f"{self.now_seconds:12.6f}  {self.event}", *(f"{'':14}-> {one}" for one in self.commands)])


class Play:
    """A run under way: it joins results as it is told, and remembers what must be true in the end."""

    def __init__(self, scenario: Scenario, watch: Callable[[Line], None] | None = None) -> None:
        self.scenario = scenario
        self.site = Simulated(scenario.workload, scenario.workers)
        growing = bool(scenario.growths)
        self.coordinator = Coordinator(
            _JOININGS[scenario.joining](scenario),
            units=0 if growing else len(scenario.workload.costs),
            is_complete=not growing,
            expected_workers=self.site.expected_workers,
            first_units=scenario.first_units,
            front_first=scenario.front_first,
        )
        self.story: list[Line] = []
        self._watch = watch
        self._growths = list(reversed(scenario.growths))
        self._chance = random.Random(f"results {scenario.seed}")
        self._done: list[Slice] = []  # in order, those that touch as one
        self._results: dict[int, list[Slice]] = {}  # what each result that still exists stands for
        self._made_results = 0
        self._appended: list[Slice] = []
        self._spilled: set[int] = set()
        self._failed_steps: list[Slice] = []
        self._end: Finish | None = None

    def run(self) -> Play:
        """To the end, which has to come."""
        while not self.coordinator.is_over:
            for event in self._wait():
                self._take(event)
            assert len(self.story) < _MOST_EVENTS, f"no end after {len(self.story)} events"
            assert self.site.now_seconds() < _MOST_SECONDS, f"no end after {self.site.now_seconds()} seconds"
        self._check_end()
        return self

    def _wait(self) -> list[Event]:
        now_seconds = self.site.now_seconds()
        wake_seconds = self.coordinator.wake_seconds(now_seconds)
        grows_seconds = self._growths[-1].at_seconds if self._growths else None
        until_seconds = min((at for at in (wake_seconds, grows_seconds) if at is not None), default=None)
        events = self.site.wait(until_seconds)
        if events:
            return events
        if grows_seconds is not None and grows_seconds <= self.site.now_seconds():
            growth = self._growths.pop()
            return [SourceGrew(growth.units, growth.is_complete)]
        return [Ticked()]

    def _take(self, event: Event) -> None:
        if isinstance(event, Progressed):
            event = self._make_result(event)
        elif isinstance(event, StepFailed):
            self._failed_steps.append(Slice(event.start, event.stop))
        elif isinstance(event, WorkerLost) and event.is_suspect:
            self._failed_steps.append(Slice(event.running_start, event.running_stop))
        now_seconds = self.site.now_seconds()
        # As in a real run, everything travels.
        event = from_json(EVENTS, json.loads(json.dumps(to_json(event))))
        commands = [
            from_json(COMMANDS, json.loads(json.dumps(to_json(command))))
            for command in self.coordinator.handle(event, now_seconds)
        ]
        line = Line(now_seconds, event, commands)
        self.story.append(line)
        if self._watch is not None:
            self._watch(line)
        for command in commands:
            self._perform(command)
        check_invariants(self.coordinator, self._done)

    def _make_result(self, event: Progressed) -> Progressed:
        """The simulation makes none: number it, and remember what it stands for."""
        result = self._made_results
        self._made_results += 1
        done = Slice(event.start, event.stop)
        self._results[result] = [done]
        self._add_done(done)
        return event._replace(result=result, result_bytes=self._chance.choice((0, 10, 300)))

    def _add_done(self, done: Slice) -> None:
        at = bisect_left(self._done, done)
        if at and self._done[at - 1].stop == done.start:
            at -= 1
            done = Slice(self._done.pop(at).start, done.stop)
        if at < len(self._done) and self._done[at].start == done.stop:
            done = Slice(done.start, self._done.pop(at).stop)
        self._done.insert(at, done)

    def _perform(self, command: Command) -> None:
        match command:
            case Assign() | Trim() | Advise():
                self.site.perform(command)
            case Append():
                self._appended += self._results.pop(command.result)
            case Merge():
                self._results[command.first] += self._results.pop(command.second)
            case Spill():
                assert command.result in self._results, f"{command}: it was joined already"
                assert command.result not in self._spilled, f"{command}: it was spilled already"
                self._spilled.add(command.result)
            case GiveUp():
                pass
            case Finish():
                assert self._end is None, "the end was told twice"
                self._end = command

    # The end

    def _check_end(self) -> None:
        scenario, coordinator = self.scenario, self.coordinator
        whole = Slice(0, len(scenario.workload.costs))
        given_up = [Slice(one.start, one.stop) for one in coordinator.failures]
        assert coordinator.units == len(whole)
        assert coordinator.done_units + coordinator.failed_units == len(whole)
        _expect_cover(whole, [*self._done, *given_up], "done or given up")
        for one in given_up:
            self._check_it_had_to_be_given_up(one)
        joined = [*self._appended, *(part for parts in self._results.values() for part in parts)]
        _expect_cover(whole, [*joined, *given_up], "joined, waiting to be, or given up")
        if scenario.joining == "in order":
            first_given_up = min((one.start for one in given_up), default=whole.stop)
            fault = find_cover_fault(Slice(0, first_given_up), self._appended)
            assert fault is None, f"appended in the wrong order: {fault}"
        if given_up:
            return
        assert self._end is not None or not self.story, "the end was never told"
        if scenario.joining != "as a tree":
            assert not self._results, f"{len(self._results)} results were never joined"
        elif self._end is not None and len(whole):
            assert list(self._results) == [self._end.result], "there is more than one result"

    def _check_it_had_to_be_given_up(self, given_up: Slice) -> None:
        """It failed twice, for a reason: a unit that always fails, or flaky ones and deaths as often."""
        failed = [step for step in self._failed_steps if step.start <= given_up.start and given_up.stop <= step.stop]
        assert len(failed) >= 2, f"{given_up} was given up, and failed only in {failed}"
        if self.scenario.workload.failing.intersection(range(given_up.start, given_up.stop)):
            return
        deaths = sum(isinstance(line.event, WorkerLost) and line.event.is_suspect for line in self.story)
        first = min(failed, key=lambda step: step.start)
        # An unlucky unit fails once: two such in what failed first, or a death, or both.
        unlucky = self.scenario.workload.flaky.intersection(range(first.start, max(step.stop for step in failed)))
        assert len(unlucky) + deaths >= 2, f"{given_up} was given up without a unit that fails"


_JOININGS: dict[JoiningOrder, Callable[[Scenario], Joining]] = {
    "in order": lambda scenario: AppendInOrder(scenario.most_waiting_bytes),
    "as they come": lambda _: AppendAsTheyCome(),
    "as a tree": lambda _: MergeAsTree(),
}


def _expect_cover(whole: Slice, parts: list[Slice], what: str) -> None:
    fault = find_cover_fault(whole, sorted(parts))
    assert fault is None, f"not every unit is {what} exactly once: {fault}"


def play(seed: int, watch: Callable[[Line], None] | None = None) -> Play:
    """Run the scenario of a seed to its end."""
    return Play(Scenario.draw(seed), watch).run()
