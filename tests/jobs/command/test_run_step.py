"""One process on some units: what it gets, what it leaves, and how its failures are told."""

from __future__ import annotations

import errno
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.errors import DataError
from aliquot.jobs.command import Command, CommandError, run_step, shells
from aliquot.jobs.command.error import NoProcessError
from tests.virtual_file.making import numbered_lines, reads, write

LINES = numbered_lines(20)


@pytest.fixture(autouse=True)
def in_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run where they are made."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lines.txt", LINES)
    return tmp_path


def run(text: str, start: int = 0, stop: int = 20, *, place: str = "place", **options: Any) -> dict[str, bytes]:
    options = {"split": {"x": "lines.txt"}, **options}
    step = {name: options.pop(name) for name in ("cores", "memory_bytes") if name in options}
    outputs = run_step(Command(text, **options), start, stop, place, **step)
    return {name: Path(path).read_bytes() for name, path in outputs.items()}


def failure(text: str, *arguments: Any, **options: Any) -> CommandError:
    with pytest.raises(CommandError) as failed:
        run(text, *arguments, **options)
    return failed.value


def test_a_command_gets_its_units_as_a_file() -> None:
    """With the name of the split and the suffix of the source; standard output is the output that is not named."""
    assert run("cat {x}", 5, 8) == {"stdout": b"".join(LINES.splitlines(keepends=True)[5:8])}
    assert sorted(os.listdir("place")) == ["stderr.txt", "stdout", "x.txt"]


def test_units_are_those_of_the_view(in_its_own_directory: Path) -> None:
    """Counted from its first; {unit_start} counts from the source's first."""
    view = aliquot.open("lines.txt")[10:15]
    out = run("echo {unit_start} {units}; head -1 {x}", 2, 5, split={"x": view})["stdout"]
    assert out == b"12 3\n12xxxxx\n"


def test_numbers_are_given() -> None:
    """Cores, and memory in bytes; where nobody limits it, a core's share of the machine."""
    assert run("echo {cores} {memory} {x} > {o}", join={"o": "o"}, cores=3, memory_bytes=5000)["o"].startswith(
        b"3 5000"
    )
    assert int(run("echo {memory} > {o}; : {x}", join={"o": "o"}, place="other")["o"]) > 1 << 20


def test_a_scratch_directory_is_made_where_it_is_asked_for() -> None:
    """And only there."""
    assert run("ls {scratch}; cp {x} {scratch}/copy && ls {scratch}")["stdout"] == b"copy\n"
    run("cat {x}", place="other")
    assert not os.path.exists("other/scratch")


def test_several_outputs() -> None:
    """Named ones have the suffix of where they go."""
    found = run(
        "tee {a} < {x:source} > {b}; : {units}; ls $(dirname {a})", join={"a": "a.sam", "b": "b.txt.gz", "c": "c"}
    )
    assert found["a"] == found["b"] == LINES
    assert found["c"] == b"a.sam\nb.txt.gz\nc\nstderr.txt\n"


def test_standard_output_that_is_no_output_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """And standard error is kept for failures: many programs tell there what they do."""
    run("cat {x} > {o}; echo told; echo noise >&2", join={"o": "o"})
    assert capfd.readouterr() == ("told\n", "")


def test_an_output_may_be_a_directory() -> None:
    """It is there, empty, when the command starts."""
    outputs = run_step(Command("cp {x} {d}/one", split={"x": "lines.txt"}, join={"d": "out/"}), 0, 20, "place")
    assert (Path(outputs["d"]) / "one").read_bytes() == LINES


def test_a_range_of_bytes() -> None:
    """For programs that can begin anywhere; no file is made."""
    text = "dd bs=1 skip={x:offset} count={x:length} if={x:source} 2> /dev/null"
    assert run(text, 3, 7) == {"stdout": b"".join(LINES.splitlines(keepends=True)[3:7])}
    assert sorted(os.listdir("place")) == ["stderr.txt", "stdout"]


