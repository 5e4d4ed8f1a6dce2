from __future__ import annotations

import io

import pytest
from rich.console import Console

from aliquot.coordinator import AppendInOrder, Coordinator, Progressed, Restored, WorkerJoined
from aliquot.running.progress import Fact, Lines, Pace, Silent, describe, draw, find_facts, make_progress
from aliquot.running.tally import Tally


class Halfway:
    """A run of 1,000 units on two workers, told how far it is."""

    def __init__(self) -> None:
        self.coordinator = Coordinator(AppendInOrder(10**9), units=1000, expected_workers=2)
        self.tally = Tally()
        self._span = 0
        for worker in range(2):
            self._tell(WorkerJoined(worker))

    def advance(self, start: int, stop: int, steps: int, now_seconds: float = 10.0, *, worker: int = 0) -> None:
        """A worker reports some units; its span is half of all."""
        self._tell(
            Progressed(
                worker,
                worker,
                start,
                stop,
                1,
                steps=steps,
                busy_seconds=1.0,
                peak_bytes=((float(stop - start), 4.5e6, 1.0),),
            ),
            now_seconds,
        )

    def _tell(self, event: WorkerJoined | Progressed, now_seconds: float = 0.0) -> None:
        commands = self.coordinator.handle(event, now_seconds)
        self.tally.note(event, commands, now_seconds)


def facts_after(run: Halfway, seconds: float) -> list[str]:
    """What is told when all of it took so long."""
    pace = Pace()
    pace.note(Halfway().coordinator, 0.0)
    pace.note(run.coordinator, seconds)
    return describe(run.coordinator, run.tally, pace)


def test_the_facts_are_units_rate_step_workers_memory_and_time_left() -> None:
    """In the words and units of a person."""
    run = Halfway()
    run.advance(0, 100, steps=25)
    run.advance(500, 600, steps=25, worker=1)
    assert facts_after(run, 10.0) == [
        "200 of 1,000 units (20%)",
        "20/s",
        "4 a step",
        "2 workers",
        "9.0 MB",
        "40.0 s left",
    ]


