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
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aliquot.errors import SiteError, SourceChangedError, UsageError
from aliquot.journal import Journal, JournalError, RunDirectory, boot_id
from aliquot.outputs.errors import OutputError
from aliquot.quantities import format_count, number_of
from aliquot.running.earlier import Keeping, RunChangedError, open_journal, refuse_foreign_targets, state_of
from aliquot.running.outcome import Outcome, Report, count_units
from aliquot.running.recording import JournalRecorder, failure_of, restore
from aliquot.running.spoiled import told_as_one
from aliquot.running.stopping import RunInterruptedError

if TYPE_CHECKING:
    from aliquot.coordinator import Restored
    from aliquot.outputs import Output, PartialOutput
    from aliquot.running.one_run import Staff
    from aliquot.running.outputs_sink import OutputsSink
    from aliquot.running.plan import Plan
    from aliquot.running.results import Results


class Record:
    """The journal of one sitting, as a run needs it."""

    def __init__(
        self,
        directory: RunDirectory,
        journal: Journal,
        keeping: Keeping,
        sink: OutputsSink | None,
        began_seconds: float,
    ) -> None:
        self.directory = directory
        self.journal = journal
        self._keeping = keeping
        self._sink = sink
        self.recorder = JournalRecorder(journal, sink, began_seconds - journal.get("run_seconds", 0.0))

    def begin(self, plan: Plan, cores: int, allowed_bytes: int | None) -> None:
        """Record that there is another sitting."""
        journal = self.journal
        self._try_failures_again(plan)
        if journal.get("status") != "finishing":  # from there it only goes on: some outputs may be gone from here
            journal.set("status", "running")
        journal.set("ended by", "")
        if plan.growing is None:  # else it is recorded when it is known
            journal.set("units", plan.units)
        journal.set("label", plan.label)
        journal.set("outputs", [output.path for output in self._keeping.outputs])
        started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        about = {
            "cores": cores,
            "step_cores": plan.step_cores,
            "allowed_bytes": allowed_bytes,
            "started": started,
            "pid": os.getpid(),
        }
        journal.record_event(self.recorder.run_seconds, "sitting", about)
        journal.commit()

    def _try_failures_again(self, plan: Plan) -> None:
        """Whoever runs it again, after it has failed, has mended something.

        Not those behind which something was appended: in an output that is in order there is no place for them.
        """
        failed_units = self.journal.failed_units()
        told = plan.options.max_failures
        most = told if told >= 1 else told * plan.expected_units
        if not failed_units or (self.journal.get("status") != "failed" and failed_units <= most):
            return
        restored = self.journal.restore()
        appended_to = max((piece.stop for piece in restored.pieces if piece.is_appended), default=0)
        kept = [failure for failure in restored.failures if plan.is_ordered and failure.start < appended_to]
        self.journal.forget_failures()
        for start, stop, about in kept:
            self.journal.record_failure(start, stop, about)
        if kept and _is_told_in_words(plan):
            units = ", ".join(str(start) for start, _, _ in kept[:5]) + (", ..." if len(kept) > 5 else "")
            print(
                f"aliquot: {number_of(len(kept), 'unit')} that failed stay set aside, as what follows is written "
                f"already ({units}); begin anew with --fresh to have them tried again",
                file=sys.stderr,
            )

    def restore(self, results: Results) -> Restored:
        """What earlier sittings have done. Files that nobody has recorded are removed."""
        sink = self._sink
        if sink is None:
            return restore(self.journal, results)
        restored = restore(self.journal, results, sink.is_there)
        # Only now: what an earlier boot has left is forgotten.
        self.journal.set("boot", boot_id())
        self.journal.commit()
        sink.remove_unknown_files()
        return restored

    def check_reached(self, reached: int, units: int) -> None:
        """Refuse a source that has fewer units than were done of it."""
        if reached > units:
            told = f"there are {format_count(units)} units now, and {format_count(reached)} were begun"
            raise RunChangedError(self.directory.path, [told], can_go_on=False)

    def break_off(self, error: BaseException, *, is_in_order: bool) -> None:
        """Record that the run ends before its end and why, and what is known, unless it ends amid something."""
        with contextlib.suppress(Exception):
            if is_in_order:
                self.recorder.checkpoint()
            else:
                self.journal.roll_back()
            if self.journal.get("status") != "finishing":
                self.journal.set("status", "failed" if _must_be_mended(error) else "interrupted")
            self.journal.set("ended by", str(error) if isinstance(error, Exception) else "")
            self.journal.commit()

    def end(self, status: str, report: Report) -> None:
        """Record how the run has ended; with all units done, move the outputs to their places."""
        journal, outputs = self.journal, self._keeping.outputs
        self.recorder.checkpoint()
        journal.set("report", {**report._asdict(), "costs": ()})
        if status == "done" and self._sink is not None:
            refuse_foreign_targets(journal, self._keeping)
            journal.set("status", "finishing")
            journal.commit()
            self._move(self._sink.partials)
            journal.set("made", {output.path: state_of(output.path) for output in outputs})
        journal.set("status", status)
        journal.commit()

    def _move(self, partials: dict[str, PartialOutput]) -> None:
        """Move all outputs to their places; what can only be written once, as a pipe, last."""
        for output in sorted(self._keeping.outputs, key=lambda output: not _is_plain_target(output.path)):
            if output.name in partials:
                partials.pop(output.name).finish(output.path)
                self.journal.set("moved", [*self.journal.get("moved", []), output.name])
                self.journal.commit()


