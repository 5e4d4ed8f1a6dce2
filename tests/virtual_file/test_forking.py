"""Processes that are forked while threads and readers are at work."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .making import random_lines, write

UNITS = 60_000

# A child that waits for ever is ended by its alarm, with a status that is not 0.
FORK_WHILE_INDEXING = """
import os, signal, sys, aliquot

def status_of_child(vf, expected):
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            found = len(vf), vf[expected - 1 :].read() != b""
            os._exit(0 if found == (expected, True) else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

vf = aliquot.open(sys.argv[1])
if sys.argv[3] == "background":
    vf.index(wait=False)
else:
    vf[5]
statuses = {status_of_child(vf, int(sys.argv[2])) for _ in range(4)}
print(statuses, len(vf))
"""

CHILD_THAT_ENDS_BY_ITSELF = """
import os, signal, sys, aliquot

vf = aliquot.open(sys.argv[1])
vf[5]
child = os.fork()
if child == 0:
    signal.alarm(10)
    sys.exit(0 if len(vf) == int(sys.argv[2]) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(vf))
"""


def lines_in(kind: str, folder: Path, program: Callable[[str], str]) -> Path:
    """The same lines, compressed or not."""
    data = random_lines(UNITS)
    if kind == "plain":
        return write(folder / "a.txt", data)
    if kind == "gzip":
        return write(folder / "a.txt.gz", gzip.compress(data, 1))
    command = {"bgzf": ["bgzip", "-c"], "zstd": ["pzstd", "-q", "-c", "-1"]}[kind]
    done = subprocess.run([program(command[0]), *command[1:]], input=data, stdout=subprocess.PIPE, check=True)
    return write(folder / ("a.txt.zst" if kind == "zstd" else "a.txt.gz"), done.stdout)


@pytest.mark.parametrize("kind", ["plain", "gzip", "bgzf", "zstd"])
@pytest.mark.parametrize("busy", ["background", "reader"])
def test_a_forked_child_counts_on(tmp_path: Path, kind: str, busy: str, program: Callable[[str], str]) -> None:
    """Whatever thread held a lock or a reader in the parent, the child waits for nobody, and the parent goes on."""
    path = lines_in(kind, tmp_path, program)
    done = subprocess.run(
        [sys.executable, "-c", FORK_WHILE_INDEXING, str(path), str(UNITS), busy],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{{0}} {UNITS}\n"


@pytest.mark.parametrize("kind", ["gzip", "bgzf"])
def test_a_forked_child_ends_by_itself(tmp_path: Path, kind: str, program: Callable[[str], str]) -> None:
    """Also where it leaves the interpreter as any program does, with a reader that it has from its parent."""
    path = lines_in(kind, tmp_path, program)
    done = subprocess.run(
        [sys.executable, "-c", CHILD_THAT_ENDS_BY_ITSELF, str(path), str(UNITS)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"0 {UNITS}\n"
