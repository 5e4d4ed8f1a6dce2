"""What a function uses besides its own code is a part of what is run."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import aliquot
from aliquot.running.used_values import used_values

ONE = aliquot.sites.Local(cores=1)
ANALYSIS = """
import collections, dataclasses, enum, functools, random, re, threading
import numpy
import settings

THRESHOLD = 5
LIMIT = None
CUTS = {"pt": [20, 30], "names": {"a", "b"}}
WEIGHTS = numpy.arange(6).reshape(2, 3).T
LOCK = threading.Lock()
CHANCE = random.Random()
DRAWS = numpy.random.default_rng()
PATTERN = re.compile("[ab]+")
FIND = re.compile("[cd]+").findall
COUNT = 0
MANY = [{"number": number} for number in range(2000)]
NUMBERS = list(range(2000))

class Colour(enum.Enum):
    RED = 1

class Metres(float):
    pass

LENGTH = Metres(1.5)

@dataclasses.dataclass(slots=True)
class Slotted:
    cut: int

SLOTTED = Slotted(11)

class Helper:
    factor = 2
    power = functools.partial(pow, 2)

    def times(self, value):
        return value * self.factor

    @property
    def twice(self):
        return 2

    @functools.cached_property
    def dear(self):
        return object()

class Tool:
    def go(self, value):
        return value + 17

TOOL = Tool()

@functools.lru_cache
def cached(value):
    return value + 19

@functools.singledispatch
def dispatched(value):
    return value + 23

def counted(function):
    @functools.wraps(function)
    def call(value):
        return function(value)
    return call

@counted
def decorated(value):
    return value + 29

def helper(value):
    return value + THRESHOLD

def analyse(value, *, shift=31):
    \"\"\"What it does.\"\"\"
    global COUNT
    COUNT += 1
    LIMIT, CUTS, WEIGHTS, LOCK, CHANCE, DRAWS, PATTERN, FIND, MANY, NUMBERS, Colour.RED, LENGTH, SLOTTED
    if value is None:
        return cached(1), dispatched(1), decorated(1), TOOL.go(1), shift
    return helper(value) * settings.SCALE + Helper().times(1)

again = functools.partial(analyse)
"""


@pytest.fixture
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """The module above, in which something was replaced: by a longer text, else Python might take what it compiled."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(old: str = "", new: str = "") -> ModuleType:
        for name, content in {"settings": "SCALE = 3\n", "analysis": ANALYSIS}.items():
            # Workers import it, too.
            (tmp_path / f"{name}.py").write_text(content.replace(old, new) if old else content)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("analysis")

    # Others may have modules of these names.
    names = ("analysis", "settings")
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    yield load
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("THRESHOLD = 5", "THRESHOLD = 16", "analysis.THRESHOLD"),
        ("LIMIT = None", "LIMIT = 1234567", "analysis.LIMIT"),
        ("30]", "310]", "analysis.CUTS"),
        ("arange(6)", "arange(1, 7)", "analysis.WEIGHTS"),
        ("[ab]+", "[abc]+", "analysis.PATTERN"),
        ("[cd]+", "[cde]+", "analysis.FIND"),
        ('{"number": number}', '{"number": number + 1}', "analysis.MANY"),
        ("list(range(2000))", "list(range(1, 2001))", "analysis.NUMBERS"),
        ("RED = 1", "RED = 11", "analysis.Colour"),
        ("Metres(1.5)", "Metres(1.75)", "analysis.LENGTH"),
        ("Slotted(11)", "Slotted(112)", "analysis.SLOTTED"),
        ("value + THRESHOLD", "value -- THRESHOLD", "analysis.helper"),
        ("factor = 2", "factor = 33", "analysis.Helper"),
        ("partial(pow, 2)", "partial(pow, 33)", "analysis.Helper"),
        ("value * self.factor", "value ** self.factor", "analysis.Helper"),
        ("return 2\n", "return 33\n", "analysis.Helper"),
        ("value + 17", "value + 178", "analysis.TOOL"),
        ("value + 19", "value + 198", "analysis.cached"),
        ("value + 23", "value + 238", "analysis.dispatched"),
        ("value + 29", "value + 298", "analysis.decorated"),
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
    """Locks and random numbers are others each time, and what is said of a function is not what it does."""
    assert used_values(analysis().analyse) == used_values(analysis("What it does.", "What it did before.").analyse)


def test_what_has_been_used_has_not_changed(analysis: Callable[..., ModuleType]) -> None:
    """Caches, counters and what was worked out once are no constants."""
    module = analysis()
    before = used_values(module.analyse)
    module.analyse(None)
    module.analyse(1)
    assert module.Helper().dear is not None
    pickle.dumps([module.TOOL, module.SLOTTED, module.Helper()])  # Python notes in a class what it found
    assert used_values(module.analyse) == before