def test_a_range_of_one_source_goes_with_a_file_of_another() -> None:
    """Which may be of several files."""
    write(Path("first.txt"), "a\nb\n")
    write(Path("second.txt"), "c\nd\n")
    write(Path("four.txt"), "1\n2\n3\n4\n")
    split = {"x": "four.txt", "y": aliquot.open(["first.txt", "second.txt"])}
    assert run("cat {y}; echo {x:offset}", 1, 3, split=split) == {"stdout": b"b\nc\n2\n"}


@pytest.mark.parametrize("name", ["a b.txt", "it's.txt", 'a"b.txt', "new\nline.txt", "$x`y`.txt", "-n.txt", "ü.t xt"])
def test_any_file_name_is_good(name: str) -> None:
    """For the source, the directory, and between quotes."""
    write(Path(name), LINES)
    os.mkdir(f"dir {name}")
    texts = (
        *("cat {x}", "cat '{x}'", 'cat "{x}"', "cat < {x}", "cat {x:source}; : {units}"),
        'printf "%s\\n" "$(case x in x) cat {x};; esac)"',
        'n="$(echo case.txt; echo case)"; cat {x}',
        'n="${{P:-$(basename "a")}}"  # it\'s the default\ncat {x}',
        'n="${{P:-"a"}}"  # it\'s\ncat {x}',
        'n="${{P:-it\'s}}"; cat "{x}"',
    )
    for number, text in enumerate(texts):
        found = run(text, place=f"dir {name}/{number}", split={"x": name}, directory=f"dir {name}")
        assert found == {"stdout": LINES}


def test_compressed_sources_are_given_uncompressed() -> None:
    """The suffix says so."""
    subprocess.run(["gzip", "-k", "lines.txt"], check=True)
    assert run("cat {x}; basename {x}", 0, 2, split={"x": "lines.txt.gz"})["stdout"].endswith(b"x.txt\n")


def test_the_header_of_a_csv_file_is_repeated() -> None:
    """In front of every slice."""
    write(Path("rows.csv"), "a,b\n1,2\n3,4\n")
    assert run("cat {x}", 1, 2, split={"x": "rows.csv"}) == {"stdout": b"a,b\n3,4\n"}


def test_files_cut_at_the_same_units() -> None:
    """Each by its own name; those that do not belong together are refused."""
    write(Path("1.fastq"), reads(9, "/1"))
    write(Path("2.fastq"), reads(9, "/2"))
    found = run("paste {a} {b} | grep read", 4, 6, split={"a": "1.fastq", "b": "2.fastq"})
    assert found == {"stdout": b"@read4/1\t@read4/2\n@read5/1\t@read5/2\n"}
    write(Path("3.fastq"), reads(9).replace(b"read", b"other"))
    with pytest.raises(DataError, match="unit 0"):
        run("paste {a} {b}", split={"a": "1.fastq", "b": "3.fastq"}, place="other")
    found = run("paste {a} {b} | wc -l", 0, 9, split={"a": "1.fastq", "b": "3.fastq"}, same_names=False, place="3")
    assert found["stdout"].split() == [b"36"]


def test_what_is_advised_instead_of_a_pipe_works() -> None:
    """A part is read as a file and, by cat, from standard input; so are two parts."""
    assert run("cat {x} | paste {x} -", 3, 5) == {"stdout": b"3xxx\t3xxx\n4xxxx\t4xxxx\n"}
    found = run("cat {b} | paste {a} -", 3, 4, split={"a": "lines.txt", "b": "lines.txt"}, place="two")
    assert found == {"stdout": b"3xxx\t3xxx\n"}


def test_a_file_that_ends_without_a_newline_gets_one_where_another_follows() -> None:
    """So that parts make the same lines as the whole."""
    write(Path("1.part"), "a\nb")
    write(Path("2.part"), "c\nd")
    view = aliquot.open("*.part")
    assert run("cat {x}", 0, 2, split={"x": view}) == {"stdout": b"a\nb\n"}
    assert run("cat {x}", 2, 4, split={"x": view}, place="other") == {"stdout": b"c\nd"}


