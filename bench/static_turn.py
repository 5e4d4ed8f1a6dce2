"""A program over files that were cut beforehand: `python -m bench.static_turn COMMAND INPUTS OUTPUT`.

This is what a user writes who knows the best size: two at once, the results one after the other.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

_AT_ONCE = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.static_turn", description="One static size.")
    parser.add_argument("command", help="for the shell; the path of an input is appended")
    parser.add_argument("inputs", help="a directory whose files are the inputs, in the order of their names")
    parser.add_argument("output")
    told = parser.parse_args()
    inputs = sorted(entry.path for entry in os.scandir(told.inputs))

    def run(path: str) -> str:
        subprocess.run(f"{told.command} {path} > {path}.out", shell=True, check=True)
        return f"{path}.out"

    # Threads only wait for programs here.
    with ThreadPoolExecutor(_AT_ONCE) as pool, open(told.output, "wb") as output:
        for path in pool.map(run, inputs):
            with open(path, "rb") as piece:
                shutil.copyfileobj(piece, output)


if __name__ == "__main__":
    main()
