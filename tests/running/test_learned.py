from __future__ import annotations

import functools
import json
import operator
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.coordinator import Assign, Coordinator
from aliquot.running import learned
from aliquot.sizing import LinearModel
from tests.running.functions import double, process_of

TWO = aliquot.sites.Local(cores=2)


def models() -> tuple[LinearModel, LinearModel]:
    time, memory = LinearModel(), LinearModel()
    for units in (1, 4, 16, 64):
        time.observe(units, 0.01 + 0.001 * units)
        memory.observe(units, 1e6 + 1e3 * units)
    return time, memory


def advice_given(monkeypatch: pytest.MonkeyPatch) -> list[Assign]:
    """All spans that are handed out from now on."""
    given: list[Assign] = []
    handle = Coordinator.handle

    def watch(self: Coordinator, event: Any, now_seconds: float) -> Any:
        commands = handle(self, event, now_seconds)
        given.extend(command for command in commands if isinstance(command, Assign))
        return commands

    monkeypatch.setattr(Coordinator, "handle", watch)
    return given


def test_what_was_kept_is_found_again() -> None:
    """Both models predict what they did."""
    time, memory = models()
    learned.save("key", time, memory)
    for before, after in zip((time, memory), learned.load("key"), strict=True):
        assert after.predict(100) == pytest.approx(before.predict(100), rel=0.01)


def test_the_first_run_of_a_function_starts_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's first span comes without advice."""
    given = advice_given(monkeypatch)
    aliquot.map(double, range(3000), on=TWO)
    assert given[0].seconds == ()


def test_the_second_run_starts_with_what_the_first_one_learned(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    """A worker's very first span comes with advice; what was learned is a file in the cache."""
    aliquot.map(double, range(3000), on=TWO)
    assert len(list((own_cache / "learned").iterdir())) == 1
    given = advice_given(monkeypatch)
    aliquot.map(double, range(3000), on=TWO)
    assert given[0].seconds


def test_another_function_learns_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one function takes says nothing of another."""
    aliquot.map(double, range(3000), on=TWO)
    given = advice_given(monkeypatch)
    aliquot.map(process_of, range(3000), on=TWO)
    assert given[0].seconds == ()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        '{"version": 1}',
        '{"version": 99, "time": {}, "memory": {}}',
        '{"version": 1, "time": {"upper_ratio": 1, "observations": [["a", "b", "c"]]}, "memory": {}}',
        '{"version": 1, "time": {"upper_ratio": 1, "observations": [[1]]}, "memory": {}}',
        '{"version": 1, "time": 5, "memory": 5}',
        "\x00\x01\x02",
    ],
)
def test_a_file_that_is_damaged_is_ignored(own_cache: Path, content: str) -> None:
    """The run works as if there were none, and writes a good one."""
    key = learned.fingerprint(double)
    path = own_cache / "learned" / f"{key}.json"
    path.parent.mkdir()
    path.write_text(content)
    assert learned.load(key)[0].observations == 0
    assert aliquot.map(double, range(10), on=TWO) == list(range(0, 20, 2))
    assert json.loads(path.read_text())["version"] == 1


@pytest.mark.parametrize(
    "observations", [[[1, float("nan"), 1], [2, float("inf"), 1]], [[-5, 1, 1]], [[1, -1, 1], [2, -4, 1]], [[1, 0, 0]]]
)
def test_numbers_that_make_no_sense_do_no_harm(own_cache: Path, observations: list[Any]) -> None:
    """A file that can be read but lies costs at most some time."""
    path = own_cache / "learned" / f"{learned.fingerprint(double)}.json"
    path.parent.mkdir()
    model = {"upper_ratio": 1.0, "observations": observations}
    path.write_text(json.dumps({"version": 1, "time": model, "memory": model}))
    assert aliquot.map(double, range(100), on=TWO) == list(range(0, 200, 2))


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the directory should be, which stops also those who may write everywhere."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ALIQUOT_CACHE", str(tmp_path / "file"))
    assert aliquot.map(double, range(10), on=TWO) == list(range(0, 20, 2))
    assert (tmp_path / "file").read_bytes() == b""


def test_nothing_but_the_file_itself_is_left(own_cache: Path) -> None:
    """It is written aside, and put in place when it is whole."""
    for _ in range(3):
        learned.save("key", *models())
    assert [path.name for path in (own_cache / "learned").iterdir()] == ["key.json"]


def test_functions_of_other_code_are_told_apart() -> None:
    """By what they do, also where they have the same name."""
    functions: list[Any] = [
        lambda number: number + 1,
        lambda number: number + 2,
        lambda number: number - 1,
        lambda number: abs(number) + 1,
        lambda number: len(number) + 1,
        lambda number: [number + 1 for _ in "a"],
        lambda number: [number + 2 for _ in "a"],
        lambda number: number in {1, 2},
        lambda number: number in {1, 3},
        len,
        abs,
        str,
        functools.partial(operator.add, 1),
        functools.partial(operator.mul, 1),
        double,
        "text".join,
    ]
    assert len({learned.fingerprint(function) for function in functions}) == len(functions)
    assert learned.fingerprint(len, abs) != learned.fingerprint(abs, len)


def test_the_same_function_is_the_same_in_every_process() -> None:
    """The order in sets and dictionaries of a process does not matter, nor does where in memory a thing is."""
    code = (
        "from functools import partial\n"
        "from aliquot.running.learned import fingerprint\n"
        "class Thing:\n"
        "    def method(self, x): return x\n"
        "def f(x, y=1):\n"
        "    'About f.'\n"
        "    inner = lambda z: z in {'a', 'b', 'c', 'd', ('e', frozenset({'f', 'g'}))}\n"
        "    return x in {'one', 'two', 'three', 'four', None, 5, 2.5}, inner\n"
        "print(fingerprint(f, partial(f, y=2), Thing().method, Thing(), len, lambda x: (yield x), [].append))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(printed) == 1


def test_a_pipe_in_place_of_what_was_kept_is_not_waited_for() -> None:
    """Nobody may ever write to it."""
    learned.save("key", *models())
    path = Path(learned._path("key"))
    path.unlink()
    os.mkfifo(path)
    assert learned.load("key")[0].observations == 0
