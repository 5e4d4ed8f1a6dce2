"""The program `aliquot`, also as `python -m aliquot`.

To run something needs workers, and they take as long to start as all that is imported here: they start first.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["run"] and not {"-h", "--help", "--dry-run"} & set(sys.argv):
        from aliquot.workers.nursery import the_nursery

        the_nursery(preload=("aliquot.workers.command_stepping",))
    from aliquot import cli

    cli.main()


if __name__ == "__main__":
    main()
