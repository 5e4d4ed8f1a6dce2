"""Make the files of a workload: `python -m bench.column_making WORKLOAD DIRECTORY [--quick]`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from bench.column_data import DIMUON, MANY_FILES, ONE_FILE, TOPEFT, events_of

EXPECTED = "expected.npy"
_DIMUON_FILES, _TOPEFT_FILES = 20, 12
_MANY_FILES, _QUICK_MANY_FILES = 200, 20
_FEWEST_ENTRIES, _MOST_ENTRIES = 1_000, 100_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.column_making", description="Make files of events.")
    parser.add_argument("workload", choices=(DIMUON, MANY_FILES, ONE_FILE, TOPEFT))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer events")
    told = parser.parse_args()
    if told.workload == TOPEFT:
        import topeft_like

        for suffix in ("npz", "root"):
            topeft_like.make_files(told.directory, events_of(TOPEFT, quick=told.quick), _TOPEFT_FILES, suffix=suffix)
        return

    import making

    if told.workload == DIMUON:
        making.make_files(told.directory, events_of(DIMUON, quick=told.quick), _DIMUON_FILES)
    else:
        sizes = _many_sizes(_QUICK_MANY_FILES if told.quick else _MANY_FILES)
        for number, size in enumerate(sizes if told.workload == MANY_FILES else [sum(sizes)]):
            making.write_root(told.directory / f"events-{number:04}.root", size, (1, number))
    _note_expected(told.directory)


def _many_sizes(files: int) -> list[int]:
    """From few entries to many, by factors."""
    random = np.random.default_rng(1)
    exponents = random.uniform(0, np.log(_MOST_ENTRIES / _FEWEST_ENTRIES), files)
    return [int(size) for size in _FEWEST_ENTRIES * np.exp(exponents)]


def _note_expected(directory: Path) -> None:
    """What every contender must find."""
    from bench.column_contenders import plain_loop

    np.save(os.path.join(directory, EXPECTED), plain_loop(str(directory), 200_000).values())


if __name__ == "__main__":
    main()
