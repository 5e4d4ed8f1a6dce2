from __future__ import annotations

import argparse
import compileall
import os
from typing import Protocol

import aliquot
from bench import (
    accumulating,
    command_guesses,
    command_overhead,
    commands,
    compressed,
    copies,
    dimuon,
    guesses,
    importing,
    indexing,
    isolation,
    journal_cost,
    kills,
    known_cost,
    many_files,
    memory,
    opening,
    pools,
    races,
    random_access,
    rate,
    reading,
    simulated,
    slowed,
    splitting,
    survival,
    topeft,
)
from bench.data import Data, make_data
from bench.measuring import Finding, console, print_findings


class _PartOnReads(Protocol):
    def __call__(self, data: Data, repeats: int, *, quick: bool) -> list[Finding]: ...


class _PartWithoutReads(Protocol):
    def __call__(self, data: None, repeats: int, *, quick: bool) -> list[Finding]: ...


_ON_READS: dict[str, _PartOnReads] = {
    "indexing": indexing.run,
    "splitting": splitting.run,
    "reading": reading.run,
    "random_access": random_access.run,
    "compressed": compressed.run,
    "importing": importing.run,
}
# These need no data, which takes a while to make.
_WITHOUT_READS: dict[str, _PartWithoutReads] = {
    "pools": pools.run,
    "guesses": guesses.run,
    "rate": rate.run,
    "slowed": slowed.run,
    "copies": copies.run,
    "simulated": simulated.run,
    "survival": survival.run,
    "isolation": isolation.run,
    "memory": memory.run,
    "accumulating": accumulating.run,
    "commands": commands.run,
    "races": races.run,
    "known_cost": known_cost.run,
    "command_guesses": command_guesses.run,
    "command_overhead": command_overhead.run,
    "journal_cost": journal_cost.run,
    "kills": kills.run,
    "dimuon": dimuon.run,
    "many_files": many_files.run,
    "opening": opening.run,
    "topeft": topeft.run,
}
_PARTS = (*_ON_READS, *_WITHOUT_READS)
_REPEATS = 7
# Where a turn may take a minute.
_FEWER_REPEATS = {"survival": 3, "memory": 3, "topeft": 3}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure aliquot beside its peers.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"only these: {', '.join(_PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help=f"how often each contender runs ({_REPEATS}; survival, memory and topeft: 3)",
    )
    told = parser.parse_args()
    compileall.compile_dir(os.path.dirname(aliquot.__file__), quiet=1)
    unknown = [name for name in told.parts if name not in _PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}: there are {', '.join(_PARTS)}")
    if told.repeats is not None and told.repeats < 1:
        parser.error(f"--repeats {told.repeats}: at least 1")

    names = told.parts or _PARTS
    data = make_data(quick=told.quick) if any(name in _ON_READS for name in names) else None
    findings = []
    for name in names:
        console.rule(name.replace("_", " "))
        repeats = told.repeats or _FEWER_REPEATS.get(name, _REPEATS)
        if name in _WITHOUT_READS:
            findings += _WITHOUT_READS[name](None, repeats, quick=told.quick)
        else:
            assert data is not None, "made above, as this part needs it"
            findings += _ON_READS[name](data, repeats, quick=told.quick)
    console.rule("summary")
    reads = f"{os.path.getsize(data.plain) / 1e9:.1f} GB of reads, " if data else ""
    print_findings(f"{reads}{os.cpu_count()} cores, medians", findings)
    if told.quick:
        console.print("quick: the bars are meant for the full size")
        if data:
            console.print("quick: so small a gzip file stays decoded in its reader's memory")
    missed = [finding for finding in findings if finding.met is False]
    with_bar = [finding for finding in findings if finding.met is not None]
    console.print(f"{len(with_bar) - len(missed)} of {len(with_bar)} bars met")


if __name__ == "__main__":
    main()
