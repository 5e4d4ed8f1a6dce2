"""One turn of one contender with a bad unit, in this process: `python -m bench.survival_turn CONTENDER CASE [--quick]`.

Prints how many right results its user holds in the end, after how long, and what the user saw. Each library is used at
its defaults, in that way of its own which leaves the most in the user's hands.

Not to be called without a limit of the memory: one of the units takes all there is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NoReturn

from bench.bad_units import Case, cases

OURS = "aliquot.map"
HUNG = "hung"
NOT_OVER = "not over"
WORKERS = 2
WORKER_MEMORY = "1GB"
# How long a user waits before deciding that nothing will come.
PATIENCE_SECONDS, QUICK_PATIENCE_SECONDS = 60, 30

_RAY_AT_ONCE = 100


@dataclass
class Hands:
    """What the user holds, while it comes."""

    results: dict[int, Any] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    last_seconds: float | None = None  # on the clock, when the last one came

    def take(self, number: int, result: Any) -> None:
        """The result of one unit."""
        self.results[number] = result
        self.last_seconds = time.perf_counter()

    def take_all(self, results: Iterable[Any]) -> None:
        """All at once, in the order of their units."""
        for number, result in enumerate(results):
            self.take(number, result)

    def take_error(self, error: BaseException) -> None:
        """What came in the place of a result."""
        self.errors[type(error).__name__] += 1

    def report(self, seconds: float, ended: str) -> str:
        """A line for the parent of this process; a wrong result is worse than none."""
        wrong = [number for number, result in self.results.items() if result != number]
        assert not wrong, f"the result of unit {wrong[0]} is {self.results[wrong[0]]!r}"
        lacking = ", ".join(f"{name} for {_units(count)}" for name, count in self.errors.items())
        saw = ": ".join(filter(None, (ended, lacking)))
        return json.dumps({"held": len(self.results), "seconds": seconds, "saw": saw})


Call = Callable[[Case, Hands], None]


def _aliquot_map() -> Call:
    import aliquot

    run = aliquot.map
    site = aliquot.sites.Local(memory=WORKER_MEMORY)

    def call(case: Case, hands: Hands) -> None:
        for number, result in enumerate(run(case.function, range(case.count), max_failures=1, on=site)):
            if isinstance(result, aliquot.Failure):
                hands.errors["Failure"] += 1
            else:
                hands.take(number, result)

    return call


def _pool_map() -> Call:
    from multiprocessing.pool import Pool

    def call(case: Case, hands: Hands) -> None:
        with Pool() as pool:
            hands.take_all(pool.map(case.function, range(case.count)))

    return call


def _pool_imap_unordered() -> Call:
    from multiprocessing.pool import Pool

    def call(case: Case, hands: Hands) -> None:
        with Pool() as pool:
            for result in pool.imap_unordered(case.function, range(case.count)):
                hands.take(result, result)

    return call


def _futures() -> Call:
    from concurrent.futures import ProcessPoolExecutor, as_completed

    def call(case: Case, hands: Hands) -> None:
        with ProcessPoolExecutor() as pool:
            numbers = {}
            try:
                for number in range(case.count):
                    numbers[pool.submit(case.function, number)] = number
            except RuntimeError as error:  # a pool that broke takes nothing more
                hands.errors[type(error).__name__] += case.count - len(numbers)
            for future in as_completed(numbers):
                try:
                    hands.take(numbers[future], future.result())
                except Exception as error:
                    hands.take_error(error)

    return call


def _joblib() -> Call:
    from joblib import Parallel, delayed

    def call(case: Case, hands: Hands) -> None:
        # Its default is one job, which would be no contender.
        hands.take_all(Parallel(n_jobs=-1)(delayed(case.function)(number) for number in range(case.count)))

    return call


def _joblib_unordered() -> Call:
    from joblib import Parallel, delayed

    def call(case: Case, hands: Hands) -> None:
        parallel = Parallel(n_jobs=-1, return_as="generator_unordered")
        for result in parallel(delayed(case.function)(number) for number in range(case.count)):
            hands.take(result, result)

    return call


def _dask() -> Call:
    # Some versions have types for it, some have not.
    distributed: Any = import_module("distributed")

    def call(case: Case, hands: Hands) -> None:
        with (
            distributed.LocalCluster(n_workers=WORKERS, processes=True, memory_limit=WORKER_MEMORY) as cluster,
            distributed.Client(cluster) as client,
        ):
            futures = client.map(case.function, range(case.count))
            numbers = {future.key: number for number, future in enumerate(futures)}
            for future, result in distributed.as_completed(futures, with_results=True, raise_errors=False):
                if future.status == "finished":
                    hands.take(numbers[future.key], result)
                else:
                    hands.take_error(future.exception() or RuntimeError(future.status))

    return call


def _ray() -> Call:
    # Nothing is reported to anybody, and no note about it is printed.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray: Any = import_module("ray")

    def call(case: Case, hands: Hands) -> None:
        ray.init()
        task = ray.remote(case.function)
        numbers = {task.remote(number): number for number in range(case.count)}
        pending = list(numbers)
        while pending:
            ready, pending = ray.wait(pending, num_returns=min(len(pending), _RAY_AT_ONCE), timeout=1)
            for reference in ready:
                try:
                    hands.take(numbers[reference], ray.get(reference))
                except ray.exceptions.RayError as error:
                    hands.take_error(error)
        ray.shutdown()

    return call


CONTENDERS: dict[str, Callable[[], Call]] = {
    OURS: _aliquot_map,
    "Pool.map": _pool_map,
    "Pool.imap_unordered": _pool_imap_unordered,
    "futures, as_completed": _futures,
    "joblib": _joblib,
    "joblib, generator_unordered": _joblib_unordered,
    "dask.distributed": _dask,
    "ray": _ray,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.survival_turn", description="One bad unit, one library.")
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("case", choices=cases(quick=False))
    parser.add_argument("--quick", action="store_true", help="fewer units, and less patience")
    limits = parser.add_mutually_exclusive_group(required=True)
    limits.add_argument("--group", metavar="DIRECTORY", help="a control group for this process and all it starts")
    limits.add_argument("--data-bytes", type=int, metavar="N", help="how large the data of each process may be")
    told = parser.parse_args()
    if told.group:
        with open(os.path.join(told.group, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (told.data_bytes, told.data_bytes))

    case = cases(quick=told.quick)[told.case]
    call = CONTENDERS[told.contender]()
    hands = Hands()
    patience_seconds = QUICK_PATIENCE_SECONDS if told.quick else PATIENCE_SECONDS
    own_process = os.getpid()

    def give_up(*_: object) -> NoReturn:
        # Not by an exception: what a library does about one may hang as well.
        if os.getpid() == own_process:
            seconds = time.perf_counter() - began
            quiet_seconds = time.perf_counter() - (hands.last_seconds or began)
            is_hung = quiet_seconds > seconds / 2
            print(hands.report(seconds, HUNG if is_hung else NOT_OVER), flush=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    began = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, patience_seconds)
    try:
        call(case, hands)
        ended = "finished"
    except Exception as error:
        ended = type(error).__name__
        raised: Exception | None = error
    else:
        raised = None
    seconds = time.perf_counter() - began
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(hands.report(seconds, ended), flush=True)
    if raised:
        raise raised


def _units(count: int) -> str:
    return f"{count:,} unit{'' if count == 1 else 's'}"


if __name__ == "__main__":
    main()
