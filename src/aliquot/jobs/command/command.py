from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from aliquot.errors import JobStateError, UsageError
from aliquot.job import NOT_RUN, Description, Done, Job, Resources, Result
from aliquot.jobs.command.error import CommandError
from aliquot.jobs.command.feeding import check_can_be_streamed
from aliquot.jobs.command.process import run_step
from aliquot.jobs.command.template import Template
from aliquot.outputs import Output, PartialOutput, find_rule, parse_output
from aliquot.quantities import as_count
from aliquot.virtual_file import Source, VirtualFile, open, together
from aliquot.virtual_file.file_source import FileSource
from aliquot.virtual_file.sequences import ItemsSource
from aliquot.virtual_file.several import FilesInOrder
from aliquot.virtual_file.storage import compression_by_name

# Paths of the files that each output consists of, in order.
Files = dict[str, list[str]]

_STANDARD_OUTPUT = Output("stdout", "-", "concat")
_SUFFIX = re.compile(r"\.[\w+-]{1,16}\Z", re.ASCII)


class Command(Job):
    """A command line over files.

    ``command`` is a line for the shell with placeholders, as `aliquot.jobs.command.template` tells. ``split`` says what
    the names in it stand for: files, or virtual files, that are cut at the same units. ``join`` says the outputs and
    where they go: ``{"sam": "out.sam"}`` or ``{"sam": "out.sam:sam"}``, with the rule by which their parts are joined.
    What the command writes to standard output is the output that it does not name, or the only one if there is none.

    ``unordered``             the parts of outputs may be joined in any order
    ``check``                 another command that runs after each step, and fails if the outputs are not good
    ``least_bytes_per_unit``  all outputs of a step together have at least that many bytes for each of its units
    ``step_cores``            how many cores a step uses, ``{cores}`` in the command: all, where the command names them,
                              and else one
    ``sandbox``               run each step in a directory of its own, with links to ``inputs`` (files, directories or
                              globs) by their names
    ``directory``             where to run the command otherwise; by default, where it was made
    ``same_names``            of several files that are split, units at the same place have the same name (FASTQ)

    ``execute`` gives, for each output, the files that it consists of, in a temporary directory; `write` joins them.
    """

    type_name = "aliquot.command"

    def __init__(
        self,
        command: str,
        *,
        split: Mapping[str, str | os.PathLike[str] | VirtualFile],
        join: Mapping[str, str] | Sequence[Output] | None = None,
        unordered: bool = False,
        check: str | None = None,
        least_bytes_per_unit: float | None = None,
        step_cores: int | None = None,
        sandbox: bool = False,
        inputs: Sequence[str | os.PathLike[str]] = (),
        directory: str | os.PathLike[str] | None = None,
        same_names: bool = True,
    ) -> None:
        if not isinstance(split, Mapping):
            example = f"{split!r:.100}" if isinstance(split, str) else "'sample.fastq'"
            raise UsageError(f"split= says what each input is called in the command: split={{'reads': {example}}}")
        if not split:
            raise UsageError("a command has something to split: split={'reads': 'sample.fastq'}")
        views = [file if isinstance(file, VirtualFile) else open(file) for file in split.values()]
        outputs = _as_outputs(join, views)
        for name, view in zip(split, views, strict=True):
            if len(view.source.members()) > 1:
                raise UsageError(f"{name!r} is several files, cut at the same units: give each of them its own name")
        self._prepare(
            command,
            names=tuple(split),
            source=views[0] if len(views) == 1 else together(*views, same_names=same_names),
            outputs=outputs,
            check=check,
            directory=os.path.abspath(os.curdir if directory is None else directory),
            sandbox=sandbox,
            inputs=inputs,
        )
        self.unordered = unordered
        if step_cores is not None:
            self.resources = Resources(cores=as_count(step_cores, "step_cores", "a step uses at least one core"))
        self.least_bytes_per_unit = least_bytes_per_unit
        if least_bytes_per_unit is not None and not least_bytes_per_unit >= 0:
            raise UsageError(f"least_bytes_per_unit={least_bytes_per_unit!r}: a number of bytes")

    def _prepare(
        self,
        command: str,
        *,
        names: tuple[str, ...],
        source: VirtualFile,
        outputs: tuple[Output, ...],
        check: str | None,
        directory: str,
        sandbox: bool,
        inputs: Sequence[str | os.PathLike[str]],
    ) -> None:
        """All that can be wrong is told here, before anything runs."""
        output_names = [output.name for output in outputs]
        self.template = Template(command, names, output_names)
        self.check = None if check is None else Template(check, names, output_names, is_check=True)
        self.mode = self.template.mode
        self.source = source
        self.directory = directory
        self.sandbox = sandbox
        self._names = names
        self._outputs = outputs
        self._keys = self.template.keys | (self.check.keys if self.check is not None else frozenset())
        if not os.path.isdir(directory):
            raise UsageError(f"{directory} is not a directory that the command could run in")
        self.file_names = {
            **{name: name + _source_suffix(one) for name, one in self.sources.items()},
            **{output.name: output.name + _target_suffix(output) for output in outputs},
        }
        self._inputs = self._find_inputs(inputs)
        for name, one in self.sources.items():
            self._check_source(name, one)
        for output in outputs:
            self._check_output(output)

    @property
    def sources(self) -> dict[str, Source]:
        """What is split, by its name in the command."""
        return dict(zip(self._names, self.source.source.members(), strict=True))

    @property
    def outputs(self) -> tuple[Output, ...]:  # type: ignore[override]  # they have rules, too
        """What the command makes."""
        return self._outputs

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]  # found when the job is made
        """The files and directories that a sandbox has links to."""
        return self._inputs

    @property
    def size(self) -> int:  # type: ignore[override]  # looked for when it is first wanted
        """How many units there are."""
        return len(self.source)

    def makes_directory(self, output: Output) -> bool:
        """Whether an output is a directory."""
        return find_rule(output.rule).makes_directory

    def wants(self, key: str) -> bool:
        """Whether the command or its check has a placeholder."""
        return key in self._keys

    def split(self, count: int, size: int) -> list[Self]:
        """Split the source."""
        if isinstance(self.result, Done):
            raise JobStateError("this command has run, and its outputs cannot be cut: split it before it is executed")
        return [self._over(source, NOT_RUN) for source in self.source.split(count, size)]

    def join(self, other: Self) -> list[Self]:
        """Join the sources where they touch and, if both are done, their files."""
        if self.describe_without_source() != other.describe_without_source():
            raise UsageError("these are parts of different commands, and so they cannot be joined")
        first, second = (self, other) if self.source.start <= other.source.start else (other, self)
        sources = first.source.join(second.source)
        if len(sources) == 2:
            return [first, second]
        return [self._over(sources[0], first.joined_result(second, _join_files))]

    def execute(self) -> Files:
        """Run the command once, on all units, in a temporary directory; the files of each output."""
        import tempfile

        place = tempfile.mkdtemp(prefix="aliquot-command-")
        try:
            outputs = run_step(self, 0, self.size, place, cores=self.resources.cores or 1)
        except BaseException as error:
            if not (self.sandbox and isinstance(error, CommandError)):
                import shutil

                shutil.rmtree(place, ignore_errors=True)
                if isinstance(error, CommandError):
                    error.place = None
            raise
        return {name: [path] for name, path in outputs.items()}

    def write(self, files: Files) -> None:
        """Join the files that `execute` gave, of one part or of several that were joined, into the outputs."""
        import tempfile

        for output in self._outputs:
            with tempfile.TemporaryDirectory(prefix="aliquot-join-") as directory:
                partial = PartialOutput(find_rule(output.rule), os.path.join(directory, "joined"))
                for path in files[output.name]:
                    partial.append(path)
                is_path = output.path != "-"
                partial.finish(os.path.join(self.directory, output.path) if is_path else output.path)

    def to_desc(self) -> Description:
        """Say as JSON what runs on what."""
        return self.describe(**self.describe_without_source(), source=self.source.to_desc())

    @classmethod
    def from_desc(cls, desc: Description) -> Self:
        """Rebuild the job."""
        job = cls.__new__(cls)
        job._prepare(
            desc["command"],
            names=tuple(desc["split"]),
            source=VirtualFile.from_desc(desc["source"]),
            outputs=tuple(Output(*output) for output in desc["join"]),
            check=desc["check"],
            directory=desc["directory"],
            sandbox=desc["sandbox"],
            inputs=desc["inputs"],
        )
        job.unordered = desc["unordered"]
        job.least_bytes_per_unit = desc["least_bytes_per_unit"]
        return job

    def describe_without_source(self) -> dict[str, Any]:
        """What runs, as JSON, whatever it runs on."""
        return {
            "command": self.template.text,
            "split": list(self._names),
            "join": [list(output) for output in self._outputs],
            "unordered": self.unordered,
            "check": None if self.check is None else self.check.text,
            "least_bytes_per_unit": self.least_bytes_per_unit,
            "sandbox": self.sandbox,
            "inputs": list(self._inputs),
            "directory": self.directory,
        }

    def _over(self, source: VirtualFile, result: Result) -> Self:
        """Make the same job over other units."""
        job = self.with_result(result)
        job.source = source
        return job

    def _check_source(self, name: str, source: Source) -> None:
        if isinstance(source, ItemsSource):
            raise UsageError(f"{{{name}}} cannot be given to a command: the items of a sequence have no bytes")
        if self.mode == "stream":
            check_can_be_streamed(name, source)
        if self.wants(f"{name}:source") or self.wants(f"{name}:offset") or self.wants(f"{name}:length"):
            self._check_range(name, source)

    def _check_range(self, name: str, source: Source) -> None:
        instead = f"Use {{{name}}}, a file with the units, or {{{name}:pipe}}"
        if len(source.paths()) != 1:
            raise UsageError(
                f"{{{name}}} is {source}, not one file, so there is no one range of bytes in it. {instead}"
            )
        if self.wants(f"{name}:source") and not (self.wants(f"{name}:offset") or self.wants(f"{name}:length")):
            return
        if not isinstance(source, FileSource) or source.storage.compression != "none":
            raise UsageError(
                f"{source} is compressed, so a program cannot begin in the middle of it by a number of bytes. {instead}"
            )

    def _check_output(self, output: Output) -> None:
        if self.makes_directory(output) and self.template.stdout_output == output.name:
            raise UsageError(
                f"the output {output.name!r} is a directory, and {{{output.name}}} is nowhere in the command: "
                "what it writes to standard output makes no directory"
            )
        if output.path == "-":
            return
        self._check_is_not_written_itself(output)
        target = os.path.realpath(os.path.join(self.directory, output.path))
        if any(os.path.realpath(path) == target for path in self.source.source.paths()):
            raise UsageError(f"the output {output.name!r} would be written over what it is made from: {target}")
        if any(
            os.path.realpath(os.path.join(self.directory, other.path)) == target
            for other in self._outputs
            if other.name != output.name and other.path != "-"
        ):
            raise UsageError(f"two outputs go to the same place: {target}")

    def _check_is_not_written_itself(self, output: Output) -> None:
        """Refuse the path of an output in the command, where its name should be: no step would have anything of it."""
        if self.template.stdout_output != output.name or output.path.startswith("/dev/"):
            return
        words = self.template.words()
        target = os.path.realpath(os.path.join(self.directory, output.path))
        is_input = any(os.path.realpath(path) == target for path in self._inputs)
        # In a sandbox, and wherever else the command goes, a relative path is that of another file.
        goes_elsewhere = self.sandbox or any(word in ("cd", "pushd") for _, word in words)
        for redirection, word in words:
            is_written = ">" in redirection and not redirection.endswith("&")  # that is a descriptor
            # Without a dot or a slash, an argument may be anything; a file that is there may be read.
            may_be_written = not redirection and re.search(r"[./]", word) and not os.path.exists(target)
            is_like_path = is_written or may_be_written
            is_elsewhere = goes_elsewhere and not os.path.isabs(word)
            if not is_like_path or is_elsewhere or os.path.basename(word) != os.path.basename(output.path):
                continue
            if os.path.realpath(os.path.join(self.directory, word)) == target and not is_input:
                raise UsageError(
                    f"the command {'writes to' if is_written else 'names'} {word} itself: write {{{output.name}}} "
                    f"instead. Each step has a file of its own there, and {output.path} is made of them"
                )

    def _find_inputs(self, inputs: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
        if inputs and not self.sandbox:
            raise UsageError("inputs are for a sandbox, which has links to them: add sandbox=True, or leave them out")
        if isinstance(inputs, str):
            raise UsageError(f"inputs is a list of paths: [{inputs!r}]")
        found: dict[str, str] = dict.fromkeys((*self.file_names.values(), "scratch"), "") if inputs else {}
        paths = []
        for path in inputs:
            written = os.path.join(self.directory, os.fspath(path))
            matches = sorted(glob.glob(written)) if glob.has_magic(written) and not os.path.exists(written) else []
            for match in matches or [written]:
                absolute = os.path.normpath(match)
                name = os.path.basename(absolute)
                if not os.path.exists(absolute):
                    raise UsageError(f"the input {absolute} is not there")
                if name in found:
                    raise UsageError(
                        f"two files would be called {name!r} in the sandbox: {absolute} and "
                        f"{found[name] or 'one of the command itself'}"
                    )
                found[name] = absolute
                paths.append(absolute)
        return tuple(paths)


def have_header_row(views: Iterable[VirtualFile]) -> bool:
    """Whether each part that is cut off one of these begins with a header row, which a command may pass on."""
    sources = [
        one for view in views for one in view.source.constituents() if isinstance(one, FileSource | FilesInOrder)
    ]
    return any(one.reading()["name"] in ("csv", "tsv") and one.header(1) for one in sources)


def _as_outputs(join: Mapping[str, str] | Sequence[Output] | None, views: Sequence[VirtualFile]) -> tuple[Output, ...]:
    if join is None or not join:
        return (_STANDARD_OUTPUT,)
    if isinstance(join, str):
        raise UsageError(f"join={join!r}: say what each output is called: join={{'sam': 'out.sam'}}")
    if isinstance(join, Mapping):
        has_header_row = have_header_row(views)
        return tuple(
            parse_output(f"{name}={os.fspath(path)}", has_header_row=has_header_row) for name, path in join.items()
        )
    return tuple(Output(*output) for output in join)


def _join_files(first: Files, second: Files) -> Files:
    return {name: [*files, *second[name]] for name, files in first.items()}


def _source_suffix(source: Source) -> str:
    """What a slice is called after its name: as its source, but never compressed."""
    paths = source.paths()
    return _plain_suffix(compression_by_name(paths[0])[0]) if paths else ".txt"


def _target_suffix(output: Output) -> str:
    """Also with what tells of compression: it is the command that compresses."""
    if output.path == "-" or output.path.endswith("/"):
        return ""
    rest, compression = compression_by_name(output.path)
    return _plain_suffix(rest) + compression


def _plain_suffix(path: str) -> str:
    suffix = os.path.splitext(path)[1]
    return suffix if _SUFFIX.match(suffix) else ""
