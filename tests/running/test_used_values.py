"""What a function uses besides its own code is a part of what is run."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import aliquot
from aliquot.running.used_values import used_values

ONE = aliquot.sites.Local(cores=1)
ANALYSIS = """
import functools, random, threading
import numpy
import settings

THRESHOLD = 5
LIMIT = None
CUTS = {"pt": [20, 30], "names": {"a", "b"}}
WEIGHTS = numpy.arange(6).reshape(2, 3).T
LOCK = threading.Lock()
CHANCE = random.Random()

class Helper:
    factor = 2

    def times(self, value):
        return value * self.factor

    @property
    def twice(self):
        return 2

def helper(value):
    return value + THRESHOLD

def analyse(value):
    LIMIT, CUTS, WEIGHTS, LOCK, CHANCE
    return helper(value) * settings.SCALE + Helper().times(1)

again = functools.partial(analyse)
"""


@pytest.fixture
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The module above, in which something was replaced."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(old: str = "", new: str = "") -> ModuleType:
        for name, content in {"settings": "SCALE = 3\n", "analysis": ANALYSIS}.items():
            # Workers import it, too.
            (tmp_path / f"{name}.py").write_text(content.replace(old, new) if old else content)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("analysis")

    return load


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("THRESHOLD = 5", "THRESHOLD = 16", "analysis.THRESHOLD"),
        ("LIMIT = None", "LIMIT = 1234567", "analysis.LIMIT"),
        ("30]", "310]", "analysis.CUTS"),
        ("arange(6)", "arange(1, 7)", "analysis.WEIGHTS"),
        ("value + THRESHOLD", "value -- THRESHOLD", "analysis.helper"),
        ("factor = 2", "factor = 33", "analysis.Helper"),
        ("value * self.factor", "value ** self.factor", "analysis.Helper"),
        ("return 2\n", "return 33\n", "analysis.Helper"),
        ("SCALE = 3", "SCALE = 44", "settings.SCALE"),
    ],
)
def test_what_has_changed_is_known_by_its_name(
    analysis: Callable[..., ModuleType], old: str, new: str, name: str
) -> None:
    """Constants, helpers and classes, also those that a helper uses, and settings in another module."""
    before, after = used_values(analysis().again), used_values(analysis(old, new).again)
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} == {name}


def test_nothing_has_changed_in_the_same_module_loaded_twice(analysis: Callable[..., ModuleType]) -> None:
    """Locks and random numbers without a seed are others each time, and mean nothing."""
    assert used_values(analysis().analyse) == used_values(analysis().analyse)


def test_a_method_stands_for_its_object_and_its_class(analysis: Callable[..., ModuleType]) -> None:
    """Another factor in the object, or another method in its class, is another analysis."""
    helper = analysis().Helper()
    before = used_values(helper.times)
    helper.factor = 7
    assert set(used_values(helper.times).items()) - set(before.items()) != set()
    changed = analysis("value * self.factor", "value ** self.factor").Helper()
    assert used_values(changed.times)["Helper"] != before["Helper"]


def test_libraries_are_not_looked_through() -> None:
    """What they use is theirs; what is taken of them is known by its name."""

    def mean(value: Any) -> Any:
        return json.dumps(value)

    assert used_values(mean) == {}
    assert used_values(json.dumps) == {}


def test_values_that_hold_themselves_are_told_once() -> None:
    """A graph of objects is gone through once."""
    assert len(used_values(_use_cycle)) == 1


CYCLE: list[Any] = [1]
CYCLE += [CYCLE, [CYCLE] * 50] * 20


def _use_cycle(unit: int) -> int:
    return unit + len(CYCLE)


def test_the_order_of_a_set_means_nothing(tmp_path: Path) -> None:
    """It differs from process to process."""
    script = tmp_path / "script.py"
    script.write_text(
        "from aliquot.running.used_values import used_values\n"
        "WORDS = {'names': {'one', 'two', 'three', 'four'}}\n"
        "def use(unit): return WORDS\n"
        "print(used_values(use))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "123"
    }
    assert len(told) == 1


def test_a_run_does_not_go_on_with_another_threshold(analysis: Callable[..., ModuleType], tmp_path: Path) -> None:
    """Two analyses would be put together in one result; whoever wants that says so."""
    directory = tmp_path / "run"
    assert aliquot.map(analysis().analyse, range(2), run_dir=directory, on=ONE) == [17, 20]
    assert aliquot.map(analysis().analyse, range(2), run_dir=directory, on=ONE) == [17, 20]
    changed = analysis("THRESHOLD = 5", "THRESHOLD = 16").analyse
    with pytest.raises(aliquot.RunChangedError, match=r"analysis\.THRESHOLD, which is used, has changed"):
        aliquot.map(changed, range(2), run_dir=directory, on=ONE)
    assert aliquot.map(changed, range(2), run_dir=directory, resume_anyway=True, on=ONE) == [17, 20]
    assert aliquot.map(changed, range(2), run_dir=directory, fresh=True, on=ONE) == [50, 53]
