"""The program `aliquot`, also as `python -m aliquot`.

To run something needs workers, and they take as long to start as all that is imported here: they start first.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys


def main() -> None:
    """Run the command line, and end this process."""
    status: object = 0
    try:
        _main()
    except SystemExit as ended:
        status = ended.code
    except KeyboardInterrupt:
        # While all of it is being imported.
        os.write(2, b"interrupted\n")
        status = 130
    _leave(status)


def _main() -> None:
    # Nearly all that is made here stays to the end: to look for garbage in it as often as usual takes milliseconds.
    gc.set_threshold(50_000)
    _occupy_standard_descriptors()
    if sys.argv[1:2] == ["run"] and not {"-h", "--help", "--dry-run"} & set(sys.argv):
        from aliquot.workers.nursery import the_nursery

        # shutil is to remove what a program leaves, and the end of a run would wait for its import.
        the_nursery(("aliquot.workers.command_stepping", "shutil"), is_small=False)
    from aliquot import cli

    cli.main()


def _leave(status: object) -> None:
    """End at once: to take all modules apart, as Python does otherwise, takes longer than a short run."""
    if isinstance(status, str):
        sys.stderr.write(f"{status}\n")
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads it any more
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _occupy_standard_descriptors() -> None:
    """A file that is opened later must not become standard output because that was closed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    main()