def drawn(label: str, facts: list[Fact], width: int) -> str:
    """What is on a terminal of that width."""
    console = Console(width=width, file=io.StringIO(), color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(draw(label, 0.2, facts, width))
    (line,) = capture.get().splitlines()
    return line.rstrip()


MANY = [
    Fact("12,345,678 of 123,456,789 units (10%)", 0),
    Fact("123,456/s", 2),
    Fact("12,345 a step", 5),
    Fact("15 of 16 workers busy", 4),
    Fact("1.2 GB of 123.4 GB", 3),
    Fact("12 set aside", 1),
    Fact("15 min 23 s left", 0),
]


@pytest.mark.parametrize("label", ["bwa", "a_function_with_quite_a_long_name_as_some_of_them_have", "<lambda>"])
@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_on_a_terminal_the_time_left_is_whole(label: str, width: int) -> None:
    """What is less important is left out, and no more of it than must be."""
    line = drawn(label, MANY, width)
    assert len(line) <= width
    assert line.endswith(", 15 min 23 s left")
    assert "12,345,678 of 123,456,789 units (10%)" in line
    assert line.startswith(label[:7])


def test_the_least_important_is_left_out_first() -> None:
    """And where there is room, nothing is."""
    assert drawn("bwa", MANY, 200).endswith(", ".join(fact.text for fact in MANY))
    assert "a step" not in drawn("bwa", MANY, 140)
    assert "12 set aside, 15 min 23 s left" in drawn("bwa", MANY, 100)


def test_a_usual_run_is_told_with_its_time_left_on_eighty_columns() -> None:
    """With the bar, the rate and the memory."""
    run = Halfway()
    run.advance(0, 100, steps=25)
    run.advance(500, 600, steps=25, worker=1)
    pace = Pace()
    pace.note(Halfway().coordinator, 0.0)
    pace.note(run.coordinator, 10.0)
    line = drawn("count_bases", find_facts(run.coordinator, run.tally, pace), 80)
    assert line.startswith("count_bases ━")
    assert line.endswith("200 of 1,000 units (20%), 20/s, 9.0 MB, 40.0 s left")


def test_before_anything_is_done_no_rate_is_made_up() -> None:
    """Nor any time left."""
    assert facts_after(Halfway(), 3.0) == ["0 of 1,000 units (0%)", "2 workers"]
    assert facts_after(Halfway(), 0.0) == ["0 of 1,000 units (0%)", "2 workers"]


def test_a_slow_rate_is_told_too() -> None:
    """Less than one a second is not zero a second."""
    run = Halfway()
    run.advance(0, 1, steps=1, now_seconds=100.0)
    run.advance(500, 501, steps=1, now_seconds=100.0, worker=1)
    assert "0.02/s" in facts_after(run, 100.0)


def test_the_rate_is_that_of_late() -> None:
    """Where units have become dearer, the time that is left is longer, and so honest."""
    run, pace = Halfway(), Pace()
    pace.note(run.coordinator, 0.0)
    for worker in range(2):
        run.advance(500 * worker, 500 * worker + 200, steps=2, now_seconds=1.0, worker=worker)
    pace.note(run.coordinator, 1.0)
    for second in range(2, 102):
        for worker in range(2):
            run.advance(500 * worker + 198 + second, 500 * worker + 199 + second, 1, float(second), worker=worker)
        pace.note(run.coordinator, float(second))
    assert pace.units_a_second == pytest.approx(2.0)
    assert pace.units_a_step == pytest.approx(1.0)
    assert "3 min 20 s left" in describe(run.coordinator, run.tally, pace)


@pytest.mark.parametrize(("now_seconds", "left"), [(3.0, "17.0 s"), (10.0, "10.0 s"), (18.5, "1.5 s"), (22.0, "2.0 s")])
def test_the_time_left_gets_shorter_while_long_steps_run(now_seconds: float, left: str) -> None:
    """Though nothing is reported; what takes longer than expected is expected to take as much longer again."""
    run, pace = Halfway(), Pace()
    pace.note(run.coordinator, 0.0)
    for worker in range(2):
        run.advance(500 * worker, 500 * worker + 25, steps=1, now_seconds=1.0, worker=worker)
    for half in range(2, int(2 * now_seconds) + 1):
        pace.note(run.coordinator, half / 2)
    assert describe(run.coordinator, run.tally, pace)[-1] == f"{left} left"


def test_what_an_earlier_sitting_has_done_is_not_counted_as_fast() -> None:
    """It took no time of this one."""
    coordinator, pace = Coordinator(AppendInOrder(10**9), units=1000), Pace()
    coordinator.handle(Restored(done=((0, 900, None, 0),)), 0.0)
    pace.note(coordinator, 0.0)
    pace.note(coordinator, 10.0)
    assert pace.units_a_second == 0.0


def test_idle_workers_and_the_budget_are_told() -> None:
    """So that one sees why it is slow."""
    coordinator, tally = Coordinator(AppendInOrder(10**9), units=1, expected_workers=2, total_bytes=10**9), Tally()
    for event in (WorkerJoined(0), WorkerJoined(1)):
        tally.note(event, coordinator.handle(event, 0.0), 0.0)
    facts = describe(coordinator, tally, Pace())
    assert facts[-1] == "1 of 2 workers busy"


def test_a_short_run_prints_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the first ten seconds."""
    run, lines = Halfway(), Lines("work")
    for seconds in range(10):
        lines.update(run.coordinator, run.tally, 100.0 + seconds)
    lines.close()
    assert capsys.readouterr() == ("", "")


def test_a_long_run_prints_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """After ten seconds, and then every half minute, on stderr."""
    run, lines = Halfway(), Lines("work")
    lines.update(run.coordinator, run.tally, 1000.0)
    for worker in range(2):
        run.advance(500 * worker, 500 * worker + 100, steps=25, now_seconds=1010.0, worker=worker)
    for seconds in range(101):
        lines.update(run.coordinator, run.tally, 1000.0 + seconds)
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(",")[0] for line in err.splitlines()] == ["work: 200 of 1"] * 4
    assert "20/s" in err.splitlines()[0]


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """But what workers print is shown."""
    run, silent = Halfway(), Silent()
    for seconds in range(0, 1000, 10):
        silent.update(run.coordinator, run.tally, float(seconds))
    assert capsys.readouterr() == ("", "")
    silent.write("stdout", "from a worker\n")
    silent.write("stderr", "in trouble\n")
    silent.close()
    assert capsys.readouterr() == ("from a worker\n", "in trouble\n")


@pytest.mark.parametrize(("wanted", "kind"), [(False, Silent), (None, Lines), (True, Lines)])
def test_without_a_terminal_there_are_lines_unless_nothing_is_wanted(wanted: bool | None, kind: type) -> None:
    """A display that is rewritten in place would fill a log."""
    assert type(make_progress(wanted, "work")) is kind


def test_without_any_stderr_there_are_lines_that_go_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without a console has none."""
    monkeypatch.setattr("sys.stderr", None)
    run, lines = Halfway(), make_progress(None, "work")
    for seconds in (0.0, 50.0):
        lines.update(run.coordinator, run.tally, seconds)
    lines.write("stderr", "lost\n")
    lines.close()
