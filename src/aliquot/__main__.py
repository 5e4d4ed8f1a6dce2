"""The program `aliquot`, also as `python -m aliquot`.

To run something needs workers, and they take as long to start as all that is imported here: they start first.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    try:
        _main()
    except KeyboardInterrupt:
        # While all of it is being imported.
        os.write(2, b"interrupted\n")
        os._exit(130)


def _main() -> None:
    _occupy_standard_descriptors()
    if sys.argv[1:2] == ["run"] and not {"-h", "--help", "--dry-run"} & set(sys.argv):
        from aliquot.workers.nursery import the_nursery

        the_nursery(preload=("aliquot.workers.command_stepping",))
    from aliquot import cli

    cli.main()


def _occupy_standard_descriptors() -> None:
    """A file that is opened later must not become standard output because that was closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
