"""A run with a directory of its own, in which everything is recorded: whoever starts it again goes on with it.

new ------> running -----> finishing -----> done
             |   ^            outputs are moved to their places
             v   | the same call again
     interrupted, failed, or killed
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aliquot.errors import UsageError
from aliquot.journal import Journal, RunDirectory, boot_id, differences
from aliquot.quantities import format_count
from aliquot.running.outcome import Failure, Outcome, Report
from aliquot.running.recording import JournalRecorder, restore

if TYPE_CHECKING:
    from aliquot.coordinator import Restored
    from aliquot.outputs import Output, PartialOutput
    from aliquot.running.outputs_sink import OutputsSink
    from aliquot.running.plan import Plan
    from aliquot.running.results import Results


class RunChangedError(UsageError):
    """What is to be run is not what was begun: ``changes`` says in which way."""

    def __init__(self, path: str, changes: Sequence[str]) -> None:
        told = "\n".join(f"  {change}" for change in changes)
        super().__init__(
            f"{path} has a run that was begun with something else:\n{told}\n"
            "Begin anew with --fresh (fresh=True), or go on nevertheless with --resume-anyway (resume_anyway=True)"
        )
        self._arguments = (path, tuple(changes))
        self.changes = tuple(changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._arguments)


class RunInterruptedError(KeyboardInterrupt):
    """The run was stopped by Ctrl-C or a signal, in good order: what is done is recorded."""


class Keeping(NamedTuple):
    """Where a run is recorded, what it is made of, what it makes, and what becomes of an earlier one there."""

    directory: str
    identity: Callable[[], dict[str, Any]]
    outputs: tuple[Output, ...] = ()
    is_fresh: bool = False
    resumes_anyway: bool = False
    may_overwrite: bool = False
    command_line: str | None = None
    settings: Mapping[str, Any] | None = None  # by which a command line starts it again


class Earlier(NamedTuple):
    """What an earlier run has left: "new" if nothing is of use, what was done of it, and what differs from this one."""

    status: str
    done_units: int = 0
    changes: Sequence[str] = ()


class Record:
    """The journal of one sitting, as a run needs it."""

    def __init__(
        self, directory: RunDirectory, journal: Journal, outputs: Sequence[Output], sink: OutputsSink | None
    ) -> None:
        self.directory = directory
        self.journal = journal
        self._outputs = outputs
        self._sink = sink
        self.recorder = JournalRecorder(journal, sink, journal.get("run_seconds", 0.0))

    def begin(self, plan: Plan, cores: int, allowed_bytes: int | None) -> None:
        """Record that there is another sitting."""
        journal = self.journal
        if journal.get("status") == "failed":
            journal.forget_failures()  # whoever runs it again has mended something
        if journal.get("status") != "finishing":  # from there it only goes on: some outputs may be gone from here
            journal.set("status", "running")
        journal.set("units", plan.units)
        journal.set("label", plan.label)
        journal.set("outputs", [output.path for output in self._outputs])
        started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        about = {"cores": cores, "allowed_bytes": allowed_bytes, "started": started, "pid": os.getpid()}
        journal.record_event(self.recorder.run_seconds, "sitting", about)
        journal.commit()

    def restore(self, results: Results) -> Restored:
        """What earlier sittings have done. Files that nobody has recorded are removed."""
        sink = self._sink
        if sink is None:
            return restore(self.journal, results)
        restored = restore(self.journal, results, sink.is_there)
        # Only now: what an earlier boot has left is forgotten.
        self.journal.set("boot", boot_id())
        self.journal.commit()
        with os.scandir(self.directory.spool) as entries:
            for entry in entries:
                if entry.name not in sink.known_files:
                    sink.remove(entry.path)
        return restored

    def interrupt(self) -> None:
        """Record what is known, as far as that is possible: the run ends before its end."""
        with contextlib.suppress(Exception):
            self.recorder.checkpoint()
            if self.journal.get("status") != "finishing":
                self.journal.set("status", "interrupted")
            self.journal.commit()

    def end(self, status: str, report: Report) -> None:
        """Record how the run has ended; with all units done, move the outputs to their places."""
        journal, sink = self.journal, self._sink
        self.recorder.checkpoint()
        journal.set("report", {**report._asdict(), "costs": ()})
        if status == "done" and sink is not None:
            journal.set("status", "finishing")
            journal.commit()
            for output in self._outputs:
                if output.name in sink.partials:
                    sink.partials[output.name].finish(output.path)
            journal.set("made", {output.path: _state_of(output.path) for output in self._outputs})
        journal.set("status", status)
        journal.commit()


def run_recorded(plan: Plan, keeping: Keeping, run: Callable[[Plan, Record], Outcome]) -> Outcome:
    """Run it, or go on with it, in its directory. ``run`` runs a plan and records it."""
    directory = RunDirectory(keeping.directory)
    with directory.hold(keeping.command_line), contextlib.ExitStack() as stack:
        journal = _open(directory, keeping)
        stack.callback(journal.close)
        if journal.get("status") == "done" and keeping.outputs:
            _remove_pieces(directory)
            return _outcome_of(journal, plan, keeping.outputs)
        if keeping.settings is not None:
            journal.set("settings", keeping.settings)
            journal.commit()
        sink = None
        if keeping.outputs:
            from aliquot.running.outputs_sink import OutputsSink

            targets = {output.name: output.path for output in keeping.outputs}
            sink = OutputsSink(_open_partials(directory, journal, keeping.outputs), targets, directory.spool)
            sink.is_same_boot = journal.get("boot") in (None, boot_id())
            stack.callback(sink.close)
            plan = plan._replace(sink=sink)
        record = Record(directory, journal, keeping.outputs, sink)
        _say_what_was_found(plan, directory, journal)
        try:
            outcome = run(plan, record)
        except BaseException as error:
            record.interrupt()
            if isinstance(error, Exception):
                error.add_note(f"aliquot: what is done is recorded in {directory.path}; the same call goes on with it")
            raise
        record.end("done" if outcome.is_complete else "failed", outcome.report)
        if outcome.is_complete:
            _remove_pieces(directory)
    return outcome


def _remove_pieces(directory: RunDirectory) -> None:
    """All is where it belongs."""
    for path in (directory.spool, directory.partial):
        shutil.rmtree(path, ignore_errors=True)


def look_at_earlier(keeping: Keeping) -> Earlier:
    """What would become of an earlier run; raises what would be refused, but for changes. Changes nothing."""
    path = RunDirectory(keeping.directory).journal_path
    if os.path.exists(path) and not keeping.is_fresh:
        with Journal.open(path, read_only=True) as journal:
            if _is_of_use(journal, keeping):
                changes = differences(journal.identity, keeping.identity())
                return Earlier(journal.get("status", "interrupted"), journal.done_units(), changes)
    _check_targets(keeping, _made_by(path))
    return Earlier("new")


def _open(directory: RunDirectory, keeping: Keeping) -> Journal:
    """The journal to go on with, or a new one."""
    path = directory.journal_path
    identity = keeping.identity()
    if os.path.exists(path) and not keeping.is_fresh:
        journal = Journal.open(path)
        if _is_of_use(journal, keeping):
            changes = differences(journal.identity, identity)
            if changes and not keeping.resumes_anyway:
                journal.close()
                raise RunChangedError(directory.path, changes)
            if changes:
                journal.replace_identity(identity)
            return journal
        journal.close()
    # What was done is not given up for a run that is refused.
    _check_targets(keeping, _made_by(path))
    if os.path.exists(path):
        directory.clear()
    return Journal.create(path, identity)


def _is_of_use(journal: Journal, keeping: Keeping) -> bool:
    """Whether it can be gone on with; one that is done, only as long as all that it made is as it was made."""
    if journal.get("status") != "done":
        return True
    made = journal.get("made", {})
    return all(made.get(output.path) == _state_of(output.path) is not None for output in keeping.outputs)


def _made_by(path: str) -> dict[str, Any]:
    """What an earlier run has made, which may be replaced; nothing where its journal cannot be read any more."""
    from aliquot.journal import JournalError

    with contextlib.suppress(JournalError), Journal.open(path, read_only=True) as journal:
        made: dict[str, Any] = journal.get("made", {})
        return made
    return {}


def _check_targets(keeping: Keeping, made: dict[str, Any]) -> None:
    """Refuse what cannot be written, or would be lost, before anything is run."""
    from aliquot.outputs import check_target, find_rule

    for output in keeping.outputs:
        if (
            os.path.isfile(output.path)
            and not keeping.may_overwrite
            and made.get(output.path) != _state_of(output.path)
        ):
            raise UsageError(f"{output.path} exists: say --force (force=True) to have it replaced, or name another")
        check_target(output.path, is_directory=find_rule(output.rule).makes_directory)


def _open_partials(directory: RunDirectory, journal: Journal, outputs: Sequence[Output]) -> dict[str, PartialOutput]:
    from aliquot.outputs import PartialOutput, find_rule, is_finished

    os.makedirs(directory.partial, exist_ok=True)
    states = journal.restore().state or {}
    partials: dict[str, PartialOutput] = {}
    for output in outputs:
        path = os.path.join(directory.partial, output.name)
        if is_finished(path, output.path):
            continue
        partials[output.name] = PartialOutput(find_rule(output.rule), path, states.get(output.name))
    return partials


def _outcome_of(journal: Journal, plan: Plan, outputs: Sequence[Output]) -> Outcome:
    """What came of a run that is done."""
    failures = tuple(Failure(**about) for _, _, about in journal.restore().failures)
    report = Report(**journal.get("report"))
    if _is_told_in_words(plan):
        print("aliquot: this run is done already; begin anew with --fresh", file=sys.stderr)
    return Outcome({output.name: output.path for output in outputs}, report, failures)


def _say_what_was_found(plan: Plan, directory: RunDirectory, journal: Journal) -> None:
    if not _is_told_in_words(plan) or journal.get("status") is None:
        return
    done = f"{format_count(journal.done_units())} of {format_count(journal.get('units', plan.units))} units are done"
    print(f"aliquot: going on with the run in {directory.path}: {done}", file=sys.stderr)


def _is_told_in_words(plan: Plan) -> bool:
    """Not where nothing is to be shown, or something else shows it."""
    return plan.options.progress is None or plan.options.progress is True


def _state_of(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


@contextlib.contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """While this lasts, Ctrl-C and SIGTERM ask for an end in good order; a second one ends it at once."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_asked = False

    def on_signal(*_: object) -> None:
        nonlocal is_asked
        if is_asked:
            raise KeyboardInterrupt
        is_asked = True
        stop()

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)
    ]
    before = [(number, signal.signal(number, on_signal)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
