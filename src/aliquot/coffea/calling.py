from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from aliquot import workers
from aliquot.coffea.counting import count_entries
from aliquot.coffea.entries import EntriesSource
from aliquot.coffea.fileset import files_of
from aliquot.coffea.outputs import join_outputs
from aliquot.coffea.processing import Process
from aliquot.coffea.release import LIBRARIES, coffea_executors
from aliquot.errors import UsageError
from aliquot.running.preloading import limits_memory
from aliquot.virtual_file import VirtualFile
from aliquot.workers.nursery import the_nursery

if TYPE_CHECKING:
    from aliquot.sites.local import Local

# As Runner's xrootdtimeout.
_OPEN_TIMEOUT_SECONDS = 60


def run(
    fileset: Mapping[str, Any] | str,
    *tree_and_processor: Any,
    treename: str | None = None,
    processor_instance: Any = None,
    schema: Any = None,
    metadata: Mapping[str, Any] | None = None,
    uproot_options: Mapping[str, Any] | None = None,
    iteritems_options: Mapping[str, Any] | None = None,
    savemetrics: bool = False,
    ordered: bool = False,
    on: Local | None = None,
    memory: int | str | None = None,
    disk: int | str | None = None,
    max_failures: float = 0,
    set_aside: str | os.PathLike[str] | None = None,
    size: int | None = None,
    target_seconds: float | None = None,
    target_bytes: int | str | None = None,
    wall_seconds: float | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    resume_anyway: bool = False,
    progress: bool | None = None,
) -> Any:
    """Run a coffea processor over a fileset on all cores, and return what it accumulates, after its ``postprocess``.

    What ``coffea.processor.Runner(executor, schema=schema)(fileset, processor_instance, treename=treename)`` returns,
    with nothing to tune: how many entries make a chunk is found out while running. For coffea 2026.4 and later. The
    tree name and the processor come in either order, or by their names.

    ``fileset`` is whatever a Runner takes: ``{dataset: [files]}``, ``{dataset: {"files": ..., "treename": ...,
    "metadata": ..., "preload": ...}}``, or the path of a JSON file with that. ``metadata`` is put on the events of
    every dataset, beside the fileset's own. ``schema`` is NanoAODSchema unless said otherwise. ``uproot_options``,
    ``iteritems_options`` and ``savemetrics`` (return the output and the metrics) are those of the Runner.

    The units are the entries of all files, one after the other. A file that cannot be opened is one unit, and so is a
    file without entries, which the processor is given too. Instead of ``skipbadfiles``, ``max_failures`` says how many
    may fail. The other arguments are those of `aliquot.map_batches`; with ``ordered=True``, outputs are accumulated in
    the order of the files, so that lists and categories come in the same order every time.
    """
    for told in tree_and_processor:
        if isinstance(told, str) and treename is None:
            treename = told
        elif told is not None and processor_instance is None:
            processor_instance = told
        elif told is not None:
            raise UsageError(f"{told!r:.200} is neither the name of a tree nor the processor: both were given already")
    if not workers.inside_worker and find_spec("coffea") is not None:
        # Imported there once, for all workers, and at the same time as here.
        the_nursery(LIBRARIES, is_small=limits_memory(on, memory))
    coffea_executors()
    if not hasattr(processor_instance, "process") and not callable(processor_instance):
        raise UsageError(f"{processor_instance!r:.200} is not a processor: it has no method process(events)")
    if isinstance(processor_instance, type) and hasattr(processor_instance, "process"):
        name = processor_instance.__name__
        raise UsageError(f"{name} is the class of a processor: give an instance: {name}()")
    files = files_of(fileset, treename, metadata)
    options = {"timeout": _OPEN_TIMEOUT_SECONDS, **(uproot_options or {})}
    source = EntriesSource(count_entries([(file.path, file.tree) for file in files], options, on))
    process = Process(
        processor_instance, files, schema, options, dict(iteritems_options or {}), measures=bool(savemetrics)
    )

    import aliquot

    joined = aliquot.map_batches(
        process,
        VirtualFile(source),
        join=join_outputs,
        ordered=ordered,
        on=on,
        memory=memory,
        disk=disk,
        max_failures=max_failures,
        set_aside=set_aside,
        size=size,
        target_seconds=target_seconds,
        target_bytes=target_bytes,
        wall_seconds=wall_seconds,
        run_dir=run_dir,
        fresh=fresh,
        resume_anyway=resume_anyway,
        progress=progress,
    )
    if joined is None:
        raise UsageError("there is no output: every entry failed, and max_failures allows for that")
    return _finished(joined.value, processor_instance, savemetrics=savemetrics)


def _finished(wrapped: dict[str, Any], processor_instance: Any, *, savemetrics: bool) -> Any:
    """As Runner ends: postprocess may change the output, or return another."""
    output = wrapped["out"]
    postprocess = getattr(processor_instance, "postprocess", None)
    if callable(postprocess):
        changed = postprocess(output)
        output = output if changed is None else changed
    if not savemetrics:
        return output
    metrics = {name: list(value) if isinstance(value, set) else value for name, value in wrapped["metrics"].items()}
    return output, metrics
