"""Commands over files: a line for the shell, run on some units at a time.

template     the command's text and its placeholders     shell_text: quotes, pipes and programs in it
command      the job: what is split, run and joined
process      run_step: one process, on a file or a range
stream       Stream: one process, fed through pipes      feeding: the pipes
step         the files of a process, and how it ended    shells: starting and killing; error
"""

from aliquot.jobs.command.command import Command, have_header_row
from aliquot.jobs.command.error import CommandError, NoProcessError
from aliquot.jobs.command.feeding import first_pipe_bytes, large_pipe_bytes
from aliquot.jobs.command.process import run_step
from aliquot.jobs.command.step import size_of
from aliquot.jobs.command.stream import Stream
from aliquot.jobs.command.template import Template

__all__ = [
    "Command",
    "CommandError",
    "NoProcessError",
    "Stream",
    "Template",
    "first_pipe_bytes",
    "have_header_row",
    "large_pipe_bytes",
    "run_step",
    "size_of",
]
