"""Debian's makeflow_bwa and makeflow, which divide reads into partitions of a size that the user chooses.

As shipped, neither works here, and both are mended as little as possible:

* makeflow_bwa is a program for Python 2 that was given a first line for Python 3: its tabs are made spaces, and one
  call that is no more is replaced. What it writes is what it would write.
* It has bwa make the index of the reference anew each time. That rule is left out, as all contenders find the index.
* makeflow is linked with MPI, of which it makes no use here, and which looks for a daemon that is not installed: a
  variable tells it not to.

With some thousands of partitions the line that joins them is longer than a shell takes: makeflow_bwa could not get to
its end with one read each, however long one would wait.
"""

from __future__ import annotations

import os
import re
import shutil
import sys

from bench.command_line import OUTPUT, run_here

PROGRAMS = ("makeflow_bwa", "makeflow")

_FILE = "bwa.makeflow"
_OWN = "makeflow_bwa.py"


def run_makeflow_bwa(directory: str, reads_each: int, cores: int) -> None:
    """Write the rules and have them carried out; both are in its time, as a user waits for both."""
    files = ["--ref", "ref.fa", "--query", "reads.fastq", "--output_SAM", OUTPUT, "--makeflow", _FILE]
    run_here([sys.executable, _OWN, *files, "--num_seq", str(reads_each)], directory)
    path = os.path.join(directory, _FILE)
    with open(path) as file:
        rules = file.read()
    with open(path, "w") as file:
        file.write(re.sub(r"\n[^\n]*\n\tLOCAL ./bwa index[^\n]*\n", "\n", rules))
    run_here(["makeflow", "-T", "local", "-j", str(cores), _FILE], directory, OMPI_MCA_ess_singleton_isolated="1")


def put_makeflow_bwa_into(directory: str) -> None:
    """The program as mended."""
    shipped = shutil.which(PROGRAMS[0])
    assert shipped is not None, "looked for before"
    with open(shipped) as file:
        text = file.read().expandtabs()
    with open(os.path.join(directory, _OWN), "w") as file:
        file.write(text.replace("string.split(search_path, pathsep)", "search_path.split(pathsep)"))
