"""What a job is: five functions, how it is described and found again, and bundles of its slices."""

import datetime  # noqa: F401  # before msgspec, which imports it in a way that loses a Ctrl-C that comes meanwhile

from aliquot.job.bundle import Bundle, Part
from aliquot.job.description import Description, decode_value, encode_value
from aliquot.job.job import Job, Resources
from aliquot.job.registry import find_by_import_path, import_path_of
from aliquot.job.result import NOT_RUN, Done, Failed, NotRun, Result

__all__ = [
    "NOT_RUN",
    "Bundle",
    "Description",
    "Done",
    "Failed",
    "Job",
    "NotRun",
    "Part",
    "Resources",
    "Result",
    "decode_value",
    "encode_value",
    "find_by_import_path",
    "import_path_of",
]
