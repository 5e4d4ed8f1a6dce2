from __future__ import annotations

import errno
import itertools
import os
import resource
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.jobs.command import CommandError, NoProcessError, first_pipe_bytes, large_pipe_bytes
from aliquot.workers import command_stepping
from aliquot.workers.command_stepping import CommandStepper, Produced, StreamStepper, first_units, mean_unit_bytes
from aliquot.workers.stepping import UnitError


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a spool."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spool").mkdir()
    (tmp_path / "failed").mkdir()
    return tmp_path


def command_over(units: int, text: str) -> aliquot.Command:
    Path("n.txt").write_text("".join(f"{number:06}\n" for number in range(units)))
    return aliquot.Command(text, split={"n": "n.txt"}, join={"out": "out.txt"})


def content_of(produced: Produced) -> list[int]:
    ((file, size),) = produced.files.values()
    text = Path("spool", file).read_text()
    assert len(text) == size
    return [int(line) for line in text.split()]


def fed_by(stepper: StreamStepper, units: int) -> list[int]:
    """Let it claim all units; how many it wanted each time."""
    wanted: list[int] = []
    claimed = min(units, stepper.units_at_once)

    def claim_more(more: int, *_: object) -> tuple[int, int]:
        nonlocal claimed
        start, claimed = claimed, min(units, claimed + more)
        wanted.append(more)
        return start, claimed

    stepper.claim_more = claim_more
    assert stepper.run(0, claimed, 1000.0) == units
    return wanted


@pytest.mark.parametrize(
    ("units", "workers", "first"),
    [
        (200_000, 2, 64),  # 7 bytes each: more of them are no longer a step of next to nothing
        (20_000, 2, 9),  # a thousandth of what a worker will do
        (4_000, 2, 1),  # each may take an hour
    ],
)
def test_a_program_is_started_with_few_units_of_many(place: Path, units: int, workers: int, first: int) -> None:
    """Short beside the run in any case, and no start of a program for a single line of many."""
    assert first_units(command_over(units, "cat {n} > {out}"), units, workers) == first


def test_a_program_is_started_with_few_bytes(place: Path) -> None:
    """Large units, such as long reads, are likely to take long."""
    Path("n.txt").write_text("".join(f"{number:05999}\n" for number in range(100)))
    command = aliquot.Command("cat {n} > {out}", split={"n": "n.txt"}, join={"out": "out.txt"})
    assert len(command.source) == 100
    assert first_units(command, 10**6, 2) == 2


@pytest.mark.parametrize("text", ["cat {n} > {out}", "cat {n:pipe} > {out}"])
def test_numbers_that_are_in_no_file_have_a_size_too(place: Path, text: str) -> None:
    """They become lines."""
    numbers = range(0, 100_000, 5)
    command = aliquot.Command(text, split={"n": aliquot.open(numbers)}, join={"out": "out.txt"})
    assert mean_unit_bytes(command) == pytest.approx(5.7, abs=0.2)
    aliquot.run(command, on=aliquot.sites.Local(cores=2), progress=False)
    assert Path("out.txt").read_text() == "".join(f"{number}\n" for number in numbers)


def test_a_program_that_reads_a_pipe_is_fed_as_it_reads(place: Path) -> None:
    """Nobody has to say how many units that is."""
    assert first_units(command_over(200_000, "cat {n:pipe} > {out}"), 200_000, 2) == 1


def test_the_outputs_of_several_steps_are_one_file(place: Path) -> None:
    """And nothing else is left in the spool, once somebody has time to tidy up."""
    stepper = CommandStepper(command_over(10, "cat {n} > {out}"), "spool", "failed")
    for start, stop in ((2, 5), (5, 6), (6, 9)):
        assert stepper.run(start, stop) == stop
    assert content_of(stepper.take()) == [2, 3, 4, 5, 6, 7, 8]
    stepper.tidy()
    assert len(list((place / "spool").iterdir())) == 1
    stepper.run(9, 10)
    assert content_of(stepper.take()) == [9]


