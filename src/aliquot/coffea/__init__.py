"""Run a coffea processor, as it is, over a fileset, without a chunk size: `run`; or coffea's own Runner: `Executor`.

    fileset -> FileOfSet of each file     as Runner takes it apart               fileset.py
            -> CountedTree of each        how many entries, where clusters end   counting.py
            -> EntriesSource              units: the entries of all files        entries.py
            -> Process, in a worker       entries -> NanoEvents -> process()     processing.py, open_tree.py
            -> accumulate                 coffea's own, in the workers and here  outputs.py
            -> postprocess()                                                     calling.py

Which releases of coffea this is written for, and why only those: release.py.
"""

from __future__ import annotations

from typing import Any

from aliquot.coffea.calling import run

__all__ = ["Executor", "run"]  # Executor is made when it is first wanted


def __getattr__(name: str) -> Any:
    if name == "Executor":
        from aliquot.coffea.executor import executor_class

        return executor_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
