"""One turn of one contender, in this process: `python -m bench.column_turn CONTENDER WORKLOAD [--quick]`.

Prints how long the call took, from after the imports to the histogram.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings

import numpy as np

from bench.column_contenders import contender
from bench.column_data import DIMUON, MANY_FILES, ONE_FILE, directory_of, read_all_through
from bench.column_making import EXPECTED


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.column_turn", description="Time one call of one library.")
    parser.add_argument("contender")
    parser.add_argument("workload", choices=(DIMUON, MANY_FILES, ONE_FILE))
    parser.add_argument("--quick", action="store_true", help="fewer events")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    directory = directory_of(told.workload, quick=told.quick)
    call = contender(told.contender)
    read_all_through(directory)
    began = time.perf_counter()
    histogram = call(directory)
    seconds = time.perf_counter() - began
    if not np.array_equal(histogram.values(), np.load(os.path.join(directory, EXPECTED))):
        raise SystemExit(f"{told.contender} found another histogram than a plain loop over all events")
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
