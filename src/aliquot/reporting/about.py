from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """What a run is called, and what it runs; all that a report shows and its events do not tell."""

    name: str = ""
    command: str = ""
    status: str = ""  # running, interrupted, failed, finishing, done
    ended_by: str = ""  # the error that ended it before its end, if one did
    units: int | None = None  # in all, where that is known
    done_units: int | None = None  # that will not be done again; after a crash, fewer than were reported
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    # The part of the CPU time of its cores that a step took; known of a run that was done in one sitting.
    busy_share: float | None = None


def one_line(text: str, width: int) -> str:
    """The first line with something in it, no longer than ``width``, and without what would upset a terminal."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)
    return line if len(line) <= width else line[: width - 3] + "..."
