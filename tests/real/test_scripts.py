"""Scripts, the prompt and notebooks: functions that live in __main__, and no guard around the call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.processes import Script, run_script


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Its functions and classes go to the workers by value; its own code runs once."""
    printed = run_script(
        tmp_path,
        "print('once')\n"
        "factor = 3\n"
        "def triple(number): return factor * number\n"
        "print(aliquot.map(triple, range(5)))\n"
        "print(aliquot.map(lambda number: triple(number) + 1, range(5)))\n",
    )
    assert printed == "once\n[0, 3, 6, 9, 12]\n[1, 4, 7, 10, 13]\n"


def test_values_are_of_the_scripts_own_classes(tmp_path: Path) -> None:
    """Isinstance holds for what comes back, dataclasses and enums compare equal, and their methods work."""
    printed = run_script(
        tmp_path,
        "import dataclasses, enum\n"
        "class Colour(enum.Enum):\n    RED = 1\n"
        "@dataclasses.dataclass\n"
        "class Point:\n    x: int\n    def moved(self): return Point(self.x + 1)\n"
        "def make(number): return Point(number), Colour.RED\n"
        "made = aliquot.map(make, range(3))\n"
        "print(all(type(point) is Point and colour is Colour.RED for point, colour in made))\n"
        "print(aliquot.map(Point.moved, [point for point, _ in made]) == [Point(1), Point(2), Point(3)])\n",
    )
    assert printed == "True\nTrue\n"


def test_an_exception_of_a_scripts_own_class_is_caught_by_it(tmp_path: Path) -> None:
    """`except MyError` works, with what the exception carries."""
    printed = run_script(
        tmp_path,
        "class MyError(Exception):\n    pass\n"
        "def fail(number): raise MyError(number)\n"
        "try: aliquot.map(fail, [5])\n"
        "except MyError as error: print('caught', error.args)\n",
    )
    assert printed == "caught (5,)\n"


def test_a_job_of_a_script_is_run(tmp_path: Path) -> None:
    """A class with the five functions needs no module."""
    printed = run_script(
        tmp_path,
        "class Squares(aliquot.Job):\n"
        "    def __init__(self, start, stop): self.start, self.stop, self.size = start, stop, stop - start\n"
        "    def split(self, count, size):\n"
        "        parts = aliquot.Slice(self.start, self.stop).split(count, size)\n"
        "        return [Squares(part.start, part.stop) for part in parts]\n"
        "    def join(self, other):\n"
        "        if self.stop != other.start: return [self, other]\n"
        "        joined = self.joined_result(other, lambda a, b: a + b)\n"
        "        return [Squares(self.start, other.stop).with_result(joined)]\n"
        "    def execute(self): return [number**2 for number in range(self.start, self.stop)]\n"
        "    def to_desc(self): return self.describe(start=self.start, stop=self.stop)\n"
        "    @classmethod\n"
        "    def from_desc(cls, desc): return cls(desc['start'], desc['stop'])\n"
        "print(aliquot.run(Squares(0, 1000)).value == [number**2 for number in range(1000)])\n",
    )
    assert printed == "True\n"


_PROMPT = (
    "import aliquot\n"
    "def double(number): return 2 * number\n"
    "\n"
    "class Thing: pass\n"
    "\n"
    "print(aliquot.map(double, range(4)), type(aliquot.map(lambda _: Thing(), [0])[0]) is Thing)\n"
)


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [(["-"], _PROMPT), (["-i", "-q"], _PROMPT), (["-c", _PROMPT], "")],
    ids=["from stdin", "at the prompt", "in an argument"],
)
def test_code_that_is_in_no_file_works(tmp_path: Path, arguments: list[str], typed: str) -> None:
    """As in a notebook: nothing can be imported, and all is sent."""
    ran = subprocess.run(
        [sys.executable, *arguments], input=typed, capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60
    )
    assert "[0, 2, 4, 6] True" in ran.stdout


def test_a_script_in_a_module_works(tmp_path: Path) -> None:
    """`python -m` runs a module as __main__."""
    (tmp_path / "job.py").write_text(_PROMPT)
    ran = subprocess.run(
        [sys.executable, "-m", "job"], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60
    )
    assert ran.stdout == "[0, 2, 4, 6] True\n"


def test_modules_beside_the_script_are_found(tmp_path: Path) -> None:
    """Wherever the script was started from."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "beside.py").write_text("def double(number): return 2 * number\n")
    script = tmp_path / "code" / "script.py"
    script.write_text("import aliquot, beside\nprint(aliquot.map(beside.double, range(3)))\n")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd="/", check=True, timeout=60)
    assert ran.stdout == "[0, 2, 4]\n"


def test_files_in_the_directory_do_not_hide_pythons_own_modules(tmp_path: Path) -> None:
    """A data directory may hold a file called signal.py: what a script cannot import, no worker does."""
    (tmp_path / "code").mkdir()
    (tmp_path / "data").mkdir()
    for name in ("signal", "struct", "pickle", "gc", "numpy"):
        (tmp_path / "data" / f"{name}.py").write_text("raise RuntimeError('this is not for Python')\n")
    script = tmp_path / "code" / "script.py"
    script.write_text("import aliquot\nprint(aliquot.map(str, range(3)))\n")
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path / "data", check=False, timeout=60
    )
    assert ran.stdout == "['0', '1', '2']\n", ran.stderr


def test_a_process_that_was_forked_can_run(tmp_path: Path) -> None:
    """Before and after its parent has run, and at the same time."""
    printed = run_script(
        tmp_path,
        "def double(number): return 2 * number\n"
        "print(aliquot.map(double, range(3)), flush=True)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    print(aliquot.map(double, range(4)), flush=True)\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(aliquot.map(double, range(5)))\n",
    )
    assert printed == "[0, 2, 4]\n[0, 2, 4, 6]\n[0, 2, 4, 6, 8]\n"


def test_processes_of_a_forking_pool_can_run(tmp_path: Path) -> None:
    """A program that uses several libraries for processes uses all of them."""
    printed = run_script(
        tmp_path,
        "import multiprocessing\n"
        "def double(number): return 2 * number\n"
        "def many(number): return aliquot.map(double, range(number), on=aliquot.sites.Local(cores=1))\n"
        "aliquot.map(double, range(3))\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(many, [1, 2, 3]))\n",
    )
    assert printed == "[[0], [0, 2], [0, 2, 4]]\n"


def test_a_script_ends_when_it_ends(tmp_path: Path) -> None:
    """The process that forks workers does not keep it, and nothing is left after it."""
    with Script(tmp_path, "aliquot.map(str, range(3)); print('end', flush=True)") as script:
        code, out, err = script.finish()
        assert (code, out, err) == (0, "end\n", "")
        script.wait_until_nothing_is_left()


def test_a_script_that_leaves_a_stream_unread_ends(tmp_path: Path) -> None:
    """Without a word: work that nobody waits for is dropped."""
    source = "values = aliquot.imap(str, range(100_000), target_seconds=0)\nprint(next(values), flush=True)\n"
    with Script(tmp_path, source) as script:
        assert script.finish() == (0, "0\n", "")
        script.wait_until_nothing_is_left()


def test_importing_aliquot_starts_nothing(tmp_path: Path) -> None:
    """Neither a process nor a thread."""
    printed = run_script(
        tmp_path,
        "import threading\n"
        "aliquot.map, aliquot.imap, aliquot.run, aliquot.sites.Local()\n"
        "print(threading.active_count(), open(f'/proc/self/task/{os.getpid()}/children').read().split())\n",
    )
    assert printed == "1 []\n"