def test_an_exit_status_is_a_failure() -> None:
    """With what was run, and the end of what it said."""
    error = failure("cat {x} > /dev/null; echo one >&2; echo 'my\ttwo' >&2; exit 3", 5, 8)
    assert (error.status, error.signal, error.stderr) == (3, None, "one\nmy\ttwo")
    assert error.place == os.path.abspath("place")
    lines = str(error).splitlines()
    assert lines[0] == f"the command exited with status 3 on units 5 to 7 of {os.path.abspath('lines.txt')}: my\ttwo"
    assert lines[1].startswith("The command was: cat ")
    assert lines[3:] == ["  one", "  my\ttwo", f"Its files are kept in {os.path.abspath('place')}"]


def test_only_the_end_of_much_that_was_said_is_kept() -> None:
    """20 lines and 4 kB, in the message; all of it in the file."""
    error = failure("cat {x} > /dev/null; seq 10000 >&2; false")
    assert error.stderr.splitlines() == [str(number) for number in range(9981, 10001)]
    assert len(Path("place/stderr.txt").read_text().splitlines()) == 10000
    assert len(failure("cat {x}; head -c 9999 /dev/zero | tr '\\0' x >&2; false", place="other").stderr) <= 4096


@pytest.mark.parametrize(("text", "status"), [("sh -c 'kill -9 $$' {x}", None), ("sh -c 'kill -9 $$' {x}; exit", 137)])
def test_a_signal_is_told_by_its_name(text: str, status: int | None) -> None:
    """Whether the program or a part of the command got it."""
    error = failure(text)
    assert (error.signal, error.status) == ("SIGKILL", status)
    assert "killed by SIGKILL (The system kills programs when memory runs out)" in str(error)


def test_a_missing_program_is_told() -> None:
    """With what to look for."""
    error = failure("no-such-program {x}")
    assert error.status == 127
    assert "the program no-such-program was not found" in str(error)
    assert "Is the program installed" in str(error)
    assert "not found" in error.stderr
    assert error.is_program_missing


@pytest.mark.parametrize(
    "text",
    [
        "cat {x}; exit 127",
        "conv() {{ cat $1; }}; conv {x}; echo conv: bad >&2; exit 127",
        "if false; then no-such-program {x}; fi; echo no-such-program skipped >&2; exit 127",
    ],
)
def test_a_status_as_of_a_missing_program_is_not_enough(text: str) -> None:
    """What the command runs may exit with it, for reasons of its own."""
    error = failure(text)
    assert "the command exited with status 127" in str(error)
    assert not error.is_program_missing


def test_a_program_that_may_not_be_executed_is_told(tmp_path: Path) -> None:
    """It is there, and of no use."""
    program = tmp_path / "locked"
    program.write_text("cat $1")
    error = failure(f"{program} {{x}}")
    assert error.status == 126
    assert f"the program {program} was not to be executed" in str(error)
    assert error.is_program_missing


def test_a_failure_within_a_pipe_is_not_missed() -> None:
    """What comes after it might look complete."""
    error = failure("(cat {x}; exit 5) | cat")
    assert error.status == 5


def test_a_program_that_has_read_enough_of_a_pipe_is_no_failure() -> None:
    """The one before it is killed by its own pipe, as always."""
    assert run("cat {x} /dev/zero | head -n 1") == {"stdout": b"0\n"}


