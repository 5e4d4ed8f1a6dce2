"""One turn of one contender, in this process: `python -m bench.pool_turn CONTENDER WORKLOAD [--quick]`.

Prints how long the call took. A turn has a process of its own, so that no library finds workers, caches or lessons of
the turn before.
"""

from __future__ import annotations

import argparse
import json
import time

from bench.contenders import CONTENDERS
from bench.units import burn, square
from bench.workloads import WORKLOADS

IN_MAIN = ", function in __main__"
WARM = ", warm"


def burn_here(cpu_seconds: float) -> float:
    """What a user's script has: no worker can import it, so that the code itself must travel."""
    return burn(cpu_seconds)


def square_here(number: int) -> int:
    return number * number


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pool_turn", description="Time one call of one library.")
    names = "; ".join(CONTENDERS)
    parser.add_argument("contender", help=f"one of {names}; {IN_MAIN!r} or {WARM!r} may follow")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--quick", action="store_true", help="fewer units")
    told = parser.parse_args()
    name = told.contender.removesuffix(WARM).removesuffix(IN_MAIN)
    if name not in CONTENDERS:
        parser.error(f"there is no contender {name!r}: there are {names}")

    workload = WORKLOADS[told.workload](quick=told.quick)
    call = CONTENDERS[name]()
    function = workload.function
    if told.contender.endswith(IN_MAIN):
        function = {burn: burn_here, square: square_here}[function]
    if told.contender.endswith(WARM):
        call(function, workload.items)
    began = time.perf_counter()
    result = call(function, workload.items)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "ideal_seconds": workload.check(result)}))


if __name__ == "__main__":
    main()
