"""The record of a run, by which a run that was killed goes on where it was.

    run_directory   .aliquot/NAME/: where a run keeps what it has, and who holds it (holder)
    runs            all runs of a directory: what became of them, and removing them
    journal         what is done, what failed, what happened: one SQLite file (schema, connecting)
    identity        what a run is made of; what differs from an earlier one

Where a write is lost, work is done again; a journal never says that something is there which is not.
"""

from aliquot.journal.errors import JournalError, RunHeldError
from aliquot.journal.holder import Holder, boot_id
from aliquot.journal.identity import describe_input, describe_program, differences
from aliquot.journal.journal import Journal, Restored, RestoredFailure, RestoredPiece
from aliquot.journal.run_directory import RunDirectory
from aliquot.journal.runs import RunSummary, clean, list_runs

__all__ = [
    "Holder",
    "Journal",
    "JournalError",
    "Restored",
    "RestoredFailure",
    "RestoredPiece",
    "RunDirectory",
    "RunHeldError",
    "RunSummary",
    "boot_id",
    "clean",
    "describe_input",
    "describe_program",
    "differences",
    "list_runs",
]
