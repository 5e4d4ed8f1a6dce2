"""aliquot divides work over any data while it runs: nobody chooses a chunk size.

    source    aliquot.open("reads.fastq.gz")      what holds the units      virtual_file/
      |
    job       aliquot.FunctionJob(function, source, join), aliquot.Command   job/, jobs/, outputs/
      |         split, join, execute, to_desc, from_desc
    bundle    aliquot.Bundle.of(job)              its slices, in any state  job/bundle.py
      |
    run       aliquot.map, imap, map_batches, run, simulate                 running/
      |         event -> coordinator -> commands                            coordinator/, sizing/
    site      aliquot.sites.Local                 places with workers       sites/, workers/, measuring/

Public names are loaded when they are first used, so that `import aliquot` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # for those who read types, without importing typing for those who run
    from typing import Any

    from aliquot.errors import (
        AliquotError,
        DataError,
        DescriptionError,
        JobError,
        JobStateError,
        Malformed,
        MissingExtraError,
        SiteError,
        SourceChangedError,
        UsageError,
    )
    from aliquot.job import NOT_RUN, Bundle, Done, Failed, Job, NotRun, Part, Resources
    from aliquot.jobs import Command, CommandError, FunctionJob
    from aliquot.jobs.merging import merge
    from aliquot.journal.errors import RunHeldError
    from aliquot.running.calls import imap, map, map_batches, run
    from aliquot.running.earlier import RunChangedError
    from aliquot.running.outcome import Failure, Outcome, Report, UnitsFailedError, UnitsSetAsideWarning
    from aliquot.running.simulating import Simulation, simulate
    from aliquot.running.stopping import RunInterruptedError
    from aliquot.slices import Slice
    from aliquot.virtual_file import ByteRange, Format, RowRange, VirtualFile, open, register_format, together
    from aliquot.virtual_file.tables.registry import register_table
    from aliquot.virtual_file.tables.table import BadRows, Facts, Table, UnreadableTable

__version__ = "0.1.0.dev0"

_MODULES = {
    "aliquot.errors": (
        "AliquotError",
        "DataError",
        "DescriptionError",
        "JobError",
        "JobStateError",
        "Malformed",
        "MissingExtraError",
        "SiteError",
        "SourceChangedError",
        "UsageError",
    ),
    "aliquot.job": ("NOT_RUN", "Bundle", "Done", "Failed", "Job", "NotRun", "Part", "Resources"),
    "aliquot.jobs": ("Command", "CommandError", "FunctionJob"),
    "aliquot.jobs.merging": ("merge",),
    "aliquot.journal.errors": ("RunHeldError",),
    "aliquot.running.calls": ("imap", "map", "map_batches", "run"),
    "aliquot.running.earlier": ("RunChangedError",),
    "aliquot.running.outcome": ("Failure", "Outcome", "Report", "UnitsFailedError", "UnitsSetAsideWarning"),
    "aliquot.running.simulating": ("Simulation", "simulate"),
    "aliquot.running.stopping": ("RunInterruptedError",),
    "aliquot.slices": ("Slice",),
    "aliquot.virtual_file": ("ByteRange", "Format", "RowRange", "VirtualFile", "open", "register_format", "together"),
    "aliquot.virtual_file.tables.registry": ("register_table",),
    "aliquot.virtual_file.tables.table": ("BadRows", "Facts", "Table", "UnreadableTable"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [  # the names are those of the tables above
    "NOT_RUN",
    "AliquotError",
    "BadRows",
    "Bundle",
    "ByteRange",
    "Command",
    "CommandError",
    "DataError",
    "DescriptionError",
    "Done",
    "Facts",
    "Failed",
    "Failure",
    "Format",
    "FunctionJob",
    "Job",
    "JobError",
    "JobStateError",
    "Malformed",
    "MissingExtraError",
    "NotRun",
    "Outcome",
    "Part",
    "Report",
    "Resources",
    "RowRange",
    "RunChangedError",
    "RunHeldError",
    "RunInterruptedError",
    "Simulation",
    "SiteError",
    "Slice",
    "SourceChangedError",
    "Table",
    "UnitsFailedError",
    "UnitsSetAsideWarning",
    "UnreadableTable",
    "UsageError",
    "VirtualFile",
    "imap",
    "map",
    "map_batches",
    "merge",
    "open",
    "register_format",
    "register_table",
    "run",
    "simulate",
    "sites",
    "together",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("coffea", "sites"):
        return importlib.import_module(f"aliquot.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'aliquot' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