def test_what_each_program_held_is_told_by_the_kernel(place: Path) -> None:
    """Also of one that held no more than another before it, and of one that failed."""
    program = "import sys; bytearray(b'x') * (len(sys.stdin.read()) << 16); sys.exit(len(sys.argv) - 1)"
    python = f"{shlex.quote(sys.executable)} -Sc {shlex.quote(program)}"
    stepper = CommandStepper(command_over(400, f"{python} < {{n}} > {{out}}"), "spool", "failed")
    for units in (400, 200, 400):
        stepper.run(0, units)
        held_bytes = units * 7 << 16
        counted_bytes = max(held_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
        assert held_bytes < stepper.take_programs_peak() < counted_bytes + (30 << 20)
        assert stepper.take_programs_peak() == 0
    failing = CommandStepper(command_over(400, f"{python} fails < {{n}} > {{out}}"), "spool", "failed")
    with pytest.raises(UnitError):
        failing.run(0, 300)
    assert failing.take_programs_peak() > 300 * 7 << 16


def test_pipes_of_many_programs_hold_no_more_than_a_user_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 64 MB in all, each further pipe of the same user would be tiny."""
    for machine_cores in (1, 2, 48, 63, 64, 127, 128, 1024):
        monkeypatch.setattr(os, "cpu_count", lambda cores=machine_cores: cores)
        for cores, pipes in itertools.product((1, 2, 8), (1, 2, 3)):
            held_bytes = large_pipe_bytes(cores, pipes)
            assert first_pipe_bytes(cores) <= held_bytes <= 1 << 20
            assert held_bytes.bit_count() == 1, "the kernel rounds up"
            if held_bytes > first_pipe_bytes(cores):
                assert held_bytes * pipes * machine_cores // cores <= 32 << 20
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert large_pipe_bytes(1) == 1 << 20


@pytest.mark.parametrize("text", ["cat {n} > {out}", "cat {n:pipe} > {out}"])
def test_where_there_are_too_many_processes_others_are_waited_for(
    place: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """They may soon have ended."""
    spawn = os.posix_spawn
    refused: list[object] = []

    def spawn_later(*arguments: Any, **options: Any) -> int:
        if len(refused) < 2:
            refused.append(arguments)
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return spawn(*arguments, **options)

    command = command_over(10, text)
    monkeypatch.setattr(os, "posix_spawn", spawn_later)
    stepper = (StreamStepper if command.mode == "stream" else CommandStepper)(command, "spool", "failed")
    assert stepper.run(0, 10) == 10
    assert len(refused) == 2
    assert content_of(stepper.take()) == list(range(10))


@pytest.mark.parametrize("given", ["{n}", "{n:pipe}"])
def test_a_shell_that_cannot_start_a_program_for_a_moment_is_started_again(place: Path, given: str) -> None:
    """Also where its program was fed more meanwhile: it gets all of it once more."""
    again = "[ -e again ] || {{ touch again; echo sh: 1: Cannot fork >&2; exit 2; }}; cat read > {out}"
    command = command_over(10, f"cat {given} > read; {again}")
    stepper = (StreamStepper if command.mode == "stream" else CommandStepper)(command, "spool", "failed")
    if isinstance(stepper, StreamStepper):
        fed_by(stepper, 10)
    else:
        stepper.run(0, 10)
    assert content_of(stepper.take()) == list(range(10))


def test_where_there_are_too_many_processes_for_long_the_run_ends(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit is to blame."""
    monkeypatch.setattr(command_stepping, "_MOST_WAITED_SECONDS", 0.1)
    stepper = CommandStepper(
        command_over(10, "cat {n} > {out}; echo sh: 1: Cannot fork >&2; exit 2"), "spool", "failed"
    )
    with pytest.raises(UnitError) as caught:
        stepper.run(0, 10)
    assert isinstance(caught.value.error, NoProcessError)
    assert not list((place / "spool").iterdir())


def test_where_the_run_directory_is_removed_no_unit_is_to_blame(place: Path) -> None:
    """Others would fail too."""
    stepper = CommandStepper(command_over(10, "rm -r spool; cat {n} > {out}"), "spool", "failed")
    with pytest.raises(UnitError, match="was removed") as caught:
        stepper.run(0, 10)
    assert getattr(caught.value.error, "is_out_of_room", False)


def test_an_output_that_is_a_link_within_its_place_is_the_file(place: Path) -> None:
    """The place is removed; a link to somewhere else stays one, as its file may be the user's."""
    for text in ("cp {n} {scratch}/x; ln -s {scratch}/x {out}", "ln -s $PWD/n.txt {out}; : {n}"):
        stepper = CommandStepper(command_over(10, text), "spool", "failed")
        stepper.run(0, 10)
        produced = stepper.take()
        stepper.tidy()
        assert content_of(produced) == list(range(10))
    assert len((place / "n.txt").read_text().split()) == 10


def test_what_one_failing_unit_has_left_is_kept(place: Path) -> None:
    """Of several units nothing is."""
    stepper = CommandStepper(command_over(10, "echo trouble >&2; cp {n} {out}; exit 3"), "spool", "failed")
    with pytest.raises(UnitError, match="trouble") as caught:
        stepper.run(0, 2)
    assert isinstance(caught.value.error, CommandError)
    assert not list((place / "spool").iterdir())
    assert not list((place / "failed").iterdir())
    with pytest.raises(UnitError):
        stepper.run(4, 5)
    assert "trouble" in (place / "failed/unit-4/stderr.txt").read_text()


def test_a_slow_program_is_fed_little_at_once(place: Path) -> None:
    """So that others can have the rest."""
    text = "while read line; do sleep 0.06; echo $line; done < {n} > {out}"
    stepper = StreamStepper(command_over(12, text), "spool", "failed")
    assert max(fed_by(stepper, 12)) == 1
    assert content_of(stepper.take()) == list(range(12))


def test_a_fast_program_is_fed_much_at_once(place: Path) -> None:
    """A look at the pipe after each unit would take longer than the unit."""
    stepper = StreamStepper(command_over(200_000, "cat < {n} > {out}"), "spool", "failed")
    wanted = fed_by(stepper, 200_000)
    assert len(wanted) < 200
    assert stepper.units_at_once > 1000
    assert content_of(stepper.take()) == list(range(200_000))


@pytest.mark.parametrize(("bytes_a_second", "is_fast"), [(20e6, True), (5e6, False)])
def test_pipes_hold_more_where_programs_read_fast(
    place: Path, monkeypatch: pytest.MonkeyPatch, bytes_a_second: float, is_fast: bool
) -> None:
    """What is in a pipe cannot be given to others: it is to last a moment, no longer."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    Path("tell.py").write_text("import fcntl, sys\nsys.stdin.read()\nprint(fcntl.fcntl(0, fcntl.F_GETPIPE_SZ))\n")
    text = f"{shlex.quote(sys.executable)} tell.py < {{n}} > {{out}}"
    command = command_over(1000, text)
    assert command.source.count() == 1000
    stepper = StreamStepper(command, "spool", "failed")
    stepper._choose_pipe(100, 1e-9)
    stepper.run(0, 1000)
    assert content_of(stepper.take()) == [256 << 10], "what it was fed is all in the pipe: nothing is known"
    stepper._choose_pipe(1_000_000, 1_000_000 * 7 / bytes_a_second)
    stepper.run(0, 1000)
    assert content_of(stepper.take()) == [1 << 20 if is_fast else 256 << 10]


def test_programs_that_do_not_read_are_not_started_for_each_unit(place: Path) -> None:
    """The next one is for more units."""
    stepper = StreamStepper(command_over(1000, "echo 1 > {out}; : {n:pipe}"), "spool", "failed")
    stepper.run(0, 1)
    assert stepper.units_at_once > 1
    assert content_of(stepper.take()) == [1]


def test_a_program_is_given_an_end_after_a_while(place: Path) -> None:
    """Its results count only then."""
    stepper = StreamStepper(command_over(100, "cat < {n} > {out}"), "spool", "failed")
    claims = iter(range(1, 200))

    def claim_more(*_: object) -> tuple[int, int]:
        start = min(100, next(claims))
        return start, min(100, start + 1)

    stepper.claim_more = claim_more
    # Its patience is none, but what it took to start counts, too: it is fed fifty times as long as that.
    reached = stepper.run(0, 1, 0.0)
    assert 1 <= reached <= 100
    assert content_of(stepper.take()) == list(range(reached))
