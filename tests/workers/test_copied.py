"""Scripts that are plain enough to be copied, and those that are not: pytest itself never is, with its open files."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path

import pytest

from tests.real.processes import Script, children_of, run_script, wait_until

_PREFIX = (
    "import aliquot, os, signal, sys\n"
    "from aliquot.workers.nursery import has_copy, the_nursery\n"
    "def double(number): return 2 * number\n"
)
_TWO = "target_seconds=0, on=aliquot.sites.Local(cores=2)"
_DOUBLED = "[0, 2, 4, 6, 8]"
_COPY_DOUBLES = "print(aliquot.map(double, range(5)), has_copy())\n"

# Each of two workers waits for the other, so that both have drawn.
_DRAW = (
    "import pathlib, random, time\n"
    "here = pathlib.Path(__file__).parent\n"
    "def draw(number):\n"
    "    import numpy\n"
    "    (here / f'drew{os.getpid()}').touch()\n"
    "    while len(list(here.glob('drew*'))) < 2: time.sleep(0.01)\n"
    "    return os.getpid(), random.random(), float(numpy.random.rand())\n"
)
_COUNT_DRAWN = "print(*(len(set(kind)) for kind in zip(*drawn)), has_copy())\n"

# Two workers that would take an hour; a file is there for each that has begun.
_LONG = (
    "import pathlib, time\n"
    "here = pathlib.Path(__file__).parent\n"
    "def long(number):\n"
    "    (here / f'began{number}').touch()\n"
    "    time.sleep(3600)\n"
    f"aliquot.map(long, range(2), {_TWO})\n"
)


def printed_by(directory: Path, source: str) -> str:
    return run_script(directory, source, prefix=_PREFIX)


def has_begun(directory: Path) -> bool:
    return len(list(directory.glob("began*"))) == 2


def assert_nursery_is_copy(script: Script) -> None:
    (nursery,) = children_of(script.process.pid)
    assert Path(f"/proc/{nursery}/cmdline").read_bytes() == Path(f"/proc/{script.process.pid}/cmdline").read_bytes()


def test_a_plain_script_is_copied(tmp_path: Path) -> None:
    """It has what it has imported, which workers then need not import."""
    assert printed_by(tmp_path, _COPY_DOUBLES) == f"{_DOUBLED} True\n"


@pytest.mark.parametrize(
    "before",
    [
        "opened = open(__file__)",
        "import socket; ours, theirs = socket.socketpair()",
        "opened = os.open(__file__, os.O_RDONLY); os.set_inheritable(opened, True)",
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import _thread, time; _thread.start_new_thread(time.sleep, (3600,))",
        "sys.settrace(lambda *_: None)",
        "sys.setprofile(lambda *_: None)",
        "held = bytearray(400 << 20)",
        "compiled = sys.modules['compiled'] = type(sys)('compiled'); compiled.__file__ = '/own/compiled.so'",
    ],
    ids=[
        "a file",
        "a socket",
        "a file that C opened",
        "a thread",
        "a thread that Python does not count",
        "a tracer",
        "a profiler",
        "much memory",
        "a compiled module",
    ],
)
def test_a_script_that_has_more_is_not_copied(tmp_path: Path, before: str) -> None:
    """A copy would share a file's position, or wait for locks of threads that it does not have."""
    assert printed_by(tmp_path, f"{before}\n{_COPY_DOUBLES}") == f"{_DOUBLED} False\n"


def test_a_script_that_handles_an_exception_is_not_copied(tmp_path: Path) -> None:
    """Whatever is raised in a worker would seem to come from that."""
    source = (
        "def fail(number): raise KeyError(number)\n"
        "try: raise ValueError\n"
        "except ValueError:\n"
        f"    {_COPY_DOUBLES}"
        "    try: aliquot.map(fail, [5])\n"
        "    except KeyError as error: print(error.args, 'ValueError' in str(error.__cause__))\n"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} False\n(5,) False\n"


