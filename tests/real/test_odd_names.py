"""Names of files are bytes, and need not be text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_commands_and_files_may_have_names_that_are_no_text(tmp_path: Path) -> None:
    """The input, the output and the command itself."""
    lines = "".join(f"{number}\n" for number in range(2000)).encode()
    source = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    Path(os.fsdecode(source)).write_bytes(lines)
    told = [b"--split", b"r=" + source, b"--join", b"o=out\xe9.txt", b"--", b"cat {r} > {o} # \xe9"]
    subprocess.run(
        [sys.executable, "-m", "aliquot", "run", "-q", *told], cwd=tmp_path, check=True, stdin=subprocess.DEVNULL
    )
    assert Path(os.fsdecode(os.fsencode(tmp_path) + b"/out\xe9.txt")).read_bytes() == lines
