"""Programs are run as users run them, each turn in an empty directory that has only what the program needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.measuring import Contender, find_program

OUTPUT = "out.sam"

_TIMEOUT_SECONDS = 900


def aliquot_program() -> str:
    program = find_program("aliquot")
    if program is None:
        raise RuntimeError("there is no program 'aliquot' beside this Python: pip install -e . first")
    return program


def aliquot_run(command: str, *, split: str, join: str, options: Iterable[str] = ()) -> list[str]:
    """The command line of a run that begins anew, has learned nothing, and says nothing."""
    own = ["--force", "--fresh", "--forget", "--quiet"]
    return [aliquot_program(), "run", "--split", split, "--join", join, *own, *options, "--", command]


def environment(cache: str, **more: str) -> dict[str, str]:
    """With bytecode, as installed packages have it; without what earlier turns have learned or indexed."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "ALIQUOT_CACHE": cache, **more}


def run_here(command: list[str] | str, directory: str, **more: str) -> None:
    """Run to the end in a directory; a string is for the shell. Raises with what it said if it fails."""
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=directory,
        env=environment(os.path.join(directory, "cache"), **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        told = (done.stdout + done.stderr)[-4000:].decode(errors="replace")
        raise RuntimeError(f"{command} failed with exit code {done.returncode}:\n{told}")


@dataclass
class Place:
    """A directory that is new for each turn of a contender. What its first turn made is checked, outside its time."""

    fill: Callable[[str], None]
    check: Callable[[str], None]
    directory: str | None = None
    _is_checked: bool = field(default=False, init=False)

    def renew(self) -> None:
        """Before a turn."""
        self.clear()
        self.directory = tempfile.mkdtemp(prefix="aliquot-bench-")
        self.fill(self.directory)

    def clear(self) -> None:
        """After a turn; looks at what it made, if none was looked at yet."""
        directory, self.directory = self.directory, None
        if directory is None:
            return
        try:
            if not self._is_checked:
                self.check(directory)
                self._is_checked = True
        finally:
            shutil.rmtree(directory, ignore_errors=True)


class Places:
    """The directories of several contenders."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    def contender(
        self,
        name: str,
        run: Callable[[str], None],
        *,
        fill: Callable[[str], None],
        check: Callable[[str], None] = lambda directory: None,
        at_most_repeats: int | None = None,
    ) -> Contender:
        """Something that runs in a directory."""
        place = Place(fill, check)
        self._places.append(place)

        def run_in_place() -> None:
            assert place.directory is not None, "made before each turn"
            run(place.directory)

        return Contender(name, run_in_place, prepare=place.renew, at_most_repeats=at_most_repeats)

    def clear(self) -> None:
        """Check what was not checked yet, and remove all."""
        for place in self._places:
            place.clear()


@contextmanager
def places() -> Iterator[Places]:
    made = Places()
    try:
        yield made
    finally:
        made.clear()
