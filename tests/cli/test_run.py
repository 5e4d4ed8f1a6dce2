"""What `aliquot run` makes of its arguments; what it does with them is in tests/real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran

# Runs nothing, but reads all that is told.
LOOK = ("run", "--dry-run", "--split", "text=text.txt", "--join", "out=out.txt")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "text.txt").write_text("".join(f"{number}\n" for number in range(1000)))
    (tmp_path / "more.csv").write_text("a,b\n" + "1,2\n" * 1000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def aliquot(place: Path, in_process: Callable[..., Ran]) -> Callable[..., Ran]:
    return in_process


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tr 1 x < {text} > {out}", "through a pipe"),
        ("cat {text} > {out}", "as files, one for each step"),
        ("tail -c +{text:offset} {text:source} | head -c {text:length} > {out}", "as ranges of bytes"),
    ],
)
def test_a_dry_run_tells_what_would_be_run(aliquot: Callable[..., Ran], place: Path, command: str, told: str) -> None:
    """And leaves nothing behind."""
    ran = aliquot(*LOOK, "--cores", "2", "--", command)
    assert (ran.code, ran.err) == (0, "")
    assert "1,000 units of text.txt, 3.9 kB" in ran.out
    assert told in ran.out
    assert "to 2 cores" in ran.out
    assert "out.txt, by the rule concat" in ran.out
    assert "in .aliquot/out.txt, from the first unit on" in ran.out
    assert "> .aliquot/out.txt/spool/STEP/out.txt" in ran.out
    assert sorted(os.listdir(place)) == ["more.csv", "text.txt"]


def test_a_dry_run_tells_what_would_be_refused(aliquot: Callable[..., Ran], place: Path) -> None:
    """As an output that exists."""
    (place / "out.txt").write_text("mine")
    assert "would be refused" in aliquot(*LOOK, "--", "cat {text} > {out}").out
    assert "from the first unit on" in aliquot(*LOOK, "--force", "--", "cat {text} > {out}").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (LOOK, "say what to run, after --"),
        ((*LOOK, "--"), "aliquot run --split reads=sample.fastq.gz"),
        (("run", "--", "cat {text}"), "say what to divide, with --split NAME=PATH"),
        (("run", "--split", "text", "--", "cat {text}"), "--split 'text' is not NAME=PATH"),
        (("run", "--split", "text=missing.txt", "--", "cat {text}"), "missing.txt: there is no such file"),
        ((*LOOK, "--", "cat {txt}"), "Did you mean {text}?"),
        ((*LOOK, "--", "cat {text} > out.txt"), "the command writes to out.txt itself: write {out} instead"),
        ((*LOOK, "--", "cat {text} - < {text}"), "Write 'cat {text} |' before the program instead of '< {text}'"),
        ((*LOOK, "--join", "x=y:concta", "--", "cat {text}"), "unknown rule 'concta': did you mean 'concat'?"),
        ((*LOOK, "--format", "fastqc", "--", "cat {text}"), "unknown format 'fastqc': did you mean fastq?"),
        ((*LOOK, "--format", "tex=csv", "--", "cat {text}"), "nothing is called 'tex'; there is text"),
        ((*LOOK, "--splt", "a=b", "--", "cat {text}"), "'--split'"),
        ((*LOOK, "-n", "cat {text}"), "put that after --, in quotes"),
        ((*LOOK, "--fresh", "--resume-anyway", "--", "cat {text}"), "--fresh and --resume-anyway cannot"),
        ((*LOOK, "--input", "x", "--", "cat {text}"), "add --sandbox"),
        ((*LOOK, "--least-bytes", "-1", "--", "cat {text}"), "--least-bytes -1.0"),
        ((*LOOK, "--max-failures", "1", "--keep-going", "--", "cat {text}"), "say one of them"),
        ((*LOOK, "--config", "missing.toml"), "--config missing.toml: No such file"),
        (("rum",), "'run'"),
        (("status", "nothing"), "there is no run 'nothing': there are none in"),
        (("resume", "nothing"), "there is no run 'nothing'"),
        (("clean", "nothing"), "there is no run 'nothing'"),
        (("clean", "--all", "nothing"), "name some, or say --all"),
        (("runs", "--all", "missing"), "there is no such folder"),
        (("completion", "tcsh"), "'bash', 'zsh', 'fish'"),
    ],
)
def test_a_mistake_is_explained(aliquot: Callable[..., Ran], arguments: tuple[str, ...], complaint: str) -> None:
    """With exit code 2, what to write instead, nothing on standard output and no traceback."""
    ran = aliquot(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert "Traceback" not in ran.err
    assert "=True" not in ran.err


def test_options_behind_the_command_are_no_part_of_it(aliquot: Callable[..., Ran], place: Path) -> None:
    """Unless the program has such options too, and stands there word for word."""
    ran = aliquot(*LOOK, "--", "cat {text} > {out}", "--fresh")
    assert ran.code == 2
    assert "--fresh stands behind the command: options of aliquot run come before --" in ran.err
    look = ("run", "--dry-run", "--split", "text=text.txt", "--")
    assert aliquot(*look, "sort", "--check", "{text}").code == 0
    (place / "my prog").write_text("")
    assert aliquot(*look, str(place / "my prog"), "--force", "{text}").code == 0


def test_what_is_for_the_shell_is_put_in_quotes(aliquot: Callable[..., Ran]) -> None:
    """As a word of its own it would be given to the program."""
    ran = aliquot(*LOOK, "--", "cat", "{text}", ">", "{out}")
    assert ran.code == 2
    assert "put all of the command in quotes" in ran.err
    assert aliquot("run", "--dry-run", "--split", "text=text.txt", "--", "grep", ">", "./{text}").code == 0


def test_formats_are_for_all_or_for_one(aliquot: Callable[..., Ran]) -> None:
    """By its name."""
    split = ("run", "--dry-run", "--split", "a=more.csv")
    assert "1,000 units" in aliquot(*split, "--", "cat {a}").out
    assert "1,001 units" in aliquot(*split, "--format", "lines", "--", "cat {a}").out
    assert "1,001 units" in aliquot(*split, "--format", "csv", "--format", "a=lines", "--", "cat {a}").out
    assert "1,001 units" in aliquot(*split, "--option", "header=no", "--", "cat {a}").out


def test_a_name_that_is_given_again_is_another_file(aliquot: Callable[..., Ran], place: Path) -> None:
    """One after the other; other names are cut at the same units."""
    split = ("run", "--dry-run", "--split", "a=text.txt")
    assert "2,000 units of 2 files" in aliquot(*split, "--split", "a=text.txt", "--", "cat {a}").out
    printed = aliquot(*split, "--split", "b=more.csv", "--", "paste {a} {b}").out
    assert "a: 1,000 units of text.txt" in printed
    assert "b: 1,000 units of more.csv" in printed


CONFIG = """
command = 'cat {text} > {out}'
cores = 3
keep-going = true
[split]
text = 'text.txt'
[join]
out = 'out.txt'
"""


def test_a_file_may_say_all(aliquot: Callable[..., Ran], place: Path) -> None:
    """And the command line wins."""
    (place / "job.toml").write_text(CONFIG)
    look = ("run", "--dry-run", "--config", "job.toml")
    printed = aliquot(*look).out
    assert "text: 1,000 units of text.txt" in printed
    assert "to 3 cores" in printed
    assert "cat .aliquot/out.txt/spool/STEP/text.txt" in printed
    printed = aliquot(*look, "--cores", "2", "--split", "text=more.csv", "--join", "x=y.txt", "--", "cp {text} {x}").out
    assert "text: 1,000 units of more.csv" in printed
    assert "to 2 cores" in printed
    assert "cp .aliquot/out.txt/spool/STEP/text.csv" in printed


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("comand = 'cat'", "job.toml: there is no option 'comand': did you mean command?"),
        ("max_failurs = 3", "job.toml: there is no option 'max_failurs': did you mean max-failures?"),
        ("cores = 'many'", "job.toml: cores = 'many'"),
        ("cores = [1]", "job.toml: cores is one value"),
        ("command = 3", "job.toml: command is a text in quotes"),
        ("split = 'text.txt'", "job.toml: split is a table"),
        ("[split]\ntext = 3", "job.toml: text in [split] is a path in quotes"),
        ("cores = ", "--config job.toml is not TOML"),
        ("config = 'other.toml'", "there is no option 'config'"),
    ],
)
def test_a_mistake_in_a_file_names_the_file(
    aliquot: Callable[..., Ran], place: Path, line: str, complaint: str
) -> None:
    """And what was meant."""
    (place / "job.toml").write_text(line + "\n")
    ran = aliquot("run", "--config", "job.toml")
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


def test_options_of_formats_may_be_in_a_file(aliquot: Callable[..., Ran], place: Path) -> None:
    """As a table, or as they are written on the command line."""
    for told in ("option = ['header=no']", "[option]\nheader = 'no'"):
        (place / "job.toml").write_text(f"command = 'cat {{a}}'\nsplit = {{a = 'more.csv'}}\n{told}\n")
        assert "1,001 units" in aliquot("run", "--dry-run", "--config", "job.toml").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(aliquot: Callable[..., Ran], shell: str) -> None:
    """By a script that says where it goes."""
    printed = aliquot("completion", shell).out
    assert "_ALIQUOT_COMPLETE" in printed
    assert f"aliquot completion {shell}" in printed


def test_names_of_runs_are_completed(place: Path) -> None:
    """Those that are here."""
    (place / ".aliquot" / "out.txt").mkdir(parents=True)
    environment = {
        **os.environ,
        "_ALIQUOT_COMPLETE": "bash_complete",
        "COMP_WORDS": "aliquot status o",
        "COMP_CWORD": "2",
    }
    ran = subprocess.run(
        [Path(sys.executable).parent / "aliquot"],
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "plain,out.txt\n"


@pytest.mark.parametrize("command", ["run", "map", "runs", "status", "report", "resume", "clean"])
def test_help_shows_examples(aliquot: Callable[..., Ran], command: str) -> None:
    """To copy."""
    printed = aliquot(command, "--help").out
    assert any(line.strip().startswith(f"aliquot {command}") for line in printed.splitlines())


def test_no_runs_are_no_error(aliquot: Callable[..., Ran]) -> None:
    """It says how to begin one."""
    ran = aliquot("runs")
    assert (ran.code, ran.out) == (0, "")
    assert "aliquot run --help" in ran.err
    assert "nothing to remove" in aliquot("clean").err


def test_a_sam_header_that_is_there_again_and_again_is_warned_of(aliquot: Callable[..., Ran], place: Path) -> None:
    """The rule sam has it once."""
    (place / "lines.txt").write_text("read\n" * 20)
    command = "printf '@SQ\\tSN:x\\n'; cat {n}"
    ran = aliquot("run", "--split", "n=lines.txt", "--size", "5", "--", command)
    assert ran.code == 0
    assert ran.out.count("@SQ") > 1
    assert "--join stdout=-:sam has it once" in ran.err
    ran = aliquot("run", "--split", "n=lines.txt", "--size", "5", "--join", "stdout=-:sam", "--", command)
    assert ran.out.count("@SQ") == 1
    assert "header" not in ran.err