@pytest.mark.parametrize(
    "text",
    [
        "cat {x} /dev/zero | head -n 1 && echo more",
        "if cat {x} /dev/zero | head -n 1; then echo more; else false; fi; exit 141",
        "set -e; cat {x} /dev/zero | head -n 1; echo more",
        "set -o errexit\ncat {x} /dev/zero | head -n 1\necho more",
        "set -x -e; cat {x} /dev/zero | head -n 1; echo more",
        "command set -e; cat {x} /dev/zero | head -n 1; echo more",
        "2> /dev/null set -e; cat {x} /dev/zero | head -n 1; echo more",
        "# the first\nset -e\ncat {x} /dev/zero | head -n 1\necho more",
        "n=$#; set -e; cat {x} /dev/zero | head -n 1; echo more",
        "f=a/b; echo ${{f##*/}}; set -e; cat {x} /dev/zero | head -n 1; echo more",
        "first() {{ set -e; cat {x} /dev/zero | head -n 1; echo more; }}; first",
        "main() {{ first && echo more; }}\nfirst() {{ cat {x} /dev/zero | head -n 1; }}\nmain",
        'v="$(set -e; cat {x} /dev/zero | head -n 1; echo more)"; e=$?; echo "$v"; exit $e',
        "cat > /dev/null <<EOF\ndon't\nEOF\ncat {x} /dev/zero | head -n 1 && echo more",
        "n=`echo 1 # one`; cat {x} /dev/zero | head -n $n && echo more",
        "while cat {x} /dev/zero | head -n 1; do echo more; break; done; exit 141",
        "if :; then if false; then :; elif cat {x} /dev/zero | head -n 1; then echo more; fi; fi; exit 141",
        "first() {{ cat {x} /dev/zero | head -n 1; }}; if first; then echo more; fi; exit 141",
        "cat {x} /dev/zero | head -n 1; e=$?; if [ $e = 0 ]; then echo more; fi; exit $e",
        'cat {x} /dev/zero | head -n 1; e="$?"; [ $e = 0 ] && echo more; exit $e',
        "if for n in 1; do cat {x} /dev/zero; done | head -n 1; then echo more; else exit 141; fi",
        "if cat x.do {x} /dev/zero 2> /dev/null | head -n 1; then echo more; else exit 141; fi",
        "cat {x} /dev/zero | head -n 1; case $? in 0) echo more;; *) exit $?;; esac",
    ],
)
def test_where_something_depends_on_a_broken_pipe_it_is_a_failure(text: str) -> None:
    """What stands behind it may have been left out, which would look complete."""
    error = failure(text)
    assert error.signal == "SIGPIPE"
    assert "(that program || [ $? = 141 ]) | ..." in str(error)


def test_what_is_advised_where_something_depends_on_a_broken_pipe_works() -> None:
    """Both parts are done."""
    assert run("(cat {x} /dev/zero || [ $? = 141 ]) | head -n 1 && echo more") == {"stdout": b"0\nmore\n"}
    assert run("cat {x} /dev/zero | head -n 1; echo '&& if'; cat {x} /dev/zero | head -n 1", place="other") == {
        "stdout": b"0\n&& if\n0\n"
    }


@pytest.mark.parametrize(
    "text",
    [
        "cd / && cat {x} /dev/zero | head -n 1",
        "false || cat {x} /dev/zero | head -n 1",
        "cat {x} /dev/zero | tr ! ! | head -n 1",
        ": if while until ! set; cat {x} /dev/zero | head -n 1",
        ": 'set -e' \"if\" # && if\ncat {x} /dev/zero | head -n 1",
        "cat > /dev/null <<EOF\na b\nEOF\ncat {x} /dev/zero | head -n 1",
        "n=$((1<<3)); cat {x} /dev/zero | head -n 1",
        "for n in 1; do if [ -e {x} ]; then cat {x} /dev/zero | head -n 1; fi; done",
        "echo 1 | while read n; do cat {x} /dev/zero | head -n $n; done",
    ],
)
def test_where_nothing_depends_on_a_broken_pipe_it_is_no_failure(text: str) -> None:
    """As it is the last, or the words are arguments."""
    assert run(text) == {"stdout": b"0\n"}


def test_what_stands_behind_a_comment_is_done() -> None:
    """A program must not take the place of a shell that has more to do."""
    assert run("cat {x} # all of it\ncat {x}", 0, 2) == {"stdout": 2 * b"0\n1x\n"}


