"""`aliquot run` as a person uses it: real programs, Ctrl-C, kill -9, the same command again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aliquot.journal import Journal
from tests.conftest import Ran
from tests.real.processes import Script, kill, wait_until
from tests.virtual_file.making import reads

ALIQUOT = Path(sys.executable).parent / "aliquot"
LINES = "".join(f"{number} {number * number % 97}\n" for number in range(20_000))
# A program that takes its time, and waits at its last line until it is told to go on: so there is an amid.
GATED = (
    "sleep 0.05; cat {text} | while read -r line; do "
    'case "$line" in "199 "*) while ! test -e go; do sleep 0.05; done;; esac; echo "x$line"; done > {out}'
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(LINES)
    (tmp_path / "few.txt").write_text(LINES[: LINES.index("\n200 ") + 1])
    return tmp_path


def aliquot(place: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ALIQUOT, *arguments], cwd=place, capture_output=True, text=True, check=False, input=text, timeout=60
    )


def gated_run(place: Path, *options: str) -> Script:
    arguments = ["aliquot", "run", "--split", "text=few.txt", "--join", "out=out.txt", *options, "--", GATED]
    return Script(place, f"sys.argv = {arguments!r}\nfrom aliquot.cli import main\nmain()\n")


def wait_until_some_is_done(place: Path) -> None:
    path = place / ".aliquot" / "out.txt" / "journal.sqlite"

    def is_some_done() -> bool:
        if not path.exists():
            return False
        with Journal.open(str(path), read_only=True) as journal:
            return journal.done_units() > 0

    wait_until(is_some_done, "some units are done")


def expected(place: Path) -> str:
    return "".join(f"x{line}\n" for line in (place / "few.txt").read_text().splitlines())


@pytest.mark.parametrize(
    ("command", "itself"),
    [
        ("tr 0-9 a-j < {text} > {out}", "tr 0-9 a-j < text.txt"),
        ("awk '{{print $2, NF}}' {text} > {out}", "awk '{print $2, NF}' text.txt"),
        ("sed -n s/9/nine/gp {text}", "sed -n s/9/nine/gp text.txt"),
        ("tail -c +$(({text:offset} + 1)) {text:source} | head -c {text:length} | rev", "rev text.txt"),
    ],
)
def test_a_program_writes_what_it_would_write_alone(place: Path, command: str, itself: str) -> None:
    """Through a pipe, from files, by its standard output, by ranges of bytes; all is told in two lines."""
    ran = aliquot(place, "run", "--split", "text=text.txt", "--join", "out=out.txt", "--", command)
    alone = subprocess.run(itself, shell=True, cwd=place, capture_output=True, check=True)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert (place / "out.txt").read_bytes() == alone.stdout
    assert "20,000 units in" in ran.stderr
    assert "of ideal" in ran.stderr
    assert len(ran.stderr.splitlines()) == 2


def test_without_an_output_what_it_prints_is_printed(place: Path) -> None:
    """Each time that it is run, and with nothing else; what is typed meanwhile is for whoever comes next."""
    command = f"{ALIQUOT} run -q --split text=text.txt -- 'cut -d\" \" -f2 {{text}}'; cat"
    for _ in range(2):
        ran = subprocess.run(
            command, shell=True, cwd=place, capture_output=True, text=True, check=True, input="typed\n"
        )
        assert ran.stdout == "".join(line.split(" ")[1] + "\n" for line in LINES.splitlines()) + "typed\n"
        assert ran.stderr == ""


def test_several_words_are_what_the_program_is_given(place: Path) -> None:
    """As their shell has divided them."""
    ran = aliquot(place, "run", "-q", "--split", "text=text.txt", "--", "sed", "-n", "/1 1/p", "{text}")
    assert ran.stdout == "".join(f"{line}\n" for line in LINES.splitlines() if "1 1" in line)


def test_a_run_that_was_killed_goes_on(place: Path) -> None:
    """`kill -9` of all that it consists of; the same command ends with the same bytes and does not begin anew."""
    with gated_run(place) as script:
        wait_until_some_is_done(place)
        assert not (place / "out.txt").exists()
        kill(script.processes())
        script.wait_until_nothing_is_left()
    assert "interrupted" in aliquot(place, "runs").stdout
    (place / "go").touch()
    with gated_run(place) as script:
        code, _, told = script.finish()
    assert code == 0
    assert "going on with the run in" in told
    assert (place / "out.txt").read_text() == expected(place)
    events = events_of(place)
    assert events.count("sitting") == 2


def events_of(place: Path) -> list[str]:
    with Journal.open(str(place / ".aliquot" / "out.txt" / "journal.sqlite"), read_only=True) as journal:
        return [kind for _, kind, _ in journal.events()]


def test_a_run_without_its_program_has_failed(place: Path) -> None:
    """It says which program, and nothing is isolated; `status` still says it later."""
    ran = aliquot(place, "run", "--split", "text=text.txt", "--join", "out=out.txt", "--", "no-such-program {text}")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the program no-such-program was not found" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "set aside" not in aliquot(place, "runs").stdout
    status = aliquot(place, "status", "out.txt").stdout
    assert status.startswith("out.txt: failed\n")
    assert "it ended with: the program no-such-program was not found" in status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on(place: Path, number: signal.Signals) -> None:
    """The exit code is that of the signal, no step is waited for, no process left, and what it says can be typed."""
    with gated_run(place) as script:
        wait_until_some_is_done(place)
        os.killpg(script.process.pid, number)
        code, out, told = script.finish()
        script.wait_until_nothing_is_left()
    assert (code, out) == (128 + number, "")
    assert "Traceback" not in told
    assert told.count("stopping; what is under way has two seconds to end") == 1
    assert "interrupted" in aliquot(place, "runs").stdout
    advice = told.partition("Go on with: ")[2].strip()
    assert advice == "aliquot resume out.txt"
    assert not (place / "out.txt").exists()
    (place / "go").touch()
    resumed = aliquot(place, *advice.split()[1:])
    assert (resumed.returncode, resumed.stdout) == (0, "")
    assert (place / "out.txt").read_text() == expected(place)


def test_a_run_can_be_looked_at_while_it_goes_on_and_not_be_taken(place: Path) -> None:
    """`status` and `runs` tell; a second `run`, `resume` or `clean` is refused with who has it."""
    with gated_run(place) as script:
        wait_until_some_is_done(place)
        status = aliquot(place, "status", "out.txt").stdout
        assert "running" in status
        assert f"held by process {script.process.pid}" in status
        assert "running" in aliquot(place, "runs").stdout
        again = ("run", "--split", "text=few.txt", "--join", "out=out.txt", "--", GATED)
        for arguments in (again, ("resume", "out.txt"), ("clean", "out.txt")):
            refused = aliquot(place, *arguments)
            assert (refused.returncode, refused.stdout) == (2, "")
            assert f"held by process {script.process.pid}" in refused.stderr
        assert "nothing to remove" in aliquot(place, "clean", "--all").stderr
        (place / "go").touch()
        code, _, _ = script.finish()
    assert code == 0
    assert (place / "out.txt").read_text() == expected(place)


COPY = ("run", "--split", "text=text.txt", "--join", "out=out.txt")


def test_a_changed_input_is_refused(place: Path) -> None:
    """Until the user says what is meant."""
    assert aliquot(place, *COPY, "--", "cat {text}").returncode == 0
    (place / "text.txt").write_text("other\n" + LINES)
    refused = aliquot(place, *COPY, "--", "cat {text}")
    assert refused.returncode == 2
    assert "text.txt has" in refused.stderr
    assert "--fresh" in refused.stderr
    assert "fresh=True" not in refused.stderr
    assert (place / "out.txt").read_text() == LINES
    assert aliquot(place, *COPY, "--fresh", "--", "cat {text}").returncode == 0
    assert (place / "out.txt").read_text() == "other\n" + LINES


def test_one_may_go_on_nevertheless(place: Path) -> None:
    """With a program that has been mended: what was done before stays."""
    failing = "grep -q '^150 ' {text} && exit 3; sed s/^/a/ {text}"
    assert aliquot(place, *COPY, "--", failing).returncode == 1
    mended = "sed s/^/a/ {text}"
    assert aliquot(place, *COPY, "--", mended).returncode == 2
    assert aliquot(place, *COPY, "--resume-anyway", "--", mended).returncode == 0
    assert (place / "out.txt").read_text() == "".join(f"a{line}\n" for line in LINES.splitlines())


def test_an_output_that_exists_is_not_replaced_unasked(place: Path) -> None:
    """Nor one that was changed since it was made."""
    out = place / "out.txt"
    out.write_text("mine\n")
    refused = aliquot(place, *COPY, "--", "cat {text}")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert out.read_text() == "mine\n"
    assert aliquot(place, *COPY, "--force", "--", "cat {text}").returncode == 0
    assert out.read_text() == LINES
    assert "done already" in aliquot(place, *COPY, "--", "cat {text}").stderr
    out.write_text("mine again\n")
    refused = aliquot(place, *COPY, "--", "cat {text}")
    assert (refused.returncode, out.read_text()) == (2, "mine again\n")


def test_what_went_into_a_pipe_is_made_again(place: Path) -> None:
    """It is not there any more, however often the same was run."""
    os.mkfifo(place / "pipe")
    copy = ("run", "--split", "text=text.txt", "--join", "out=pipe", "--", "cat {text}")
    for _ in range(2):
        with subprocess.Popen(["timeout", "20", "cat", "pipe"], cwd=place, stdout=subprocess.PIPE, text=True) as reader:
            assert aliquot(place, *copy).returncode == 0
            assert reader.communicate()[0] == LINES


def test_units_that_fail_are_set_aside(place: Path) -> None:
    """Exit code 1; the third line says which and where; without leave, the run stops and says how to go on."""
    failing = "if grep -q '^150 ' {text}; then echo no 150 >&2; exit 3; fi; cat {text}"
    stopped = aliquot(place, *COPY, "--", failing)
    assert stopped.returncode == 1
    assert "unit 150" in stopped.stderr
    assert "no 150" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (place / "out.txt").exists()
    ran = aliquot(place, "resume", "out.txt", "--max-failures", "1%", "--set-aside", "bad.txt")
    assert ran.returncode == 1
    *_, last = ran.stderr.splitlines()
    assert last.startswith("1 unit was set aside; its input is in bad.txt; see 'aliquot report out.txt'. unit 150")
    assert (place / "bad.txt").read_text() == "150 93\n"
    assert (place / "out.txt").read_text() == LINES.replace("150 93\n", "", 1)
    assert "unit 150" in aliquot(place, "report", "out.txt").stdout
    assert aliquot(place, *COPY, "--", failing).returncode == 1


@pytest.mark.parametrize("output", ["out.txt", "-"])
def test_events_are_lines_of_json(place: Path, output: str) -> None:
    """On standard output; on standard error where the output goes there."""
    ran = aliquot(place, "run", "--json", "--split", "text=text.txt", "--join", f"out={output}", "--", "cat {text}")
    told, other = (ran.stdout, ran.stderr) if output != "-" else (ran.stderr, ran.stdout)
    assert other == ("" if output != "-" else LINES)
    events = [json.loads(line) for line in told.splitlines()]
    assert events[0]["event"] == "begin"
    assert {event["event"] for event in events[1:-1]} == {"progress"}
    assert events[0]["units"] == 20_000
    end = events[-1]
    assert (end["event"], end["status"], end["exit_code"], end["report"]["units"]) == ("end", "done", 0, 20_000)


def test_a_run_goes_on_when_nobody_reads_its_events(place: Path) -> None:
    """And ends well."""
    command = f"{ALIQUOT} run --json --split text=few.txt --join out=out.txt -- 'cat {{text}}' | head -n 1"
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=place, capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout)["event"] == "begin"
    assert ran.stderr == ""
    assert (place / "out.txt").read_text() == (place / "few.txt").read_text()


def test_a_second_interrupt_ends_it_at_once(place: Path) -> None:
    """What is recorded is kept, and nothing else is left."""
    with gated_run(place, "--size", "100") as script:
        wait_until_some_is_done(place)
        script.interrupt()
        script.interrupt()
        code, _, told = script.finish()
        script.wait_until_nothing_is_left()
    assert code == 130
    assert "Traceback" not in told
    (place / "go").touch()
    assert aliquot(place, "resume", "out.txt").returncode == 0
    assert (place / "out.txt").read_text() == expected(place)


def test_events_tell_what_was_set_aside_and_what_went_wrong(place: Path) -> None:
    """With the exit code that follows."""
    command = ("--split", "text=text.txt", "--", "! grep -q '^7 ' {text} && cat {text}")
    ran = aliquot(place, "run", "--json", "--keep-going", *command)
    events = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [(event["start"], event["stop"]) for event in events if event["event"] == "set aside"] == [(7, 8)]
    assert events[-1]["exit_code"] == ran.returncode == 1
    assert aliquot(place, "run", "--json", "--fresh", *command).returncode == 1
    (place / "text.txt").write_text("changed\n")
    ran = aliquot(place, "run", "--json", *command)
    end = json.loads(ran.stderr.splitlines()[-1])
    assert (end["status"], end["exit_code"], ran.returncode) == ("error", 2, 2)
    assert "text.txt has 8 B now" in end["error"]


def test_what_a_run_did_can_be_looked_at_and_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch, in_process: Callable[..., Ran]
) -> None:
    """By its name, its directory, or what it made; outputs stay."""
    assert aliquot(place, *COPY, "--", "cat {text}").returncode == 0
    assert aliquot(place, *COPY, "--run-dir", "elsewhere/mine", "--force", "--", "cat {text}").returncode == 0
    monkeypatch.chdir(place)
    assert "out.txt" in in_process("runs").out
    assert "elsewhere/mine" in in_process("runs", "--all", ".").out
    for name in ("out.txt", ".aliquot/out.txt", "./out.txt", str(place / "out.txt"), "elsewhere/mine"):
        assert "20,000 units in" in in_process("report", name).out, name
    assert in_process("report", "out.txt", "--html").out == "out.txt.html\n"
    assert "<svg" in (place / "out.txt.html").read_text()
    assert "did you mean out.txt?" in in_process("status", "out.tx").err
    assert "elsewhere/mine" in in_process("clean", "elsewhere/mine").out
    assert "removed .aliquot/out.txt" in in_process("clean").out
    assert in_process("runs").out == ""
    assert (place / "out.txt").read_text() == LINES


def test_a_report_is_not_written_over_an_output(place: Path) -> None:
    """Behind --html, the name of a run looks like a path."""
    assert aliquot(place, *COPY, "--", "cat {text}").returncode == 0
    for option in ("--html", "--png"):
        refused = aliquot(place, "report", option, "out.txt")
        assert refused.returncode == 2
        assert f"aliquot report out.txt {option}{' out.txt.png' if option == '--png' else ''}\n" in refused.stderr
    assert (place / "out.txt").read_text() == LINES
    page = ("run", "--split", "text=few.txt", "--join", "page=page.html", "--", "cat {text}")
    assert aliquot(place, *page).returncode == 0
    assert "name another file" in aliquot(place, "report", "page.html", "--html", "page.html").stderr
    both = ("--join", "first=x", "--join", "second=x.html", "--", "cat {text} | tee {first} > {second}")
    assert aliquot(place, "run", "--split", "text=few.txt", *both).returncode == 0
    assert "name another file" in aliquot(place, "report", "x", "--html").stderr
    assert "there is no folder" in aliquot(place, "report", "--html", "nowhere/page.html").stderr
    assert (place / "page.html").read_text() == (place / "few.txt").read_text()


def test_what_was_refused_is_no_run(place: Path) -> None:
    """Nothing was interrupted."""
    (place / "folder").mkdir()
    refused = aliquot(place, "run", "--split", "text=text.txt", "--join", "out=folder", "--", "cat {text} > {out}")
    assert refused.returncode == 2
    assert "there are no runs here" in aliquot(place, "runs").stderr


def test_a_run_with_units_set_aside_is_kept_and_says_so(place: Path) -> None:
    """It is done, but somebody might want to know what failed."""
    failing = "if grep -q '^150 ' {text}; then exit 3; fi; cat {text}"
    assert aliquot(place, *COPY, "--keep-going", "--", failing).returncode == 1
    assert "19,999 of 20,000 units done, 1 set aside (100.0 %)" in aliquot(place, "status", "out.txt").stdout
    again = aliquot(place, *COPY, "--keep-going", "--", failing)
    assert (again.returncode, "done already, but 1 unit failed and was set aside" in again.stderr) == (1, True)
    assert "out.txt is done, but with units set aside" in aliquot(place, "clean").stderr
    assert "removed" in aliquot(place, "clean", "out.txt").stdout


def test_a_file_says_what_to_run(place: Path) -> None:
    """What is on the command line wins, and what is resumed is what was run."""
    (place / "job.toml").write_text(
        "command = 'sed s/^/a/ {text}'\ncores = 1\nmax-failures = '1%'\n"
        "[split]\ntext = 'text.txt'\n[join]\nout = 'out.txt'\n"
    )
    ran = aliquot(place, "run", "--config", "job.toml")
    assert ran.returncode == 0, ran.stderr
    assert "on 1 core," in ran.stderr
    assert (place / "out.txt").read_text() == "".join(f"a{line}\n" for line in LINES.splitlines())
    ran = aliquot(place, "run", "--config", "job.toml", "--split", "text=few.txt", "--join", "out=few.out")
    assert (place / "few.out").read_text() == expected(place).replace("x", "a")
    assert aliquot(place, "resume", "few.out").returncode == 0
    assert "--fresh" in aliquot(place, "resume", "few.out").stderr
    anew = aliquot(place, "resume", "few.out", "--fresh")
    assert (anew.returncode, "done already" in anew.stderr) == (0, False)


def test_plain_lines_without_colours(place: Path) -> None:
    """Where nobody sees them."""
    ran = aliquot(place, *COPY, "--", "cat {text}")
    assert "\x1b" not in ran.stderr


def test_an_output_that_is_not_named_and_not_printed_is_told(place: Path) -> None:
    """It is empty, and why."""
    ran = aliquot(place, "run", "--split", "text=few.txt", "--join", "out=out.txt", "--", "cat {text} > /dev/null")
    assert (ran.returncode, (place / "out.txt").read_text()) == (0, "")
    told = ran.stderr.splitlines()[-1]
    assert told.startswith("aliquot: out.txt is empty: {out} is nowhere in the command, so it was made of what the")
    assert told.endswith(
        "and it printed nothing. If the command writes to a file, write {out} where it names that file"
    )


@pytest.fixture
def no_mates(place: Path) -> Path:
    (place / "a.fastq").write_bytes(reads(90))
    (place / "b.fastq").write_bytes(reads(90).replace(b"read", b"other"))
    return place


PAIRS = ("run", "--split", "a=a.fastq", "--split", "b=b.fastq", "--join", "out=out.txt")


@pytest.mark.parametrize("command", ["paste {a} {b} > {out}", "paste {a:pipe} {b:pipe} > {out}"])
def test_reads_that_are_no_mates_are_told_without_blaming_the_command(no_mates: Path, command: str) -> None:
    """In the words of the command line."""
    ran = aliquot(no_mates, *PAIRS, "--", command)
    assert ran.returncode == 1
    assert "the reads are not mates: they are called 'read0' and 'other0'" in ran.stderr
    assert "can be divided with --names-may-differ" in ran.stderr
    assert "The input is at fault, and not the command" in ran.stderr
    assert "same_names" not in ran.stderr
    assert "failed/" not in ran.stderr


@pytest.mark.parametrize("in_file", [False, True])
def test_reads_that_are_no_mates_may_be_divided_together(no_mates: Path, in_file: bool) -> None:
    """If one says so, also in a file; whoever goes on with the run need not say it again."""
    (no_mates / "job.toml").write_text("names-may-differ = true\n")
    told = ("--config", "job.toml") if in_file else ("--names-may-differ",)
    ran = aliquot(no_mates, *PAIRS, *told, "--", "test -e go && paste {a} {b} > {out}")
    assert ran.returncode == 1
    assert "the command itself may be at fault" in ran.stderr
    (no_mates / "go").touch()
    ran = aliquot(no_mates, "resume", "out.txt")
    assert ran.returncode == 0, ran.stderr
    alone = subprocess.run(["paste", "a.fastq", "b.fastq"], cwd=no_mates, capture_output=True, check=True)
    assert (no_mates / "out.txt").read_bytes() == alone.stdout
