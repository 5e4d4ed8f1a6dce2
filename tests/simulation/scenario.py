"""Random runs in virtual time: everything that can differ between two runs is drawn from one seed.

Scenario.draw(seed)  ->  workers, units and options
play(scenario)       ->  Play: the coordinator and the simulated site against each other, checked after each event
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from aliquot.coordinator import (
    Advise,
    Allow,
    Append,
    AppendAsTheyCome,
    AppendInOrder,
    Assign,
    Command,
    Coordinator,
    Event,
    Extend,
    FailJoin,
    Finish,
    GiveUp,
    Halted,
    Join,
    Joined,
    Joining,
    Merge,
    MergeAsTree,
    Progressed,
    Restored,
    Skip,
    SourceGrew,
    Spill,
    StepFailed,
    Suspend,
    Ticked,
    Trim,
    WorkerLost,
)
from aliquot.coordinator.invariants import check_invariants
from aliquot.sites.simulated import (
    BAD_UNIT,
    FLAKY_UNIT,
    EqualCosts,
    GivenBytes,
    GivenCosts,
    Simulated,
    SimulatedWorker,
    UnitCosts,
    Workload,
)
from aliquot.slices import Slice, find_cover_fault

JoiningOrder = Literal["in order", "as they come", "as a tree"]

# A run that takes more events or more virtual time than this goes round in circles.
_MOST_EVENTS = 20_000
_MOST_SECONDS = 10_000.0
# Every so manieth seed goes on with what an earlier sitting has done, and as many are halted amid their work.
_RESTORED_SEEDS = 8
_FIRST_RESTORED_RESULT = 1 << 40
# A run that stops early may still find so many units more that fail, before it gives up what it suspects.
_MOST_LISTED = 20


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
    finish_front: bool
    total_bytes: int | None
    most_failed: float
    keeps_suspended: bool

    @property
    def may_lose_joins(self) -> bool:
        """Whether workers die, of whatever."""
        return any(worker.dies_seconds is not None for worker in self.workers)

    @classmethod
    def draw(cls, seed: int) -> Scenario:
        """Everything from a seed: the same one every time."""
        chance = random.Random(f"scenario {seed}")
        most_units = chance.choice((3, 12, 40, 40, 120, 120, 400 if chance.random() < 0.9 else 2000))
        units = chance.randint(0, most_units)
        kind, costs, total_seconds = _draw_costs(chance, units)
        workers = _draw_workers(chance, total_seconds, units)
        bad = _draw_bad_units(chance, units)
        has_failing, has_killing = chance.choice(((True, False), (True, True), (False, True), (False, False)))
        memory = _draw_memory(chance, units, sum(worker.arrives_seconds <= 0 for worker in workers))
        return cls(
            seed=seed,
            costs=kind,
            workload=Workload(
                costs,
                span_seconds=chance.choice((0.0, 0.001, 0.02, 0.1)),
                step_seconds=chance.choice((0.0, 0.0001, 0.002, 0.02)),
                base_bytes=memory.base_bytes,
                unit_bytes=memory.unit_bytes,
                bytes_of=memory.bytes_of,
                exhaustion_kills=chance.random() < 0.3,
                failing=frozenset(bad[::3]) if has_failing else frozenset(),
                flaky=frozenset(bad[1::3]),
                killing=frozenset(bad[2::3]) if has_killing else frozenset(),
                # Of steps of one unit each is told of: with many units that takes long, and shows nothing more.
                target_seconds=chance.choice((0.0 if units < 50 else 0.5, 0.05, 1.0, 1.0)),
            ),
            workers=workers,
            joining=chance.choice(("in order", "as they come", "as a tree")),
            growths=_draw_growths(chance, units, total_seconds),
            most_waiting_bytes=chance.choice((0, 500, 10**9)),
            first_units=chance.choice((1, 1, 7, chance.randint(1, max(1, units)), max(1, units))),
            front_first=chance.random() < 0.5,
            finish_front=chance.random() < 0.5,
            total_bytes=memory.total_bytes,
            most_failed=chance.choice((0, 0.02, 1.5, 4, math.inf, math.inf, math.inf)),
            keeps_suspended=chance.random() < 0.5,
        )

    @property
    def hopeless(self) -> frozenset[int]:
        """The units that nobody can do: they fail, they kill, or they need more memory than there is."""
        workload = self.workload
        if self.total_bytes is None:
            return workload.failing | workload.killing
        units = range(len(workload.costs))
        too_heavy = {unit for unit in units if workload.peak_bytes(unit, unit + 1) > self.total_bytes}
        return workload.failing | workload.killing | too_heavy

    def describe(self) -> str:
        """One line a worker, and what else there is."""
        workload = self.workload
        bad = (
            f"failing {sorted(workload.failing)}, flaky {sorted(workload.flaky)}, killing {sorted(workload.killing)}, "
            f"hopeless {sorted(self.hopeless)}"
        )
        lines = [
            f"seed {self.seed}: {len(self.workload.costs)} units, {self.costs} costs, joined {self.joining}, "
            f"first_units {self.first_units}, front_first {self.front_first}, "
            f"target_seconds {self.workload.target_seconds}",
            f"  span_seconds {workload.span_seconds}, step_seconds {workload.step_seconds}, {bad}",
            f"  total_bytes {self.total_bytes}, base_bytes {workload.base_bytes}, unit_bytes {workload.unit_bytes}, "
            f"each its own {workload.bytes_of is not None}, exhaustion_kills {workload.exhaustion_kills}",
            f"  most_failed {self.most_failed}, finish_front {self.finish_front}, "
            f"keeps_suspended {self.keeps_suspended}",
            *(f"  worker {number}: {worker}" for number, worker in enumerate(self.workers)),
            *(f"  {growth}" for growth in self.growths),
        ]
        return "\n".join(lines)


def _draw_costs(chance: random.Random, units: int) -> tuple[str, UnitCosts, float]:
    """Units that take some seconds together, in one of many shapes."""
    total_seconds = chance.choice((0.0, 0.1, 0.3, 0.8))
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


class Memory(Struct, frozen=True):
    """What steps hold, and what there is."""

    total_bytes: int | None = None
    base_bytes: int = 0
    unit_bytes: int = 0
    bytes_of: GivenBytes | None = None


def _draw_memory(chance: random.Random, units: int, workers: int) -> Memory:
    """Units of which most fit into a share many times, some only into more than a share, and some not at all."""
    if chance.random() < 0.4:
        return Memory(None, chance.choice((0, 10**6)), chance.choice((0, 1000)))
    total_bytes = 10**9
    share_bytes = total_bytes // max(1, workers)
    # As much as one share: then all units are heavy.
    base_bytes = chance.choice((0, share_bytes // 10, share_bytes // 2, share_bytes if units < 40 else 0))
    unit_bytes = max(1, share_bytes // chance.choice((3, 30, 300)))
    if chance.random() < 0.3:
        return Memory(total_bytes, base_bytes, unit_bytes)
    held = [int(unit_bytes * chance.uniform(0.1, 1.5)) for _ in range(units)]
    room_bytes = total_bytes - base_bytes
    usual_bytes = int(room_bytes * chance.uniform(0.2, 0.8))
    for _ in range(chance.choice((0, 1, 3, 8)) if units else 0):
        first = chance.randrange(units)
        heavy_bytes = chance.choice((share_bytes, room_bytes, room_bytes + 1, 2 * room_bytes, usual_bytes, None, None))
        # Heavy units often stand together.
        for unit in range(first, min(units, first + chance.choice((1, 1, 2, 12)))):
            held[unit] = chance.randint(share_bytes // 2, max(share_bytes, room_bytes))
            if heavy_bytes is not None:
                held[unit] = heavy_bytes
    return Memory(total_bytes, base_bytes, bytes_of=GivenBytes(held))


def _draw_workers(chance: random.Random, total_seconds: float, units: int) -> tuple[SimulatedWorker, ...]:
    """Workers that come and go, some faulty; the last one drawn comes at some time and stays."""
    horizon_seconds = 0.2 + total_seconds
    are_faulty = chance.choice((0.0, 0.0, 0.0, 0.2, 0.8))
    latency_seconds = chance.choice((0.0, 0.0001, 0.005, 0.03))
    are_fickle = chance.choice((0.0, 0.3, 0.9))
    workers = []
    count = chance.choice((1, 2, 3, chance.randint(2, 8), chance.randint(2, 8), chance.randint(4, 16)))
    for number in range(count):
        stays = number == count - 1
        arrives = chance.choice((0.0, 0.0, chance.uniform(0, horizon_seconds)))
        ends = arrives + horizon_seconds * chance.random() ** 2 if not stays and chance.random() < are_fickle else None
        dies = chance.random() < 0.5
        workers.append(
            SimulatedWorker(
                speed=chance.choice((1.0, 1.0, 0.25, 4.0, chance.uniform(0.2, 3))),
                latency_seconds=latency_seconds * chance.choice((1.0, 1.0, 0.0, 3.0)),
                arrives_seconds=arrives,
                leaves_seconds=None if dies else ends,
                dies_seconds=ends if dies else None,
                # Where all steps fail, each unit is isolated: with many units that takes long.
                fails_every=chance.choice((1 if units < 50 else 5, 3, 10)) if chance.random() < are_faulty else 0,
            )
        )
    chance.shuffle(workers)
    return tuple(workers)


def _draw_bad_units(chance: random.Random, units: int) -> list[int]:
    if not units or chance.random() < 0.5:
        return []
    return chance.sample(range(units), min(units, chance.choice((1, 3, 6, 30))))


def _draw_growths(chance: random.Random, units: int, total_seconds: float) -> tuple[Growth, ...]:
    """None where the source is complete from the beginning."""
    if chance.random() < 0.6:
        return ()
    count = chance.randint(1, 8)
    times = sorted(chance.uniform(0, 0.1 + total_seconds) for _ in range(count))
    sizes = sorted(chance.randint(0, units) for _ in range(count - 1))
    growths = [Growth(at, size, is_complete=False) for at, size in zip(times, sizes, strict=False)]
    return (*growths, Growth(times[-1], units, is_complete=True))


Cause = Literal["unit", "flaky unit", "worker", "death"]

_CAUSES: dict[int, Cause] = {BAD_UNIT: "unit", FLAKY_UNIT: "flaky unit"}


class FailedStep(NamedTuple):
    """A step that failed, and why: a unit that always does, or bad luck."""

    start: int
    stop: int
    cause: Cause


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
        self.site = Simulated(
            scenario.workload,
            scenario.workers,
            total_bytes=scenario.total_bytes,
            keeps_suspended=scenario.keeps_suspended,
        )
        growing = bool(scenario.growths)
        self.coordinator = Coordinator(
            _JOININGS[scenario.joining](scenario),
            units=0 if growing else len(scenario.workload.costs),
            is_complete=not growing,
            expected_workers=self.site.expected_workers,
            first_units=scenario.first_units,
            front_first=scenario.front_first,
            finish_front=scenario.finish_front,
            total_bytes=self.site.total_bytes,
            most_failed=scenario.most_failed,
        )
        self.story: list[Line] = []
        self._watch = watch
        self._growths = list(reversed(scenario.growths))
        self._chance = random.Random(f"results {scenario.seed}")
        self._done: list[Slice] = []  # in order, those that touch as one
        self._results: dict[int, list[Slice]] = {}  # what each result that still exists stands for
        self._made_results = 0
        self._appended: list[Slice] = []
        self._skipped: list[Slice] = []
        self._ordered: list[Slice] = []  # both
        self._spilled: set[int] = set()
        self._failed_steps: list[FailedStep] = []
        self._end: Finish | None = None
        self._has_failed_join = False
        is_halted = scenario.seed % _RESTORED_SEEDS == 1
        self._halts_seconds = random.Random(f"halted {scenario.seed}").uniform(0.0, 2.0) if is_halted else None

    def run(self) -> Play:
        """To the end, which has to come."""
        restored = self._draw_restored()
        if restored is not None:
            self._take(restored)
        while not self.coordinator.is_over:
            for event in self._wait():
                self._take(event)
                if self._has_failed_join:
                    return self
            assert len(self.story) < _MOST_EVENTS, f"no end after {len(self.story)} events"
            assert self.site.now_seconds() < _MOST_SECONDS, f"no end after {self.site.now_seconds()} seconds"
        self._check_end()
        return self

    def _draw_restored(self) -> Restored | None:
        """Any part of the units was done before: what was appended, from the front, and pieces that wait."""
        units = self.coordinator.units
        if self.scenario.seed % _RESTORED_SEEDS != 0 or self.scenario.growths or units < 2:
            return None
        chance = random.Random(f"restored {self.scenario.seed}")
        ends = sorted({0, units, *(chance.randrange(units) for _ in range(chance.randint(1, 8)))})
        pieces = list(pairwise(ends))
        appended = 0 if self.scenario.joining == "as a tree" else chance.randint(0, len(pieces))
        done: list[tuple[int, int, int | None, int]] = []
        for number, (start, stop) in enumerate(pieces):
            if any(start <= unit < stop for unit in self.scenario.hopeless):
                appended = 0  # it cannot have been done, and what is behind it was not appended
                continue
            if number < appended:
                self._appended.append(Slice(start, stop))
                self._ordered.append(Slice(start, stop))
                done.append((start, stop, None, 0))
            elif chance.random() < 0.5:
                result = _FIRST_RESTORED_RESULT + number
                self._results[result] = [Slice(start, stop)]
                done.append((start, stop, result, 10))
            else:
                continue
            self._add_done(Slice(start, stop))
        return Restored(tuple(done))

    def _wait(self) -> list[Event]:
        now_seconds = self.site.now_seconds()
        wake_seconds = self.coordinator.wake_seconds(now_seconds)
        grows_seconds = self._growths[-1].at_seconds if self._growths else None
        waited_for = (wake_seconds, grows_seconds, self._halts_seconds)
        until_seconds = min((at for at in waited_for if at is not None), default=None)
        events = self.site.wait(until_seconds)
        if events:
            return events
        if self._halts_seconds is not None and self._halts_seconds <= self.site.now_seconds():
            self._halts_seconds = None
            return [Halted()]
        if grows_seconds is not None and grows_seconds <= self.site.now_seconds():
            growth = self._growths.pop()
            return [SourceGrew(growth.units, growth.is_complete)]
        return [Ticked()]

    def _take(self, event: Event) -> None:
        if isinstance(event, Progressed):
            event = self._make_result(event)
        elif isinstance(event, StepFailed):
            cause: Cause = _CAUSES.get(event.error, "worker")
            self._failed_steps.append(FailedStep(event.start, event.stop, cause))
        elif isinstance(event, WorkerLost) and event.is_suspect and not event.is_exhausted:
            cause = "unit" if event.reason == "a unit killed it" else "death"
            self._failed_steps.append(FailedStep(event.running_start, event.running_stop, cause))
        elif isinstance(event, Joined):
            event = self._join_results(event)
        now_seconds = self.site.now_seconds()
        commands = self.coordinator.handle(event, now_seconds)
        line = Line(now_seconds, event, commands)
        self.story.append(line)
        if self._watch is not None:
            self._watch(line)
        for command in commands:
            self._perform(command)
        if commands or not isinstance(event, Ticked):
            check_invariants(self.coordinator, self._done)

    def _make_result(self, event: Progressed) -> Progressed:
        """The simulation makes none: number it, and remember what it stands for."""
        result = self._made_results
        self._made_results += 1
        done = Slice(event.start, event.stop)
        self._results[result] = [done]
        self._add_done(done)
        return event._replace(result=result, result_bytes=self._chance.choice((0, 10, 300)))

    def _join_results(self, event: Joined) -> Joined:
        join = self.coordinator._joins.by_worker[event.worker]
        self._results[join.first] += self._results.pop(join.second)
        return event._replace(result_bytes=self._chance.choice((10, 300)))

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
            case Assign() | Extend() | Trim() | Advise() | Allow() | Suspend() | Join():
                self.site.perform(command)
            case FailJoin():
                # By chance, workers have died of old age that were joining the same two results.
                assert self.scenario.may_lose_joins, f"{command}: nothing is wrong with any result"
                self._has_failed_join = True
            case Append():
                joined = self._results.pop(command.result)
                self._appended += joined
                self._ordered += joined
            case Skip():
                self._skipped.append(Slice(command.start, command.stop))
                self._ordered.append(self._skipped[-1])
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
        given_up = [Slice(one.start, one.stop) for one in coordinator.failures]
        assert coordinator.done_units == sum(map(len, self._done))
        assert coordinator.failed_units == sum(map(len, given_up))
        for one in coordinator.failures:
            self._check_it_had_to_be_given_up(one)
        joined = [*self._appended, *(part for parts in self._results.values() for part in parts)]
        assert sorted(joined) == sorted(set(joined)), "a result was joined twice"
        assert _covered(joined) == self._done, "not all that is done was joined or waits to be"
        if scenario.joining == "in order":
            fault = find_cover_fault(Slice(0, sum(map(len, self._ordered))), self._ordered)
            assert fault is None, f"appended in the wrong order: {fault}"
        if coordinator.is_halted:
            assert not coordinator.busy_workers, "it is over, and somebody still works"
        elif coordinator.is_stopping:
            self._check_early_end(given_up)
        else:
            self._check_full_end(given_up)

    def _check_full_end(self, given_up: list[Slice]) -> None:
        """Each unit is done or given up, and the results of those that are done became one."""
        scenario, coordinator = self.scenario, self.coordinator
        whole = Slice(0, len(scenario.workload.costs))
        assert coordinator.units == len(whole)
        _expect_cover(whole, [*self._done, *given_up], "done or given up")
        assert coordinator.failed_units <= self._most_failed, "too many have failed, and it did not stop"
        hopeless = scenario.hopeless
        assert hopeless <= {one.start for one in given_up}, "a unit was done that nobody can do"
        assert self._end is not None or not self.story, "the end was never told"
        if scenario.joining != "as a tree":
            assert not self._results, f"{len(self._results)} results were never joined"
            assert sorted(self._skipped) == sorted(given_up), "not what was given up was skipped"
        elif self._end is not None and self._done:
            assert list(self._results) == [self._end.result], "there is more than one result"

    def _check_early_end(self, given_up: list[Slice]) -> None:
        """Too many were given up; the others are done, or were left; with `finish_front`, none before the first."""
        # A part of all may have been exceeded when fewer units were known.
        assert self.coordinator.failed_units > self._most_failed or self.scenario.growths
        assert self._end is None, "the end was told"
        parts = sorted([*self._done, *given_up])
        assert all(one.stop <= following.start for one, following in pairwise(parts)), "done twice, or given up too"
        if self.scenario.finish_front:
            first_given_up = min(one.start for one in given_up)
            _expect_cover(Slice(0, first_given_up), [one for one in self._done if one.start < first_given_up], "done")

    @property
    def _most_failed(self) -> float:
        most = self.scenario.most_failed
        return most if most >= 1 else most * self.coordinator.units

    def _check_it_had_to_be_given_up(self, given_up: GiveUp) -> None:
        """It is a unit that nobody can do; or a good one that had bad luck twice.

        That is: a step failed that it was in, and the last one that failed was this unit alone, because its worker was
        faulty or died of something else, or because the unit is flaky and a death had kept it from failing before.
        """
        start, stop = given_up.start, given_up.stop
        failed = [step for step in self._failed_steps if step.start <= start and stop <= step.stop]
        if self.coordinator.is_stopping and self.coordinator.failed_units > self._most_failed + _MOST_LISTED:
            return  # all that was suspected was given up as it was
        assert stop == start + 1, f"{given_up} is more than one unit"
        if given_up.is_exhausted:
            total_bytes = self.scenario.total_bytes
            assert total_bytes is not None
            assert self.scenario.workload.peak_bytes(start, stop) > total_bytes, f"{given_up} would fit"
            return
        assert len(failed) >= 2, f"{given_up} failed only in {failed}"
        if start in self.scenario.hopeless:
            return
        *earlier, last = failed
        assert (last.start, last.stop) == (start, stop), f"{given_up} did not fail alone: {failed}"
        is_late_flake = last.cause == "flaky unit" and any(step.cause == "death" for step in earlier)
        assert last.cause in ("worker", "death") or is_late_flake, f"{given_up} is a good unit: {failed}"


def _covered(parts: list[Slice]) -> list[Slice]:
    """In order, those that touch as one."""
    joined: list[Slice] = []
    for part in sorted(parts):
        if joined and joined[-1].stop == part.start:
            joined[-1] = Slice(joined[-1].start, part.stop)
        else:
            joined.append(part)
    return joined


_JOININGS: dict[JoiningOrder, Callable[[Scenario], Joining]] = {
    "in order": lambda scenario: AppendInOrder(scenario.most_waiting_bytes),
    "as they come": lambda _: AppendAsTheyCome(),
    # Results of 300 bytes are for workers to join.
    "as a tree": lambda _: MergeAsTree(most_small_bytes=100),
}


def _expect_cover(whole: Slice, parts: list[Slice], what: str) -> None:
    fault = find_cover_fault(whole, sorted(parts))
    assert fault is None, f"not every unit is {what} exactly once: {fault}"


def play(seed: int, watch: Callable[[Line], None] | None = None) -> Play:
    """Run the scenario of a seed to its end."""
    return Play(Scenario.draw(seed), watch).run()