@pytest.mark.parametrize(
    "text",
    [
        "sed s/\\ #.*// {x}; cat {x}",
        "sed s/\\ #.*// {x} | sort; cat {x}",
        "sed \\\n s/0/1/ {x}; cat {x}",
        "sed s/\\\n#// {x}; cat {x}",
        "sed s/\\\\$/#/ {x} # it's\ncat {x}",
        "y='0 #'; echo ${{y/ #/}} | cat; cat {x}",
        'echo "\\$(" | cat; cat {x}',
        "sed s/0/$'\\''/ {x}; echo 'more' | cat",
        "sed s/0/$'\\t'/ {x} | cat; cat {x}",
        "/bin/echo a\u00a0#b; cat {x}",
        'sed "s/0/${{X:-"a # b"}}/" {x}; cat {x}',
        'sed "s/0/${{X:-"a # b"}}/" {x} | cat; cat {x}',
        "/bin/echo a\v#b; cat {x}",
    ],
)
def test_all_of_a_command_is_done_whatever_is_quoted_in_it(text: str) -> None:
    """As the shell does it, of which a program must not take the place while there is more to do."""
    Path("first.txt").write_bytes(LINES.splitlines(keepends=True)[0])
    template = text.format(x="first.txt")
    shell = shells.find_shell(for_pipes="|" in text).path
    wanted = subprocess.run([shell, "-c", template], capture_output=True, check=True).stdout
    assert run(text, 0, 1) == {"stdout": wanted}


@pytest.mark.parametrize("text", ['echo "a\\tb" | cat; : {x}', "echo {{1,2}} a{{b,c}}d | cat; : {x}"])
def test_what_a_command_means_does_not_depend_on_whether_it_has_a_pipe(text: str) -> None:
    """Though a shell runs it that can tell of failures within a pipe."""
    wanted = subprocess.run(["/bin/sh", "-c", text.format(x="x")], capture_output=True, check=True).stdout
    assert run(text) == {"stdout": wanted}


def test_a_failure_is_not_missed_behind_a_blank_that_is_escaped() -> None:
    """What follows it is no comment, and so there is a pipe."""
    assert failure("sed s/\\ #.*// {x} /nonexistent | sort").status == 2


def test_a_failure_within_a_pipe_is_not_missed_behind_lines_that_are_given_to_a_program() -> None:
    """What they hold is no part of the command, and may have quotes."""
    error = failure("cat > /dev/null <<EOF\ndon't\nEOF\n(cat {x}; exit 5) | cat")
    assert error.status == 5


def test_no_advice_about_a_pipe_is_given_where_there_is_none() -> None:
    """A script within has broken one of its own, and accepting that would hide what it has left out."""
    error = failure("bash -c 'kill -PIPE $$' && cat {x}")
    assert error.signal == "SIGPIPE"
    assert "141" not in error.problem


@pytest.mark.parametrize(
    "text",
    [
        "cat {x}; echo 'sh: 1: Cannot fork' >&2; exit 2",
        "cat {x}; echo 'bash: fork: retry: Resource temporarily unavailable' >&2; exit 254",
        "cat {x}; echo 'bash: line 2: fork: Resource temporarily unavailable' >&2; exit 254",
    ],
)
def test_where_the_shell_cannot_start_a_program_no_unit_is_to_blame(text: str) -> None:
    """It says so in its own words."""
    with pytest.raises(NoProcessError, match="ulimit -u"):
        run(text)
    assert "status 2" in str(failure("cat {x}; echo Cannot fork this repository >&2; exit 2", place="other"))


def test_an_output_that_was_not_written_is_a_failure() -> None:
    """However well the command ended."""
    error = failure("cat {x} > /dev/null; : {a}", join={"a": "a"})
    assert "did not write its output {a} on units 0 to 19" in str(error)


def test_an_output_may_be_required_to_be_long_enough() -> None:
    """So many bytes for each unit."""
    assert "too short: 2 B" in str(failure("printf ab; : {x}", least_bytes_per_unit=0.5))
    run("printf 1234567890; : {x}", least_bytes_per_unit=0.5, place="other")


def test_a_check_decides_whether_a_command_succeeded() -> None:
    """It sees the same files."""
    check = "cmp {x} {o} && test {units} = 20"
    run("cat {x} > {o}", join={"o": "o"}, check=check)
    error = failure("head -n 3 {x} > {o}", join={"o": "o"}, check=check, place="other")
    assert "the check of the command exited with status 1" in str(error)
    assert "EOF" in error.stderr
    assert error.command.startswith("cmp ")


