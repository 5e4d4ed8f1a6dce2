"""The driver of a run: event -> coordinator -> commands -> site; what becomes of the results; progress and report."""

from aliquot.running.calls import imap, map, map_batches, run
from aliquot.running.outcome import Failure, Outcome, Report, UnitsFailedError

__all__ = ["Failure", "Outcome", "Report", "UnitsFailedError", "imap", "map", "map_batches", "run"]