def run_recorded(
    plan: Plan, keeping: Keeping, hire: Callable[[Plan], Staff], run: Callable[[Plan, Record, Staff | None], Outcome]
) -> Outcome:
    """Run it, or go on with it, in its directory. ``run`` runs a plan with the staff that it has, and records it."""
    directory = RunDirectory(keeping.directory)
    staff: Staff | None = None
    with directory.hold(keeping.command_line), contextlib.ExitStack() as stack:

        def hire_for_new() -> None:
            """They get ready while the journal is made."""
            nonlocal staff
            staff = stack.enter_context(hire(plan)) if plan.units else None

        journal = open_journal(directory, keeping, hire_for_new)
        stack.callback(journal.close)
        if journal.get("status") == "done" and keeping.outputs:
            _remove_pieces(directory)
            return _outcome_of(journal, plan, keeping.outputs)
        if keeping.settings is not None:
            journal.set("settings", keeping.settings)
            journal.commit()
        sink = None
        if keeping.outputs:
            sink = _open_sink(directory, journal, keeping.outputs)
            stack.callback(sink.close)
            plan = plan._replace(sink=sink)
        record = Record(directory, journal, keeping, sink, time.monotonic() if staff is None else staff.began_seconds)
        _say_what_was_found(plan, directory, journal)
        try:
            outcome = run(plan, record, staff)
            record.end("done" if outcome.is_complete else "failed", outcome.report)
        except BaseException as error:
            record.break_off(error, is_in_order=isinstance(error, RunInterruptedError) and error.is_in_order)
            if isinstance(error, Exception):
                error.add_note(f"aliquot: what is done is recorded in {directory.path}{_how_to_go_on(error)}")
            raise
        if sink is not None and _is_told_in_words(plan):
            for warning in sink.warnings:
                print(f"aliquot: {warning}", file=sys.stderr)
        if outcome.is_complete:
            _remove_pieces(directory)
            _remove_all_but(directory.failed, {f"unit-{failure.start}" for failure in outcome.failures})
    return outcome


def _must_be_mended(error: BaseException) -> bool:
    """Whether what was run is at fault, or its data; not whoever stopped it, nor a full disk or another such place."""
    if not isinstance(error, Exception) or getattr(error, "is_out_of_room", False):
        return False
    return not isinstance(error, JournalError | SiteError | UsageError | OSError)


def _how_to_go_on(error: Exception) -> str:
    if not _must_be_mended(error):
        return ""
    if isinstance(error, SourceChangedError):
        return ", from the input as it was; --fresh (fresh=True) begins anew with the input as it is"
    if isinstance(error, OutputError):
        return ", as it was made by this; what is run instead begins anew, with --fresh (fresh=True)"
    return "; once this is mended, the same again goes on from there"


def _remove_all_but(path: str, names: set[str]) -> None:
    """What a unit has left that was done in the end is of no use."""
    for name in set(os.listdir(path)) - names:
        shutil.rmtree(os.path.join(path, name), ignore_errors=True)


def _open_sink(directory: RunDirectory, journal: Journal, outputs: Sequence[Output]) -> OutputsSink:
    from aliquot.running.outputs_sink import OutputsSink

    targets = {output.name: output.path for output in outputs}
    boot = journal.get("boot")
    is_same_boot = boot is None or boot == boot_id() != ""
    partials = _open_partials(directory, journal, outputs)
    return OutputsSink(partials, targets, directory.spool, is_same_boot=is_same_boot)


def _open_partials(directory: RunDirectory, journal: Journal, outputs: Sequence[Output]) -> dict[str, PartialOutput]:
    """The outputs that are not in their places yet, cut back to what is certain."""
    from aliquot.outputs import PartialOutput, find_rule, is_finished

    os.makedirs(directory.partial, exist_ok=True)
    states, moved = journal.state or {}, journal.get("moved", [])
    is_finishing = journal.get("status") == "finishing"
    partials: dict[str, PartialOutput] = {}
    for output in outputs:
        path = os.path.join(directory.partial, output.name)
        if output.name in moved:
            continue
        if is_finishing and is_finished(path, output.path):
            moved = [*moved, output.name]
            journal.set("moved", moved)
            journal.commit()
            continue
        partials[output.name] = PartialOutput(find_rule(output.rule), path, states.get(output.name))
    return partials


def _is_plain_target(path: str) -> bool:
    return path != "-" and (not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path))


def _remove_pieces(directory: RunDirectory) -> None:
    """All is where it belongs."""
    for path in (directory.spool, directory.partial):
        shutil.rmtree(path, ignore_errors=True)


def _outcome_of(journal: Journal, plan: Plan, outputs: Sequence[Output]) -> Outcome:
    """What came of a run that is done."""
    failures = tuple(told_as_one(failure_of(about) for _, _, about in journal.restore().failures))
    known = {name: value for name, value in journal.get("report").items() if name in Report._fields}
    if _is_told_in_words(plan):
        but = f", but {count_units(failures)} set aside" if failures else ""
        print(f"aliquot: this run is done already{but}; --fresh (fresh=True) begins anew", file=sys.stderr)
    value = {output.name: output.path for output in outputs}
    return Outcome(value, Report(**{**known, "costs": ()}), failures, was_done=True)


def _say_what_was_found(plan: Plan, directory: RunDirectory, journal: Journal) -> None:
    if not _is_told_in_words(plan) or journal.get("status") is None:
        return
    if journal.get("status") == "done":
        done = f"is done already ({number_of(journal.done_units(), 'unit')}): its results are joined again"
        print(f"aliquot: the run in {directory.path} {done}", file=sys.stderr)
        return
    units = journal.get("units")
    of_all = "" if units is None else f" of {format_count(units)}"
    done = f"{format_count(journal.done_units())}{of_all} units are done"
    print(f"aliquot: going on with the run in {directory.path}: {done}", file=sys.stderr)


def _is_told_in_words(plan: Plan) -> bool:
    """Not where nothing is to be shown, or something else shows it."""
    return plan.options.progress is None or plan.options.progress is True