def test_what_is_shown_of_a_check_that_fails_is_its_own() -> None:
    """Not what the command said, which did well."""
    error = failure("echo all is well >&2; cat {x}", check="echo too short; [ {units} = 0 ]")
    assert error.stderr == "too short"


def test_an_error_travels() -> None:
    """From a worker to its parent."""
    error = failure("cat {x}; echo no >&2; exit 4")
    travelled = pickle.loads(pickle.dumps(error))
    assert str(travelled) == str(error)
    assert vars(travelled) == vars(error)
    travelled.place = None
    assert "kept" not in str(travelled)


def test_a_truncated_source_is_named() -> None:
    """File and byte, and the command does not run."""
    subprocess.run(["gzip", "-k", "lines.txt"], check=True)
    data = Path("lines.txt.gz").read_bytes()
    write(Path("cut.txt.gz"), data[: len(data) // 2])
    with pytest.raises(DataError, match=r"cut\.txt\.gz.*byte"):
        run("cat {x}", split={"x": "cut.txt.gz"})
    assert not os.path.exists("place/stdout")


def test_a_source_that_changed_is_not_read() -> None:
    """The units would be others."""
    command = Command("cat {x}", split={"x": "lines.txt"})
    assert command.size == 20
    write(Path("lines.txt"), LINES + LINES)
    with pytest.raises(DataError, match="grew"):
        run_step(command, 0, 5, "place")


def test_a_command_runs_in_its_directory(tmp_path: Path) -> None:
    """Wherever its worker is."""
    (tmp_path / "a b").mkdir()
    command = Command("pwd; : {x}", split={"x": "lines.txt"}, directory="a b")
    outputs = run_step(command, 0, 1, str(tmp_path / "place"))
    assert Path(outputs["stdout"]).read_text() == f"{tmp_path / 'a b'}\n"


def test_a_command_has_nothing_to_read_and_dies_of_broken_pipes() -> None:
    """As in a script: what Python ignores is not ignored by programs."""
    outputs = {"status": "status", "first": "first", "rest": "rest"}
    found = run("cat; (yes; echo $? > {status}) | head -1 > {first}; : {x}", join=outputs)
    assert found == {"status": b"141\n", "first": b"y\n", "rest": b""}


class GiveUpError(BaseException):
    pass


def test_a_wait_that_is_broken_off_leaves_no_program_behind() -> None:
    """A step whose time is up is given up by a signal; what its command has started is killed with it."""
    os.mkfifo("started")
    endings: list[int] = []

    def interrupt() -> None:
        endings.extend(os.pidfd_open(int(number)) for number in Path("started").read_text().split())
        time.sleep(0.2)  # by now it is waited for
        os.kill(os.getpid(), signal.SIGUSR1)

    def give_up(*_: object) -> None:
        raise GiveUpError

    previous = signal.signal(signal.SIGUSR1, give_up)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(GiveUpError):
            run("sh -c 'sleep 60 & echo $$ $! > started; wait' {x}; true")
    finally:
        signal.signal(signal.SIGUSR1, previous)
        thread.join()
    assert len(endings) == 2
    for ending in endings:
        assert select.select([ending], [], [], 30)[0]
        os.close(ending)


def test_programs_stay_in_the_group_of_the_worker() -> None:
    """What kills the group of a worker kills them."""
    found = run(f"{sys.executable} -c 'import os; print(os.getpgrp())' {{x}}")
    assert int(found["stdout"]) == os.getpgrp()


def test_what_grep_means_by_its_status_is_told_of_a_command_only() -> None:
    """A check that finds something is no mistake."""
    assert "nothing matches" in failure("grep nothing {x}").problem
    found = failure("cat {x} > {o}", join={"o": "o.txt"}, check="! grep -q x {o}", place="checked")
    assert found.problem.startswith("the check of the command exited with status 1 on units")


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENFILE])
def test_where_there_are_too_many_processes_no_unit_is_to_blame(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """It says which limits there are, and the run can go on later."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_spawn", refuse)
    with pytest.raises(NoProcessError, match="ulimit -u") as raised:
        run("cat {x}", 0, 1)
    assert pickle.loads(pickle.dumps(raised.value)).is_out_of_room