def test_where_memory_is_told_the_nursery_is_small(tmp_path: Path) -> None:
    """Also where there is a copy already; and what is small serves a run that would have had a copy."""
    source = (
        "for memory in (None, '1GB', None):\n"
        "    print(aliquot.map(double, range(5), memory=memory), has_copy())\n"
    )  # fmt: skip
    assert printed_by(tmp_path, source) == f"{_DOUBLED} True\n{_DOUBLED} False\n{_DOUBLED} False\n"


def test_where_memory_is_scarce_the_nursery_is_small(tmp_path: Path) -> None:
    """All that a script holds counts for each worker of a copy, which could be more than a worker may hold."""
    source = (
        "import aliquot.sites.local.local as local\n"
        "local.available_bytes = lambda: 240 << 20\n"
        "held = b'x' * (150 << 20)\n"
        f"print(aliquot.map(double, range(5), {_TWO}), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} False\n"


def test_a_copy_serves_one_run_after_another(tmp_path: Path) -> None:
    """The same one; and where it is gone, another is made."""
    source = (
        f"{_COPY_DOUBLES}"
        "first = the_nursery()\n"
        f"{_COPY_DOUBLES}"
        "print(the_nursery() is first)\n"
        "first.kill_itself()\n"
        "first.close()\n"
        f"{_COPY_DOUBLES}"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} True\n{_DOUBLED} True\nTrue\n{_DOUBLED} True\n"


def test_values_are_streamed_from_a_copy(tmp_path: Path) -> None:
    """By imap, whose threads come after the copy."""
    source = "print(list(aliquot.imap(double, range(5))), has_copy())\n"
    assert printed_by(tmp_path, source) == f"{_DOUBLED} True\n"


def test_after_linear_algebra_a_script_is_copied(tmp_path: Path) -> None:
    """Its threads are stopped for that and started again; each worker has one, as from any nursery."""
    source = (
        "import numpy\n"
        "def square(_):\n"
        "    matrix = numpy.ones((300, 300))\n"
        "    return float((matrix @ matrix).sum()), len(os.listdir('/proc/self/task'))\n"
        "before, _ = square(0)\n"
        f"print(set(aliquot.map(square, range(4), {_TWO})) == {{(before, 1)}}, has_copy())\n"
        "print(square(0)[0] == before)\n"
    )
    assert printed_by(tmp_path, source) == "True True\nTrue\n"


def test_as_many_threads_as_are_told_are_used_in_a_copy(tmp_path: Path) -> None:
    """A library has read its environment long ago: it is told again."""
    source = (
        "import numpy\n"
        "os.environ['OMP_NUM_THREADS'] = '2'\n"
        "def threads(_):\n"
        "    matrix = numpy.ones((300, 300))\n"
        "    matrix @ matrix\n"
        "    return len(os.listdir('/proc/self/task'))\n"
        "alone = threads(0)\n"
        "print(aliquot.map(threads, [0]) == [min(2, alone)], has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "True True\n"


@pytest.mark.parametrize("is_seeded", [False, True])
def test_workers_of_a_copy_draw_different_numbers(tmp_path: Path, is_seeded: bool) -> None:
    """A fork copies what they are made of."""
    seed = "random.seed(1); numpy.random.seed(1)\n" if is_seeded else "numpy.random.rand()\n"
    source = f"{_DRAW}import numpy\n{seed}drawn = aliquot.map(draw, range(2), {_TWO})\n{_COUNT_DRAWN}"
    assert printed_by(tmp_path, source) == "2 2 2 True\n"


def test_workers_of_a_small_nursery_draw_different_numbers(tmp_path: Path) -> None:
    """Where that has imported numpy for them."""
    source = (
        f"{_DRAW}draw.libraries = ('numpy.random',)\n"
        f"drawn = aliquot.map(draw, range(2), memory='1GB', {_TWO})\n"
        f"{_COUNT_DRAWN}"
    )
    assert printed_by(tmp_path, source) == "2 2 2 False\n"


def test_a_module_of_the_users_is_imported_anew(tmp_path: Path) -> None:
    """Workers have what its file says, as from any nursery, and not what the script has made of it."""
    (tmp_path / "beside.py").write_text("state = 'of the file'\ndef get(_): return state\n")
    source = (
        "import beside\n"
        "beside.state = 'of the script'\n"
        "print(aliquot.map(beside.get, [0]), aliquot.map(lambda _: beside.state, [0]), has_copy())\n"
        "print(beside.state)\n"
    )
    assert printed_by(tmp_path, source) == "['of the file'] ['of the file'] True\nof the script\n"


def test_a_module_within_namespaces_is_imported_anew(tmp_path: Path) -> None:
    """A folder without __init__.py asks the one that it is in where it is, which must be there still."""
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "inner" / "module.py").write_text("state = 1\ndef get(number): return state * number\n")
    source = (
        "import outer.inner.module as module\n"
        "module.state = 2\n"
        "print(aliquot.map(module.get, range(3)), has_copy())\n"
    )  # fmt: skip
    assert printed_by(tmp_path, source) == "[0, 1, 2] True\n"


def test_a_module_that_cannot_be_imported_twice_stays(tmp_path: Path) -> None:
    """One that registers something with a library, which has it already in a copy."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "registry.py").write_text(
        "names = set()\n"
        "def register(name):\n"
        "    if name in names: raise ValueError('taken')\n"
        "    names.add(name)\n"
    )  # fmt: skip
    (tmp_path / "beside.py").write_text(
        "import registry\nregistry.register('mine')\ndef get(_): return sorted(registry.names)\n"
    )
    source = (
        f"sys.path.append({str(tmp_path / 'site-packages')!r})\n"
        "import beside\n"
        "print(aliquot.map(beside.get, range(2)), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "[['mine'], ['mine']] True\n"


def test_what_cannot_be_loaded_in_a_copy_is_told_once(tmp_path: Path) -> None:
    """Also where it was tried twice."""
    (tmp_path / "beside.py").write_text("number = 1\n")
    source = (
        "import beside\n"
        "class Unloadable:\n"
        "    def __call__(self, number): return number\n"
        "    def __reduce__(self): return int, ('not a number',)\n"
        "try: aliquot.map(Unloadable(), [0])\n"
        "except ValueError as error: print(error, str(error.__cause__).count('Traceback'), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "invalid literal for int() with base 10: 'not a number' 1 True\n"


def test_odd_things_among_the_modules_do_no_harm(tmp_path: Path) -> None:
    """Libraries put there what they like: nothing, what is no module, and what raises when it is asked."""
    source = (
        "class Raising(type(sys)):\n"
        "    def __getattr__(self, name): raise RuntimeError(name)\n"
        "class Unlike:\n"
        "    __slots__ = ()\n"
        "    def __getattr__(self, name): raise ValueError(name)\n"
        "sys.modules.update({'raising': Raising('raising'), 'unlike': Unlike(), 'missing': None, 'five': 5})\n"
        "nowhere = sys.modules['nowhere'] = type(sys)('nowhere')\n"
        "nowhere.__file__ = None\n"
        f"{_COPY_DOUBLES}"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} True\n"


def test_what_a_script_holds_is_not_seen_by_workers(tmp_path: Path) -> None:
    """Beyond what a function refers to, which is sent with it."""
    source = (
        "import decimal, threading\n"
        "secret, sent = 'secret', 'sent'\n"
        "def look(_):\n"
        "    main = vars(sys.modules['__main__'])\n"
        "    return sent, 'secret' in main, 'sent' in main, decimal.getcontext().prec\n"
        "with decimal.localcontext() as context:\n"
        "    context.prec = 5\n"
        "    print(aliquot.map(look, [0]), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "[('sent', False, False, 28)] True\n"


@pytest.mark.parametrize(
    "before",
    ["", "sys.stdout = open(1, 'w', closefd=False)", "import io; sys.stdout = io.TextIOWrapper(sys.stdout.detach())"],
    ids=["Python's", "another", "wrapped again"],
)
def test_text_that_was_not_written_yet_is_written_once(tmp_path: Path, before: str) -> None:
    """The copy has none of it in its own buffer."""
    source = f"{before}\nprint('text', end=' ')\n{_COPY_DOUBLES}"
    assert printed_by(tmp_path, source) == f"text {_DOUBLED} True\n"


def test_output_that_cannot_be_flushed_does_no_harm(tmp_path: Path) -> None:
    """It is the user's own, and may raise what it likes."""
    source = (
        "class Stubborn:\n"
        "    def __getattr__(self, name): return getattr(sys.__stdout__, name)\n"
        "    def flush(self): raise RuntimeError\n"
        "sys.stdout = Stubborn()\n"
        f"{_COPY_DOUBLES}"
        "sys.stdout = sys.__stdout__\n"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} True\n"


def test_handlers_of_signals_run_in_the_script_alone(tmp_path: Path) -> None:
    """Neither workers nor the copy have them: what would end a process does."""
    source = (
        "handled = []\n"
        "numbers = signal.SIGTERM, signal.SIGUSR1\n"
        "for number in numbers: signal.signal(number, lambda *_: handled.append(os.getpid()))\n"
        "def defaults(_): return [signal.getsignal(number) is signal.SIG_DFL for number in numbers]\n"
        "print(aliquot.map(defaults, [0]), has_copy())\n"
        "nursery = the_nursery()._process\n"
        "os.kill(nursery, signal.SIGUSR1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(nursery, 0)[1]) == -signal.SIGUSR1, handled)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(handled == [os.getpid()])\n"
    )
    assert printed_by(tmp_path, source) == "[[True, True]] True\nTrue []\nTrue\n"


def test_a_signal_that_comes_while_the_script_is_copied_is_for_the_script(tmp_path: Path) -> None:
    """Ctrl-C goes to the whole group, of which the copy still is then; the script may go on after it."""
    source = (
        "handled, script = [], os.getpid()\n"
        "def interrupt():\n"
        "    if os.getppid() == script: os.killpg(0, signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, lambda *_: handled.append(os.getpid()))\n"
        "os.register_at_fork(after_in_child=interrupt)\n"
        f"{_COPY_DOUBLES}"
        "print(set(handled) == {os.getpid()})\n"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} True\nTrue\n"


def test_nothing_of_the_scripts_is_cleaned_up_in_a_copy(tmp_path: Path) -> None:
    """Not what it holds, nor garbage, nor what a signal or the output was handled by; exit handlers run once."""
    source = (
        "import atexit, gc, pathlib, tempfile, weakref\n"
        "log = pathlib.Path(__file__).with_name('log').open\n"
        "script = os.getpid()\n"
        "def note(what):\n"
        "    with log('a') as file: print(what, os.getpid() == script, file=file)\n"
        "class Noting:\n"
        "    def __init__(self): self.me, self.note = self, note\n"
        "    def __del__(self): self.note('del')\n"
        "    def __call__(self, *_): pass\n"
        "    def __getattr__(self, name): return getattr(sys.__stdout__, name)\n"
        "atexit.register(note, 'exit')\n"
        "held = Noting()\n"
        "weakref.finalize(held, note, 'finalize')\n"
        "directory = tempfile.TemporaryDirectory()\n"
        "signal.signal(signal.SIGUSR1, Noting())\n"
        "sys.stdout = Noting()\n"
        "def litter():\n"
        "    if os.getpid() != script: return\n"  # the copy forks too
        "    gc.collect()\n"
        "    gc.set_threshold(60)\n"
        "    for _ in range(25): Noting()\n"  # each is two for the collector
        "os.register_at_fork(before=litter)\n"
        "aliquot.map(double, range(5))\n"
        "sys.stdout = sys.__stdout__\n"
        "print(has_copy(), os.path.isdir(directory.name))\n"
    )
    assert printed_by(tmp_path, source) == "True True\n"
    noted = (tmp_path / "log").read_text().splitlines()
    assert set(noted) >= {"exit True", "finalize True", "del True"}
    assert noted.count("exit True") == noted.count("finalize True") == 1
    assert not [line for line in noted if line.endswith("False")]


def test_a_deep_stack_leaves_workers_their_room(tmp_path: Path) -> None:
    """The copy is made on top of it."""
    source = (
        "def depth(number): return number and 1 + depth(number - 1)\n"
        "def deep(number): return deep(number - 1) if number else aliquot.map(depth, [700])\n"
        "print(deep(800), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "[700] True\n"


def test_a_pipe_to_a_program_is_not_held_by_a_copy(tmp_path: Path) -> None:
    """The program ends when the script closes it."""
    source = (
        "import subprocess\n"
        "program = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"
        f"{_COPY_DOUBLES}"
        "program.stdin.close()\n"
        "print(program.wait(timeout=20))\n"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} False\n0\n"


def test_a_script_that_ignores_the_ends_of_children_works(tmp_path: Path) -> None:
    """Also where a copy was made and thrown away, for which nobody can wait then."""
    source = (
        "import _thread, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "_thread.start_new_thread(time.sleep, (3600,))\n"
        f"{_COPY_DOUBLES}"
    )
    assert printed_by(tmp_path, source) == f"{_DOUBLED} False\n"


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="needs polars")
def test_a_script_with_threads_of_a_library_is_not_copied(tmp_path: Path) -> None:
    """They run on when it is forked, and may hold locks."""
    source = (
        "import polars\n"
        "def add(number): return polars.DataFrame({'a': [number, 1]}).lazy().sum().collect()['a'][0]\n"
        "print(add(0), aliquot.map(add, range(3)), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "1 [1, 2, 3] False\n"


def test_a_script_that_is_killed_takes_its_copy_with_it(tmp_path: Path) -> None:
    """Kill -9, amid steps: neither the copy nor a worker is left."""
    with Script(tmp_path, _LONG, prefix=_PREFIX) as script:
        wait_until(lambda: has_begun(tmp_path), "two workers have begun")
        assert_nursery_is_copy(script)
        script.process.kill()
        script.process.wait()
        script.wait_until_nothing_is_left()


def test_ctrl_c_ends_a_script_and_its_copy(tmp_path: Path) -> None:
    """With the script's own traceback, and nothing left."""
    with Script(tmp_path, _LONG, prefix=_PREFIX) as script:
        wait_until(lambda: has_begun(tmp_path), "two workers have begun")
        assert_nursery_is_copy(script)
        script.interrupt()
        code, out, err = script.finish()
        assert (code, out) == (-signal.SIGINT, "")
        assert err.count("Traceback (most recent call last)") == 1
        assert err.rstrip().endswith("KeyboardInterrupt")
        script.wait_until_nothing_is_left()


def test_a_pipe_that_nobody_reads_raises_in_workers_of_a_copy(tmp_path: Path) -> None:
    """As it does in any worker, also where the script itself would rather end, as programs for pipes do."""
    source = (
        "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "def write(number):\n"
        "    import os\n"
        "    ours, theirs = os.pipe()\n"
        "    os.close(ours)\n"
        "    try:\n"
        "        os.write(theirs, b'x')\n"
        "    except BrokenPipeError:\n"
        "        return 'raised'\n"
        "print(aliquot.map(write, range(2)), has_copy())\n"
    )
    assert printed_by(tmp_path, source) == "['raised', 'raised'] True\n"