def test_keyword_defaults_are_carried_by_a_function(analysis: Callable[..., ModuleType], tmp_path: Path) -> None:
    """As all others are."""
    directory = tmp_path / "run"
    aliquot.map(analysis().analyse, range(2), run_dir=directory, on=ONE)
    with pytest.raises(aliquot.RunChangedError, match="the function analyse has changed"):
        aliquot.map(analysis("shift=31", "shift=310").analyse, range(2), run_dir=directory, on=ONE)


def test_a_class_may_be_the_function(analysis: Callable[..., ModuleType]) -> None:
    """What its methods do is what is run."""
    before, after = used_values(analysis().Tool), used_values(analysis("value + 17", "value + 178").Tool)
    assert before.keys() == after.keys() == {"analysis.Tool"}
    assert before != after


def test_a_method_stands_for_its_object_and_its_class(analysis: Callable[..., ModuleType], tmp_path: Path) -> None:
    """Another factor in the object, or another method in its class, is another analysis."""
    helper = analysis().Helper()
    assert aliquot.map(helper.times, range(3), run_dir=tmp_path / "run", on=ONE) == [0, 2, 4]
    helper.factor = 7
    with pytest.raises(aliquot.RunChangedError, match="the function times has changed"):
        aliquot.map(helper.times, range(3), run_dir=tmp_path / "run", on=ONE)
    changed = analysis("return 2\n", "return 33\n").Helper()
    with pytest.raises(aliquot.RunChangedError, match=r"analysis\.Helper, which is used, has changed"):
        aliquot.map(changed.times, range(3), run_dir=tmp_path / "run", on=ONE)


def test_a_function_within_a_cache_is_what_is_run(analysis: Callable[..., ModuleType], tmp_path: Path) -> None:
    """Whatever it is wrapped in."""
    assert aliquot.map(analysis().cached, range(2), run_dir=tmp_path / "run", on=ONE) == [19, 20]
    with pytest.raises(aliquot.RunChangedError, match="the function cached has changed"):
        aliquot.map(analysis("value + 19", "value + 198").cached, range(2), run_dir=tmp_path / "run", on=ONE)


def test_libraries_are_not_looked_through() -> None:
    """What they use is theirs; what is taken of them is known by its name."""

    def mean(value: Any) -> Any:
        return json.dumps(value)

    assert used_values(mean) == {}
    assert used_values(json.dumps) == {}


class Node:
    def __init__(self) -> None:
        self.neighbours: set[Node] = set()


class Unfriendly(dict[str, int]):
    @property
    def nbytes(self) -> int:
        raise OSError("closed")

    def __len__(self) -> int:
        raise OSError("closed")


class CompiledAnew:
    """As compilers make it: another pickle each time."""

    def __init__(self, function: Any) -> None:
        self.__wrapped__ = function

    def __reduce__(self) -> Any:
        raise AssertionError("it should not be pickled")


CYCLE: list[Any] = [1]
CYCLE += [CYCLE, [CYCLE] * 50] * 20
NODES = [Node() for _ in range(30)]
for _node in NODES:
    _node.neighbours.update(NODES)
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
UNFRIENDLY = Unfriendly()
COMPILED = CompiledAnew(len)


def _use_odd_values(unit: int) -> Any:
    return CYCLE, NODES, DEEP, UNFRIENDLY, COMPILED, os.environ, unit


def test_odd_values_are_told_as_far_as_that_can_be() -> None:
    """Those that hold themselves, lie deep, raise when they are looked at, or are made anew in each process."""
    told = used_values(_use_odd_values)
    assert [name.rpartition(".")[2] for name in told] == ["COMPILED", "CYCLE", "DEEP", "NODES", "UNFRIENDLY"]
    assert told == used_values(_use_odd_values)


def test_the_order_of_a_set_means_nothing(tmp_path: Path) -> None:
    """It differs from process to process."""
    script = tmp_path / "script.py"
    script.write_text(
        "from aliquot.running.used_values import used_values\n"
        "import collections, dataclasses\n"
        "words = {'one', 'two', 'three', 'four'}\n"
        "@dataclasses.dataclass(slots=True)\n"
        "class Slotted: names: set\n"
        "WORDS = {'names': words, 'pairs': {(word, frozenset(words)) for word in words}}\n"
        "MANY = {number: set(words) for number in range(1500)}\n"
        "OTHERS = Slotted(words), collections.deque([words]), Slotted\n"
        "def use(unit): return WORDS, MANY, OTHERS\n"
        "print(used_values(use))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "123"
    }
    assert len(told) == 1


def test_an_object_that_holds_a_set_is_the_same_in_another_process(tmp_path: Path) -> None:
    """A method of it goes on with its run."""
    script = tmp_path / "script.py"
    script.write_text(
        "import aliquot\n"
        "class Cuts:\n"
        "    def __init__(self): self.names = {'one', 'two', 'three', 'four'}\n"
        "    def keep(self, number): return number + len(self.names)\n"
        "print(aliquot.map(Cuts().keep, range(3), run_dir='run', on=aliquot.sites.Local(cores=1), progress=False))\n"
    )
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert ran.stdout == "[4, 5, 6]\n"


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
