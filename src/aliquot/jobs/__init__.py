"""Ready-made jobs, for those who do not want to write the five functions."""

from aliquot.jobs.command import Command, CommandError
from aliquot.jobs.function import FunctionJob

__all__ = ["Command", "CommandError", "FunctionJob"]
