"""What workers print reaches the user: all of it, in whole lines."""

from __future__ import annotations

import functools
import os
import pty
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import aliquot
from tests.real.processes import Script
from tests.running.functions import (
    chatter,
    say,
    say_and_die,
    say_twice,
    say_without_an_end,
    start_a_speaker,
)

TWO = aliquot.sites.Local(cores=2)
FOUR = aliquot.sites.Local(cores=4)


def test_both_streams_arrive_in_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed to stdout is on stdout, and what to stderr on stderr."""
    aliquot.map(say_twice, range(5), on=TWO)
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [f"out {number}" for number in range(5)]
    assert sorted(err.splitlines()) == [f"err {number}" for number in range(5)]


def test_ten_thousand_lines_arrive_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost, however fast it is printed."""
    aliquot.map(say, range(10_000), on=TWO)
    assert Counter(capsys.readouterr().out.splitlines()) == Counter(f"line {number}" for number in range(10_000))


def test_lines_of_many_workers_are_not_mixed(capsys: pytest.CaptureFixture[str]) -> None:
    """Long lines that are printed in pieces at the same time come whole."""
    aliquot.map(functools.partial(chatter, 20), range(8), target_seconds=0, on=FOUR)
    out, err = capsys.readouterr()
    whole = Counter(
        f"out {number} {line} {'x' * 3000} end {number} {line}" for number in range(8) for line in range(20)
    )
    assert Counter(out.splitlines()) == whole
    assert sorted(err.splitlines()) == [f"err {number}" for number in range(8)]


def test_what_programs_print_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that a worker has started."""
    aliquot.map(start_a_speaker, range(4), on=TWO)
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [f"program {number}" for number in range(4)]
    assert sorted(err.splitlines()) == [f"trouble {number}" for number in range(4)]


def test_a_last_line_without_an_end_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    """Each worker's own."""
    aliquot.map(say_without_an_end, range(2), target_seconds=0, on=aliquot.sites.Local(cores=1))
    assert capsys.readouterr().out == "no end 0no end 1\n"


def test_the_last_words_of_a_worker_that_was_killed_arrive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They often say why."""
    assert aliquot.map(functools.partial(say_and_die, str(tmp_path)), range(10), on=TWO) == list(range(10))
    assert capsys.readouterr() == ("last words\n", "last trouble\n")


def test_a_function_that_closes_its_output_is_not_stopped_by_that(tmp_path: Path) -> None:
    """It has its value, and can print no more."""
    source = "def close(number): sys.stdout.close(); return number\nprint(aliquot.map(close, range(4)))\n"
    with Script(tmp_path, source) as script:
        assert script.finish(timeout_seconds=10) == (0, "[0, 1, 2, 3]\n", "")


def test_letters_that_the_parents_stream_does_not_have_lose_no_lines(tmp_path: Path) -> None:
    """Where stdout is ASCII, the letters are shown as far as that can, and all lines arrive."""
    source = (
        "def say(number): print(f'line {number} \\u2603'); return number\n"
        "sys.stdout.reconfigure(encoding='ascii')\n"
        "aliquot.map(say, range(3), on=aliquot.sites.Local(cores=1))\n"
    )
    with Script(tmp_path, source) as script:
        code, out, err = script.finish()
        assert (code, err) == (0, "")
        assert re.findall(r"line \d", out) == ["line 0", "line 1", "line 2"]


def test_a_reader_that_has_seen_enough_does_not_break_a_run(tmp_path: Path) -> None:
    """`script | head -1`: the run goes on, and only the lines are lost."""
    script = tmp_path / "script.py"
    script.write_text(
        "import aliquot, sys\n"
        "def say(number): print('line', number); return number\n"
        "values = aliquot.map(say, range(20_000))\n"
        "print(len(values), file=sys.stderr)\n"
    )
    ran = subprocess.run(
        ["sh", "-c", f"{sys.executable} {script} | head -1"], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.startswith("line ")
    assert ran.stderr.splitlines()[0] == "20000"


_LIVE = """
import pathlib
go = pathlib.Path(__file__).with_name("go")
def work(number):
    if number % 50 == 7:
        print(f"<{number}" + "-" * 200 + f"{number}>")
    if not go.exists():
        time.sleep(0.005)
    return number
print(len(aliquot.map(work, range(3000), on=aliquot.sites.Local(cores=2), progress=None)))
"""


def test_on_a_terminal_a_display_shows_how_far_a_run_is(tmp_path: Path) -> None:
    """Units, rate and workers, rewritten in place; what workers print stays whole, and no display is left."""
    script = tmp_path / "live.py"
    script.write_text("import aliquot, time\n" + _LIVE)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "300"}
    process = subprocess.Popen(
        [sys.executable, script], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
        if re.search(rb"of 3,000 units.*\d/s.*2 workers", shown):
            (tmp_path / "go").touch()
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    assert re.search(r"work .*[\d,]+ of 3,000 units \(\d+%\), [\d,.]+/s, [\d,.]+ a step, 2 workers", text)
    for number in range(7, 3000, 50):
        assert text.count(f"<{number}{'-' * 200}{number}>") == 1
    assert text.rstrip().splitlines()[-1].endswith("3000")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""  # how a terminal says that nobody is there any more


def test_with_no_display_wanted_a_terminal_shows_only_what_is_printed(tmp_path: Path) -> None:
    """progress=False: not a byte more."""
    script = tmp_path / "quiet.py"
    script.write_text("import aliquot, time\n" + _LIVE.replace("progress=None", "progress=False"))
    (tmp_path / "go").touch()
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, script], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    assert process.wait() == 0
    lines = shown.decode().split("\r\n")
    assert sorted(lines) == sorted(["", "3000", *(f"<{number}{'-' * 200}{number}>" for number in range(7, 3000, 50))])
